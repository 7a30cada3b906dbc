#include "train/update.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include "train/recorder.h"

enum { RECORD_BYTES = 128, REPORT_BYTES = 3 * RECORD_BYTES }; // every control record begins on a line of its own
_Static_assert(sizeof(ls_train_state) <= RECORD_BYTES && sizeof(ls_micro_result) <= RECORD_BYTES &&
                   sizeof(ls_window_input) <= RECORD_BYTES && LS_STAMPS * sizeof(int64_t) <= RECORD_BYTES,
    "a record is one line");

typedef struct {
    ls_range range;
    int end_param;        // complete when the first end_param parameters of the arena's order are
    ls_plan *fix, *unfix; // ordered mode
    ls_plan *cast;        // trained ones, where gradients travel in bf16
} bucket;

typedef struct {
    ls_plan *plan;
    ls_buffer args[LS_RUNNING_STATS_ARGS];
} running_step;

struct ls_update {
    ls_device *device;
    ls_arenas *arenas;
    ls_comm *comm;
    ls_queue *queue;
    int ordered, loss_is_sum, meets_in_pass; // meets_in_pass: ranks exchange statistics in the midst of a pass
    ls_optimizer *optimizer;
    ls_collective *collective;
    ls_reducer *reducer; // NULL with one rank
    ls_recorder *recorder;
    bucket *buckets; // trained ones, then at most one of statistics
    int bucket_count, trained_buckets;
    running_step *running;
    int running_count;
    ls_plan *stats, *control, *cast, *widen;
    ls_slab *device_control, *host_control, *workspace;
    ls_buffer state, result, stamps, window, partials; // on the device; the first three in a row: a report is one copy
    ls_buffer host_state, host_result;                 // pinned; what the host writes, and reads outside of updates
    size_t host_windows, host_reports;                 // offsets of the rings of pinned records, `depth` each
    ls_event *reported[LS_UPDATE_DEPTH_MAX];
    int depth;
    int64_t begun, retired; // updates
    size_t workspace_bytes;
    ls_timeline *timeline;
    ls_status status; // of what failed in the midst of a program
    // of the update in progress
    int micros_left, micros_done, launched, whole;
};

// --- making
// ---------------------------------------------------------------------------------------------------------------

static ls_status new_plan(ls_update *u, const ls_op_desc *desc, ls_plan **out) {
    LS_TRY(u->device->api->plan_new(u->device, desc, out));
    if ((*out)->workspace_bytes > u->workspace_bytes) u->workspace_bytes = (*out)->workspace_bytes;
    return LS_SUCCESS;
}

static ls_status new_control_memory(ls_update *u) {
    const ls_device_api *api = u->device->api;
    size_t partial_bytes = LS_PARTIALS * sizeof(double), depth = (size_t)u->depth;
    LS_TRY(api->slab_new(
        u->device, LS_MEMORY_DEVICE, 4 * RECORD_BYTES + partial_bytes, "update control", &u->device_control));
    u->state = ls_buffer_at(u->device_control, 0, sizeof(ls_train_state));
    u->result = ls_buffer_at(u->device_control, RECORD_BYTES, sizeof(ls_micro_result));
    u->stamps = ls_buffer_at(u->device_control, 2 * RECORD_BYTES, LS_STAMPS * sizeof(int64_t));
    u->window = ls_buffer_at(u->device_control, REPORT_BYTES, sizeof(ls_window_input));
    u->partials = ls_buffer_at(u->device_control, REPORT_BYTES + RECORD_BYTES, partial_bytes);
    u->host_windows = 2 * RECORD_BYTES;
    u->host_reports = u->host_windows + depth * RECORD_BYTES;
    LS_TRY(api->slab_new(u->device, LS_MEMORY_PINNED, u->host_reports + depth * REPORT_BYTES, "update control (host)",
        &u->host_control));
    u->host_state = ls_buffer_at(u->host_control, 0, sizeof(ls_train_state));
    u->host_result = ls_buffer_at(u->host_control, RECORD_BYTES, sizeof(ls_micro_result));
    for (int i = 0; i < u->depth; i++) LS_TRY(api->event_new(u->device, 0, &u->reported[i]));
    return LS_SUCCESS;
}

// Buckets of trained tensors in completion order; the statistics are one more, complete when the backward pass ends.
static ls_status cut_buckets(ls_update *u, size_t bucket_bytes) {
    const ls_arenas *a = u->arenas;
    size_t trained = (size_t)a->trained_params;
    int64_t *offsets = malloc((trained + 1) * sizeof *offsets), *elements = malloc((trained + 1) * sizeof *elements);
    ls_range *ranges = malloc((trained + 1) * sizeof *ranges);
    u->buckets = calloc(trained + 1, sizeof *u->buckets);
    ls_status status = LS_SUCCESS;
    if (!offsets || !elements || !ranges || !u->buckets) {
        status = ls_fail(LS_DEVICE, "out of host memory for the gradient buckets");
        goto done;
    }
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
        u->buckets[b] = (bucket){ .range = ranges[b], .end_param = param };
    }
    u->bucket_count = u->trained_buckets;
    if (a->statistic_elements)
        u->buckets[u->bucket_count++] =
            (bucket){ .range = { a->trained_elements, a->statistic_elements }, .end_param = -1 };
done:
    free(offsets);
    free(elements);
    free(ranges);
    return status;
}

static ls_status plan_bucket(ls_update *u, int index) {
    bucket *b = &u->buckets[index];
    int statistics = index >= u->trained_buckets;
    if (u->arenas->wire && !statistics) {
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
            .fraction_bits = statistics ? LS_STATISTIC_FRACTION_BITS : LS_GRADIENT_FRACTION_BITS } };
    desc.op = LS_OP_GRAD_FIX;
    LS_TRY(new_plan(u, &desc, &b->fix));
    desc.op = LS_OP_GRAD_UNFIX;
    return new_plan(u, &desc, &b->unfix);
}

// Statistics are of the whole gradient at once: they must not depend on how it was cut for the reduction.
static ls_status plan_control(ls_update *u, const ls_config *cfg) {
    ls_op_desc desc = {
        .op = LS_OP_GRAD_STATS, .layer = "gradients", .attr.flat = { .count = u->arenas->trained_elements }
    };
    LS_TRY(new_plan(u, &desc, &u->stats));
    desc = (ls_op_desc){ .op = LS_OP_CONTROL,
        .layer = "update",
        .attr.control = { .slots = 1,
            .clip_norm = (float)cfg->train_clip_norm,
            .dynamic = u->arenas->storage == LS_F16,
            .growth = (float)cfg->loss_scale_growth,
            .backoff = (float)cfg->loss_scale_backoff,
            .minimum = (float)cfg->loss_scale_minimum,
            .maximum = (float)cfg->loss_scale_maximum,
            .growth_interval = (int)cfg->loss_scale_growth_interval,
            .max_skips = (int)cfg->loss_scale_max_skips } };
    LS_TRY(new_plan(u, &desc, &u->control));
    if (u->arenas->wire) {
        desc = (ls_op_desc){ .op = LS_OP_WIDEN,
            .layer = "gradients",
            .attr.flat = { .count = u->arenas->trained_elements, .storage = LS_BF16 } };
        LS_TRY(new_plan(u, &desc, &u->widen));
    }
    if (u->arenas->storage == LS_F32) return LS_SUCCESS;
    desc = (ls_op_desc){ .op = LS_OP_CAST,
        .layer = "working weights",
        .attr.flat = { .count = u->arenas->trained_elements, .storage = u->arenas->storage } };
    return new_plan(u, &desc, &u->cast);
}

static double share_of(const ls_arenas *a, int position) {
    return a->graph->layers[a->graph->params[a->order[position]].layer].attr.batchnorm2d.momentum;
}

// One running-statistics operator for each run of neighbours with the same momentum.
static ls_status plan_running(ls_update *u) {
    const ls_arenas *a = u->arenas;
    int end = a->graph->param_count;
    u->running = calloc((size_t)(end - a->trained_params) + 1, sizeof *u->running);
    if (!u->running) return ls_fail(LS_DEVICE, "out of host memory for the statistics' table");
    for (int first = a->trained_params, i = first + 1; first < end; i++) {
        if (i < end && share_of(a, i) == share_of(a, first)) continue;
        int64_t from = a->offset[a->order[first]],
                count = a->offset[a->order[i - 1]] + a->elements[a->order[i - 1]] - from;
        ls_op_desc desc = { .op = LS_OP_RUNNING_STATS,
            .layer = "running statistics",
            .attr.flat = { .count = count, .share = (float)share_of(a, first) } };
        running_step *step = &u->running[u->running_count];
        LS_TRY(new_plan(u, &desc, &step->plan));
        u->running_count++;
        step->args[LS_RUNNING_STATS_WINDOW] = u->window;
        step->args[LS_RUNNING_STATS_STATE] = u->state;
        step->args[LS_RUNNING_STATS_SUM] = ls_arenas_range(a->grad, from, count, sizeof(float));
        step->args[LS_RUNNING_STATS_RUNNING] = ls_arenas_range(a->weight, from, count, sizeof(float));
        first = i;
    }
    return LS_SUCCESS;
}

// What ranks sum: fixed point in ordered mode, else gradients in bf16 or fp32; statistics are never in bf16.
static ls_bucket summed(const ls_update *u, int index) {
    const ls_range *r = &u->buckets[index].range;
    int wire = u->arenas->wire && index < u->trained_buckets;
    ls_slab *slab = u->ordered ? u->arenas->fixed : wire ? u->arenas->wire : u->arenas->grad;
    ls_dtype dtype = u->ordered ? LS_I64 : wire ? LS_BF16 : LS_F32;
    return (ls_bucket){ ls_arenas_range(slab, r->first, r->count, ls_dtype_bytes(dtype)), r->count, dtype };
}

static ls_status adopt_slabs(ls_update *u) {
    ls_slab *slabs[] = { u->arenas->grad, u->arenas->fixed, u->arenas->wire };
    for (size_t i = 0; i < sizeof slabs / sizeof *slabs; i++)
        if (slabs[i]) LS_TRY(u->device->api->collective->adopt(u->collective, slabs[i]));
    return LS_SUCCESS;
}

static ls_status new_reducer(ls_update *u, const ls_config *cfg) {
    if (ls_comm_about(u->comm)->world_size == 1 && !u->collective) return LS_SUCCESS;
    if (u->collective) LS_TRY(adopt_slabs(u));
    ls_bucket *buckets = malloc((size_t)u->bucket_count * sizeof *buckets);
    if (!buckets) return ls_fail(LS_DEVICE, "out of host memory for the reducer's buckets");
    for (int b = 0; b < u->bucket_count; b++) buckets[b] = summed(u, b);
    ls_reducer_options options = { .comm = u->comm,
        .device = u->device,
        .queue = u->queue,
        .collective = u->collective,
        .buckets = buckets,
        .bucket_count = u->bucket_count,
        .overlap = cfg->dist_overlap,
        .stamps = u->stamps };
    ls_status status = ls_reducer_new(&options, &u->reducer);
    free(buckets);
    return status;
}

static void start_state(ls_update *u, const ls_config *cfg) {
    ls_train_state *state = ls_buffer_host(u->host_state);
    *state = (ls_train_state){ .loss_scale = u->arenas->storage == LS_F16 ? (float)cfg->loss_scale_initial : 1.0f,
        .bad_element = -1 };
    u->device->api->copy(u->state, u->host_state, sizeof *state, u->queue);
}

static ls_status make(ls_update *u, const ls_config *cfg) {
    LS_TRY(cut_buckets(u, (size_t)cfg->dist_bucket_bytes));
    LS_TRY(new_control_memory(u));
    for (int b = 0; b < u->bucket_count; b++) LS_TRY(plan_bucket(u, b));
    LS_TRY(plan_control(u, cfg));
    LS_TRY(plan_running(u));
    LS_TRY(ls_optimizer_new(cfg, u->arenas, u->state, &u->optimizer));
    LS_TRY(new_reducer(u, cfg));
    LS_TRY(ls_recorder_new(u->queue, u->device->api, cfg->device_graphs, &u->recorder));
    if (u->workspace_bytes)
        LS_TRY(u->device->api->slab_new(
            u->device, LS_MEMORY_DEVICE, u->workspace_bytes, "update workspace", &u->workspace));
    start_state(u, cfg);
    return u->device->api->queue_sync(u->queue);
}

ls_status ls_update_new(const ls_config *cfg, ls_arenas *arenas, ls_comm *comm, ls_collective *collective,
    ls_queue *queue, int depth, ls_update **out) {
    assert(depth >= 1 && depth <= LS_UPDATE_DEPTH_MAX);
    ls_update *u = calloc(1, sizeof *u);
    if (!u) return ls_fail(LS_DEVICE, "out of host memory for the update");
    *u = (ls_update){ .device = arenas->device,
        .arenas = arenas,
        .comm = comm,
        .collective = collective,
        .queue = queue,
        .depth = depth,
        .ordered = cfg->run_deterministic,
        .meets_in_pass = ls_config_syncs_norm(cfg, ls_comm_about(comm)->world_size),
        .loss_is_sum = cfg->train_loss_reduction == LS_LOSS_SUM };
    ls_status status = make(u, cfg);
    if (ls_failed(status)) {
        ls_update_free(u);
        return status;
    }
    *out = u;
    return LS_SUCCESS;
}

static void free_plan(ls_update *u, ls_plan *plan) {
    if (plan) u->device->api->plan_free(plan);
}

void ls_update_free(ls_update *u) {
    if (!u) return;
    ls_recorder_free(u->recorder);
    for (int i = 0; i < u->depth; i++)
        if (u->reported[i]) u->device->api->event_free(u->reported[i]);
    ls_reducer_free(u->reducer);
    ls_optimizer_free(u->optimizer);
    for (int b = 0; b < u->bucket_count; b++) {
        free_plan(u, u->buckets[b].fix);
        free_plan(u, u->buckets[b].unfix);
        free_plan(u, u->buckets[b].cast);
    }
    for (int r = 0; r < u->running_count; r++) free_plan(u, u->running[r].plan);
    free_plan(u, u->stats);
    free_plan(u, u->control);
    free_plan(u, u->cast);
    free_plan(u, u->widen);
    ls_slab *slabs[] = { u->device_control, u->host_control, u->workspace };
    for (size_t s = 0; s < sizeof slabs / sizeof *slabs; s++)
        if (slabs[s]) u->device->api->slab_free(slabs[s]);
    free(u->buckets);
    free(u->running);
    free(u);
}

void ls_update_trace(ls_update *u, ls_timeline *timeline) {
    u->timeline = timeline;
    if (u->reducer) ls_reducer_trace(u->reducer, timeline);
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

// --- one update
// -----------------------------------------------------------------------------------------------------------

static ls_buffer workspace_of(const ls_update *u) {
    return u->workspace ? ls_buffer_at(u->workspace, 0, u->workspace->bytes) : (ls_buffer){ 0 };
}

static void zero_slab(ls_update *u, ls_slab *slab) {
    u->device->api->zero(ls_buffer_at(slab, 0, slab->bytes), slab->bytes, u->queue);
}

static ls_buffer grad_range(const ls_update *u, const bucket *b) {
    return ls_arenas_range(u->arenas->grad, b->range.first, b->range.count, sizeof(float));
}

static ls_buffer fixed_range(const ls_update *u, const bucket *b) {
    return ls_arenas_range(u->arenas->fixed, b->range.first, b->range.count, sizeof(int64_t));
}

// What a trace shows beside the program's instructions.
static void begin_span(ls_update *u, const char *name) {
    ls_timeline_begin(u->timeline,
        &(ls_span){ .lane = LS_TRACE_COMPUTE, .name = name, .number = -1, .update = LS_TRACE_NO_UPDATE }, u->queue);
}

static void end_span(ls_update *u) {
    ls_timeline_end(u->timeline, LS_TRACE_COMPUTE, u->queue);
}

// What adds up over the micro-batches of an update begins at zero.
static void start_sums(ls_update *u) {
    begin_span(u, "sums to zero");
    zero_slab(u, u->ordered ? u->arenas->fixed : u->arenas->grad);
    u->device->api->zero(u->result, sizeof(ls_micro_result), u->queue);
    end_span(u);
}

void ls_update_begin(ls_update *u, const ls_window *window) {
    assert(u->begun - u->retired < u->depth);
    size_t record = u->host_windows + (size_t)(u->begun % u->depth) * RECORD_BYTES;
    ls_buffer host = ls_buffer_at(u->host_control, record, sizeof(ls_window_input));
    ls_window_input *input = ls_buffer_host(host);
    *input = (ls_window_input){ .samples = u->loss_is_sum ? 1.0 : window->samples,
        .micro_batches = window->micro_batches,
        .lr = window->lr,
        .update = (uint32_t)window->number };
    u->device->api->copy(u->window, host, sizeof *input, u->queue);
    u->micros_left = window->steps;
    u->whole = window->whole;
    u->micros_done = 0;
    u->launched = 0;
    if (window->steps == 0) start_sums(u);
}

static void narrow(ls_update *u, const bucket *b) {
    ls_buffer args[LS_CAST_ARGS] = { [LS_CAST_SRC] = grad_range(u, b),
        [LS_CAST_DST] = ls_arenas_range(u->arenas->wire, b->range.first, b->range.count, ls_dtype_bytes(LS_BF16)) };
    ls_plan_run(b->cast, args, workspace_of(u), u->queue);
}

static void widen_gradients(ls_update *u) {
    const ls_arenas *a = u->arenas;
    ls_buffer args[LS_WIDEN_ARGS] = { [LS_WIDEN_SRC] =
                                          ls_arenas_range(a->wire, 0, a->trained_elements, ls_dtype_bytes(LS_BF16)),
        [LS_WIDEN_DST] = ls_arenas_range(a->grad, 0, a->trained_elements, sizeof(float)) };
    ls_plan_run(u->widen, args, workspace_of(u), u->queue);
}

// Gradients of the first up_to parameters of the arena's order are complete in this micro-batch: round them in ordered
// mode, and let the reducer have them when it was the last micro-batch. up_to < 0: everything is.
static void buckets_complete(ls_update *u, int up_to) {
    while (u->launched < u->bucket_count) {
        bucket *b = &u->buckets[u->launched];
        if (up_to >= 0 && (b->end_param < 0 || b->end_param > up_to)) return;
        if (u->ordered && u->micros_left > 0) {
            ls_buffer args[LS_GRAD_FIX_ARGS] = { [LS_GRAD_FIX_GRAD] = grad_range(u, b),
                [LS_GRAD_FIX_STATE] = u->state,
                [LS_GRAD_FIX_FIXED] = fixed_range(u, b) };
            begin_span(u, "bucket to fixed point");
            ls_plan_run(b->fix, args, workspace_of(u), u->queue);
            end_span(u);
        }
        if (u->micros_left <= 1 && b->cast) {
            begin_span(u, "bucket to bf16");
            narrow(u, b);
            end_span(u);
        }
        if (u->micros_left <= 1 && u->reducer) ls_reducer_launch(u->reducer, u->launched);
        u->launched++;
    }
}

static void on_complete(void *context, int up_to) {
    ls_update *u = context;
    if (u->ordered || u->micros_left == 1) buckets_complete(u, up_to);
}

static void unfix_buckets(ls_update *u) {
    for (int i = 0; i < u->bucket_count; i++) {
        bucket *b = &u->buckets[i];
        ls_buffer args[LS_GRAD_UNFIX_ARGS] = { [LS_GRAD_UNFIX_FIXED] = fixed_range(u, b),
            [LS_GRAD_UNFIX_STATE] = u->state,
            [LS_GRAD_UNFIX_GRAD] = grad_range(u, b) };
        ls_plan_run(b->unfix, args, workspace_of(u), u->queue);
    }
}

static void run_control(ls_update *u) {
    ls_buffer stats_args[LS_GRAD_STATS_ARGS] = { [LS_GRAD_STATS_GRAD] = ls_arenas_range(
                                                     u->arenas->grad, 0, u->arenas->trained_elements, sizeof(float)),
        [LS_GRAD_STATS_PARTIALS] = u->partials };
    ls_plan_run(u->stats, stats_args, workspace_of(u), u->queue);
    ls_buffer args[LS_CONTROL_ARGS] = {
        [LS_CONTROL_WINDOW] = u->window, [LS_CONTROL_PARTIALS] = u->partials, [LS_CONTROL_STATE] = u->state
    };
    ls_plan_run(u->control, args, workspace_of(u), u->queue);
}

// Everything from the reduced gradient on.
static void step(void *context) {
    ls_update *u = context;
    if (u->ordered) {
        begin_span(u, "gradient from fixed point");
        unfix_buckets(u);
        end_span(u);
    }
    if (u->widen) {
        begin_span(u, "gradient from bf16");
        widen_gradients(u);
        end_span(u);
    }
    begin_span(u, "gradient statistics");
    run_control(u);
    end_span(u);
    begin_span(u, "optimizer");
    ls_optimizer_run(u->optimizer, u->queue);
    for (int r = 0; r < u->running_count; r++)
        ls_plan_run(u->running[r].plan, u->running[r].args, workspace_of(u), u->queue);
    end_span(u);
}

// Sums over ranks that everything after this waits for. In ordered mode also: did any rank meet a gradient that fixed
// point cannot hold? All ranks get the same answer.
static ls_status reduce(ls_update *u) {
    ls_buffer flag = { u->state.slab, u->state.offset + offsetof(ls_train_state, bad_gradient), sizeof(int32_t) };
    return ls_reducer_wait(u->reducer, u->ordered ? flag : (ls_buffer){ 0 });
}

static int on_queue(const ls_update *u) { // the whole update is enqueued, the host waits for nothing
    return !u->reducer || ls_reducer_on_queue(u->reducer);
}

static void finish_on_queue(ls_update *u) {
    if (u->reducer) ls_keep_first(&u->status, reduce(u));
    step(u);
}

static void on_reduce(void *context, ls_buffer sums, int64_t count) {
    ls_update *u = context;
    if (u->reducer) ls_keep_first(&u->status, ls_reducer_sum_now(u->reducer, sums, count));
}

typedef struct {
    ls_update *update;
    const ls_program *program;
    const ls_program_inputs *inputs; // NULL: this rank only joins the others
} micro_work;

static void enqueue_micro(void *context) {
    const micro_work *work = context;
    ls_update *u = work->update;
    if (u->micros_done == 0) start_sums(u);
    if (u->ordered) {
        begin_span(u, "gradient to zero");
        zero_slab(u, u->arenas->grad);
        end_span(u);
    }
    u->launched = 0;
    ls_program_hooks hooks = { .context = u, .complete = on_complete, .reduce = on_reduce, .timeline = u->timeline };
    if (work->inputs)
        ls_program_run(work->program, work->inputs, u->queue, &hooks);
    else
        ls_program_join(work->program, u->queue, &hooks);
    if (u->ordered || u->micros_left == 1) buckets_complete(u, -1); // the statistics
    if (u->micros_left == 1 && on_queue(u)) finish_on_queue(u);
}

// A collective must be recorded by all ranks or by none, and in a short window they do not have the same work. Through
// host memory, ranks meet in the midst of the last micro-batch.
static int may_record(const ls_update *u) {
    if (!u->reducer) return 1;
    return on_queue(u) ? u->whole : u->micros_left > 1 && !u->meets_in_pass;
}

enum { FIRST_MICRO = 1, LAST_MICRO = 2, STEP_ALONE = 4 }; // variants of recorded work

ls_status ls_update_micro(ls_update *u, const ls_program *program, const ls_program_inputs *inputs) {
    micro_work work = { u, program, inputs };
    ls_recorder_key key = { .program = program,
        .input = inputs->buffer[LS_INPUT_MICRO],
        .variant = (u->micros_done == 0 ? FIRST_MICRO : 0) + (u->micros_left == 1 ? LAST_MICRO : 0) };
    if (may_record(u))
        LS_TRY(ls_recorder_run(u->recorder, key, enqueue_micro, &work));
    else
        enqueue_micro(&work);
    u->micros_left--;
    u->micros_done++;
    return u->status;
}

ls_status ls_update_join(ls_update *u, const ls_program *program) {
    assert(!u->whole); // else a recording would be due on all ranks
    enqueue_micro(&(micro_work){ .update = u, .program = program });
    u->micros_left--;
    u->micros_done++;
    return u->status;
}

// What the last micro-batch has not done: a rank without one in this window contributes zeros; and the host takes part
// in sums that go through its memory.
static ls_status finish(ls_update *u) {
    if (on_queue(u) && u->micros_done > 0) return LS_SUCCESS;
    buckets_complete(u, -1);
    if (on_queue(u)) {
        finish_on_queue(u);
        return u->status;
    }
    LS_TRY(reduce(u));
    return ls_recorder_run(u->recorder, (ls_recorder_key){ .variant = STEP_ALONE }, step, u);
}

static ls_buffer report_of(const ls_update *u, int64_t number) {
    return ls_buffer_at(u->host_control, u->host_reports + (size_t)(number % u->depth) * REPORT_BYTES, REPORT_BYTES);
}

ls_status ls_update_end(ls_update *u) {
    const ls_device_api *api = u->device->api;
    LS_TRY(finish(u));
    api->copy(report_of(u, u->begun), ls_buffer_at(u->device_control, 0, REPORT_BYTES), REPORT_BYTES, u->queue);
    api->event_record(u->reported[u->begun % u->depth], u->queue);
    u->begun++;
    return LS_SUCCESS;
}

ls_status ls_update_retire(ls_update *u, ls_train_state *state, ls_micro_result *result) {
    assert(u->retired < u->begun);
    if (u->reducer) ls_comm_wait_begins(u->comm, "the device's sums");
    ls_status status = u->device->api->event_sync(u->reported[u->retired % u->depth]);
    if (u->reducer) ls_comm_wait_ends(u->comm);
    LS_TRY(status);
    const char *report = ls_buffer_host(report_of(u, u->retired));
    *state = *(const ls_train_state *)(const void *)report;
    *result = *(const ls_micro_result *)(const void *)(report + RECORD_BYTES);
    if (u->reducer) ls_reducer_account(u->reducer, (const int64_t *)(const void *)(report + 2 * RECORD_BYTES));
    u->retired++;
    return LS_SUCCESS;
}

// --- results
// --------------------------------------------------------------------------------------------------------------

ls_status ls_update_take_result(ls_update *u, ls_micro_result *result) {
    const ls_device_api *api = u->device->api;
    api->copy(u->host_result, u->result, sizeof *result, u->queue);
    LS_TRY(api->queue_sync(u->queue));
    *result = *(ls_micro_result *)ls_buffer_host(u->host_result);
    return LS_SUCCESS;
}

static void enqueue_evaluation(void *context) {
    const micro_work *work = context;
    ls_program_run(work->program, work->inputs, work->update->queue, &(ls_program_hooks){ 0 });
}

void ls_update_evaluate_begin(ls_update *u) {
    u->device->api->zero(u->result, sizeof(ls_micro_result), u->queue);
}

ls_status ls_update_evaluate(ls_update *u, const ls_program *program, const ls_program_inputs *inputs) {
    micro_work work = { u, program, inputs };
    ls_recorder_key key = { .program = program, .input = inputs->buffer[LS_INPUT_MICRO] };
    return ls_recorder_run(u->recorder, key, enqueue_evaluation, &work);
}

ls_reducer_counts ls_update_comm_counts(const ls_update *u) {
    return u->reducer ? ls_reducer_count(u->reducer) : (ls_reducer_counts){ 0 };
}

int ls_update_bucket(const ls_update *u, int index, size_t *bytes, int *end_param) {
    if (index >= u->bucket_count) return 0;
    ls_bucket b = summed(u, index);
    *bytes = (size_t)b.count * ls_dtype_bytes(b.dtype);
    *end_param = u->buckets[index].end_param;
    return 1;
}

void ls_update_weights_changed(ls_update *u) {
    if (!u->cast) return;
    const ls_arenas *a = u->arenas;
    ls_buffer args[LS_CAST_ARGS] = { [LS_CAST_SRC] = ls_arenas_range(a->weight, 0, a->trained_elements, sizeof(float)),
        [LS_CAST_DST] = ls_arenas_range(a->copy, 0, a->trained_elements, ls_dtype_bytes(a->storage)) };
    ls_plan_run(u->cast, args, workspace_of(u), u->queue);
}
