// evaluate.h - loss and accuracy over the test split, or over the pictures held out for validation: every sample
// once, with any number of ranks.
#ifndef LS_TRAIN_EVALUATE_H
#define LS_TRAIN_EVALUATE_H

#include "train/run_progress.h"
#include "train/run_session.h"

// Collective. in_detail: also by eval.tta (tta.h), and progress->details on rank 0. Fills in its part of *evaluation,
// which begins as {0}. Leaves the weights alone.
LS_CHECKED ls_status ls_run_evaluate(
    ls_run_session *session, ls_run_progress *progress, int in_detail, ls_train_evaluation *evaluation);
// The same, without eval.tta, over the validation pictures; the plan must hold some out.
LS_CHECKED ls_status ls_run_validate(
    ls_run_session *session, ls_run_progress *progress, int in_detail, ls_train_evaluation *evaluation);

#endif
