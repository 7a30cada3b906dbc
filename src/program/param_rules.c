#include "program/param_rules.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "config/values.h"
#include "program/optimizer.h"

static int same_time(double a, double b) {
    return a == b || (isnan(a) && isnan(b));
}

// Returns the index of the group's rate, which is added if it is new. Returns -1 if it is new, but there is no room.
static int rate_of(ls_param_rules *r, const ls_group *group) {
    const ls_rate_rule rule = { group->end, isnan(group->frozen_after) ? INFINITY : group->frozen_after };
    for (int i = 0; i < r->rate_count; i++)
        if (same_time(r->rate[i].end, rule.end) && r->rate[i].frozen_after == rule.frozen_after) return i;
    if (r->rate_count == LS_RATES_MAX) return -1;
    r->rate[r->rate_count] = rule;
    return r->rate_count++;
}

static const ls_group *group_of(const ls_groups *groups, const char *name, int *used) {
    for (int g = 0; g < groups->count; g++)
        if (ls_text_glob(groups->group[g].pattern, name)) {
            used[g] = 1;
            return &groups->group[g]; // the first match wins
        }
    return NULL;
}

static ls_status rule_of(
    const ls_config *cfg, const ls_param *param, const ls_group *group, ls_param_rules *r, ls_param_rule *out) {
    const double decay =
        param->role == LS_ROLE_WEIGHT || cfg->optimizer_decay_biases_and_norms ? cfg->optimizer_weight_decay : 0;
    *out = (ls_param_rule){
        .kind = cfg->optimizer_kind, .lr_factor = 1, .decay = (float)decay, .momentum = (float)cfg->optimizer_momentum
    };
    if (group) {
        out->lr_factor = (float)group->lr;
        out->rate = rate_of(r, group);
        if (out->rate < 0)
            return ls_fail(LS_USAGE,
                "%s: optimizer.groups: expected at most %d different pairs of end= and frozen_after=", cfg->file,
                LS_RATES_MAX - 1);
        if (!isnan(group->decay)) out->decay = (float)group->decay;
        if (!isnan(group->momentum)) out->momentum = (float)group->momentum;
        if (group->kind >= 0) out->kind = group->kind;
        if (group->frozen) out->kind = LS_NOT_TRAINED;
    }
    if (out->kind != LS_NOT_TRAINED && ls_optimizer_by_tensor(out->kind) && param->role != LS_ROLE_WEIGHT)
        out->kind = LS_OPTIMIZER_SGD;
    return LS_SUCCESS;
}

// Sets the rules of a batch norm's statistics: they change as long as its weight or bias does, or never if `stored`.
// Needs the rules of weight and bias.
static void statistics_rule(const ls_graph *graph, const ls_layer *layer, int stored, ls_param_rules *r) {
    const ls_param *params = &graph->params[layer->first_param];
    const int count = layer->param_count;
    ls_param_rule rule = { .kind = LS_NOT_TRAINED, .fixed = 1, .stored = stored };
    int always = 0;
    for (int i = 0; i < count; i++) {
        const ls_param_rule *of = &r->param[layer->first_param + i];
        if (ls_role_is_statistic(params[i].role) || of->kind == LS_NOT_TRAINED || of->lr_factor == 0) continue;
        rule.fixed = 0;
        rule.rests_with |= UINT32_C(1) << of->rate;
        always |= isinf(ls_rate_rule_over(&r->rate[of->rate]));
    }
    if (always || stored) rule.rests_with = 0;
    rule.fixed |= stored;
    for (int i = 0; i < count; i++)
        if (ls_role_is_statistic(params[i].role)) r->param[layer->first_param + i] = rule;
}

// Sets stored[l] = 1 for each batchnorm2d that train.stored_statistics names. LS_USAGE: a pattern matches no layer.
// Explains a pattern without a match, for messages: a quantised network has no batch norm.
static const char *folded(const ls_graph *graph) {
    return ls_graph_is_quantised(graph) ? ", whose batch norms train.quantise = int8 folds into its convolutions" : "";
}

static ls_status find_stored(const ls_config *cfg, const ls_graph *graph, char *stored) {
    char text[LS_TEXT_BYTES], *rest = text;
    snprintf(text, sizeof text, "%s", cfg->train_stored_statistics);
    while (text[0] && rest) {
        const char *pattern = ls_text_trim(strsep(&rest, ","));
        int found = 0;
        for (int l = 0; l < graph->layer_count; l++) {
            if (graph->layers[l].kind != LS_LAYER_BATCHNORM2D || !ls_text_glob(pattern, graph->layers[l].name))
                continue;
            found = stored[l] = 1;
        }
        if (!found)
            return ls_fail(LS_USAGE,
                "%s: train.stored_statistics: the pattern '%s' matches no batchnorm2d layer of %s%s; expected names of "
                "layers, as norm1, norm*, or * for all",
                cfg->file, pattern, graph->path, folded(graph));
    }
    return LS_SUCCESS;
}

static ls_status fill_statistics(const ls_config *cfg, const ls_graph *graph, ls_param_rules *r) {
    char *stored = ls_new(graph->layer_count, sizeof *stored, "rules of %d layers", graph->layer_count);
    const ls_status status = find_stored(cfg, graph, stored);
    for (int l = 0; l < graph->layer_count; l++)
        if (graph->layers[l].kind == LS_LAYER_BATCHNORM2D) statistics_rule(graph, &graph->layers[l], stored[l], r);
    free(stored);
    return status;
}

static ls_status fill(const ls_config *cfg, const ls_graph *graph, ls_param_rules *r) {
    ls_groups groups = { .count = 0 };
    int used[LS_GROUP_LIMIT] = { 0 }, trained = 0;
    if (cfg->optimizer_groups[0]) LS_TRY(ls_parse_groups("optimizer.groups", cfg->optimizer_groups, &groups));
    for (int p = 0; p < graph->param_count; p++) {
        const ls_param *param = &graph->params[p];
        r->param[p] = (ls_param_rule){ .kind = LS_NOT_TRAINED, .fixed = param->role >= LS_ROLE_GRID_SCALE };
        if (ls_role_is_statistic(param->role)) continue;
        LS_TRY(rule_of(cfg, param, group_of(&groups, param->name, used), r, &r->param[p]));
        const int kept = ls_param_rules_kept(r, p);
        if (kept > r->kept) r->kept = kept;
        trained += r->param[p].kind != LS_NOT_TRAINED;
    }
    for (int g = 0; g < groups.count; g++)
        if (!used[g])
            return ls_fail(LS_USAGE,
                "%s: optimizer.groups: the pattern '%s' matches no parameter of %s%s (or only ones that an earlier "
                "pattern takes); "
                "train --dry-run lists the parameters",
                cfg->file, groups.group[g].pattern, graph->path, folded(graph));
    LS_TRY(fill_statistics(cfg, graph, r));
    if (trained) return LS_SUCCESS;
    return ls_fail(LS_USAGE, "%s: optimizer.groups: every parameter of %s is frozen; nothing is left to train",
        cfg->file, graph->path);
}

ls_status ls_param_rules_new(const ls_config *cfg, const ls_graph *graph, ls_param_rules **out) {
    ls_param_rules *r = ls_new(1, sizeof *r, "rules of %d parameters", graph->param_count);
    *r = (ls_param_rules){ .rate = { { NAN, INFINITY } }, .rate_count = 1, .average = cfg->average_kind };
    r->param = ls_new(graph->param_count, sizeof *r->param, "rules of %d parameters", graph->param_count);
    ls_status status = fill(cfg, graph, r);
    return LS_GIVE_OR_FREE(status, r, out, ls_param_rules_free);
}

void ls_param_rules_free(ls_param_rules *r) {
    if (!r) return;
    free(r->param);
    free(r);
}

int ls_param_rules_changes(const ls_param_rules *r, const ls_graph *graph, int param) {
    if (ls_role_is_statistic(graph->params[param].role)) return !r->param[param].fixed;
    return r->param[param].kind != LS_NOT_TRAINED;
}

int ls_param_rules_stored(const ls_param_rules *r, const ls_layer *layer) {
    for (int p = layer->first_param; r && p < layer->first_param + layer->param_count; p++)
        if (r->param[p].stored) return 1;
    return 0;
}

int ls_param_rules_ended(const ls_param_rules *rules, int param, int64_t epoch) {
    const ls_param_rule *rule = &rules->param[param];
    return rule->kind != LS_NOT_TRAINED && ls_rate_rule_over(&rules->rate[rule->rate]) <= (double)epoch;
}

int ls_param_rules_kept(const ls_param_rules *r, int param) {
    return r->param[param].kind == LS_NOT_TRAINED ? 0 : ls_optimizer_kept(r->param[param].kind);
}
