// schedule.h - the values that options change from update to update: learning rates, averages, rescaling of weights.
//
// Options give moments in epochs. ls_schedule_new converts them to updates (positions.h). Updates are counted from 0,
// and skipped updates count as well. A change at a moment (a milestone, a start) takes effect at the first update that
// starts at that moment or later, as in torch.optim.lr_scheduler.MultiStepLR. Between two moments a rate follows the
// number of samples consumed, so a short last window changes it less than a whole window.
#ifndef LS_TRAIN_SCHEDULE_H
#define LS_TRAIN_SCHEDULE_H

#include <stdint.h>
#include "config/config.h"
#include "data/sampler.h"
#include "program/param_rules.h"

enum { LS_MILESTONES_MAX = 32 };

typedef struct {
    const ls_config *cfg;                  // borrowed
    ls_batches batches;                    // supplies the samples and updates of an epoch and the samples of an update
    int64_t warmup, peak, end, period;     // ticks (positions.h)
    int64_t milestones[LS_MILESTONES_MAX]; // updates: the first update with the lower rate
    int milestone_count;
    int64_t average_start; // the average becomes a copy of the weights before this update
} ls_schedule;

// Makes the schedule of a run from its options. LS_USAGE: schedule.milestones is not a list of 32 numbers at most, or
// the period is too short. *out is then complete except the milestones.
LS_CHECKED ls_status ls_schedule_new(const ls_config *cfg, const ls_batches *batches, ls_schedule *out);
// Returns the factor of the learning rate in this update, 0 to 1. During schedule.warmup_epochs it rises linearly from
// schedule.warmup_start to 1. After that it follows schedule.kind (config/schedules.def), but is at least
// schedule.floor.
double ls_schedule_factor(const ls_schedule *schedule, int64_t update);
// Returns the factor of the learning rate in this update for a group of parameters whose rate has its own end.
double ls_schedule_rate_factor(const ls_schedule *schedule, const ls_rate_rule *rule, int64_t update);
// Returns 1 if the rate of the parameter group has ended, so that it stays 0 (frozen_after, end of optimizer.groups).
int ls_schedule_rate_over(const ls_schedule *schedule, const ls_rate_rule *rule, int64_t update);
// Returns the moment in ticks at which the current fall of the factor ends: the end of the schedule, or the next
// restart. -1: this kind of schedule has no such moment, or the first cosine with restarts has not begun.
int64_t ls_schedule_fall_end(const ls_schedule *schedule, int64_t update);
// The work of the running average in one update ([average] of the options).
typedef struct {
    int starts; // 1: before the update, the average becomes a copy of the weights
    int due;    // 1: after the update, the average becomes decay * average + (1 - decay) * weights
    double decay;
} ls_average_step;
// updates: the number of updates of the run.
ls_average_step ls_schedule_average(const ls_schedule *schedule, int64_t update, int64_t updates);
// Remembers which updates ls_schedule_rescales has found so far; starts as {0}. Here updates are counted from 1.
typedef struct {
    int64_t last;  // the last update up to `until` that rescales weights
    int64_t until; // the last update that was examined
} ls_rescaling;
// Returns 1 if this update rescales weights (optimizer.renormalise_every). Fast if updates are asked for in order.
int ls_schedule_rescales(const ls_schedule *schedule, ls_rescaling *so_far, int64_t update);

#endif
