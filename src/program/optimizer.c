#include "program/optimizer.h"

#include <math.h>
#include "base/memory.h"
#include "base/text.h"
#include "config/values.h"

typedef struct {
    double lr_factor, decay;
} constants;

#define NAMES(...) __VA_ARGS__
static const struct {
    ls_op op;
    const char *kept[LS_STEP_KEPT_MAX];
} kinds[LS_OPTIMIZER_COUNT] = {
#define X(NAME, word, what, kept, reads) [LS_OPTIMIZER_##NAME] = { LS_OP_##NAME, { NAMES kept } },
#include "config/optimizers.def"
};

#define X(NAME, word, what, kept, reads) \
    _Static_assert(sizeof((const char *[]){ NAMES kept }) / sizeof(char *) == LS_##NAME##_ARGS - LS_STEP_OTHER_ARGS, \
        "the operator of " word " keeps as many tensors as its row names");
#include "config/optimizers.def"

int ls_optimizer_kept(int kind) {
    return ls_op_args(kinds[kind].op) - LS_STEP_OTHER_ARGS;
}

const char *ls_optimizer_kept_name(int kind, int index) {
    return kinds[kind].kept[index];
}

static constants constants_of(const ls_config *cfg, const ls_param *param, const ls_groups *groups, int *used) {
    constants c = { .lr_factor = 1, .decay = cfg->optimizer_weight_decay };
    if (param->role != LS_ROLE_WEIGHT && !cfg->optimizer_decay_biases_and_norms) c.decay = 0;
    for (int g = 0; g < groups->count; g++) {
        const ls_group *group = &groups->group[g];
        if (!ls_text_glob(group->pattern, param->name)) continue;
        used[g] = 1;
        c.lr_factor = group->lr_factor;
        if (!isnan(group->decay)) c.decay = group->decay;
        break; // the first match wins
    }
    return c;
}

static ls_status constants_of_all(const ls_config *cfg, const ls_param_store *a, constants *all) {
    ls_groups groups = { .count = 0 };
    int used[LS_GROUP_LIMIT] = { 0 };
    if (cfg->optimizer_groups[0]) LS_TRY(ls_parse_groups("optimizer.groups", cfg->optimizer_groups, &groups));
    for (int i = 0; i < a->trained_params; i++)
        all[i] = constants_of(cfg, &a->graph->params[a->order[i]], &groups, used);
    for (int g = 0; g < groups.count; g++)
        if (!used[g])
            return ls_fail(LS_USAGE,
                "%s: optimizer.groups: the pattern '%s' matches no parameter of %s (or only ones that an earlier "
                "pattern takes); "
                "train --dry-run lists the parameters",
                cfg->file, groups.group[g].pattern, a->graph->path);
    return LS_SUCCESS;
}

// Segments of neighbours, from the constants of each parameter in the store's order.
static void cut_segments(ls_optimizer *o, const constants *all) {
    const ls_param_store *a = o->store;
    int64_t begin = 0;
    for (int i = 1; i <= a->trained_params; i++) {
        const constants *c = &all[i - 1];
        if (i < a->trained_params && all[i].decay == c->decay && all[i].lr_factor == c->lr_factor) continue;
        int64_t end = a->offset[a->order[i - 1]] + a->elements[a->order[i - 1]];
        o->ends[o->segment_count] = i;
        o->segments[o->segment_count++] = (ls_step_segment){ end - begin, (float)c->lr_factor, (float)c->decay };
        begin = end;
    }
}

// A step of neighbouring segments, which cover `count` elements from element `first` of the store.
static ls_status add_step(ls_optimizer *o, const ls_config *cfg, ls_buffer state, int64_t first, int64_t count,
    const ls_step_segment *segments, int segment_count) {
    const ls_param_store *a = o->store;
    const ls_op_desc desc = { .op = kinds[o->kind].op,
        .layer = "optimizer",
        .attr.optimizer = { .count = count,
            .segments = segments,
            .segment_count = segment_count,
            .momentum = (float)cfg->optimizer_momentum,
            .nesterov = cfg->optimizer_nesterov,
            .beta1 = (float)cfg->optimizer_beta1,
            .beta2 = (float)cfg->optimizer_beta2,
            .eps = (float)cfg->optimizer_eps,
            .storage = a->storage } };
    ls_optimizer_step *step = &o->steps[o->step_count];
    LS_TRY(a->device->api->plan_new(a->device, &desc, &step->plan));
    o->step_count++;
    if (step->plan->workspace_bytes > o->workspace_bytes) o->workspace_bytes = step->plan->workspace_bytes;
    ls_buffer *arg = step->args;
    *arg++ = state;
    *arg++ = ls_param_store_range(a->grad, first, count, sizeof(float));
    for (int k = 0; k < ls_optimizer_kept(o->kind); k++)
        *arg++ = ls_param_store_range(a->state, k * a->trained_elements + first, count, sizeof(float));
    *arg++ = ls_param_store_range(a->weight, first, count, sizeof(float));
    if (a->copy) *arg = ls_param_store_range(a->copy, first, count, ls_dtype_bytes(a->storage));
    return LS_SUCCESS;
}

static ls_status plan_steps(ls_optimizer *o, const ls_config *cfg, ls_buffer state) {
    return add_step(o, cfg, state, 0, o->store->trained_elements, o->segments, o->segment_count);
}

ls_status ls_optimizer_new(const ls_config *cfg, const ls_param_store *store, ls_buffer state, ls_optimizer **out) {
    size_t trained = (size_t)store->trained_params;
    ls_optimizer *o;
    constants *all = NULL;
    ls_status status;
    LS_TRY_GOTO(LS_NEW(o, 1, "optimizer"));
    *o = (ls_optimizer){ .store = store, .kind = cfg->optimizer_kind, .lr = cfg->optimizer_lr };
    LS_TRY_GOTO(LS_NEW(all, trained + 1, "optimizer of %zu tensors", trained));
    LS_TRY_GOTO(LS_NEW(o->segments, trained + 1, "optimizer of %zu tensors", trained));
    LS_TRY_GOTO(LS_NEW(o->ends, trained + 1, "optimizer of %zu tensors", trained));
    LS_TRY_GOTO(LS_NEW(o->steps, trained + 1, "optimizer of %zu tensors", trained)); // at most one for each
    LS_TRY_GOTO(constants_of_all(cfg, store, all));
    cut_segments(o, all);
    LS_TRY_GOTO(plan_steps(o, cfg, state));
    *out = o;
    o = NULL;
done:
    free(all);
    ls_optimizer_free(o);
    return status;
}

void ls_optimizer_free(ls_optimizer *o) {
    if (!o) return;
    for (int s = 0; s < o->step_count; s++) o->store->device->api->plan_free(o->steps[s].plan);
    free(o->steps);
    free(o->segments);
    free(o->ends);
    free(o);
}

void ls_optimizer_run(const ls_optimizer *o, ls_buffer workspace, ls_queue *queue) {
    for (int s = 0; s < o->step_count; s++) ls_plan_run(o->steps[s].plan, o->steps[s].args, workspace, queue);
}

static int first_param(const ls_optimizer *o, int segment) {
    return segment ? o->ends[segment - 1] : 0;
}

// Segments with the same constants are one group for a reader, wherever they lie.
void ls_optimizer_print(const ls_optimizer *o, FILE *file) {
    const ls_graph *graph = o->store->graph;
    const int *order = o->store->order;
    fprintf(file, "parameter groups (%s, lr %g)\n", ls_config_choice("optimizer.kind", o->kind), o->lr);
    for (int s = 0; s < o->segment_count; s++) {
        const ls_step_segment *segment = &o->segments[s];
        int seen = 0, tensors = 0;
        int64_t elements = 0;
        for (int t = 0; t < o->segment_count; t++) {
            const ls_step_segment *other = &o->segments[t];
            if (other->decay != segment->decay || other->lr_factor != segment->lr_factor) continue;
            if (t < s) seen = 1;
            tensors += o->ends[t] - first_param(o, t);
            for (int i = first_param(o, t); i < o->ends[t]; i++)
                elements += ls_param_count(&graph->params[order[i]].shape);
        }
        if (!seen)
            fprintf(file, "  lr x   %-8g weight decay %-10g %3d tensors, %9lld parameters (%s, ...)\n",
                (double)segment->lr_factor, (double)segment->decay, tensors, (long long)elements,
                graph->params[order[first_param(o, s)]].name);
    }
}
