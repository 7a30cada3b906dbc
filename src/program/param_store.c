#include "program/param_store.h"

#include <assert.h>
#include "base/hash.h"
#include "base/memory.h"

enum { LINE_ELEMENTS = 16 }; // a 64-byte line of floats: tensors do not share lines

static int64_t round_up(int64_t n) {
    return (n + LINE_ELEMENTS - 1) / LINE_ELEMENTS * LINE_ELEMENTS;
}

typedef enum { TRAINED, STATISTIC, FROZEN } part;

static part part_of(const ls_param_store *a, int p) {
    const ls_param_rules *rules = a->options.rules;
    if (a->options.frozen || (rules && !ls_param_rules_changes(rules, a->graph, p))) return FROZEN;
    return ls_role_is_statistic(a->graph->params[p].role) ? STATISTIC : TRAINED;
}

// Appends the parameters of one part to the `count` parameters in order[]; returns the new count. Statistics keep the
// network's order. The others go from the last layer to the first, as the backward pass completes them.
static int order_part(ls_param_store *a, part wanted, int count) {
    const ls_graph *graph = a->graph;
    for (int layer = graph->layer_count - 1; wanted != STATISTIC && layer >= 0; layer--) {
        const ls_layer *l = &graph->layers[layer];
        for (int p = l->first_param; p < l->first_param + l->param_count; p++)
            if (part_of(a, p) == wanted) a->order[count++] = p;
    }
    for (int p = 0; wanted == STATISTIC && p < graph->param_count; p++)
        if (part_of(a, p) == wanted) a->order[count++] = p;
    return count;
}

// Places the parameters order[from..end-1] from element `first` on. Returns the number of elements that they take.
static int64_t place(ls_param_store *a, int from, int end, int64_t first) {
    const ls_device_api *api = a->device->api;
    int64_t at = first;
    for (int i = from; i < end; i++) {
        int p = a->order[i];
        a->offset[p] = at;
        a->elements[p] = round_up((int64_t)api->param_elements(a->device, &a->graph->params[p].shape));
        at += a->elements[p];
    }
    return at - first;
}

static void place_all(ls_param_store *a) {
    a->trained_params = order_part(a, TRAINED, 0);
    const int with_statistics = order_part(a, STATISTIC, a->trained_params),
              all = order_part(a, FROZEN, with_statistics);
    assert(all == a->graph->param_count);
    a->statistic_params = with_statistics - a->trained_params;
    a->trained_elements = place(a, 0, a->trained_params, 0);
    a->statistic_elements = place(a, a->trained_params, with_statistics, a->trained_elements);
    a->frozen_elements = place(a, with_statistics, all, a->trained_elements + a->statistic_elements);
}

int ls_param_store_trains(const ls_param_store *a, int param) {
    return part_of(a, param) == TRAINED;
}

int ls_param_store_changes(const ls_param_store *a, int param) {
    return part_of(a, param) != FROZEN;
}

int64_t ls_param_store_working_elements(const ls_param_store *a) {
    return a->trained_elements + (a->frozen_elements ? a->statistic_elements + a->frozen_elements : 0);
}

static int rounds(const ls_param_store *a) {
    return a->storage != LS_F32 && (a->device->api->fusions & LS_ROUNDS_GRADIENTS);
}

static ls_param_store_sizes sizes_of(const ls_param_store *a) {
    size_t all = (size_t)(a->trained_elements + a->statistic_elements), trained = (size_t)a->trained_elements;
    return (ls_param_store_sizes){ .weight = (all + (size_t)a->frozen_elements) * sizeof(float),
        .grad = all * sizeof(float),
        .state = (size_t)a->options.state_tensors * trained * sizeof(float),
        .average = a->options.averaged ? all * sizeof(float) : 0,
        .copy = a->storage == LS_F32 ? 0 : (size_t)ls_param_store_working_elements(a) * ls_dtype_bytes(a->storage),
        .fixed = a->options.ordered ? all * sizeof(int64_t) : 0,
        .wire = a->options.wire ? trained * ls_dtype_bytes(LS_BF16) : 0,
        .rounded = rounds(a) ? trained * ls_dtype_bytes(a->storage) : 0 };
}

ls_status ls_param_store_allocate(ls_param_store *a) {
    const ls_memory_kind summed = a->options.reduced ? LS_MEMORY_REDUCED : LS_MEMORY_DEVICE;
    const struct {
        const char *name;
        size_t bytes;
        ls_slab **slab;
        ls_memory_kind kind;
    } slabs[] = {
        { "weights", a->sizes.weight, &a->weight, LS_MEMORY_DEVICE },
        { "gradients", a->sizes.grad, &a->grad, summed },
        { "optimizer state", a->sizes.state, &a->state, LS_MEMORY_DEVICE },
        { "average of weights", a->sizes.average, &a->average, LS_MEMORY_DEVICE },
        { "working weights", a->sizes.copy, &a->copy, LS_MEMORY_DEVICE },
        { "fixed-point gradients", a->sizes.fixed, &a->fixed, summed },
        { "gradients in bf16", a->sizes.wire, &a->wire, summed },
        { "gradients in 16 bits", a->sizes.rounded, &a->rounded, LS_MEMORY_DEVICE },
    };
    for (size_t s = 0; s < sizeof slabs / sizeof *slabs; s++)
        if (slabs[s].bytes || s < 2) // weights and gradients always have a slab, even for a network without parameters
            LS_TRY(a->device->api->slab_new(a->device, slabs[s].kind, slabs[s].bytes, slabs[s].name, slabs[s].slab));
    if (!a->rounded) return LS_SUCCESS;
    const ls_op_desc widen = {
        .op = LS_OP_WIDEN, .layer = "gradients", .attr.flat = { .count = a->trained_elements, .storage = a->storage }
    };
    return a->device->api->plan_new(a->device, &widen, &a->widen);
}

ls_status ls_param_store_new(
    ls_device *device, const ls_graph *graph, const ls_param_store_options *options, ls_param_store **out) {
    ls_param_store *a = ls_new(1, sizeof *a, "tables of parameters");
    *a = (ls_param_store){ .device = device, .graph = graph, .options = *options, .storage = options->storage };
    size_t count = (size_t)graph->param_count;
    a->offset = ls_new(count, sizeof *a->offset, "tables of parameters");
    a->elements = ls_new(count, sizeof *a->elements, "tables of parameters");
    a->order = ls_new(count, sizeof *a->order, "tables of parameters");
    place_all(a);
    a->sizes = sizes_of(a);
    *out = a;
    return LS_SUCCESS;
}

void ls_param_store_free(ls_param_store *a) {
    if (!a) return;
    ls_slab *slabs[] = { a->weight, a->grad, a->state, a->average, a->copy, a->fixed, a->wire, a->rounded };
    if (a->widen) a->device->api->plan_free(a->widen);
    for (size_t i = 0; i < sizeof slabs / sizeof *slabs; i++)
        if (slabs[i]) a->device->api->slab_free(slabs[i]);
    free(a->offset);
    free(a->elements);
    free(a->order);
    free(a);
}

ls_buffer ls_param_store_range(ls_slab *slab, int64_t first, int64_t count, size_t element_bytes) {
    return ls_buffer_at(slab, (size_t)first * element_bytes, (size_t)count * element_bytes);
}

ls_buffer ls_param_store_weight(const ls_param_store *a, int param) {
    return ls_param_store_range(a->weight, a->offset[param], a->elements[param], sizeof(float));
}

ls_buffer ls_param_store_working(const ls_param_store *a, int param) {
    if (a->storage == LS_F32) return ls_param_store_weight(a, param);
    return ls_param_store_range(a->copy, a->offset[param], a->elements[param], ls_dtype_bytes(a->storage));
}

ls_buffer ls_param_store_grad(const ls_param_store *a, int param) {
    return ls_param_store_range(a->grad, a->offset[param], a->elements[param], sizeof(float));
}

void ls_param_store_widen(const ls_param_store *a, ls_queue *queue) {
    if (!a->widen) return;
    const ls_buffer args[LS_WIDEN_ARGS] = { [LS_WIDEN_ROUNDED] = ls_buffer_at(a->rounded, 0, a->rounded->bytes),
        [LS_WIDEN_GRAD] = ls_param_store_range(a->grad, 0, a->trained_elements, sizeof(float)) };
    ls_plan_run(a->widen, args, (ls_buffer){ 0 }, queue);
}

void ls_param_store_import(ls_param_store *a, int param, const float *values) {
    a->device->api->param_import(a->device, &a->graph->params[param].shape, values, ls_param_store_weight(a, param));
}

void ls_param_store_export(const ls_param_store *a, int param, float *values) {
    a->device->api->param_export(a->device, &a->graph->params[param].shape, ls_param_store_weight(a, param), values);
}

// Calls visit with every parameter's canonical values, in graph order.
static ls_status visit_params(ls_param_store *a, void (*visit)(ls_param_store *, int, float *, void *), void *context) {
    int64_t largest = 0;
    for (int p = 0; p < a->graph->param_count; p++) {
        int64_t count = ls_param_count(&a->graph->params[p].shape);
        if (count > largest) largest = count;
    }
    float *values;
    LS_TRY(ls_try_new(&values, largest, sizeof *values, "parameter of %lld elements", (long long)largest));
    for (int p = 0; p < a->graph->param_count; p++) visit(a, p, values, context);
    free(values);
    return LS_SUCCESS;
}

static void init_one(ls_param_store *a, int p, float *values, void *context) {
    ls_graph_init_param(a->graph, p, *(const uint64_t *)context, values);
    ls_param_store_import(a, p, values);
}

ls_status ls_param_store_init(ls_param_store *a, uint64_t seed) {
    return visit_params(a, init_one, &seed);
}

static void hash_one(ls_param_store *a, int p, float *values, void *context) {
    uint64_t *hash = context;
    ls_param_store_export(a, p, values);
    *hash = ls_hash_more(*hash, values, (size_t)ls_param_count(&a->graph->params[p].shape) * sizeof *values);
}

ls_status ls_param_store_hash(ls_param_store *a, uint64_t *hash) {
    *hash = 0;
    return visit_params(a, hash_one, hash);
}
