// stages.c - the stages of a plan: ranges of epochs that need their own programs. A stage begins where train.resolution
// changes the shapes of the network. It also begins where a learning rate ends (optimizer.groups: end, frozen_after),
// because the gradients of its parameters are not computed from the next epoch on.
#include <math.h>
#include "train/run_plan.h"

static int ended_rates(const ls_param_rules *rules, int64_t epoch) {
    int count = 0;
    for (int i = 0; i < rules->rate_count; i++) count += ls_rate_rule_over(&rules->rate[i]) <= (double)epoch;
    return count;
}

// Returns 1 if two stages have the same resolution and the same ended rates: the later stage then uses the earlier
// stage's programs.
static int has_same_programs(const ls_stage *a, const ls_stage *b) {
    return a->h == b->h && a->w == b->w && a->ended == b->ended;
}

int ls_run_plan_stage_of(const ls_run_plan *plan, int64_t epoch) {
    int last = 0, first = 0;
    while (last + 1 < plan->stage_count && plan->stage[last + 1].epoch <= epoch) last++;
    while (!has_same_programs(&plan->stage[first], &plan->stage[last])) first++;
    return first;
}

int ls_run_plan_has_stage(const ls_run_plan *plan, int stage) {
    return stage < plan->stage_count && ls_run_plan_stage_of(plan, plan->stage[stage].epoch) == stage;
}

const ls_graph *ls_run_plan_graph_of(const ls_run_plan *plan, int stage) {
    return plan->stage[stage].resized ? plan->stage[stage].resized : plan->graph;
}

// --- opening ------------------------------------------------------------------------------------

static ls_status resize(const ls_run_plan *plan, ls_stage *stage) {
    if (stage->h == plan->graph->input.h && stage->w == plan->graph->input.w) return LS_SUCCESS;
    ls_status status = ls_graph_resize(plan->graph, stage->h, stage->w, &stage->resized);
    if (!ls_failed(status)) return LS_SUCCESS;
    char where[LS_STATUS_TEXT_BYTES / 4];
    ls_config_where(plan->cfg, LS_OPTION_train_resolution, where, sizeof where);
    return ls_fail(status.code, "%s: %s; or leave train.resolution empty", where, status.text);
}

// Returns the first epoch after `epoch` that needs another stage, or train.epochs if none does.
static int64_t next_change(const ls_run_plan *plan, const ls_resolutions *resolutions, int64_t epoch) {
    int64_t next = plan->cfg->train_epochs;
    for (int i = 0; i < resolutions->count; i++) {
        const int64_t begin = resolutions->step[i].epoch;
        if (begin > epoch && begin < next) next = begin;
    }
    for (int i = 0; i < plan->rules->rate_count; i++) {
        const double over = ls_rate_rule_over(&plan->rules->rate[i]);
        if (over > (double)epoch && over < (double)next) next = (int64_t)ceil(over);
    }
    return next;
}

ls_status ls_run_plan_open_stages(ls_run_plan *plan) {
    ls_resolutions r;
    LS_TRY(ls_parse_resolutions("train.resolution", plan->cfg->train_resolution, &r));
    if (r.count == 0)
        r = (ls_resolutions){ .step = { { .h = plan->graph->input.h, .w = plan->graph->input.w } }, .count = 1 };
    for (int64_t epoch = 0; epoch < plan->cfg->train_epochs && plan->stage_count < LS_STAGE_LIMIT;
         epoch = next_change(plan, &r, epoch)) {
        const ls_resolution *step = &r.step[ls_resolutions_find(&r, epoch)];
        ls_stage *stage = &plan->stage[plan->stage_count++];
        *stage = (ls_stage){ .epoch = epoch, .h = step->h, .w = step->w, .ended = ended_rates(plan->rules, epoch) };
        if (ls_run_plan_has_stage(plan, plan->stage_count - 1)) LS_TRY(resize(plan, stage));
    }
    return LS_SUCCESS;
}

void ls_run_plan_close_stages(ls_run_plan *plan) {
    for (int i = 0; i < plan->stage_count; i++) ls_graph_free(plan->stage[i].resized);
}
