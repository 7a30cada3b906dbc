// schedule.h - the learning rate as a function of samples consumed: a skipped update neither shifts nor stretches it.
#ifndef LS_TRAIN_SCHEDULE_H
#define LS_TRAIN_SCHEDULE_H

#include <stdint.h>
#include "config/config.h"
#include "program/param_rules.h"

enum { LS_MILESTONES_MAX = 32 };

typedef struct {
    const ls_config *cfg;                 // borrowed
    double milestones[LS_MILESTONES_MAX]; // epochs
    int milestone_count;
    double samples_per_epoch, epochs;
    int64_t updates_per_epoch;
    int64_t rescaled, rescaled_until; // the last update up to that one at which weights are rescaled; counted from 1
} ls_schedule;

LS_CHECKED ls_status ls_schedule_new(
    const ls_config *cfg, int64_t samples_per_epoch, int64_t updates_per_epoch, ls_schedule *out);
// Factor of the learning rate after `samples` samples, 0..1: over warmup_epochs from warmup_start to 1 in a straight line,
// then what config/schedules.def says of schedule.kind, but not below schedule.floor.
double ls_schedule_factor(const ls_schedule *schedule, double samples);
// The same of a rate with an end of its own.
double ls_schedule_rate_factor(const ls_schedule *schedule, const ls_rate_rule *rule, double samples);
// What the running average does with update number `update`, from 0, of `updates` in all ([average] of the options).
typedef struct {
    int starts; // before the update it becomes a copy
    int due;    // after the update it takes the weights in
    float decay;
} ls_average_step;
ls_average_step ls_schedule_average(const ls_schedule *schedule, int64_t update, int64_t updates);
// The update before which it becomes a copy.
int64_t ls_schedule_average_start(const ls_schedule *schedule);
// Does update number `update`, from 0, rescale weights (optimizer.renormalise_every)? Quick where updates come in order.
int ls_schedule_rescales(ls_schedule *schedule, int64_t update);

#endif
