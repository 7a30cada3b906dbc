#include "train/update.h"

#include <assert.h>
#include <string.h>
#include "train/update_internal.h"

void ls_update_trace(ls_update *u, ls_timeline *timeline) {
    u->clock.timeline = timeline;
    if (u->reducer) ls_reducer_trace(u->reducer, timeline);
}

static ls_buffer workspace_of(const ls_update *u) {
    return u->workspace ? ls_buffer_at(u->workspace, 0, u->workspace->bytes) : (ls_buffer){ 0 };
}

void ls_update_run_optimizer(const ls_update *u) {
    ls_optimizer_run(u->optimizer, workspace_of(u), u->queue);
}

static void zero_slab(ls_update *u, ls_slab *slab) {
    u->device->api->zero(ls_buffer_at(slab, 0, slab->bytes), slab->bytes, u->queue);
}

static ls_buffer grad_range(const ls_update *u, const ls_planned_bucket *b) {
    return ls_param_store_range(u->store->grad, b->range.first, b->range.count, sizeof(float));
}

static ls_buffer fixed_range(const ls_update *u, const ls_planned_bucket *b) {
    return ls_param_store_range(u->store->fixed, b->range.first, b->range.count, sizeof(int64_t));
}

// Begins an update on the device: takes the update's window, and sets the sums over its micro-batches to zero.
static void start(ls_update *u) {
    ls_slab *sums = ls_update_sums(u);
    const ls_buffer args[LS_UPDATE_BEGIN_ARGS] = { [LS_UPDATE_BEGIN_WINDOWS] = u->windows,
        [LS_UPDATE_BEGIN_STATE] = u->state,
        [LS_UPDATE_BEGIN_WINDOW] = u->window,
        [LS_UPDATE_BEGIN_RESULT] = u->result,
        [LS_UPDATE_BEGIN_SUMS] = ls_buffer_at(sums, 0, sums->bytes) };
    ls_work_clock_begin_part(&u->clock, "sums to zero", u->queue);
    ls_plan_run(u->begin, args, workspace_of(u), u->queue);
    ls_work_clock_end_part(&u->clock, LS_OP_KIND_GRADIENTS, u->queue);
}

// Returns the part of a slab that the average covers: trained parameters and statistics.
static ls_buffer averaged(const ls_update *u, ls_slab *slab) {
    return ls_param_store_range(slab, 0, u->store->trained_elements + u->store->statistic_elements, sizeof(float));
}

// Updates the working copy of the weights, which operators read, after a change that the optimizer did not make.
static void cast_weights(ls_update *u) {
    const ls_param_store *a = u->store;
    if (!u->cast_weights) return;
    const ls_buffer args[LS_CAST_ARGS] = { [LS_CAST_SRC] =
                                               ls_param_store_range(a->weight, 0, a->trained_elements, sizeof(float)),
        [LS_CAST_DST] = ls_param_store_range(a->copy, 0, a->trained_elements, ls_dtype_bytes(a->storage)) };
    ls_plan_run(u->cast_weights, args, workspace_of(u), u->queue);
}

static void take_average(ls_update *u) {
    const ls_buffer args[LS_AVERAGE_ARGS] = { [LS_AVERAGE_WINDOW] = u->window,
        [LS_AVERAGE_STATE] = u->state,
        [LS_AVERAGE_AVERAGE] = averaged(u, u->store->average),
        [LS_AVERAGE_WEIGHT] = averaged(u, u->store->weight) };
    ls_work_clock_begin_part(&u->clock, "average", u->queue);
    ls_plan_run(u->average, args, workspace_of(u), u->queue);
    if (u->average->desc.attr.flat.write_back) cast_weights(u);
    ls_work_clock_end_part(&u->clock, LS_OP_KIND_OPTIMIZER, u->queue);
}

void ls_update_swap_average(ls_update *u) {
    const ls_buffer weight = averaged(u, u->store->weight), average = averaged(u, u->store->average),
                    between = averaged(u, u->store->grad);
    u->device->api->copy(between, weight, weight.bytes, u->queue);
    u->device->api->copy(weight, average, weight.bytes, u->queue);
    u->device->api->copy(average, between, weight.bytes, u->queue);
    cast_weights(u);
}

void ls_update_begin(ls_update *u, const ls_sliding_window *window) {
    assert(u->enqueued - u->completed < u->depth);
    char *record = (char *)ls_buffer_host(u->windows) + (u->enqueued % u->depth) * LS_RECORD_BYTES;
    ls_update_input *input = (ls_update_input *)(void *)record;
    *input = (ls_update_input){ .samples = u->loss_is_sum ? 1.0 : window->samples,
        .micro_batches = window->micro_batches,
        .update = (uint32_t)window->number,
        .renormalise = window->renormalise,
        .average_decay = window->average_decay,
        .rates_over = window->rates_over };
    memcpy(input->lr, window->lr, sizeof input->lr);
    u->micros_left = window->steps;
    u->whole = window->whole;
    u->held = window->held;
    u->micros_done = 0;
    u->launched = 0;
    u->average_due = window->average_due;
    if (window->average_starts)
        u->device->api->copy(averaged(u, u->store->average), averaged(u, u->store->weight),
            averaged(u, u->store->weight).bytes, u->queue);
    if (window->steps == 0) start(u);
}

static void widen(ls_update *u, const ls_planned_bucket *b) {
    const ls_param_store *a = u->store;
    ls_buffer args[LS_WIDEN_ARGS] = { [LS_WIDEN_ROUNDED] = ls_param_store_range(
                                          a->rounded, b->range.first, b->range.count, ls_dtype_bytes(a->storage)),
        [LS_WIDEN_GRAD] = grad_range(u, b) };
    ls_plan_run(b->widen, args, workspace_of(u), u->queue);
}

static void narrow(ls_update *u, const ls_planned_bucket *b) {
    ls_buffer args[LS_CAST_ARGS] = { [LS_CAST_SRC] = grad_range(u, b),
        [LS_CAST_DST] = ls_param_store_range(u->store->wire, b->range.first, b->range.count, ls_dtype_bytes(LS_BF16)) };
    ls_plan_run(b->cast, args, workspace_of(u), u->queue);
}

static void cast_gradients_to_f32(ls_update *u) {
    const ls_param_store *a = u->store;
    ls_buffer args[LS_CAST_TO_F32_ARGS] = { [LS_CAST_TO_F32_SRC] = ls_param_store_range(
                                                a->wire, 0, a->trained_elements, ls_dtype_bytes(LS_BF16)),
        [LS_CAST_TO_F32_DST] = ls_param_store_range(a->grad, 0, a->trained_elements, sizeof(float)) };
    ls_plan_run(u->cast_to_f32, args, workspace_of(u), u->queue);
}

static int control_widens(const ls_update *u) {
    return u->step_control->desc.attr.step_control.storage != LS_F32;
}

// Returns 1 if the sums over ranks may begin: in the last micro-batch, or after it if the update is held.
static int sums_begin(const ls_update *u) {
    return u->micros_left <= (u->held ? 0 : 1);
}

// Returns 1 if this micro-batch handles each bucket of gradients separately, as soon as the bucket is complete.
static int goes_by_buckets(const ls_update *u) {
    return u->ordered || ((u->reducer || u->store->wire) && sums_begin(u));
}

// Handles the buckets that are complete in this micro-batch: those with the gradients of the first up_to parameters in
// the store's order, or all remaining buckets if up_to < 0. In ordered mode their gradients are rounded to fixed point.
// In the last micro-batch the reducer starts to sum them.
static void buckets_complete(ls_update *u, int up_to) {
    while (u->launched < u->bucket_count) {
        ls_planned_bucket *b = &u->buckets[u->launched];
        if (up_to >= 0 && (b->end_param < 0 || b->end_param > up_to)) return;
        if (b->widen && u->micros_left > 0) {
            ls_work_clock_begin_part(&u->clock, "bucket from 16 bits", u->queue);
            widen(u, b);
            ls_work_clock_end_part(&u->clock, LS_OP_KIND_GRADIENTS, u->queue);
        }
        if (u->ordered && u->micros_left > 0) {
            ls_buffer args[LS_TO_FIXED_POINT_ARGS] = { [LS_TO_FIXED_POINT_GRAD] = grad_range(u, b),
                [LS_TO_FIXED_POINT_STATE] = u->state,
                [LS_TO_FIXED_POINT_FIXED] = fixed_range(u, b) };
            ls_work_clock_begin_part(&u->clock, "bucket to fixed point", u->queue);
            ls_plan_run(b->fix, args, workspace_of(u), u->queue);
            ls_work_clock_end_part(&u->clock, LS_OP_KIND_GRADIENTS, u->queue);
        }
        if (sums_begin(u) && b->cast) {
            ls_work_clock_begin_part(&u->clock, "bucket to bf16", u->queue);
            narrow(u, b);
            ls_work_clock_end_part(&u->clock, LS_OP_KIND_GRADIENTS, u->queue);
        }
        if (sums_begin(u) && u->reducer && b->sum >= 0) ls_reducer_launch(u->reducer, b->sum);
        u->launched++;
    }
}

static void on_complete(void *context, int up_to) {
    ls_update *u = context;
    if (goes_by_buckets(u)) buckets_complete(u, up_to);
}

static void unfix_buckets(ls_update *u) {
    for (int i = 0; i < u->bucket_count; i++) {
        ls_planned_bucket *b = &u->buckets[i];
        ls_buffer args[LS_FROM_FIXED_POINT_ARGS] = { [LS_FROM_FIXED_POINT_FIXED] = fixed_range(u, b),
            [LS_FROM_FIXED_POINT_STATE] = u->state,
            [LS_FROM_FIXED_POINT_GRAD] = grad_range(u, b) };
        ls_plan_run(b->unfix, args, workspace_of(u), u->queue);
    }
}

static void run_step_control(ls_update *u) {
    const ls_param_store *store = u->store;
    ls_buffer args[LS_STEP_CONTROL_ARGS] = { [LS_STEP_CONTROL_WINDOW] = u->window,
        [LS_STEP_CONTROL_GRAD] = ls_param_store_range(store->grad, 0, store->trained_elements, sizeof(float)),
        [LS_STEP_CONTROL_STATE] = u->state,
        [LS_STEP_CONTROL_REPORTS] = u->reports };
    if (control_widens(u)) args[LS_STEP_CONTROL_ROUNDED] = ls_buffer_at(store->rounded, 0, store->rounded->bytes);
    ls_plan_run(u->step_control, args, workspace_of(u), u->queue);
}

// Enqueues the optimizer's step and the other work that follows the reduction of the gradient.
static void step(void *context) {
    ls_update *u = context;
    if (u->ordered) {
        ls_work_clock_begin_part(&u->clock, "gradient from fixed point", u->queue);
        unfix_buckets(u);
        ls_work_clock_end_part(&u->clock, LS_OP_KIND_GRADIENTS, u->queue);
    }
    if (u->cast_to_f32) {
        ls_work_clock_begin_part(&u->clock, "gradient from bf16", u->queue);
        cast_gradients_to_f32(u);
        ls_work_clock_end_part(&u->clock, LS_OP_KIND_GRADIENTS, u->queue);
    }
    ls_work_clock_begin_part(&u->clock, "gradient statistics", u->queue);
    run_step_control(u);
    ls_work_clock_end_part(&u->clock, LS_OP_KIND_GRADIENTS, u->queue);
    ls_work_clock_begin_part(&u->clock, "optimizer", u->queue);
    ls_update_run_optimizer(u);
    ls_work_clock_end_part(&u->clock, LS_OP_KIND_OPTIMIZER, u->queue);
}

// Finishes the sums of gradients over ranks. In ordered mode, all ranks learn whether a gradient exceeded fixed point.
static ls_status reduce(ls_update *u) {
    return ls_reducer_wait(u->reducer, u->ordered ? ls_update_bad_gradient(u) : (ls_buffer){ 0 });
}

static int on_queue(const ls_update *u) { // the host enqueues the whole update and waits for nothing
    return !u->reducer || ls_reducer_on_queue(u->reducer);
}

static void finish_on_queue(ls_update *u) {
    if (u->reducer) ls_keep_first(&u->status, reduce(u));
    step(u);
}

static void on_reduce(void *context, ls_buffer sums, int64_t count) {
    ls_update *u = context;
    ls_keep_first(&u->status, ls_update_sum_now(u, sums, count));
}

typedef struct {
    ls_update *update;
    const ls_program *program;
    const ls_program_inputs *inputs; // NULL: this rank has no micro-batch and only joins the sums of the others
} micro_work;

static void run_program(ls_update *u, const ls_program *program, const ls_program_inputs *inputs) {
    const ls_program_hooks hooks = {
        .clock = ls_work_clock_begin_micro(&u->clock), .context = u, .complete = on_complete, .reduce = on_reduce
    };
    ls_program_run(program, inputs, u->queue, &hooks);
    ls_work_clock_end_micro(hooks.clock, program->count);
}

static void join_program(ls_update *u, const ls_program *program) {
    const ls_program_hooks hooks = { .context = u, .complete = on_complete, .reduce = on_reduce };
    ls_program_join(program, u->queue, &hooks);
}

static void enqueue_micro(void *context) {
    const micro_work *work = context;
    ls_update *u = work->update;
    if (u->micros_done == 0) start(u);
    if (u->ordered) {
        ls_work_clock_begin_part(&u->clock, "gradient to zero", u->queue);
        zero_slab(u, u->store->grad);
        ls_work_clock_end_part(&u->clock, LS_OP_KIND_GRADIENTS, u->queue);
    }
    u->launched = 0;
    if (work->inputs)
        run_program(u, work->program, work->inputs);
    else
        join_program(u, work->program);
    if (goes_by_buckets(u)) {
        buckets_complete(u, -1); // the buckets that no instruction completed, such as the statistics
    } else if (u->store->rounded && !(u->micros_left <= 1 && control_widens(u))) {
        ls_work_clock_begin_part(&u->clock, "gradient from 16 bits", u->queue);
        ls_param_store_widen(u->store, u->queue);
        ls_work_clock_end_part(&u->clock, LS_OP_KIND_GRADIENTS, u->queue);
    }
    if (u->micros_left == 1 && on_queue(u) && !u->held) finish_on_queue(u);
}

// Returns 1 if this micro-batch may be captured as a graph. A held update is rare, and is never captured. A collective
// must be captured by all ranks or by none, and in a short window the ranks have different work. With sums through host
// memory, ranks exchange data during the last micro-batch, and during every micro-batch with synchronised batch norm.
static int may_capture(const ls_update *u) {
    if (u->held) return 0;
    if (!u->reducer) return 1;
    return on_queue(u) ? u->whole : u->micros_left > 1 && !u->meets_in_pass;
}

enum { FIRST_MICRO = 1, LAST_MICRO = 2, STEP_ALONE = 4 }; // bits of a key's variant: which work was captured

ls_status ls_update_micro(ls_update *u, const ls_program *program, const ls_program_inputs *inputs) {
    micro_work work = { u, program, inputs };
    ls_graph_capture_key key = { .program = program,
        .input = inputs->buffer[LS_INPUT_MICRO],
        .variant = (u->micros_done == 0 ? FIRST_MICRO : 0) + (u->micros_left == 1 ? LAST_MICRO : 0) };
    if (may_capture(u))
        LS_TRY(ls_graph_capture_run(u->capture, key, enqueue_micro, &work));
    else
        enqueue_micro(&work);
    u->micros_left--;
    u->micros_done++;
    return u->status;
}

ls_status ls_update_join(ls_update *u, const ls_program *program) {
    assert(!u->whole); // in a whole window all ranks would capture, but a join is not captured
    enqueue_micro(&(micro_work){ .update = u, .program = program });
    u->micros_left--;
    u->micros_done++;
    return u->status;
}

// Does the work of an update that its last micro-batch could not do. A rank without a micro-batch in this window
// contributes zeros. With sums through host memory, the host takes part in the sums.
static ls_status finish(ls_update *u) {
    if (on_queue(u) && u->micros_done > 0 && !u->held) return LS_SUCCESS;
    if (u->held) u->launched = 0;
    buckets_complete(u, -1);
    if (on_queue(u)) {
        finish_on_queue(u);
        return u->status;
    }
    LS_TRY(reduce(u));
    return ls_graph_capture_run(u->capture, (ls_graph_capture_key){ .variant = STEP_ALONE }, step, u);
}

ls_status ls_update_end(ls_update *u) {
    const ls_device_api *api = u->device->api;
    LS_TRY(finish(u));
    if (u->average_due) take_average(u); // not captured, because not every update needs it
    api->event_record(u->reported[u->enqueued % u->depth], u->queue);
    u->enqueued++;
    return LS_SUCCESS;
}

ls_status ls_update_complete(ls_update *u, ls_train_state *state, ls_micro_result *result) {
    assert(u->completed < u->enqueued);
    if (u->reducer) ls_comm_wait_begins(u->comm, "the device's sums");
    ls_status status = u->device->api->event_sync(u->reported[u->completed % u->depth]);
    if (u->reducer) ls_comm_wait_ends(u->comm);
    LS_TRY(status);
    const char *report = (const char *)ls_buffer_host(u->reports) + (u->completed % u->depth) * LS_REPORT_BYTES;
    *state = *(const ls_train_state *)(const void *)report;
    *result = *(const ls_micro_result *)(const void *)(report + LS_RECORD_BYTES);
    if (u->reducer) ls_reducer_account(u->reducer, (const int64_t *)(const void *)(report + 2 * LS_RECORD_BYTES));
    u->completed++;
    return LS_SUCCESS;
}

// --- results -------------------------------------------------------------------------------------

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

ls_status ls_update_evaluate(ls_update *u, const ls_program *program, const ls_program_inputs *inputs, int view) {
    micro_work work = { u, program, inputs };
    ls_graph_capture_key key = { .program = program, .input = inputs->buffer[LS_INPUT_MICRO], .variant = view };
    return ls_graph_capture_run(u->capture, key, enqueue_evaluation, &work);
}

ls_status ls_update_sum_now(ls_update *u, ls_buffer sums, int64_t count) {
    return u->reducer ? ls_reducer_sum_now(u->reducer, sums, count) : LS_SUCCESS;
}

const double *ls_update_kind_seconds(const ls_update *u) {
    return u->clock.at_once ? u->clock.kind_s : NULL;
}

ls_reducer_counts ls_update_comm_counts(const ls_update *u) {
    return u->reducer ? ls_reducer_count(u->reducer) : (ls_reducer_counts){ 0 };
}

ls_status ls_update_read_state(ls_update *u, ls_train_state *state) {
    assert(u->completed == u->enqueued);
    u->device->api->copy(u->host_state, u->state, sizeof *state, u->queue);
    LS_TRY(u->device->api->queue_sync(u->queue));
    *state = *(const ls_train_state *)ls_buffer_host(u->host_state);
    return LS_SUCCESS;
}

ls_status ls_update_write_state(ls_update *u, const ls_train_state *state) {
    assert(u->completed == u->enqueued);
    ls_train_state *host = ls_buffer_host(u->host_state);
    *host = *state;
    host->record = (int32_t)(u->enqueued % u->depth);
    u->device->api->copy(u->state, u->host_state, sizeof *state, u->queue);
    return u->device->api->queue_sync(u->queue);
}
