// evaluate.c - loss and accuracy over the test split or what is held out for validation: every sample once, at any number
// of ranks.
#include "base/clock.h"
#include "train/tta.h"

// Of this rank; the end of the set falls to lower ranks.
static void count_mine(const ls_batches *b, int64_t *batches, int64_t *samples) {
    *batches = *samples = 0;
    for (int64_t window = 0; window < b->windows; window++) {
        const int mine = ls_batches_micro_samples(b, window, b->rank);
        *batches += mine > 0;
        *samples += mine;
    }
}

// What is evaluated on.
typedef struct {
    ls_input_pipeline *input;
    const ls_batches *batches;
    ls_tta *tta; // keeps what it sees; NULL: nothing is kept
} evaluated_set;

static ls_status run_batches(ls_trainer *t, const evaluated_set *set, int64_t count) {
    ls_program_inputs inputs = ls_session_inputs(&t->session);
    ls_update_inputs(t->update, &inputs);
    ls_update_evaluate_begin(t->update);
    for (int64_t i = 0; i < count; i++) {
        ls_batch batch;
        LS_TRY(ls_input_pipeline_next(set->input, &inputs, &batch));
        LS_TRY(ls_tta_run_view(t, 0, &inputs));
        if (set->tta) LS_TRY(ls_tta_keep(set->tta, &batch));
        LS_TRY(ls_input_pipeline_done(set->input));
    }
    return LS_SUCCESS;
}

static ls_status evaluate_mine(ls_trainer *t, const evaluated_set *set, int64_t count, ls_micro_result *result) {
    ls_loader_options options = { .batches = *set->batches, .epochs = 1, .workers = (int)t->cfg->data_workers };
    LS_TRY(ls_input_pipeline_start(set->input, &options, count));
    ls_status status = run_batches(t, set, count);
    LS_THEN(status, ls_update_take_result(t->update, result));
    ls_input_pipeline_stop(set->input);
    return status;
}

static ls_status sum_over_ranks(
    ls_trainer *t, const ls_micro_result *mine, double *loss, double *accuracy, int64_t *count) {
    int64_t counts[2] = { mine->correct, mine->count };
    double sum = mine->loss_sum;
    LS_TRY(ls_comm_allreduce(t->comm, counts, 2, LS_I64, LS_REDUCE_SUM));
    LS_TRY(ls_comm_allreduce(t->comm, &sum, 1, LS_F64, LS_REDUCE_SUM));
    *loss = sum / (double)counts[1];
    *accuracy = (double)counts[0] / (double)counts[1];
    *count = counts[1];
    return LS_SUCCESS;
}

static ls_status evaluate_test(ls_trainer *t, int64_t batches, ls_tta *tta, ls_train_evaluation *e) {
    const evaluated_set set = { t->eval_input, &t->eval_batches, tta };
    ls_micro_result result;
    int64_t count;
    LS_TRY(evaluate_mine(t, &set, batches, &result));
    LS_TRY(sum_over_ranks(t, &result, &e->test_loss, &e->test_accuracy, &e->test_samples));
    if (!tta) return LS_SUCCESS;
    LS_TRY(ls_tta_finish(tta, &result, &e->tta_samples));
    return sum_over_ranks(t, &result, &e->tta_loss, &e->tta_accuracy, &count);
}

ls_status ls_trainer_evaluate(ls_trainer *t, int with_tta, ls_train_evaluation *e) {
    double start = ls_clock_seconds();
    int64_t batches, samples;
    ls_tta *tta = NULL;
    ls_comm_phase(t->comm, "evaluation", t->done.updates);
    e->update = t->done.updates;
    e->epoch = t->done.epoch;
    e->tta_samples = 0;
    count_mine(&t->eval_batches, &batches, &samples);
    if (with_tta && t->cfg->eval_tta != LS_TTA_OFF) LS_TRY(ls_tta_new(t, samples, &tta));
    ls_status status = evaluate_test(t, batches, tta, e);
    ls_tta_free(tta);
    e->seconds += ls_clock_seconds() - start;
    return status;
}

ls_status ls_trainer_validate(ls_trainer *t, ls_train_evaluation *e) {
    const evaluated_set set = { t->val_input, &t->val_batches, NULL };
    double start = ls_clock_seconds();
    int64_t batches, samples;
    ls_micro_result result;
    ls_comm_phase(t->comm, "validation", t->done.updates);
    e->update = t->done.updates;
    e->epoch = t->done.epoch;
    count_mine(set.batches, &batches, &samples);
    LS_TRY(evaluate_mine(t, &set, batches, &result));
    LS_TRY(sum_over_ranks(t, &result, &e->val_loss, &e->val_accuracy, &e->val_samples));
    e->seconds += ls_clock_seconds() - start;
    return LS_SUCCESS;
}
