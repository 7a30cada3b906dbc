// update_plan.c - makes everything that an update needs, before the first update: buckets, plans, records, the reducer.
#include "base/memory.h"
#include "program/compile.h"
#include "train/update_internal.h"

#include <assert.h>

static ls_status new_plan(ls_update *u, const ls_op_desc *desc, ls_plan **out) {
    LS_TRY(u->device->api->plan_new(u->device, desc, out));
    if ((*out)->workspace_bytes > u->workspace_bytes) u->workspace_bytes = (*out)->workspace_bytes;
    return LS_SUCCESS;
}

static ls_status new_control_memory(ls_update *u) {
    const ls_device_api *api = u->device->api;
    const size_t depth = (size_t)u->depth;
    LS_TRY(api->slab_new(
        u->device, LS_MEMORY_DEVICE, LS_REPORT_BYTES + LS_RECORD_BYTES, "update control", &u->device_control));
    u->state = ls_buffer_at(u->device_control, 0, sizeof(ls_train_state));
    u->result = ls_buffer_at(u->device_control, LS_RECORD_BYTES, sizeof(ls_micro_result));
    u->stamps = ls_buffer_at(u->device_control, 2 * LS_RECORD_BYTES, LS_STAMPS * sizeof(int64_t));
    u->window = ls_buffer_at(u->device_control, LS_REPORT_BYTES, sizeof(ls_update_input));
    const size_t windows = 2 * LS_RECORD_BYTES, reports = windows + depth * LS_RECORD_BYTES;
    LS_TRY(api->slab_new(
        u->device, LS_MEMORY_PINNED, reports + depth * LS_REPORT_BYTES, "update control (host)", &u->host_control));
    u->windows = ls_buffer_at(u->host_control, windows, depth * LS_RECORD_BYTES);
    u->reports = ls_buffer_at(u->host_control, reports, depth * LS_REPORT_BYTES);
    u->host_state = ls_buffer_at(u->host_control, 0, sizeof(ls_train_state));
    u->host_result = ls_buffer_at(u->host_control, LS_RECORD_BYTES, sizeof(ls_micro_result));
    for (int i = 0; i < u->depth; i++) LS_TRY(api->event_new(u->device, 0, &u->reported[i]));
    return LS_SUCCESS;
}

// Decides which buckets are summed together. Each bucket has its own sum, except that one sum covers the last trained
// bucket and the statistics, if both have the same type: they lie side by side and are complete at about the same time.
static void number_sums(ls_update *u) {
    const int last = u->trained_buckets - 1,
              joined = last >= 0 && u->bucket_count > u->trained_buckets && !u->store->wire;
    for (int b = 0; b < u->bucket_count; b++) u->buckets[b].sum = joined && b == last ? -1 : u->sum_count++;
}

// Divides the trained tensors into buckets, in the order in which their gradients are completed. The statistics are one
// more bucket, which is complete at the end of the backward pass.
static void cut_buckets(ls_update *u, size_t bucket_bytes) {
    const ls_param_store *a = u->store;
    size_t trained = (size_t)a->trained_params;
    int64_t *offsets = ls_new(trained + 1, sizeof *offsets, "buckets of %zu tensors", trained);
    int64_t *elements = ls_new(trained + 1, sizeof *elements, "buckets of %zu tensors", trained);
    ls_range *ranges = ls_new(trained + 1, sizeof *ranges, "buckets of %zu tensors", trained);
    u->buckets = ls_new(trained + 1, sizeof *u->buckets, "buckets of %zu tensors", trained);
    for (size_t i = 0; i < trained; i++) {
        offsets[i] = a->offset[a->order[i]];
        elements[i] = a->elements[a->order[i]];
    }
    u->trained_buckets = ls_buckets_cut(
        offsets, elements, (int)trained, u->ordered ? sizeof(int64_t) : sizeof(float), bucket_bytes, ranges);
    int param = 0;
    for (int b = 0; b < u->trained_buckets; b++) {
        int64_t end = ranges[b].first + ranges[b].count;
        while (param < (int)trained && offsets[param] < end) param++;
        u->buckets[b] = (ls_planned_bucket){ .range = ranges[b], .end_param = param };
    }
    u->bucket_count = u->trained_buckets;
    if (a->statistic_elements)
        u->buckets[u->bucket_count++] =
            (ls_planned_bucket){ .range = { a->trained_elements, a->statistic_elements }, .end_param = -1 };
    number_sums(u);
    free(offsets);
    free(elements);
    free(ranges);
}

static ls_status plan_bucket(ls_update *u, const ls_config *cfg, int index) {
    ls_planned_bucket *b = &u->buckets[index];
    int statistics = index >= u->trained_buckets;
    if (u->store->rounded && !statistics) {
        const ls_op_desc widen = { .op = LS_OP_WIDEN,
            .layer = "gradients",
            .attr.flat = { .count = b->range.count, .storage = u->store->storage } };
        LS_TRY(new_plan(u, &widen, &b->widen));
    }
    if (u->store->wire && !statistics) {
        ls_op_desc cast = {
            .op = LS_OP_CAST, .layer = "gradients", .attr.flat = { .count = b->range.count, .storage = LS_BF16 }
        };
        return new_plan(u, &cast, &b->cast);
    }
    if (!u->ordered) return LS_SUCCESS;
    ls_op_desc desc = { .layer = "gradients",
        .attr.flat = { .count = b->range.count,
            .first = b->range.first,
            .unscaled = statistics,
            .mean_of = ls_gradient_mean_of(cfg),
            .fraction_bits = statistics ? LS_STATISTIC_FRACTION_BITS : LS_GRADIENT_FRACTION_BITS } };
    desc.op = LS_OP_TO_FIXED_POINT;
    LS_TRY(new_plan(u, &desc, &b->fix));
    desc.op = LS_OP_FROM_FIXED_POINT;
    return new_plan(u, &desc, &b->unfix);
}

static ls_status plan_begin(ls_update *u) {
    const ls_op_desc desc = { .op = LS_OP_UPDATE_BEGIN,
        .layer = "update",
        .attr.flat = { .count = (int64_t)(ls_update_sums(u)->bytes / sizeof(float)) } };
    return new_plan(u, &desc, &u->begin);
}

static int reduces(const ls_update *u) {
    return ls_comm_get_info(u->comm)->world_size > 1 || u->collective;
}

// Plans step control, which reads the whole gradient at once, so that its result does not depend on the division into
// buckets. If no work lies between the last backward pass and step control, step control also adds that pass's 16-bit
// gradients.
static ls_status plan_step_control(ls_update *u, const ls_config *cfg) {
    const ls_param_store *store = u->store;
    const int widens = store->rounded && !store->wire && !u->ordered && !reduces(u);
    ls_op_desc desc = { .op = LS_OP_STEP_CONTROL,
        .layer = "update",
        .attr.step_control = { .count = store->trained_elements,
            .storage = widens ? store->storage : LS_F32,
            .mean_of = ls_gradient_mean_of(cfg),
            .clip_norm = (float)cfg->train_clip_norm,
            .dynamic = u->store->storage == LS_F16,
            .growth = (float)cfg->loss_scale_growth,
            .backoff = (float)cfg->loss_scale_backoff,
            .minimum = (float)cfg->loss_scale_minimum,
            .maximum = (float)cfg->loss_scale_maximum,
            .growth_interval = (int)cfg->loss_scale_growth_interval,
            .max_skips = (int)cfg->loss_scale_max_skips,
            .records = u->depth } };
    LS_TRY(new_plan(u, &desc, &u->step_control));
    if (!u->store->wire) return LS_SUCCESS;
    desc = (ls_op_desc){ .op = LS_OP_CAST_TO_F32,
        .layer = "gradients",
        .attr.flat = { .count = u->store->trained_elements, .storage = LS_BF16 } };
    return new_plan(u, &desc, &u->cast_to_f32);
}

static ls_status plan_average(ls_update *u) {
    const ls_param_store *a = u->store;
    const ls_op_desc average = { .op = LS_OP_AVERAGE,
        .layer = "average of weights",
        .attr.flat = { .count = a->trained_elements + a->statistic_elements,
            .write_back = a->options.rules->average == LS_AVERAGE_LOOKAHEAD } };
    const ls_op_desc cast = { .op = LS_OP_CAST,
        .layer = "working weights",
        .attr.flat = { .count = a->trained_elements, .storage = a->storage } };
    LS_TRY(new_plan(u, &average, &u->average));
    return a->copy ? new_plan(u, &cast, &u->cast_weights) : LS_SUCCESS;
}

// Returns the memory that ranks sum for a bucket: fixed point in ordered mode, otherwise gradients in bf16 or fp32.
// Statistics are never in bf16. index: a bucket that has its own sum; the previous bucket may be part of it.
static ls_bucket summed(const ls_update *u, int index) {
    const ls_planned_bucket *b = &u->buckets[index];
    const ls_range *from = index > 0 && b[-1].sum < 0 ? &b[-1].range : &b->range;
    const int64_t count = b->range.first + b->range.count - from->first;
    int wire = u->store->wire && index < u->trained_buckets;
    ls_slab *slab = u->ordered ? u->store->fixed : wire ? u->store->wire : u->store->grad;
    ls_dtype dtype = u->ordered ? LS_I64 : wire ? LS_BF16 : LS_F32;
    return (ls_bucket){ ls_param_store_range(slab, from->first, count, ls_dtype_bytes(dtype)), count, dtype };
}

static ls_status adopt_slabs(ls_update *u) {
    ls_slab *slabs[] = { u->store->grad, u->store->fixed, u->store->wire };
    for (size_t i = 0; i < sizeof slabs / sizeof *slabs; i++)
        if (slabs[i]) LS_TRY(u->device->api->collective->register_memory(u->collective, slabs[i]));
    return LS_SUCCESS;
}

static ls_status new_reducer(ls_update *u, const ls_config *cfg) {
    if (!reduces(u)) return LS_SUCCESS;
    ls_status status = u->collective ? adopt_slabs(u) : LS_SUCCESS;
    // the other ranks call ls_comm_agree in ls_reducer_new
    if (ls_failed(status)) return ls_comm_agree(u->comm, status, NULL);
    ls_bucket *buckets = ls_new(u->sum_count, sizeof *buckets, "reducer of %d buckets", u->sum_count);
    for (int b = 0; b < u->bucket_count; b++)
        if (u->buckets[b].sum >= 0) buckets[u->buckets[b].sum] = summed(u, b);
    ls_reducer_options options = { .comm = u->comm,
        .device = u->device,
        .queue = u->queue,
        .collective = u->collective,
        .buckets = buckets,
        .bucket_count = u->sum_count,
        .overlap = cfg->dist_overlap,
        .stamps = u->stamps };
    status = ls_reducer_new(&options, &u->reducer);
    free(buckets);
    return status;
}

static ls_status start_state(ls_update *u, const ls_config *cfg) {
    float scale = u->store->storage == LS_F16 ? (float)ls_config_first_loss_scale(cfg) : 1.0f;
    return ls_update_write_state(u, &(ls_train_state){ .loss_scale = scale, .bad_element = -1 });
}

// Makes the parts of an update that a rank makes without the other ranks.
static ls_status prepare(ls_update *u, const ls_config *cfg) {
    cut_buckets(u, ls_buckets_bytes(cfg, u->collective != NULL));
    LS_TRY(new_control_memory(u));
    for (int b = 0; b < u->bucket_count; b++) LS_TRY(plan_bucket(u, cfg, b));
    LS_TRY(plan_begin(u));
    LS_TRY(plan_step_control(u, cfg));
    if (u->store->average) LS_TRY(plan_average(u));
    LS_TRY(ls_optimizer_new(cfg, u->store, u->state, &u->optimizer));
    if (u->optimizer->workspace_bytes > u->workspace_bytes) u->workspace_bytes = u->optimizer->workspace_bytes;
    return LS_SUCCESS;
}

static ls_status make(ls_update *u, const ls_config *cfg) {
    LS_TRY(ls_comm_agree(u->comm, prepare(u, cfg), NULL)); // a reducer is made by all ranks or by none
    LS_TRY(new_reducer(u, cfg));
    LS_TRY(ls_graph_capture_new(u->queue, u->device->api, cfg->device_graphs, &u->capture));
    if (u->workspace_bytes)
        LS_TRY(u->device->api->slab_new(
            u->device, LS_MEMORY_DEVICE, u->workspace_bytes, "update workspace", &u->workspace));
    return start_state(u, cfg);
}

ls_status ls_update_new(const ls_config *cfg, ls_param_store *store, ls_comm *comm, ls_collective *collective,
    ls_queue *queue, int depth, ls_update **out) {
    assert(depth >= 1 && depth <= LS_UPDATE_DEPTH_MAX);
    ls_update *u = ls_new(1, sizeof *u, "update");
    *u = (ls_update){ .device = store->device,
        .store = store,
        .comm = comm,
        .collective = collective,
        .queue = queue,
        .depth = depth,
        .ordered = cfg->run_deterministic,
        .meets_in_pass = ls_config_syncs_norm(cfg, ls_comm_get_info(comm)->world_size),
        .loss_is_sum = cfg->train_loss_reduction == LS_LOSS_SUM };
    ls_work_clock_begin(&u->clock, u->device);
    ls_status status = make(u, cfg);
    return LS_GIVE_OR_FREE(status, u, out, ls_update_free);
}

static void free_plan(ls_update *u, ls_plan *plan) {
    if (plan) u->device->api->plan_free(plan);
}

void ls_update_free(ls_update *u) {
    if (!u) return;
    ls_graph_capture_free(u->capture);
    for (int i = 0; i < u->depth; i++)
        if (u->reported[i]) u->device->api->event_free(u->reported[i]);
    ls_reducer_free(u->reducer);
    ls_optimizer_free(u->optimizer);
    for (int b = 0; b < u->bucket_count; b++) {
        free_plan(u, u->buckets[b].fix);
        free_plan(u, u->buckets[b].unfix);
        free_plan(u, u->buckets[b].cast);
        free_plan(u, u->buckets[b].widen);
    }
    free_plan(u, u->begin);
    free_plan(u, u->step_control);
    free_plan(u, u->cast_to_f32);
    free_plan(u, u->average);
    free_plan(u, u->cast_weights);
    ls_slab *slabs[] = { u->device_control, u->host_control, u->workspace };
    for (size_t s = 0; s < sizeof slabs / sizeof *slabs; s++)
        if (slabs[s]) u->device->api->slab_free(slabs[s]);
    free(u->buckets);
    free(u);
}

const ls_optimizer *ls_update_optimizer(const ls_update *u) {
    return u->optimizer;
}

size_t ls_update_device_bytes(const ls_update *u) {
    return u->device_control->bytes + (u->workspace ? u->workspace->bytes : 0);
}

void ls_update_inputs(const ls_update *u, ls_program_inputs *inputs) {
    inputs->buffer[LS_INPUT_STATE] = u->state;
    inputs->buffer[LS_INPUT_RESULT] = u->result;
}
