// tta.h - test-time augmentation (eval.tta): a picture's logits are the weighted mean over several views (views.h).
//
// With eval.tta_share = s < 1, only floor(s * samples) pictures of the test split are evaluated in all views. These are
// the pictures whose predicted class has the lowest probability in view 0; among equal probabilities, the first in the
// split. The other pictures keep the logits of view 0. Loss and accuracy are computed from the resulting logits. If
// several classes have the largest logit, the lowest class is the prediction.
//
// The host adds the logits of the views in double, in the order of the views. Each rank evaluates its own pictures, so
// the logits of a picture are the same for any number of ranks.
// Source  Jordan 2024, airbench94_muon.py, infer; hiverge, cifar10-speedrun, tta (the share; its six views have equal
//         weights)
#ifndef LS_TRAIN_TTA_H
#define LS_TRAIN_TTA_H

#include "train/picture_results.h"
#include "train/run_session.h"

typedef struct ls_tta ls_tta; // the state of one evaluation: this rank's pictures and their logits

// Makes session->views on the device and counts their memory as control memory. Does nothing if eval.tta is off.
LS_CHECKED ls_status ls_tta_upload_views(ls_run_session *session);
// Begins a test-time augmentation. samples: number of pictures whose logits this rank will keep.
LS_CHECKED ls_status ls_tta_new(ls_run_session *session, int64_t samples, ls_tta **out);
void ls_tta_free(ls_tta *tta); // NULL is allowed
// Keeps the logits that a picture has in view 0. index: the picture's number in the test split.
void ls_tta_keep(ls_tta *tta, int64_t index, int label, const double *logits);
// Call after all of this rank's pictures are kept. Chooses and evaluates the pictures for all views, and adds all of
// this rank's pictures to outcomes. *evaluated: number of pictures evaluated in all views, over all ranks. Collective.
LS_CHECKED ls_status ls_tta_finish(ls_tta *tta, ls_picture_results *outcomes, int64_t *evaluated);

#endif
