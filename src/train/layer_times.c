// layer_times.c - how long each instruction of a training micro-batch takes, one by one on real inputs, and the
// optimizer's pass at the end of an update.
#include "base/clock.h"
#include "base/memory.h"
#include "train/trainer_internal.h"

enum { BURST = 8 }; // runs of an instruction that are recorded or enqueued at a time

typedef struct {
    const ls_trainer *trainer;
    const ls_program_inputs *inputs;
    int number; // of the instruction; OPTIMIZER_PASS
} burst;

enum { OPTIMIZER_PASS = -1 };

static void run_once(const burst *b) {
    const ls_program *program = b->trainer->full;
    if (b->number == OPTIMIZER_PASS) {
        ls_update_run_optimizer(b->trainer->update);
        return;
    }
    const ls_instruction *instruction = &program->instructions[b->number];
    ls_buffer args[LS_OP_ARGS_MAX];
    ls_instruction_args(instruction, b->inputs, args);
    ls_plan_run(instruction->plan, args, program->workspace, b->trainer->queue);
}

static void run_burst(const burst *b, int runs) {
    for (int i = 0; i < runs; i++) run_once(b);
}

// Seconds of one run. Where the device can record, a burst is one recording:
// launches of small kernels then cost what they cost in training.
static ls_status time_instruction(const burst *b, double seconds, double *out) {
    const ls_device_api *api = b->trainer->device->api;
    ls_queue *queue = b->trainer->queue;
    ls_captured_graph *recording = NULL;
    int runs = api->capture_begin ? BURST : 1;
    run_once(b);
    if (api->capture_begin) {
        LS_TRY(api->capture_begin(queue));
        run_burst(b, runs);
        LS_TRY(api->capture_end(queue, &recording));
        api->graph_launch(recording, queue);
    }
    ls_status status = api->queue_sync(queue);
    double start = ls_clock_seconds(), elapsed = 0;
    int64_t bursts = 0;
    for (int64_t next = 1; !ls_failed(status) && elapsed < seconds; next *= 2) {
        for (int64_t i = 0; i < next; i++) {
            if (recording)
                api->graph_launch(recording, queue);
            else
                run_burst(b, runs);
        }
        status = api->queue_sync(queue);
        bursts += next;
        elapsed = ls_clock_seconds() - start;
    }
    if (recording) api->graph_free(recording);
    *out = elapsed / (double)(bursts * runs);
    return status;
}

static size_t bytes_of(const ls_trainer *t, const burst *b) {
    ls_buffer args[LS_OP_ARGS_MAX];
    ls_instruction_args(&t->full->instructions[b->number], b->inputs, args);
    return ls_instruction_bytes(&t->full->instructions[b->number], args);
}

// What the optimizer must see so that running it over and over changes no weight: gradient 0, rate 0, and a first
// update behind it (adamw divides by 1 - beta^t). state: as it is, kept for afterwards.
static void still(ls_trainer *t, ls_buffer state, ls_buffer host, ls_train_state *kept) {
    const ls_device_api *api = t->device->api;
    ls_train_state *now = ls_buffer_host(host);
    *kept = *now;
    now->lr = 0;
    now->skip = 0;
    if (now->applied < 1) now->applied = 1;
    api->copy(state, host, sizeof *now, t->queue);
    api->zero(ls_buffer_at(t->arenas->grad, 0, t->arenas->grad->bytes), t->arenas->grad->bytes, t->queue);
}

static ls_status time_optimizer(ls_trainer *t, const ls_program_inputs *inputs, double seconds, ls_layer_time *row) {
    const ls_device_api *api = t->device->api;
    const ls_optimizer *optimizer = ls_update_optimizer(t->update);
    ls_buffer state = inputs->buffer[LS_INPUT_STATE];
    ls_train_state kept;
    ls_slab *slab;
    LS_TRY(api->slab_new(t->device, LS_MEMORY_PINNED, sizeof kept, "state of the update (host)", &slab));
    ls_buffer host = ls_buffer_at(slab, 0, sizeof kept);
    const ls_plan *first = optimizer->steps[0].plan;
    *row = (ls_layer_time){
        .op = ls_op_name(first->desc.op), .layer = "all weights", .algorithm = first->algorithm, .once = 1
    };
    for (const ls_optimizer_step *s = optimizer->steps; s < optimizer->steps + optimizer->step_count; s++) {
        row->flops += ls_op_flops(&s->plan->desc);
        for (int a = 0; a < ls_op_args(s->plan->desc.op); a++) row->bytes += s->args[a].bytes;
    }
    api->copy(host, state, sizeof kept, t->queue);
    ls_status status = api->queue_sync(t->queue);
    if (!ls_failed(status)) {
        burst b = { t, inputs, OPTIMIZER_PASS };
        still(t, state, host, &kept);
        status = time_instruction(&b, seconds, &row->seconds);
        ls_keep_first(&status, api->queue_sync(t->queue));
        *(ls_train_state *)ls_buffer_host(host) = kept;
        api->copy(state, host, sizeof kept, t->queue);
        ls_keep_first(&status, api->queue_sync(t->queue));
    }
    api->slab_free(slab);
    return status;
}

static ls_status time_all(ls_trainer *t, const ls_program_inputs *inputs, double seconds, ls_layer_time *rows) {
    ls_program_run(
        t->full, inputs, t->queue, &(ls_program_hooks){ 0 }); // every buffer holds what training would put there
    LS_TRY(t->device->api->queue_sync(t->queue));
    for (int i = 0; i < t->full->count; i++) {
        const ls_plan *plan = t->full->instructions[i].plan;
        burst b = { t, inputs, i };
        rows[i] = (ls_layer_time){ .op = ls_op_name(plan->desc.op),
            .layer = plan->desc.layer,
            .algorithm = plan->algorithm,
            .chosen = plan->chosen,
            .flops = ls_op_flops(&plan->desc),
            .bytes = bytes_of(t, &b) };
        LS_TRY(time_instruction(&b, seconds, &rows[i].seconds));
    }
    return time_optimizer(t, inputs, seconds, &rows[t->full->count]);
}

ls_status ls_trainer_layer_times(ls_trainer *t, double seconds, ls_layer_time **rows, int *count) {
    ls_program_inputs inputs = { .buffer[LS_INPUT_TABLE] = ls_buffer_at(t->table, 0, t->table->bytes) };
    ls_batch batch;
    *count = t->full->count + 1;
    LS_TRY(LS_NEW(*rows, *count, "layers' times"));
    ls_update_inputs(t->update, &inputs);
    if (!ls_input_pipeline_started(t->feed)) LS_TRY(ls_trainer_start_feed(t));
    LS_TRY(ls_input_pipeline_next(t->feed, &inputs, &batch));
    LS_TRY(time_all(t, &inputs, seconds, *rows));
    return ls_input_pipeline_done(t->feed);
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
    while (ls_update_bucket(t->update, *count, &bytes, &end_param)) ++*count;
    LS_TRY(LS_NEW(*rows, *count + 1, "list of buckets"));
    for (int b = 0; ls_update_bucket(t->update, b, &bytes, &end_param); b++)
        (*rows)[b] = (ls_train_bucket){ bytes, instructions_until(t->full, end_param) };
    return LS_SUCCESS;
}
