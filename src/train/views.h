// views.h - the views of a picture that test-time augmentation evaluates (eval.tta), and their weights.
//   off         the picture
//   flip        the picture and its mirror image, 1/2 each
//   flip-shift  the picture and its mirror image, 1/4 each; then the picture is extended by 1 pixel on every side by
//               reflection, and its crops at (0,0) and (2,2) and their mirror images have 1/8 each
// A view is data for a program: the augmentation of its samples. One program computes all views.
// Source  Jordan 2024, airbench94_muon.py, infer
#ifndef LS_TRAIN_VIEWS_H
#define LS_TRAIN_VIEWS_H

#include "program/session.h"

int ls_views_count(const ls_config *cfg);               // view 0 is the picture itself
double ls_views_weight(const ls_config *cfg, int view); // the weights of all views add up to 1
// Returns the augmentation that a program must support to compute the views.
ls_augmentation ls_views_augmentation(const ls_config *cfg);
// Makes ls_augment_sample[view][n] on the session's device, for micro-batches of n samples. The caller frees *out.
LS_CHECKED ls_status ls_views_new(ls_session *session, const ls_config *cfg, int n, ls_slab **out);
void ls_views_choose(const ls_slab *views, int n, int view, ls_program_inputs *inputs);

#endif
