#include "train/layer_times.h"

#include "base/clock.h"
#include "base/memory.h"

enum { BURST = 8 }; // number of runs of an instruction that are captured or enqueued together

enum { OPTIMIZER_PASS = -1 };

typedef struct {
    const ls_run_session *session;
    const ls_program *program; // training program of the next update
    const ls_program_inputs *inputs;
    int number; // number of the instruction, or OPTIMIZER_PASS
} burst;

static void run_once(const burst *b) {
    if (b->number == OPTIMIZER_PASS) {
        ls_update_run_optimizer(b->session->update);
        return;
    }
    const ls_instruction *instruction = &b->program->instructions[b->number];
    ls_buffer args[LS_OP_ARGS_MAX];
    ls_instruction_args(instruction, b->inputs, args);
    ls_plan_run(instruction->plan, args, b->program->workspace, b->session->compute.queue);
}

static void run_burst(const burst *b, int runs) {
    for (int i = 0; i < runs; i++) run_once(b);
}

// Measures the seconds that one run of the instruction takes. Runs are captured in bursts as one graph if possible, so
// that launches cost as in training.
static ls_status time_instruction(const burst *b, double seconds, double *out) {
    const ls_device_api *api = b->session->compute.device->api;
    ls_queue *queue = b->session->compute.queue;
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

static size_t bytes_of(const burst *b) {
    const ls_instruction *instruction = &b->program->instructions[b->number];
    ls_buffer args[LS_OP_ARGS_MAX];
    ls_instruction_args(instruction, b->inputs, args);
    return ls_instruction_bytes(instruction, args);
}

// Measures the seconds of the optimizer's pass without changing any weight. Gradients and learning rates are 0. The
// number of micro-batches is 0, so statistics do not change. The update counts as applied, because adamw divides by 1 -
// beta^t.
static ls_status time_still_optimizer(const burst *b, double seconds, double *out) {
    const ls_session *s = &b->session->compute;
    ls_update *update = b->session->update;
    ls_slab *grad = s->store->grad;
    ls_train_state before, still;
    LS_TRY(ls_update_read_state(update, &before));
    still = before;
    memset(still.lr, 0, sizeof still.lr);
    still.skip = 0;
    still.micro_batches = 0;
    if (still.applied < 1) still.applied = 1;
    LS_TRY(ls_update_write_state(update, &still));
    ls_param_store_widen(s->store, s->queue); // clears the 16-bit gradients that timed instructions have left
    s->device->api->zero(ls_buffer_at(grad, 0, grad->bytes), grad->bytes, s->queue);
    ls_status status = time_instruction(b, seconds, out);
    ls_keep_first(&status, ls_update_write_state(update, &before));
    return status;
}

static ls_status time_optimizer(const burst *b, double seconds, ls_layer_time *row) {
    const ls_optimizer *optimizer = ls_update_optimizer(b->session->update);
    const ls_plan *first = optimizer->steps[0].plan;
    *row = (ls_layer_time){ .op = ls_op_name(first->desc.op),
        .kind = ls_op_kind_of(first->desc.op),
        .layer = "all weights",
        .algorithm = first->algorithm,
        .once = 1 };
    for (const ls_optimizer_step *s = optimizer->steps; s < optimizer->steps + optimizer->step_count; s++) {
        row->flops += ls_op_flops(&s->plan->desc);
        for (int a = 0; a < ls_op_args(s->plan->desc.op); a++) row->bytes += s->args[a].bytes;
    }
    return time_still_optimizer(b, seconds, &row->seconds);
}

static ls_status time_all(burst *b, double seconds, ls_layer_time *rows) {
    const ls_session *s = &b->session->compute;
    const ls_program *program = b->program;
    // After one run of the whole program, every buffer holds values as in training.
    ls_program_run(program, b->inputs, s->queue, &(ls_program_hooks){ 0 });
    LS_TRY(s->device->api->queue_sync(s->queue));
    for (b->number = 0; b->number < program->count; b->number++) {
        ls_layer_time *row = &rows[b->number];
        const ls_plan *plan = program->instructions[b->number].plan;
        *row = (ls_layer_time){ .op = ls_op_name(plan->desc.op),
            .kind = ls_op_kind_of(plan->desc.op),
            .layer = plan->desc.layer,
            .algorithm = plan->algorithm,
            .chosen = plan->chosen,
            .flops = ls_op_flops(&plan->desc),
            .bytes = bytes_of(b) };
        LS_TRY(time_instruction(b, seconds, &row->seconds));
    }
    b->number = OPTIMIZER_PASS;
    return time_optimizer(b, seconds, &rows[program->count]);
}

ls_status ls_run_layer_times(
    ls_run_session *session, const ls_position *at, double seconds, ls_layer_time **rows, int *count) {
    ls_program_inputs inputs = ls_session_inputs(&session->compute);
    burst b = { .session = session, .program = ls_run_session_full_program(session, at->epoch), .inputs = &inputs };
    ls_batch batch;
    *count = b.program->count + 1;
    *rows = ls_new(*count, sizeof **rows, "layers' times");
    ls_update_inputs(session->update, &inputs);
    LS_TRY(ls_run_session_read_ahead(session, at));
    LS_TRY(ls_input_pipeline_next(session->input, &inputs, &batch));
    LS_TRY(time_all(&b, seconds, *rows));
    return ls_input_pipeline_done(session->input);
}
