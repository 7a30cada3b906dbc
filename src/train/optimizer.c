#include "train/optimizer.h"

#include <math.h>
#include <stdlib.h>
#include "base/text.h"
#include "config/values.h"

typedef struct {
    double rate_factor, decay;
} constants;

int ls_optimizer_state_arenas(const ls_config *cfg) {
    return cfg->optimizer_kind == LS_OPTIMIZER_ADAMW ? 2 : 1;
}

static constants constants_of(const ls_config *cfg, const ls_param *param, const ls_groups *groups, int *used) {
    constants c = { .rate_factor = 1, .decay = cfg->optimizer_weight_decay };
    if (param->role != LS_ROLE_WEIGHT && !cfg->optimizer_decay_biases_and_norms) c.decay = 0;
    for (int g = 0; g < groups->count; g++) {
        const ls_group *group = &groups->group[g];
        if (!ls_text_glob(group->pattern, param->name)) continue;
        used[g] = 1;
        c.rate_factor = group->rate_factor;
        if (!isnan(group->decay)) c.decay = group->decay;
        break; // the first match wins
    }
    return c;
}

static ls_status constants_of_all(const ls_config *cfg, const ls_arenas *a, constants *all) {
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

static ls_op_desc step_desc(const ls_config *cfg, const ls_arenas *a, constants c, int64_t count) {
    int adamw = cfg->optimizer_kind == LS_OPTIMIZER_ADAMW;
    return (ls_op_desc){ .op = adamw ? LS_OP_ADAMW : LS_OP_SGD,
        .layer = "optimizer",
        .attr.optimizer = { .count = count,
            .lr_factor = (float)c.rate_factor,
            .decay = (float)c.decay,
            .momentum = (float)cfg->optimizer_momentum,
            .nesterov = cfg->optimizer_nesterov,
            .beta1 = (float)cfg->optimizer_beta1,
            .beta2 = (float)cfg->optimizer_beta2,
            .eps = (float)cfg->optimizer_eps,
            .storage = a->storage } };
}

static void step_args(const ls_arenas *a, int kind, ls_buffer state, int64_t first, int64_t count, ls_buffer *args) {
    ls_buffer grad = ls_arenas_range(a->grad, first, count, sizeof(float));
    ls_buffer weight = ls_arenas_range(a->weight, first, count, sizeof(float));
    ls_buffer state1 = ls_arenas_range(a->state, first, count, sizeof(float));
    ls_buffer copy = a->copy ? ls_arenas_range(a->copy, first, count, ls_dtype_bytes(a->storage)) : (ls_buffer){ 0 };
    if (kind == LS_OPTIMIZER_ADAMW) {
        args[LS_ADAMW_STATE] = state;
        args[LS_ADAMW_GRAD] = grad;
        args[LS_ADAMW_MOMENT1] = state1;
        args[LS_ADAMW_MOMENT2] = ls_arenas_range(a->state, a->trained_elements + first, count, sizeof(float));
        args[LS_ADAMW_WEIGHT] = weight;
        args[LS_ADAMW_COPY] = copy;
    } else {
        args[LS_SGD_STATE] = state;
        args[LS_SGD_GRAD] = grad;
        args[LS_SGD_MOMENTUM] = state1;
        args[LS_SGD_WEIGHT] = weight;
        args[LS_SGD_COPY] = copy;
    }
}

static ls_status add_step(ls_optimizer *o, const ls_config *cfg, ls_buffer state, constants c, int first, int end) {
    const ls_arenas *a = o->arenas;
    int last_param = a->order[end - 1];
    int64_t from = a->offset[a->order[first]], count = a->offset[last_param] + a->elements[last_param] - from;
    ls_optimizer_step *step = &o->steps[o->count];
    *step = (ls_optimizer_step){ .first = first, .end = end };
    ls_op_desc desc = step_desc(cfg, a, c, count);
    LS_TRY(a->device->api->plan_new(a->device, &desc, &step->plan));
    o->count++;
    step_args(a, o->kind, state, from, count, step->args);
    return LS_SUCCESS;
}

ls_status ls_optimizer_new(const ls_config *cfg, const ls_arenas *arenas, ls_buffer state, ls_optimizer **out) {
    size_t trained = (size_t)arenas->trained_params;
    ls_optimizer *o = calloc(1, sizeof *o);
    constants *all = calloc(trained + 1, sizeof *all);
    ls_status status = LS_SUCCESS;
    if (o) *o = (ls_optimizer){ .arenas = arenas, .kind = cfg->optimizer_kind, .rate = cfg->optimizer_rate };
    if (o) o->steps = calloc(trained + 1, sizeof *o->steps);
    if (!o || !all || !o->steps) {
        status = ls_fail(LS_DEVICE, "out of host memory for the optimizer's tables");
        goto done;
    }
    LS_TRY_GOTO(constants_of_all(cfg, arenas, all));
    for (int first = 0, i = 1; i <= arenas->trained_params; i++) {
        int ends = i == arenas->trained_params || all[i].decay != all[first].decay ||
                   all[i].rate_factor != all[first].rate_factor;
        if (!ends) continue;
        LS_TRY_GOTO(add_step(o, cfg, state, all[first], first, i));
        first = i;
    }
    *out = o;
    o = NULL;
done:
    free(all);
    ls_optimizer_free(o);
    return status;
}

void ls_optimizer_free(ls_optimizer *o) {
    if (!o) return;
    for (int s = 0; s < o->count; s++) o->arenas->device->api->plan_free(o->steps[s].plan);
    free(o->steps);
    free(o);
}

void ls_optimizer_run(const ls_optimizer *o, ls_queue *queue) {
    for (int s = 0; s < o->count; s++) ls_plan_run(o->steps[s].plan, o->steps[s].args, (ls_buffer){ 0 }, queue);
}

// Steps with the same constants are one group for a reader, wherever they lie.
void ls_optimizer_print(const ls_optimizer *o, FILE *file) {
    fprintf(file, "parameter groups (%s, rate %g)\n", o->kind == LS_OPTIMIZER_ADAMW ? "adamw" : "sgd", o->rate);
    for (int s = 0; s < o->count; s++) {
        const ls_optimizer_attr *attr = &o->steps[s].plan->desc.attr.optimizer;
        int seen = 0, tensors = 0;
        int64_t elements = 0;
        const char *example = o->arenas->graph->params[o->arenas->order[o->steps[s].first]].name;
        for (int t = 0; t < o->count; t++) {
            const ls_optimizer_attr *other = &o->steps[t].plan->desc.attr.optimizer;
            if (other->decay != attr->decay || other->lr_factor != attr->lr_factor) continue;
            if (t < s) seen = 1;
            tensors += o->steps[t].end - o->steps[t].first;
            for (int i = o->steps[t].first; i < o->steps[t].end; i++)
                elements += ls_param_count(&o->arenas->graph->params[o->arenas->order[i]].shape);
        }
        if (!seen)
            fprintf(file, "  rate x %-8g weight decay %-10g %3d tensors, %9lld parameters (%s, ...)\n",
                (double)attr->lr_factor, (double)attr->decay, tensors, (long long)elements, example);
    }
}
