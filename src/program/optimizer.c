#include "program/optimizer.h"

#include <math.h>
#include "base/memory.h"
#include "config/values.h"

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

int ls_optimizer_by_tensor(int kind) {
    return kind == LS_OPTIMIZER_MUON || kind == LS_OPTIMIZER_LARS;
}

int ls_optimizer_kept(int kind) {
    return ls_op_args(kinds[kind].op) - LS_STEP_OTHER_ARGS;
}

const char *ls_optimizer_kept_name(int kind, int index) {
    return kinds[kind].kept[index];
}

// Muon: returns the factor of a matrix's step (optimizer.stretch). A convolution's weight is a matrix with one row of
// C*R*S columns for each filter.
static float stretch_of(const ls_config *cfg, const ls_param_shape *shape) {
    const double rows = shape->dim[0], columns = (double)ls_param_count(shape) / rows;
    if (cfg->optimizer_stretch == LS_STRETCH_ORIGINAL) return (float)sqrt(fmax(1, rows / columns));
    return cfg->optimizer_stretch == LS_STRETCH_OFF ? 1 : (float)(0.2 * sqrt(fmax(rows, columns)));
}

// Cuts the trained parameters into segments. Neighbouring parameters with equal rules share a segment. A tensor that is
// stepped as a whole has its own segment. Parameters of other optimizers form idle segments, which the step skips.
static void cut_segments(ls_optimizer *o, const ls_config *cfg, int kind, const ls_param_rules *rules) {
    const ls_param_store *a = o->store;
    ls_step_segment *segments = o->segments[kind];
    for (int i = 0; i < a->trained_params; i++) {
        const ls_param_rule *rule = &rules->param[a->order[i]];
        const ls_param_shape *shape = ls_optimizer_by_tensor(kind) ? &a->graph->params[a->order[i]].shape : NULL;
        const ls_step_segment idle = { .rate = LS_SEGMENT_IDLE }, own = { .lr_factor = rule->lr_factor,
            .decay = rule->decay,
            .momentum = rule->momentum,
            .rate = rule->rate,
            .shape = shape,
            .stretch = kind == LS_OPTIMIZER_MUON ? stretch_of(cfg, shape) : 1 };
        ls_step_segment segment = rule->kind == kind ? own : idle;
        ls_step_segment *last = o->segment_count[kind] ? &segments[o->segment_count[kind] - 1] : NULL;
        if (last && last->rate == segment.rate && last->lr_factor == segment.lr_factor &&
            last->decay == segment.decay && last->momentum == segment.momentum && !segment.shape) {
            last->count += a->elements[a->order[i]];
            continue;
        }
        segment.count = a->elements[a->order[i]];
        segments[o->segment_count[kind]++] = segment;
    }
}

// Adds segments for batch norm's statistics, which follow the trained parameters in the store. Neighbouring statistics
// share a segment if the share of the new value is equal and they stop changing at the same time.
static void add_statistics(ls_optimizer *o, int kind) {
    const ls_param_store *a = o->store;
    for (int i = a->trained_params; i < a->trained_params + a->statistic_params; i++) {
        const int param = a->order[i];
        const float share = (float)a->graph->layers[a->graph->params[param].layer].attr.batchnorm2d.momentum;
        const uint32_t rests_with = a->options.rules->param[param].rests_with;
        ls_step_segment *next = &o->segments[kind][o->segment_count[kind]];
        if (i > a->trained_params && next[-1].momentum == share && next[-1].rests_with == rests_with) {
            next[-1].count += a->elements[param];
            continue;
        }
        *next = (ls_step_segment){
            .count = a->elements[param], .momentum = share, .rate = LS_SEGMENT_STATISTICS, .rests_with = rests_with
        };
        o->segment_count[kind]++;
    }
}

static ls_status add_step(ls_optimizer *o, const ls_config *cfg, ls_buffer state, int kind, int moves) {
    const ls_param_store *a = o->store;
    const int64_t trained = a->trained_elements, count = trained + (moves ? a->statistic_elements : 0);
    const double beta2 = ls_config_of_kind(LS_OPTION_optimizer_beta2, cfg->optimizer_beta2, kind);
    ls_op_desc desc = { .op = kinds[kind].op,
        .layer = "optimizer",
        .attr.optimizer = { .count = count,
            .segments = o->segments[kind],
            .segment_count = o->segment_count[kind],
            .nesterov = cfg->optimizer_nesterov,
            .beta1 = cfg->optimizer_beta1,
            .beta2 = beta2,
            .eps = (float)cfg->optimizer_eps,
            .trust = (float)cfg->optimizer_trust,
            .ns_steps = (int)cfg->optimizer_ns_steps,
            .storage = a->storage } };
    double ns[3];
    int numbers;
    LS_TRY(ls_parse_reals("optimizer.ns_coefficients", cfg->optimizer_ns_coefficients, ns, 3, &numbers));
    for (int i = 0; i < numbers; i++) desc.attr.optimizer.ns[i] = (float)ns[i];
    ls_optimizer_step *step = &o->steps[o->step_count];
    LS_TRY(a->device->api->plan_new(a->device, &desc, &step->plan));
    o->step_count++;
    if (step->plan->workspace_bytes > o->workspace_bytes) o->workspace_bytes = step->plan->workspace_bytes;
    ls_buffer *arg = step->args;
    *arg++ = state;
    *arg++ = ls_param_store_range(a->grad, 0, count, sizeof(float));
    for (int k = 0; k < ls_optimizer_kept(kind); k++)
        *arg++ = ls_param_store_range(a->state, k * trained, trained, sizeof(float));
    *arg++ = ls_param_store_range(a->weight, 0, count, sizeof(float));
    if (a->copy) *arg = ls_param_store_range(a->copy, 0, trained, ls_dtype_bytes(a->storage));
    return LS_SUCCESS;
}

// Returns the optimizer whose step moves the running statistics: the first one in use that is not Muon. Otherwise SGD
// gets a step for the statistics alone.
static int kind_that_moves(const int used[LS_OPTIMIZER_COUNT]) {
    for (int kind = 0; kind < LS_OPTIMIZER_COUNT; kind++)
        if (used[kind] && kind != LS_OPTIMIZER_MUON) return kind;
    return LS_OPTIMIZER_SGD;
}

// Makes one step for each kind of optimizer that trains a parameter or moves the statistics.
static ls_status plan_steps(ls_optimizer *o, const ls_config *cfg, ls_buffer state) {
    const ls_param_store *a = o->store;
    const size_t trained = (size_t)a->trained_params, all = trained + (size_t)a->statistic_params;
    int used[LS_OPTIMIZER_COUNT] = { 0 };
    for (size_t i = 0; i < trained; i++) used[a->options.rules->param[a->order[i]].kind] = 1;
    const int moving = a->statistic_params ? kind_that_moves(used) : -1;
    for (int kind = 0; kind < LS_OPTIMIZER_COUNT; kind++) {
        if (!used[kind] && kind != moving) continue;
        o->segments[kind] = ls_new(all, sizeof *o->segments[kind], "optimizer of %zu tensors", all);
        cut_segments(o, cfg, kind, a->options.rules);
        if (kind == moving) add_statistics(o, kind);
        LS_TRY(add_step(o, cfg, state, kind, kind == moving));
    }
    return LS_SUCCESS;
}

ls_status ls_optimizer_new(const ls_config *cfg, const ls_param_store *store, ls_buffer state, ls_optimizer **out) {
    ls_optimizer *o = ls_new(1, sizeof *o, "optimizer");
    o->store = store;
    o->lr = cfg->optimizer_lr;
    ls_status status = plan_steps(o, cfg, state);
    return LS_GIVE_OR_FREE(status, o, out, ls_optimizer_free);
}

void ls_optimizer_free(ls_optimizer *o) {
    if (!o) return;
    for (int s = 0; s < o->step_count; s++) o->store->device->api->plan_free(o->steps[s].plan);
    for (int kind = 0; kind < LS_OPTIMIZER_COUNT; kind++) free(o->segments[kind]);
    free(o);
}

void ls_optimizer_run(const ls_optimizer *o, ls_buffer workspace, ls_queue *queue) {
    for (int s = 0; s < o->step_count; s++) ls_plan_run(o->steps[s].plan, o->steps[s].args, workspace, queue);
}

static int same_rule(const ls_param_rule *a, const ls_param_rule *b) {
    return a->kind == b->kind && a->rate == b->rate && a->lr_factor == b->lr_factor && a->decay == b->decay &&
           a->momentum == b->momentum;
}

// Prints constants of a rule, such as "  sgd    lr x 0.5      weight decay 0.0005     to 0 at epoch 20".
static void print_rule(const ls_optimizer *o, const ls_param_rule *rule, FILE *file) {
    const ls_rate_rule *rate = &o->store->options.rules->rate[rule->rate];
    fprintf(file, "  %-6s lr x %-8g weight decay %-10g", ls_config_choice("optimizer.kind", rule->kind),
        (double)rule->lr_factor, (double)rule->decay);
    if (rule->rate && !isnan(rate->end)) fprintf(file, " to 0 at epoch %g", rate->end);
    if (rule->rate && isfinite(rate->frozen_after)) fprintf(file, " 0 from epoch %g", rate->frozen_after);
}

// Prints parameters with equal rules as one group, even if they are not neighbours in the store.
void ls_optimizer_print(const ls_optimizer *o, FILE *file) {
    const ls_graph *graph = o->store->graph;
    const ls_param_rules *rules = o->store->options.rules;
    const int *order = o->store->order, trained = o->store->trained_params;
    fprintf(file, "parameter groups (lr %g)\n", o->lr);
    for (int i = 0; i < trained; i++) {
        const ls_param_rule *rule = &rules->param[order[i]];
        int seen = 0, tensors = 0;
        int64_t elements = 0;
        for (int j = 0; j < trained; j++) {
            if (!same_rule(rule, &rules->param[order[j]])) continue;
            seen |= j < i;
            tensors++;
            elements += ls_param_count(&graph->params[order[j]].shape);
        }
        if (seen) continue;
        print_rule(o, rule, file);
        fprintf(file, " %3d tensors, %9lld parameters (%s, ...)\n", tensors, (long long)elements,
            graph->params[order[i]].name);
    }
    const int frozen = graph->param_count - trained - o->store->statistic_params;
    if (frozen)
        fprintf(file, "  frozen: %d tensors, %lld elements of memory\n", frozen, (long long)o->store->frozen_elements);
}
