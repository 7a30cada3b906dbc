// evaluate.c - loss and accuracy over the test split: every sample once, at any number of ranks.
#include "base/clock.h"
#include "train/trainer_internal.h"

static ls_status run_batches(ls_trainer *t, ls_loader *loader, ls_program_inputs *inputs) {
    const ls_batches *b = &t->eval_batches;
    for (int64_t window = 0; window < b->windows; window++) {
        if (ls_batches_micro_samples(b, window, b->rank) == 0) continue; // the end of the set falls to lower ranks
        ls_batch batch;
        LS_TRY(ls_loader_acquire(loader, &batch));
        ls_trainer_slot_inputs(t, &t->eval_ring, batch.slot, inputs);
        ls_micro_input micro = { .count = batch.count, .position = batch.position };
        ls_update_set_micro(t->update, &micro);
        ls_program_run(t->eval, inputs, t->queue, NULL, NULL);
        LS_TRY(t->device->api->queue_sync(t->queue)); // the slot and the micro record are free again
        ls_loader_release(loader, &batch);
    }
    return LS_SUCCESS;
}

static ls_status evaluate_mine(ls_trainer *t, ls_micro_result *result) {
    ls_loader_options options = {
        .dataset = t->test_data,
        .batches = t->eval_batches,
        .epochs = 1,
        .workers = (int)t->cfg->data_workers,
        .slots = t->eval_ring.slots,
        .slot_count = t->eval_ring.count,
    };
    ls_loader *loader;
    LS_TRY(ls_loader_new(&options, &loader));
    ls_program_inputs inputs;
    ls_update_inputs(t->update, &inputs);
    ls_status status = run_batches(t, loader, &inputs);
    ls_loader_free(loader);
    if (ls_failed(status)) return status;
    return ls_update_take_result(t->update, result);
}

ls_status ls_trainer_evaluate(ls_trainer *t, ls_train_evaluation *evaluation) {
    double start = ls_clock_seconds();
    ls_comm_phase(t->comm, "evaluation", t->updates);
    ls_micro_result result;
    LS_TRY(evaluate_mine(t, &result));
    int64_t counts[2] = { result.correct, result.count };
    LS_TRY(ls_comm_allreduce(t->comm, counts, 2, LS_I64, LS_REDUCE_SUM));
    LS_TRY(ls_comm_allreduce(t->comm, &result.loss_sum, 1, LS_F64, LS_REDUCE_SUM));
    *evaluation = (ls_train_evaluation){
        .update = t->updates,
        .epoch = t->epoch,
        .test_loss = result.loss_sum / (double)counts[1],
        .test_accuracy = (double)counts[0] / (double)counts[1],
        .test_samples = counts[1],
        .seconds = ls_clock_seconds() - start,
    };
    return LS_SUCCESS;
}
