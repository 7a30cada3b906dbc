// evaluate.c - loss and accuracy over the test split: every sample once, at any number of ranks.
#include "base/clock.h"
#include "train/trainer_internal.h"

// Of this rank; the end of the set falls to lower ranks.
static int64_t batches_of(const ls_batches *b) {
    int64_t count = 0;
    for (int64_t window = 0; window < b->windows; window++) count += ls_batches_micro_samples(b, window, b->rank) > 0;
    return count;
}

static ls_status run_batches(ls_trainer *t, int64_t count) {
    ls_program_inputs inputs = ls_session_inputs(&t->session);
    ls_update_inputs(t->update, &inputs);
    ls_update_evaluate_begin(t->update);
    for (int64_t i = 0; i < count; i++) {
        ls_batch batch;
        LS_TRY(ls_input_pipeline_next(t->eval_input, &inputs, &batch));
        LS_TRY(ls_update_evaluate(t->update, t->session.program[LS_TRAINER_EVAL], &inputs));
        LS_TRY(ls_input_pipeline_done(t->eval_input));
    }
    return LS_SUCCESS;
}

static ls_status evaluate_mine(ls_trainer *t, ls_micro_result *result) {
    ls_loader_options options = { .batches = t->eval_batches, .epochs = 1, .workers = (int)t->cfg->data_workers };
    int64_t count = batches_of(&t->eval_batches);
    LS_TRY(ls_input_pipeline_start(t->eval_input, &options, count));
    ls_status status = run_batches(t, count);
    LS_THEN(status, ls_update_take_result(t->update, result));
    ls_input_pipeline_stop(t->eval_input);
    return status;
}

ls_status ls_trainer_evaluate(ls_trainer *t, ls_train_evaluation *evaluation) {
    double start = ls_clock_seconds();
    ls_comm_phase(t->comm, "evaluation", t->done.updates);
    ls_micro_result result;
    LS_TRY(evaluate_mine(t, &result));
    int64_t counts[2] = { result.correct, result.count };
    LS_TRY(ls_comm_allreduce(t->comm, counts, 2, LS_I64, LS_REDUCE_SUM));
    LS_TRY(ls_comm_allreduce(t->comm, &result.loss_sum, 1, LS_F64, LS_REDUCE_SUM));
    *evaluation = (ls_train_evaluation){
        .update = t->done.updates,
        .epoch = t->done.epoch,
        .test_loss = result.loss_sum / (double)counts[1],
        .test_accuracy = (double)counts[0] / (double)counts[1],
        .test_samples = counts[1],
        .seconds = ls_clock_seconds() - start,
    };
    return LS_SUCCESS;
}
