// param_rules.h - how an update treats each parameter: optimizer.groups of the configuration, applied to a network.
//
// A frozen parameter belongs to the network and its files, but takes no part in updates. Which parameters are trained
// does not change during a run. From `end` or `frozen_after` on a rate is 0, which leaves the parameter unchanged. From
// the first epoch that begins then or later, its gradient is not computed and counts as 0.
#ifndef LS_PROGRAM_PARAM_RULES_H
#define LS_PROGRAM_PARAM_RULES_H

#include <math.h>
#include "config/config.h"
#include "device/op_update.h"
#include "model/graph.h"

enum { LS_NOT_TRAINED = -1 }; // kind of a frozen parameter or a statistic

typedef struct {
    int kind; // LS_OPTIMIZER_*, or LS_NOT_TRAINED
    int rate; // index into ls_param_rules.rate
    float lr_factor, decay, momentum;
    // a statistic that never changes: of a quantise layer; or of a batch norm that is stored, or whose weight and bias
    // are both frozen or have a factor (lr_factor) of 0
    int fixed;
    // Only for statistics of a batch norm:
    int stored;          // training normalises with it (train.stored_statistics)
    uint32_t rests_with; // set of rates: it stops changing when all of them have ended; 0: it always moves unless fixed
} ls_param_rule;

typedef struct { // in epochs
    double end; // the factor falls in a straight line from 1 at the start to 0 here; NAN: the rate follows the schedule
    double frozen_after; // the rate is 0 from this epoch on; INFINITY: never
} ls_rate_rule;

// Returns the epoch from which on the rate is 0; INFINITY: the rate always follows the schedule.
static inline double ls_rate_rule_over(const ls_rate_rule *rule) {
    return fmin(rule->end, rule->frozen_after); // fmin ignores a NAN
}

typedef struct {
    ls_param_rule *param;            // by index of the graph's parameters
    ls_rate_rule rate[LS_RATES_MAX]; // rate[0] follows the schedule
    int rate_count;
    int average; // LS_AVERAGE_*: average of trained parameters and moving statistics
    int kept;    // the largest number of tensors that an optimizer in use keeps for one parameter
} ls_param_rules;

// Makes the rules of a network's parameters. optimizer.weight_decay applies to weights of convolutions and linear
// layers, and to the others with optimizer.decay_biases_and_norms; a group may set another decay. LS_USAGE:
// optimizer.groups is malformed; one of its patterns matches no parameter that no earlier pattern takes; one of
// train.stored_statistics matches no batchnorm2d; there are more than LS_RATES_MAX rates; nothing is trained.
LS_CHECKED ls_status ls_param_rules_new(const ls_config *cfg, const ls_graph *graph, ls_param_rules **out);
// Whether updates change the parameter: it is trained, or a statistic that moves. Only these have an average.
int ls_param_rules_changes(const ls_param_rules *rules, const ls_graph *graph, int param);
// Whether training normalises with the stored statistics of this layer. rules: NULL is allowed.
int ls_param_rules_stored(const ls_param_rules *rules, const ls_layer *layer);
// Whether the parameter is trained, but its rate is 0 in this epoch and in all later ones.
int ls_param_rules_ended(const ls_param_rules *rules, int param, int64_t epoch);
void ls_param_rules_free(ls_param_rules *rules); // NULL is allowed
// Returns the number of tensors that the optimizer keeps for a parameter: 0 if it is not trained.
int ls_param_rules_kept(const ls_param_rules *rules, int param);

#endif
