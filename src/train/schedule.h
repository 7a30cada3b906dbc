// schedule.h - the learning rate as a function of samples consumed: a skipped update neither shifts nor stretches it.
#ifndef LS_TRAIN_SCHEDULE_H
#define LS_TRAIN_SCHEDULE_H

#include <stdint.h>
#include "config/config.h"

enum { LS_MILESTONES_MAX = 32 };

typedef struct {
    int kind; // LS_SCHEDULE_*
    double warmup_epochs, warmup_start, final_factor, gamma, peak;
    double milestones[LS_MILESTONES_MAX]; // epochs
    int milestone_count;
    double samples_per_epoch, epochs;
} ls_schedule;

LS_CHECKED ls_status ls_schedule_new(const ls_config *cfg, int64_t samples_per_epoch, ls_schedule *out);
// Factor of the learning rate after `samples` samples, 0..1.
//   warm-up    warmup_start -> 1, in a straight line over warmup_epochs; then, with t = 0..1 over the rest of the run
//   constant   1            linear  1 -> final           cosine  final + (1-final)(1+cos(pi t))/2
//   step       gamma^(milestones passed)
//   one-cycle  warmup_start -> 1 in a straight line until `peak` of the run, then in a straight line to final
double ls_schedule_factor(const ls_schedule *schedule, double samples);

#endif
