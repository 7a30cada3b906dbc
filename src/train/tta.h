// tta.h - test-time augmentation (eval.tta): a picture's logits are the weighted mean of those of several views of it
// (views.h). With eval.tta_share = s < 1 only floor(s * samples) pictures of the test split are looked at in all
// views: those whose likeliest class is the least likely by the picture alone; of equals, the first in the split. The
// others keep their logits. Loss and accuracy are those of the logits that come of this; accuracy's ties go to the
// lowest class.
//
// Logits are added on the host, in double, in the order above: a picture's logits are the same for any number of ranks,
// each of which evaluates its own pictures.
// Source  Jordan 2024, airbench94_muon.py, infer; hiverge, cifar10-speedrun, tta (the share; its six views have equal
//         weights)
#ifndef LS_TRAIN_TTA_H
#define LS_TRAIN_TTA_H

#include "train/picture_results.h"
#include "train/run_session.h"

typedef struct ls_tta ls_tta; // of one evaluation: what this rank knows of its pictures

// Makes session->views, which counts as memory for control; nothing if eval.tta is off.
LS_CHECKED ls_status ls_tta_upload_views(ls_run_session *session);
// samples: this rank's.
LS_CHECKED ls_status ls_tta_new(ls_run_session *session, int64_t samples, ls_tta **out);
void ls_tta_free(ls_tta *tta); // NULL is allowed
// The picture's logits in view 0; index: in the test split.
void ls_tta_keep(ls_tta *tta, int64_t index, int label, const double *logits);
// Call when all of this rank's pictures are kept. Chooses the pictures to evaluate in all views, evaluates them, and
// adds every picture of this rank to outcomes. Collective. *evaluated: how many pictures all ranks have
// evaluated in all views.
LS_CHECKED ls_status ls_tta_finish(ls_tta *tta, ls_picture_results *outcomes, int64_t *evaluated);

#endif
