// trainer_internal.h - a trainer's four parts. trainer.c opens and closes them; other files get only those they need.
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
