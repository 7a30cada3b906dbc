// trainer_internal.h - the four parts that a trainer owns. trainer.c opens and closes them. Other files get only the
// parts that they need.
#ifndef LS_TRAIN_TRAINER_INTERNAL_H
#define LS_TRAIN_TRAINER_INTERNAL_H

#include "train/run_plan.h"
#include "train/run_progress.h"
#include "train/run_saving.h"
#include "train/run_session.h"
#include "train/trainer.h"

struct ls_trainer {
    ls_run_plan plan;
    ls_run_session session;
    ls_run_progress progress;
    ls_run_saving saving;
};

#endif
