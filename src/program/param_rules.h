// param_rules.h - what an update does with each parameter: the configuration's optimizer.groups, applied to a network.
//
// A parameter that is frozen belongs to the network and to its files, and to nothing of an update. Which are trained does
// not depend on the epoch: from `frozen_after` or `end` on a rate is 0, which leaves a parameter as it is; from the next epoch
// on its gradient is not computed and counts as 0.
#ifndef LS_PROGRAM_PARAM_RULES_H
#define LS_PROGRAM_PARAM_RULES_H

#include <math.h>
#include "config/config.h"
#include "device/op_update.h"
#include "model/graph.h"

enum { LS_NOT_TRAINED = -1 }; // frozen, or a statistic

typedef struct {
    int kind; // LS_OPTIMIZER_*, or LS_NOT_TRAINED
    int rate; // index of ls_param_rules.rate
    float lr_factor, decay, momentum;
    // Of a batch norm's statistic:
    int fixed;           // it never changes: weight and bias of its layer never do, or it is stored
    int stored;          // training normalises with it (train.stored_statistics)
    uint32_t rests_with; // it stays as it is once all these rates have come to their end; 0: it always moves
} ls_param_rule;

typedef struct {         // epochs
    double end;          // in a straight line from 1 at the start to 0 there; NAN: as the schedule says
    double frozen_after; // 0 from there on; INFINITY: never
} ls_rate_rule;

// The epoch from which on it is 0; INFINITY: the schedule's.
static inline double ls_rate_rule_over(const ls_rate_rule *rule) {
    return fmin(rule->end, rule->frozen_after); // of a NAN and a number, the number
}

typedef struct {
    ls_param_rule *param;            // by parameter of the graph
    ls_rate_rule rate[LS_RATES_MAX]; // 0: the schedule's own
    int rate_count;
    int average; // LS_AVERAGE_*, of trained parameters and statistics
    int kept;    // tensors that an optimizer keeps of a parameter, the most of all kinds in use
} ls_param_rules;

// Decay is on weights of convolutions and linear layers only, unless the configuration says otherwise. LS_USAGE: a group
// whose pattern matches no parameter, a pattern of train.stored_statistics that matches no batchnorm2d; more than
// LS_RATES_MAX rates; nothing is trained.
LS_CHECKED ls_status ls_param_rules_new(const ls_config *cfg, const ls_graph *graph, ls_param_rules **out);
// Is it changed by updates at all: trained, or a statistic that moves? Only of these there is an average.
int ls_param_rules_changes(const ls_param_rules *rules, const ls_graph *graph, int param);
// Does training normalise with the stored statistics of this batchnorm2d layer? rules: NULL is allowed.
int ls_param_rules_stored(const ls_param_rules *rules, const ls_layer *layer);
// Trained, but its rate is 0 in the whole epoch and in all that follow.
int ls_param_rules_ended(const ls_param_rules *rules, int param, int64_t epoch);
void ls_param_rules_free(ls_param_rules *rules); // NULL is allowed
// Tensors that the optimizer keeps of a parameter: 0 where it is not trained.
int ls_param_rules_kept(const ls_param_rules *rules, int param);

#endif
