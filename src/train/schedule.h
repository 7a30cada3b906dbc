// schedule.h - what changes from update to update by the options: learning rates, averages, rescaling of weights.
//
// Options give moments in epochs. ls_schedule_new turns them into updates (positions.h); updates are counted from 0,
// and a skipped update counts, too. A change at a moment (a milestone, a start) takes effect at the first update that
// starts at that moment or later, as in torch.optim.lr_scheduler.MultiStepLR. Between two moments a rate follows the
// samples consumed, so that a short last window moves it less than a whole one.
#ifndef LS_TRAIN_SCHEDULE_H
#define LS_TRAIN_SCHEDULE_H

#include <stdint.h>
#include "config/config.h"
#include "data/sampler.h"
#include "program/param_rules.h"

enum { LS_MILESTONES_MAX = 32 };

typedef struct {
    const ls_config *cfg;                  // borrowed
    ls_batches batches;                    // an epoch's samples, updates and samples of an update are read
    int64_t warmup, peak, end, period;     // ticks (positions.h)
    int64_t milestones[LS_MILESTONES_MAX]; // updates: the first with the lower rate
    int milestone_count;
    int64_t average_start; // the update before which the average becomes a copy
} ls_schedule;

// LS_USAGE: a list that is no list, or a period shorter than an update; *out is filled in all the same but for the
// list.
LS_CHECKED ls_status ls_schedule_new(const ls_config *cfg, const ls_batches *batches, ls_schedule *out);
// Factor of the learning rate in this update, 0..1: during schedule.warmup_epochs from warmup_start to 1 in a straight
// line, then what config/schedules.def says of schedule.kind, but not below schedule.floor.
double ls_schedule_factor(const ls_schedule *schedule, int64_t update);
// The same for a group of parameters with an end of its own.
double ls_schedule_rate_factor(const ls_schedule *schedule, const ls_rate_rule *rule, int64_t update);
// Has the rate come to its end, so that it stays 0 (frozen_after, end)?
int ls_schedule_rate_over(const ls_schedule *schedule, const ls_rate_rule *rule, int64_t update);
// The moment at which the present fall of the factor ends, in ticks: the schedule's end, or the next restart. -1: the
// kind has none.
int64_t ls_schedule_fall_end(const ls_schedule *schedule, int64_t update);
// What the running average does in an update of a run of `updates` ([average] of the options).
typedef struct {
    int starts; // before the update the average becomes a copy of the weights
    int due;    // after the update the average takes the weights in
    double decay;
} ls_average_step;
ls_average_step ls_schedule_average(const ls_schedule *schedule, int64_t update, int64_t updates);
// Remembers the answers of ls_schedule_rescales so far; starts as {0}. Updates count from 1 here.
typedef struct {
    int64_t last;  // that rescales weights, of the updates up to `until`
    int64_t until; // that were looked at
} ls_rescaling;
// Does this update rescale weights (optimizer.renormalise_every)? Quick if updates come in order.
int ls_schedule_rescales(const ls_schedule *schedule, ls_rescaling *so_far, int64_t update);

#endif
