// resolution.c - train.resolution: the network at the resolutions of a run, and which of its programs an epoch has.
#include "train/trainer_internal.h"

// A bench goes on behind the run's last epoch, as in it.
static int resolution_of(const ls_trainer *t, int64_t epoch) {
    const int64_t last = t->cfg->train_epochs - 1;
    return ls_resolutions_find(&t->resolutions, epoch < last ? epoch : last);
}

int ls_trainer_has_resolution(const ls_trainer *t, int resolution) {
    const ls_resolutions *r = &t->resolutions;
    return r->step[resolution].epoch < t->cfg->train_epochs &&
           ls_resolutions_find(r, r->step[resolution].epoch) == resolution;
}

const ls_graph *ls_trainer_graph_at(const ls_trainer *t, int resolution) {
    return t->resized[resolution] ? t->resized[resolution] : t->graph;
}

const ls_program *ls_trainer_full(const ls_trainer *t, int64_t epoch) {
    return t->session.program[2 * resolution_of(t, epoch)];
}

const ls_program *ls_trainer_program_for(const ls_trainer *t, int64_t epoch, int samples) {
    return t->session.program[2 * resolution_of(t, epoch) + (samples < t->facts.batches.micro_batch)];
}

static ls_status open_resolution(ls_trainer *t, int resolution) {
    const ls_resolution *step = &t->resolutions.step[resolution];
    if (step->h == t->graph->input.h && step->w == t->graph->input.w) return LS_SUCCESS;
    ls_status status = ls_graph_resize(t->graph, step->h, step->w, &t->resized[resolution]);
    if (!ls_failed(status)) return LS_SUCCESS;
    char where[LS_STATUS_TEXT_BYTES / 4];
    ls_config_where(t->cfg, LS_OPTION_train_resolution, where, sizeof where);
    return ls_fail(status.code, "%s: %s; or leave train.resolution empty", where, status.text);
}

ls_status ls_trainer_open_resolutions(ls_trainer *t) {
    ls_resolutions *r = &t->resolutions;
    LS_TRY(ls_parse_resolutions("train.resolution", t->cfg->train_resolution, r));
    if (r->count == 0)
        *r = (ls_resolutions){ .step = { { .h = t->graph->input.h, .w = t->graph->input.w } }, .count = 1 };
    for (int i = 0; i < r->count; i++)
        if (ls_trainer_has_resolution(t, i)) LS_TRY(open_resolution(t, i));
    return LS_SUCCESS;
}
