// views.h - the views of a picture that test-time augmentation looks at (eval.tta), and what each counts.
//   off         the picture
//   flip        the picture and its mirror, 1/2 each
//   flip-shift  the picture and its mirror, 1/4 each; of the picture reflected by 1 pixel at every side the crops at (0,0) and
//               (2,2) and their mirrors, 1/8 each
// They are data of a program, what is drawn for its samples: one program computes them all.
// Source  Jordan 2024, airbench94_muon.py, infer
#ifndef LS_TRAIN_VIEWS_H
#define LS_TRAIN_VIEWS_H

#include "program/session.h"

int ls_views_count(const ls_config *cfg);               // view 0 is the picture itself
double ls_views_weight(const ls_config *cfg, int view); // they add up to 1
// What a program that computes them must be able to do.
ls_augmentation ls_views_augmentation(const ls_config *cfg);
// For micro-batches of n samples: ls_augment_sample[view][n] on the session's device, the caller's to free.
LS_CHECKED ls_status ls_views_new(ls_session *session, const ls_config *cfg, int n, ls_slab **out);
void ls_views_choose(const ls_slab *views, int n, int view, ls_program_inputs *inputs);

#endif
