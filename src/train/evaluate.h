// evaluate.h - loss and accuracy over the test split or the validation pictures, each sample counted once.
#ifndef LS_TRAIN_EVALUATE_H
#define LS_TRAIN_EVALUATE_H

#include "train/run_progress.h"
#include "train/run_session.h"

// Evaluates the test split, fills in the test fields of *evaluation, and adds to its seconds. Collective. in_detail:
// also evaluates by eval.tta (tta.h), and makes progress->details on rank 0. Does not change the weights.
LS_CHECKED ls_status ls_run_evaluate(
    ls_run_session *session, ls_run_progress *progress, int in_detail, ls_train_evaluation *evaluation);
// Evaluates the validation pictures like ls_run_evaluate, but never by eval.tta, and fills in the validation fields.
// The plan must have validation pictures. Collective.
LS_CHECKED ls_status ls_run_validate(
    ls_run_session *session, ls_run_progress *progress, int in_detail, ls_train_evaluation *evaluation);

#endif
