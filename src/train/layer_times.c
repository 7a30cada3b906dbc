// layer_times.c - how long each instruction of a training micro-batch takes, one by one on real inputs, and the
// optimizer's pass at the end of an update.
#include "base/clock.h"
#include "base/memory.h"
#include "train/trainer_internal.h"

enum { BURST = 8 }; // runs of an instruction that are captured or enqueued at a time

typedef struct {
    const ls_trainer *trainer;
    const ls_program_inputs *inputs;
    int number; // of the instruction; OPTIMIZER_PASS
} burst;

enum { OPTIMIZER_PASS = -1 };

// Of the epoch that comes next.
static const ls_program *program_of(const ls_trainer *t) {
    return ls_trainer_full(t, t->progress.next.epoch);
}

static void run_once(const burst *b) {
    const ls_program *program = program_of(b->trainer);
    if (b->number == OPTIMIZER_PASS) {
        ls_update_run_optimizer(b->trainer->session.update);
        return;
    }
    const ls_instruction *instruction = &program->instructions[b->number];
    ls_buffer args[LS_OP_ARGS_MAX];
    ls_instruction_args(instruction, b->inputs, args);
    ls_plan_run(instruction->plan, args, program->workspace, b->trainer->session.compute.queue);
}

static void run_burst(const burst *b, int runs) {
    for (int i = 0; i < runs; i++) run_once(b);
}

// Seconds of one run. Where the device can capture, a burst is one graph:
// launches of small kernels then cost what they cost in training.
static ls_status time_instruction(const burst *b, double seconds, double *out) {
    const ls_device_api *api = b->trainer->session.compute.device->api;
    ls_queue *queue = b->trainer->session.compute.queue;
    ls_captured_graph *captured = NULL;
    int runs = api->capture_begin ? BURST : 1;
    run_once(b);
    if (api->capture_begin) {
        LS_TRY(api->capture_begin(queue));
        run_burst(b, runs);
        LS_TRY(api->capture_end(queue, &captured));
        api->graph_launch(captured, queue);
    }
    ls_status status = api->queue_sync(queue);
    double start = ls_clock_seconds(), elapsed = 0;
    int64_t bursts = 0;
    for (int64_t next = 1; !ls_failed(status) && elapsed < seconds; next *= 2) {
        for (int64_t i = 0; i < next; i++) {
            if (captured)
                api->graph_launch(captured, queue);
            else
                run_burst(b, runs);
        }
        status = api->queue_sync(queue);
        bursts += next;
        elapsed = ls_clock_seconds() - start;
    }
    if (captured) api->graph_free(captured);
    *out = elapsed / (double)(bursts * runs);
    return status;
}

static size_t bytes_of(const ls_trainer *t, const burst *b) {
    const ls_instruction *instruction = &program_of(t)->instructions[b->number];
    ls_buffer args[LS_OP_ARGS_MAX];
    ls_instruction_args(instruction, b->inputs, args);
    return ls_instruction_bytes(instruction, args);
}

// What the optimizer must see so that running it over and over changes no weight: gradient 0, rate 0, no micro-batches (of which
// statistics could be), and a first update behind it (adamw divides by 1 - beta^t).
static ls_status time_still_optimizer(ls_trainer *t, const burst *b, double seconds, double *out) {
    ls_slab *grad = t->session.compute.store->grad;
    ls_train_state before, still;
    LS_TRY(ls_update_read_state(t->session.update, &before));
    still = before;
    memset(still.lr, 0, sizeof still.lr);
    still.skip = 0;
    still.micro_batches = 0;
    if (still.applied < 1) still.applied = 1;
    LS_TRY(ls_update_write_state(t->session.update, &still));
    ls_param_store_widen(
        t->session.compute.store, t->session.compute.queue); // what timed instructions left there goes, too
    t->session.compute.device->api->zero(ls_buffer_at(grad, 0, grad->bytes), grad->bytes, t->session.compute.queue);
    ls_status status = time_instruction(b, seconds, out);
    ls_keep_first(&status, ls_update_write_state(t->session.update, &before));
    return status;
}

static ls_status time_optimizer(ls_trainer *t, const ls_program_inputs *inputs, double seconds, ls_layer_time *row) {
    const ls_optimizer *optimizer = ls_update_optimizer(t->session.update);
    const ls_plan *first = optimizer->steps[0].plan;
    const burst b = { t, inputs, OPTIMIZER_PASS };
    *row = (ls_layer_time){ .op = ls_op_name(first->desc.op),
        .kind = ls_op_kind_of(first->desc.op),
        .layer = "all weights",
        .algorithm = first->algorithm,
        .once = 1 };
    for (const ls_optimizer_step *s = optimizer->steps; s < optimizer->steps + optimizer->step_count; s++) {
        row->flops += ls_op_flops(&s->plan->desc);
        for (int a = 0; a < ls_op_args(s->plan->desc.op); a++) row->bytes += s->args[a].bytes;
    }
    return time_still_optimizer(t, &b, seconds, &row->seconds);
}

static ls_status time_all(ls_trainer *t, const ls_program_inputs *inputs, double seconds, ls_layer_time *rows) {
    const ls_program *program = program_of(t);
    // Every buffer then holds what training would put there.
    ls_program_run(program, inputs, t->session.compute.queue, &(ls_program_hooks){ 0 });
    LS_TRY(t->session.compute.device->api->queue_sync(t->session.compute.queue));
    for (int i = 0; i < program->count; i++) {
        const ls_plan *plan = program->instructions[i].plan;
        burst b = { t, inputs, i };
        rows[i] = (ls_layer_time){ .op = ls_op_name(plan->desc.op),
            .kind = ls_op_kind_of(plan->desc.op),
            .layer = plan->desc.layer,
            .algorithm = plan->algorithm,
            .chosen = plan->chosen,
            .flops = ls_op_flops(&plan->desc),
            .bytes = bytes_of(t, &b) };
        LS_TRY(time_instruction(&b, seconds, &rows[i].seconds));
    }
    return time_optimizer(t, inputs, seconds, &rows[program->count]);
}

ls_status ls_trainer_layer_times(ls_trainer *t, double seconds, ls_layer_time **rows, int *count) {
    ls_program_inputs inputs = ls_session_inputs(&t->session.compute);
    ls_batch batch;
    *count = program_of(t)->count + 1;
    LS_TRY(LS_NEW(*rows, *count, "layers' times"));
    ls_update_inputs(t->session.update, &inputs);
    LS_TRY(ls_trainer_read_ahead(t));
    LS_TRY(ls_input_pipeline_next(t->session.input, &inputs, &batch));
    LS_TRY(time_all(t, &inputs, seconds, *rows));
    return ls_input_pipeline_done(t->session.input);
}

static int instructions_until(const ls_program *program, int end_param) {
    for (int i = 0; end_param >= 0 && i < program->count; i++)
        if (program->instructions[i].completes >= end_param) return i + 1;
    return program->count;
}

ls_status ls_trainer_buckets(const ls_trainer *t, ls_train_bucket **rows, int *count) {
    int end_param;
    size_t bytes;
    *count = 0;
    while (ls_update_bucket(t->session.update, *count, &bytes, &end_param)) ++*count;
    LS_TRY(LS_NEW(*rows, *count + 1, "list of buckets"));
    for (int b = 0; ls_update_bucket(t->session.update, b, &bytes, &end_param); b++)
        (*rows)[b] = (ls_train_bucket){ bytes, instructions_until(program_of(t), end_param) };
    return LS_SUCCESS;
}
