// stages.c - a run's stages: epochs from which on it has programs of their own. train.resolution changes the shapes of the network;
// parameters whose rate has come to its end (optimizer.groups: end, frozen_after) have no gradient from the next epoch on.
#include <math.h>
#include "train/trainer_internal.h"

static int ended_rates(const ls_param_rules *rules, int64_t epoch) {
    int count = 0;
    for (int i = 0; i < rules->rate_count; i++) count += ls_rate_rule_over(&rules->rate[i]) <= (double)epoch;
    return count;
}

// A stage that is as an earlier one has its programs: with the same resolution, and no rate that ended between.
static int as_before(const ls_stage *a, const ls_stage *b) {
    return a->h == b->h && a->w == b->w && a->ended == b->ended;
}

int ls_trainer_stage(const ls_trainer *t, int64_t epoch) {
    int last = 0, first = 0;
    while (last + 1 < t->plan.stage_count && t->plan.stage[last + 1].epoch <= epoch) last++;
    while (!as_before(&t->plan.stage[first], &t->plan.stage[last])) first++;
    return first;
}

int ls_trainer_has_stage(const ls_trainer *t, int stage) {
    return stage < t->plan.stage_count && ls_trainer_stage(t, t->plan.stage[stage].epoch) == stage;
}

const ls_graph *ls_trainer_graph_at(const ls_trainer *t, int stage) {
    return t->plan.stage[stage].resized ? t->plan.stage[stage].resized : t->plan.graph;
}

const ls_program *ls_trainer_full(const ls_trainer *t, int64_t epoch) {
    return t->session.compute.program[2 * ls_trainer_stage(t, epoch)];
}

const ls_program *ls_trainer_program_for(const ls_trainer *t, int64_t epoch, int samples) {
    return t->session.compute.program[2 * ls_trainer_stage(t, epoch) + (samples < t->plan.info.batches.micro_batch)];
}

// --- opening ------------------------------------------------------------------------------------

static ls_status resize(ls_trainer *t, ls_stage *stage) {
    if (stage->h == t->plan.graph->input.h && stage->w == t->plan.graph->input.w) return LS_SUCCESS;
    ls_status status = ls_graph_resize(t->plan.graph, stage->h, stage->w, &stage->resized);
    if (!ls_failed(status)) return LS_SUCCESS;
    char where[LS_STATUS_TEXT_BYTES / 4];
    ls_config_where(t->plan.cfg, LS_OPTION_train_resolution, where, sizeof where);
    return ls_fail(status.code, "%s: %s; or leave train.resolution empty", where, status.text);
}

// The first epoch behind `epoch` that differs from it; the run's last where none does.
static int64_t next_change(const ls_trainer *t, const ls_resolutions *resolutions, int64_t epoch) {
    int64_t next = t->plan.cfg->train_epochs;
    for (int i = 0; i < resolutions->count; i++) {
        const int64_t begin = resolutions->step[i].epoch;
        if (begin > epoch && begin < next) next = begin;
    }
    for (int i = 0; i < t->plan.rules->rate_count; i++) {
        const double over = ls_rate_rule_over(&t->plan.rules->rate[i]);
        if (over > (double)epoch && over < (double)next) next = (int64_t)ceil(over);
    }
    return next;
}

ls_status ls_trainer_open_stages(ls_trainer *t) {
    ls_resolutions r;
    LS_TRY(ls_parse_resolutions("train.resolution", t->plan.cfg->train_resolution, &r));
    if (r.count == 0)
        r = (ls_resolutions){ .step = { { .h = t->plan.graph->input.h, .w = t->plan.graph->input.w } }, .count = 1 };
    for (int64_t epoch = 0; epoch < t->plan.cfg->train_epochs && t->plan.stage_count < LS_STAGE_LIMIT;
         epoch = next_change(t, &r, epoch)) {
        const ls_resolution *step = &r.step[ls_resolutions_find(&r, epoch)];
        ls_stage *stage = &t->plan.stage[t->plan.stage_count++];
        *stage = (ls_stage){ .epoch = epoch, .h = step->h, .w = step->w, .ended = ended_rates(t->plan.rules, epoch) };
        if (ls_trainer_has_stage(t, t->plan.stage_count - 1)) LS_TRY(resize(t, stage));
    }
    return LS_SUCCESS;
}

void ls_trainer_close_stages(ls_trainer *t) {
    for (int i = 0; i < t->plan.stage_count; i++) ls_graph_free(t->plan.stage[i].resized);
}
