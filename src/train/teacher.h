// teacher.h - the teacher of a run (distill.weights): a trained network that also sees the pictures of every
// micro-batch. Its softened output gives a part of the run's loss (device/op_distill.h). The session's programs contain
// it (program/compile.h).
#ifndef LS_TRAIN_TEACHER_H
#define LS_TRAIN_TEACHER_H

#include "train/run_session.h"

typedef struct ls_teacher ls_teacher;

// Reads the teacher's file on rank 0, compares it with the plan's data, gives all ranks its network and weights, and
// places it in the session. Records the file in plan->info.teacher. Does nothing without distill.weights, or if the run
// only evaluates. Call it after ls_run_session_place and before programs are planned. LS_USAGE: the file does not say
// its network, or is for pictures of another size or normalisation. LS_DATA: it is for other classes. Collective.
LS_CHECKED ls_status ls_teacher_open(ls_run_plan *plan, ls_run_session *session);
// Gives the session's memory the teacher's weights. Call it once, after that memory is allocated, and then
// ls_session_weights_changed. Does nothing without a teacher.
void ls_teacher_load(ls_run_session *session);
void ls_teacher_free(ls_teacher *teacher); // NULL is allowed

#endif
