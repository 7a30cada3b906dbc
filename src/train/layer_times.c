// layer_times.c - how long each instruction of a training micro-batch takes, one by one on real inputs.
#include <stdlib.h>
#include "base/clock.h"
#include "train/trainer_internal.h"

enum { BURST = 8 }; // runs of an instruction that are recorded or enqueued at a time

typedef struct {
    const ls_trainer *trainer;
    const ls_program_inputs *inputs;
    int number; // of the instruction
} burst;

static void run_once(const burst *b) {
    const ls_program *program = b->trainer->full;
    const ls_instruction *instruction = &program->instructions[b->number];
    ls_buffer args[LS_OP_ARGS_MAX];
    ls_instruction_args(instruction, b->inputs, args);
    ls_plan_run(instruction->plan, args, program->workspace, b->trainer->queue);
}

static void run_burst(const burst *b) {
    for (int i = 0; i < BURST; i++) run_once(b);
}

// Seconds of one run. Where the device can record, a burst is one recording: launches of small kernels then cost what
// they cost in training.
static ls_status time_instruction(const burst *b, double seconds, double *out) {
    const ls_device_api *api = b->trainer->device->api;
    ls_queue *queue = b->trainer->queue;
    ls_recording *recording = NULL;
    run_once(b);
    if (api->record_begin) {
        LS_TRY(api->record_begin(queue));
        run_burst(b);
        LS_TRY(api->record_end(queue, &recording));
        api->recording_launch(recording, queue);
    }
    ls_status status = api->queue_sync(queue);
    double start = ls_clock_seconds(), elapsed = 0;
    int64_t bursts = 0;
    for (int64_t next = 1; !ls_failed(status) && elapsed < seconds; next *= 2) {
        for (int64_t i = 0; i < next; i++) {
            if (recording)
                api->recording_launch(recording, queue);
            else
                run_burst(b);
        }
        status = api->queue_sync(queue);
        bursts += next;
        elapsed = ls_clock_seconds() - start;
    }
    if (recording) api->recording_free(recording);
    *out = elapsed / (double)(bursts * BURST);
    return status;
}

static size_t bytes_of(const ls_trainer *t, const burst *b) {
    ls_buffer args[LS_OP_ARGS_MAX];
    ls_instruction_args(&t->full->instructions[b->number], b->inputs, args);
    return ls_instruction_bytes(&t->full->instructions[b->number], args);
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
            .flops = ls_op_flops(&plan->desc),
            .bytes = bytes_of(t, &b) };
        LS_TRY(time_instruction(&b, seconds, &rows[i].seconds));
    }
    return LS_SUCCESS;
}

ls_status ls_trainer_layer_times(ls_trainer *t, double seconds, ls_layer_time **rows, int *count) {
    ls_program_inputs inputs = { .buffer[LS_INPUT_TABLE] = ls_buffer_at(t->table, 0, t->table->bytes) };
    ls_batch batch;
    *count = t->full->count;
    *rows = calloc((size_t)*count, sizeof **rows);
    if (!*rows) return ls_fail(LS_DEVICE, "out of host memory for the layers' times");
    ls_update_inputs(t->update, &inputs);
    if (!ls_feed_started(t->feed)) LS_TRY(ls_trainer_start_feed(t));
    LS_TRY(ls_feed_next(t->feed, &inputs, &batch));
    LS_TRY(time_all(t, &inputs, seconds, *rows));
    return ls_feed_done(t->feed);
}
