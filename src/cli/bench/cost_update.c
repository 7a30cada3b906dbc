#include "cli/bench/cost_update.h"

#include "base/memory.h"
#include "cli/bench/cost_operators.h"
#include "config/values.h"
#include "data/dataset.h"
#include "dist/reduce/reducer.h"

enum { SAMPLES_WITHOUT_END = 1 << 30, RECORD_BYTES = 128, PATH_BYTES = 2048, GPU_CHANNELS = 8 };

// --- the network ----------------------------------------------------------------------------------

#define UNPACK(c, h, w) \
    { c, h, w }
static const struct {
    ls_chw shape;
    int classes;
} known[LS_DATASET_COUNT] = {
#define X(NAME, word, shape, open, classes, ...) [LS_DATASET_##NAME] = { UNPACK shape, classes },
#include "config/datasets.def"
};

// Pictures of a kind that says itself what they are need not be there.
static ls_status find_data(void *context, ls_chw *shape, int *classes) {
    const ls_config *cfg = context;
    *shape = known[cfg->data_dataset].shape;
    *classes = known[cfg->data_dataset].classes;
    if (shape->c && *classes) return LS_SUCCESS;
    ls_dataset *dataset;
    LS_TRY(ls_dataset_open(cfg, LS_SPLIT_TRAIN, &dataset));
    *shape = ls_dataset_get_info(dataset)->shape;
    *classes = ls_dataset_get_info(dataset)->classes;
    ls_dataset_free(dataset);
    return LS_SUCCESS;
}

static ls_status read_network(ls_cost_update *u) {
    char path[PATH_BYTES];
    ls_resolutions r;
    LS_TRY(ls_config_network(u->cfg, path, sizeof path));
    LS_TRY(ls_graph_read_for(path, &(ls_graph_data){ find_data, (void *)u->cfg }, &u->graph));
    u->parameters = ls_graph_trained_parameters(u->graph);
    u->picture = u->graph->input;
    LS_TRY(ls_parse_resolutions("train.resolution", u->cfg->train_resolution, &r));
    if (r.count && (r.step[0].h != u->picture.h || r.step[0].w != u->picture.w))
        LS_TRY(ls_graph_resize(u->graph, r.step[0].h, r.step[0].w, &u->resized));
    return ls_param_rules_new(u->cfg, u->graph, &u->rules);
}

// --- the device -----------------------------------------------------------------------------------

static int padded(int channels) {
    return (channels + GPU_CHANNELS - 1) / GPU_CHANNELS * GPU_CHANNELS;
}

// As device/cuda/layout.c lays them out.
static size_t gpu_activation_bytes(const ls_device *device, ls_nchw s, ls_dtype storage) {
    (void)device;
    return (size_t)s.n * (size_t)s.h * (size_t)s.w * (size_t)padded(s.c) * ls_dtype_bytes(storage);
}

static size_t gpu_param_elements(const ls_device *device, const ls_param_shape *p) {
    (void)device;
    const int inside = p->kind == LS_PARAM_VECTOR || p->groups > 1 ? p->dim[1] : padded(p->dim[1]);
    return (size_t)padded(p->dim[0]) * (size_t)inside * (size_t)(p->dim[2] * p->dim[3]);
}

static ls_status open_device(ls_cost_update *u) {
    const ls_device_options options = {
        .threads = u->is_gpu ? 1 : ls_session_threads(u->cfg, 1),
        .winograd = ls_config_choice("device.winograd", u->cfg->device_winograd),
    };
    const char *unused;
    LS_TRY(ls_device_open(u->is_gpu ? "null" : "cpu", &options, &u->device, &unused));
    if (!u->is_gpu) return u->device->api->check_precision(u->device, ls_config_storage(u->cfg));
    u->layouts = *u->device->api;
    u->layouts.activation_bytes = gpu_activation_bytes;
    u->layouts.param_elements = gpu_param_elements;
    u->layouts.fusions = ~(unsigned)LS_FUSES_CONCAT_ADD; // whatever a GPU joins
    u->device->api = &u->layouts;
    return LS_SUCCESS;
}

static ls_status compile(ls_cost_update *u) {
    const ls_config *cfg = u->cfg;
    const int several = u->ranks > 1;
    const ls_param_store_options options = { .storage = ls_config_storage(cfg),
        .rules = u->rules,
        .state_tensors = u->rules->kept,
        .averaged = u->rules->average != LS_AVERAGE_OFF,
        .ordered = cfg->run_deterministic,
        .wire = cfg->dist_reduce_dtype == LS_REDUCE_DTYPE_BF16 && several,
        .reduced = several };
    LS_TRY(ls_param_store_new(u->device, u->graph, &options, &u->store));
    ls_compile_options program = ls_compile_options_of(cfg, u->batches.micro_batch);
    program.indexed = cfg->data_loader == LS_LOADER_RESIDENT;
    program.sync_norm = ls_config_syncs_norm(cfg, u->ranks);
    program.graph = u->resized;
    LS_TRY(ls_compile(u->store, &program, &u->program));
    return ls_optimizer_new(cfg, u->store, (ls_buffer){ .bytes = RECORD_BYTES }, &u->optimizer);
}

// --- tensors: numbers and sizes -------------------------------------------------------------------

enum { FLAT = LS_REF_PARAM + 1, RECORDS }; // beside ls_ref_kind: a slab of the store as a whole; small things
enum { GRAD, STATE, WEIGHT, COPY, FIXED, WIRE, ROUNDED, STATISTICS }; // slabs

static int64_t number_of(int kind, int copy, int index) {
    return ((int64_t)kind << 40) + ((int64_t)copy << 32) + index;
}

// What operators read of an input that changes from run to run.
static double input_bytes(const ls_cost_update *u, int input) {
    const double samples = u->batches.micro_batch;
    switch (input) {
    case LS_INPUT_PIXELS:
        return samples * (double)ls_chw_count(u->picture);
    case LS_INPUT_LABELS:
    case LS_INPUT_INDEX:
        return samples * sizeof(int32_t);
    case LS_INPUT_AUGMENT:
        return samples * sizeof(ls_augment_sample);
    case LS_INPUT_TABLE:
        return 256.0 * sizeof(float) * u->picture.c;
    case LS_INPUT_CLASS_WEIGHTS:
        return u->cfg->train_class_weights[0] ? (double)sizeof(float) * u->graph->classes : 0;
    default:
        return RECORD_BYTES;
    }
}

static double param_bytes(const ls_cost_update *u, const ls_ref *ref) {
    const int stored = ref->copy == LS_PARAM_WORKING || ref->copy == LS_PARAM_ROUNDED;
    const size_t element = stored ? ls_dtype_bytes(u->store->storage) : sizeof(float);
    return (double)u->store->elements[ref->index] * (double)element;
}

static void add_arg(ls_cost_item *item, int64_t tensor, double bytes) {
    if (bytes > 0) item->args[item->arg_count] = (ls_cost_arg){ tensor, bytes, 1 };
    item->arg_count += bytes > 0;
}

// --- items ----------------------------------------------------------------------------------------

static ls_status add_item(ls_cost_update *u, ls_cost_item item) {
    LS_TRY(LS_GROW(u->items, u->item_count, "items of an update"));
    u->items[u->item_count++] = item;
    return LS_SUCCESS;
}

static void describe(const ls_cost_update *u, const ls_op_desc *desc, const char *algorithm, ls_cost_item *item) {
    item->op = ls_op_name(desc->op);
    item->layer = desc->layer;
    item->kind = ls_op_kind_of(desc->op);
    item->flops = ls_op_flops(desc);
    if (u->is_gpu)
        ls_cost_on_gpu(desc, &u->norm_gpu, item);
    else
        ls_cost_on_cpu(desc, algorithm, item);
}

// Arguments keep their places, absent ones with no bytes: the operators' table counts passes by them.
static ls_status add_instruction(ls_cost_update *u, const ls_instruction *instruction) {
    const ls_plan *plan = instruction->plan;
    ls_cost_item item = { .arg_count = instruction->arg_count };
    for (int a = 0; a < instruction->arg_count; a++) {
        const ls_ref *ref = &instruction->refs[a];
        ls_cost_arg *arg = &item.args[a];
        arg->tensor = number_of((int)ref->kind, ref->kind == LS_REF_PARAM ? (int)ref->copy : 0, ref->index);
        if (ref->kind == LS_REF_INPUT) arg->bytes = input_bytes(u, ref->index);
        if (ref->kind == LS_REF_SLOT)
            arg->bytes = (double)ls_buffer_planner_slot_bytes(u->program->planner, ref->index);
        if (ref->kind == LS_REF_PARAM) arg->bytes = param_bytes(u, ref);
    }
    if (plan->desc.op == LS_OP_CONV_BACKWARD_WEIGHT && plan->desc.attr.conv.rounds)
        item.args[LS_CONV_BACKWARD_WEIGHT_GRAD_WEIGHT].bytes = 0; // all of it is in the other part
    item.reduced_bytes = u->ranks > 1 ? (double)instruction->reduce_count * sizeof(double) : 0;
    describe(u, &plan->desc, plan->algorithm, &item);
    return add_item(u, item);
}

static ls_cost_item once(int after) {
    return (ls_cost_item){ .once = 1, .after = after };
}

// An operator over whole slabs.
static ls_status add_flat(ls_cost_update *u, ls_op op, const char *layer, int64_t count, ls_cost_item item) {
    const ls_op_desc desc = { .op = op, .layer = layer, .attr.flat = { .count = count } };
    describe(u, &desc, "own", &item);
    return add_item(u, item);
}

// What no operator does: a memory is set or copied.
static ls_status add_memory(ls_cost_update *u, const char *op, const char *layer, int launches, ls_cost_item item) {
    const ls_op_desc as = { .op = LS_OP_CAST, .layer = layer, .attr.flat = { .count = 1 } }; // as fast
    describe(u, &as, "own", &item);
    item.op = op;
    item.kind = LS_OP_KIND_GRADIENTS;
    item.launches = launches;
    item.flops = item.work = 0;
    return add_item(u, item);
}

static double slab_bytes(const ls_cost_update *u, int slab, int64_t count) {
    const double sizes[] = {
        [FIXED] = sizeof(int64_t), [WIRE] = 2, [ROUNDED] = 2, [COPY] = (double)ls_dtype_bytes(u->store->storage)
    };
    const int other = slab == FIXED || slab == WIRE || slab == ROUNDED || slab == COPY;
    return (double)count * (other ? sizes[slab] : (double)sizeof(float));
}

static void add_slab(const ls_cost_update *u, ls_cost_item *item, int slab, int index, int64_t count) {
    add_arg(item, number_of(FLAT, slab, index), slab_bytes(u, slab, count));
}

// The update's record comes in; gradients (in ordered mode their fixed-point sums) and the micro-batches' result are set to zero.
static ls_status add_begin(ls_cost_update *u) {
    const ls_param_store *a = u->store;
    const int64_t all = a->trained_elements + a->statistic_elements;
    ls_cost_item begin = once(0);
    add_arg(&begin, number_of(RECORDS, 0, 0), RECORD_BYTES);
    add_slab(u, &begin, a->options.ordered ? FIXED : GRAD, 0, all);
    return add_flat(u, LS_OP_UPDATE_BEGIN, "update", all, begin);
}

// With one rank control does it for the last micro-batch, else it is done by buckets, each as it is complete.
static int control_widens(const ls_cost_update *u) {
    return u->store->sizes.rounded && !u->store->options.ordered && !u->store->options.wire && u->ranks == 1;
}

static ls_status add_widening(ls_cost_update *u) {
    const ls_param_store *a = u->store;
    const int trained_buckets = u->bucket_count - (a->statistic_elements > 0), others = u->batches.per_rank - 1;
    ls_cost_item widen = { 0 };
    if (!a->sizes.rounded || (control_widens(u) && !others)) return LS_SUCCESS;
    if (control_widens(u)) { // of all micro-batches but the last
        widen = once(0);
        add_slab(u, &widen, ROUNDED, 0, 2 * others * a->trained_elements);
        add_slab(u, &widen, GRAD, 0, 2 * others * a->trained_elements);
        LS_TRY(add_flat(u, LS_OP_WIDEN, "gradients", others * a->trained_elements, widen));
        u->items[u->item_count - 1].launches = others;
        return LS_SUCCESS;
    }
    add_slab(u, &widen, ROUNDED, 0, 2 * a->trained_elements); // read and written
    add_slab(u, &widen, GRAD, 0, 2 * a->trained_elements);
    LS_TRY(add_flat(u, LS_OP_WIDEN, "gradients", a->trained_elements, widen));
    if (a->options.ordered || u->ranks > 1) u->items[u->item_count - 1].launches = trained_buckets;
    return LS_SUCCESS;
}

static ls_status add_micro(ls_cost_update *u) {
    const ls_param_store *a = u->store;
    const int64_t all = a->trained_elements + a->statistic_elements;
    ls_cost_item zero = { 0 }, fix = { 0 };
    add_slab(u, &zero, GRAD, 0, all);
    add_slab(u, &fix, GRAD, 0, all);
    add_slab(u, &fix, FIXED, 0, all);
    if (a->options.ordered) LS_TRY(add_memory(u, "gradient to zero", "gradients", 1, zero));
    for (int i = 0; i < u->program->count; i++) LS_TRY(add_instruction(u, &u->program->instructions[i]));
    LS_TRY(add_widening(u));
    if (!a->options.ordered) return LS_SUCCESS;
    LS_TRY(add_flat(u, LS_OP_TO_FIXED_POINT, "gradients", all, fix));
    if (u->is_gpu) u->items[u->item_count - 1].launches = u->bucket_count + (a->statistic_elements > 0);
    return LS_SUCCESS;
}

static ls_status add_optimizer(ls_cost_update *u) {
    for (int s = 0; s < u->optimizer->step_count; s++) {
        const ls_plan *plan = u->optimizer->steps[s].plan;
        const int kept = ls_op_args(plan->desc.op) - LS_STEP_OTHER_ARGS;
        int64_t count = 0, statistics = 0; // of segments that are not passed over
        const ls_optimizer_attr *attr = &plan->desc.attr.optimizer;
        for (const ls_step_segment *of = attr->segments; of < attr->segments + attr->segment_count; of++) {
            if (of->rate >= 0) count += of->count;
            if (of->rate == LS_SEGMENT_STATISTICS) statistics += of->count;
        }
        ls_cost_item item = once(1);
        add_slab(u, &item, GRAD, s, count);
        for (int k = 0; k < kept; k++)
            add_slab(u, &item, STATE, s * LS_STEP_KEPT_MAX + k, 2 * count); // read and written
        add_slab(u, &item, WEIGHT, s, 2 * count);
        if (u->store->storage != LS_F32) add_slab(u, &item, COPY, s, count);
        add_slab(u, &item, STATISTICS, 0, 3 * statistics); // sums; running ones, read and written
        describe(u, &plan->desc, plan->algorithm, &item);
        LS_TRY(add_item(u, item));
    }
    return LS_SUCCESS;
}

// From the summed gradient on.
static ls_status add_end(ls_cost_update *u) {
    const ls_param_store *a = u->store;
    const int64_t trained = a->trained_elements, all = trained + a->statistic_elements;
    ls_cost_item unfix = once(1), widen = once(1), control = once(1);
    add_slab(u, &unfix, FIXED, 0, all);
    add_slab(u, &unfix, GRAD, 0, all);
    add_slab(u, &widen, WIRE, 0, trained);
    add_slab(u, &widen, GRAD, 0, trained);
    add_slab(u, &control, GRAD, 0, control_widens(u) ? 2 * trained : trained); // read, or read and written
    if (control_widens(u)) add_slab(u, &control, ROUNDED, 0, 2 * trained);
    add_arg(&control, number_of(RECORDS, 0, 0), RECORD_BYTES);
    add_arg(&control, number_of(RECORDS, 0, 1), 3 * RECORD_BYTES); // the report
    if (a->options.ordered) LS_TRY(add_flat(u, LS_OP_FROM_FIXED_POINT, "gradients", all, unfix));
    if (a->options.ordered && u->is_gpu)
        u->items[u->item_count - 1].launches = u->bucket_count + (a->statistic_elements > 0);
    if (a->options.wire) LS_TRY(add_flat(u, LS_OP_CAST_TO_F32, "gradients", trained, widen));
    const ls_op_desc decides = {
        .op = LS_OP_STEP_CONTROL, .layer = "update", .attr.step_control = { .count = trained }
    };
    describe(u, &decides, "own", &control);
    LS_TRY(add_item(u, control));
    return add_optimizer(u);
}

// --- buckets --------------------------------------------------------------------------------------

static int items_until(const ls_cost_update *u, int end_param) {
    for (int i = 0; i < u->program->count; i++)
        if (u->program->instructions[i].completes >= end_param) return u->first + i + 1;
    return u->first + u->program->count;
}

static size_t bucket_bytes(const ls_cost_update *u, size_t element) {
    const double share = (double)u->cfg->train_global_batch / u->ranks;
    return ls_buckets_bytes(u->cfg, &(ls_bucket_facts){ .ranks = u->ranks,
                                        .hosts = u->hosts,
                                        .on_queue = u->is_gpu,
                                        .bytes = (double)u->store->trained_elements * (double)element,
                                        .flops = share * ls_graph_training_flops(u->graph) });
}

// Statistics travel with the last bucket where both are of one type.
static void add_statistics(ls_cost_update *u, double element) {
    const double bytes = (double)u->store->statistic_elements * element;
    const int end = u->first + u->program->count, joined = u->bucket_count > 0 && !u->store->options.wire;
    if (bytes > 0 && joined) u->buckets[u->bucket_count - 1].bytes += bytes;
    if (bytes > 0 && joined) u->buckets[u->bucket_count - 1].after = end;
    if (bytes > 0 && !joined) u->buckets[u->bucket_count++] = (ls_cost_bucket){ bytes, end };
}

// As update_plan.c cuts them.
static ls_status cut_buckets(ls_cost_update *u) {
    const ls_param_store *a = u->store;
    const int trained = a->trained_params;
    const size_t cut_by = a->options.ordered ? sizeof(int64_t) : sizeof(float);
    const double element = a->options.wire ? 2 : (double)cut_by;
    int64_t *offsets = NULL, *elements = NULL;
    ls_range *ranges = NULL;
    ls_status status;
    LS_TRY_GOTO(LS_NEW(offsets, trained + 1, "buckets"));
    LS_TRY_GOTO(LS_NEW(elements, trained + 1, "buckets"));
    LS_TRY_GOTO(LS_NEW(ranges, trained + 1, "buckets"));
    LS_TRY_GOTO(LS_NEW(u->buckets, trained + 1, "buckets"));
    for (int i = 0; i < trained; i++) {
        offsets[i] = a->offset[a->order[i]];
        elements[i] = a->elements[a->order[i]];
    }
    u->bucket_bytes = (double)bucket_bytes(u, cut_by);
    u->bucket_count = ls_buckets_cut(offsets, elements, trained, cut_by, (size_t)u->bucket_bytes, ranges);
    for (int b = 0, param = 0; b < u->bucket_count; b++) {
        while (param < trained && offsets[param] < ranges[b].first + ranges[b].count) param++;
        u->buckets[b] = (ls_cost_bucket){ (double)ranges[b].count * element, items_until(u, param) };
    }
    add_statistics(u, (double)cut_by);
done:
    free(offsets);
    free(elements);
    free(ranges);
    return status;
}

// bf16 between ranks: each bucket is narrowed when it is complete; the statistics are not.
static ls_status add_narrowing(ls_cost_update *u) {
    if (!u->store->options.wire) return LS_SUCCESS;
    ls_cost_item narrow = once(0);
    add_slab(u, &narrow, GRAD, 0, u->store->trained_elements);
    add_slab(u, &narrow, WIRE, 0, u->store->trained_elements);
    LS_TRY(add_flat(u, LS_OP_CAST, "gradients", u->store->trained_elements, narrow));
    if (u->is_gpu) u->items[u->item_count - 1].launches = u->bucket_count - (u->store->statistic_elements > 0);
    return LS_SUCCESS;
}

// --- the whole ------------------------------------------------------------------------------------

static ls_status fill(ls_cost_update *u) {
    LS_TRY(ls_batches_plan(u->cfg, SAMPLES_WITHOUT_END, 0, u->ranks, &u->batches));
    LS_TRY(read_network(u));
    LS_TRY(open_device(u));
    LS_TRY(compile(u));
    LS_TRY(add_begin(u));
    u->first = u->item_count + u->store->options.ordered;
    LS_TRY(cut_buckets(u));
    LS_TRY(add_micro(u));
    LS_TRY(add_narrowing(u));
    return add_end(u);
}

ls_status ls_cost_update_new(const ls_config *cfg, int ranks, int hosts, const ls_cost_gpu *gpu, ls_cost_update **out) {
    ls_cost_update *u;
    LS_TRY(LS_NEW(u, 1, "an update's cost"));
    u->cfg = cfg;
    u->ranks = ranks;
    u->hosts = hosts;
    u->is_gpu = gpu != NULL;
    if (gpu) { // alone: as train/trainer.c has it
        u->norm_gpu = (ls_cuda_norm_gpu){ .multiprocessors = gpu->units,
            .cluster = gpu->cluster,
            .shared_bytes = (size_t)gpu->shared_kib << 10,
            .alone = ranks == 1 && !cfg->run_deterministic };
    }
    ls_status status = fill(u);
    return LS_GIVE(status, u, out, ls_cost_update_free);
}

void ls_cost_update_free(ls_cost_update *u) {
    if (!u) return;
    ls_optimizer_free(u->optimizer);
    ls_program_free(u->program);
    ls_param_store_free(u->store);
    ls_device_close(u->device);
    ls_param_rules_free(u->rules);
    ls_graph_free(u->resized);
    ls_graph_free(u->graph);
    free(u->buckets);
    free(u->items);
    free(u);
}
