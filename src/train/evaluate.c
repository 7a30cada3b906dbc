#include "train/evaluate.h"

#include "base/clock.h"
#include "base/memory.h"
#include "train/picture_results.h"
#include "train/tta.h"

// Counts the batches and samples of the evaluated set that this rank has. If the set's last window is short, the lowest
// ranks get its samples.
static void count_mine(const ls_batches *b, int64_t *batches, int64_t *samples) {
    *batches = *samples = 0;
    for (int64_t window = 0; window < b->windows; window++) {
        const int mine = ls_batches_micro_samples(b, window, b->rank);
        *batches += mine > 0;
        *samples += mine;
    }
}

// The set that is evaluated, and where results go.
typedef struct {
    ls_input_pipeline *input;
    const ls_batches *batches;
    // Only in a detailed evaluation, otherwise NULL. Copies of a micro-batch's and of one picture's logits.
    float *logits;
    double *of_picture;
    ls_picture_results *outcomes;
    // `outcomes` gets the logits that test-time augmentation computes. NULL: it gets the logits of view 0.
    ls_tta *tta;
} evaluated_set;

static ls_status keep_outcomes(ls_run_session *session, const evaluated_set *set, const ls_batch *batch) {
    const int classes = session->plan->graph->classes;
    const int32_t *labels = ls_input_pipeline_labels(set->input, batch);
    const int64_t first = batch->window * set->batches->global_batch + (int64_t)batch->position;
    LS_TRY(ls_run_session_read_logits(session, set->logits));
    for (int k = 0; k < batch->count; k++) {
        for (int c = 0; c < classes; c++) set->of_picture[c] = (double)set->logits[k * classes + c];
        if (set->tta)
            ls_tta_keep(set->tta, first + k, labels[k], set->of_picture);
        else
            ls_picture_results_add(set->outcomes, first + k, labels[k], set->of_picture);
    }
    return LS_SUCCESS;
}

static ls_status run_batches(ls_run_session *session, const evaluated_set *set, int64_t count) {
    ls_program_inputs inputs = ls_session_inputs(&session->compute);
    ls_update_inputs(session->update, &inputs);
    ls_update_evaluate_begin(session->update);
    for (int64_t i = 0; i < count; i++) {
        ls_batch batch;
        LS_TRY(ls_input_pipeline_next(set->input, &inputs, &batch));
        LS_TRY(ls_run_session_run_view(session, 0, &inputs));
        if (set->outcomes) LS_TRY(keep_outcomes(session, set, &batch));
        LS_TRY(ls_input_pipeline_done(set->input));
    }
    return LS_SUCCESS;
}

static ls_status evaluate_mine(
    ls_run_session *session, const evaluated_set *set, int64_t count, ls_micro_result *result) {
    ls_loader_options options = {
        .batches = *set->batches, .epochs = 1, .workers = (int)session->plan->cfg->data_workers
    };
    LS_TRY(ls_input_pipeline_start(set->input, &options, count));
    ls_status status = run_batches(session, set, count);
    LS_THEN(status, ls_update_take_result(session->update, result));
    ls_input_pipeline_stop(set->input);
    return status;
}

static ls_status sum_over_ranks(
    ls_run_session *session, const ls_micro_result *mine, double *loss, double *accuracy, int64_t *count) {
    int64_t counts[2] = { mine->correct, mine->count };
    double sum = mine->loss_sum;
    LS_TRY(ls_comm_allreduce(session->plan->comm, counts, 2, LS_I64, LS_REDUCE_SUM));
    LS_TRY(ls_comm_allreduce(session->plan->comm, &sum, 1, LS_F64, LS_REDUCE_SUM));
    *loss = sum / (double)counts[1];
    *accuracy = (double)counts[0] / (double)counts[1];
    *count = counts[1];
    return LS_SUCCESS;
}

// --- in detail -----------------------------------------------------------------------------------

static ls_status open_details(ls_run_session *session, int with_tta, int64_t samples, evaluated_set *set) {
    const size_t classes = (size_t)session->plan->graph->classes;
    LS_TRY(ls_try_new(
        &set->logits, (size_t)set->batches->micro_batch * classes, sizeof *set->logits, "logits of an evaluation"));
    LS_TRY(ls_try_new(&set->of_picture, classes, sizeof *set->of_picture, "logits of an evaluation"));
    LS_TRY(ls_picture_results_new(set->batches->samples, session->plan->graph->classes,
        ls_dataset_label_sets(session->plan->train_data), &set->outcomes));
    return with_tta ? ls_tta_new(session, samples, &set->tta) : LS_SUCCESS;
}

static void close_details(evaluated_set *set) {
    free(set->logits);
    free(set->of_picture);
    ls_picture_results_free(set->outcomes);
    ls_tta_free(set->tta);
}

// On rank 0, replaces progress->details by the evaluation of all gathered outcomes.
static ls_status keep_details(
    const ls_run_session *session, ls_run_progress *progress, const evaluated_set *set, int with_tta) {
    const ls_run_plan *plan = session->plan;
    const int tests = set->input == session->eval_input;
    ls_evaluation *e;
    if (plan->info.comm->rank != 0) return LS_SUCCESS;
    LS_TRY(ls_picture_results_evaluate(set->outcomes, &e));
    ls_evaluation_free(progress->details);
    progress->details = e;
    e->set = tests ? "test" : "validation";
    e->of = with_tta ? "tta" : "plain";
    return ls_picture_results_illustrate(tests ? plan->test_data : plan->val_data, e);
}

// --- the whole -----------------------------------------------------------------------------------

static ls_status gather(const ls_run_session *session, const evaluated_set *set) {
    return set->outcomes ? ls_picture_results_gather(set->outcomes, session->plan->comm) : LS_SUCCESS;
}

static ls_status evaluate_test(
    ls_run_session *session, int64_t batches, const evaluated_set *set, ls_train_evaluation *e) {
    ls_micro_result result;
    LS_TRY(evaluate_mine(session, set, batches, &result));
    LS_TRY(sum_over_ranks(session, &result, &e->test_loss, &e->test_accuracy, &e->test_samples));
    if (set->tta) LS_TRY(ls_tta_finish(set->tta, set->outcomes, &e->tta_samples));
    LS_TRY(gather(session, set));
    if (set->tta) ls_picture_results_mean(set->outcomes, &e->tta_loss, &e->tta_accuracy);
    return LS_SUCCESS;
}

static ls_status evaluate_validation(
    ls_run_session *session, int64_t batches, const evaluated_set *set, ls_train_evaluation *e) {
    ls_micro_result result;
    LS_TRY(evaluate_mine(session, set, batches, &result));
    LS_TRY(sum_over_ranks(session, &result, &e->val_loss, &e->val_accuracy, &e->val_samples));
    return gather(session, set);
}

static ls_status evaluate(
    ls_run_session *session, ls_run_progress *progress, ls_split split, int in_detail, ls_train_evaluation *e) {
    const ls_run_plan *plan = session->plan;
    const int tests = split == LS_SPLIT_TEST;
    evaluated_set set = { .input = tests ? session->eval_input : session->val_input,
        .batches = tests ? &plan->eval_batches : &plan->val_batches };
    const double start = ls_clock_seconds();
    int64_t batches, samples;
    ls_comm_phase(plan->comm, tests ? "evaluation" : "validation", progress->done.updates);
    e->update = progress->done.updates;
    e->epoch = progress->done.epoch;
    count_mine(set.batches, &batches, &samples);
    ls_status status = LS_SUCCESS;
    if (in_detail) status = open_details(session, tests && plan->cfg->eval_tta != LS_TTA_OFF, samples, &set);
    LS_THEN(status, tests ? evaluate_test(session, batches, &set, e) : evaluate_validation(session, batches, &set, e));
    if (in_detail) LS_THEN(status, keep_details(session, progress, &set, tests && e->tta_samples > 0));
    close_details(&set);
    e->seconds += ls_clock_seconds() - start;
    return status;
}

ls_status ls_run_evaluate(ls_run_session *session, ls_run_progress *progress, int in_detail, ls_train_evaluation *e) {
    e->tta_samples = 0;
    return evaluate(session, progress, LS_SPLIT_TEST, in_detail, e);
}

ls_status ls_run_validate(ls_run_session *session, ls_run_progress *progress, int in_detail, ls_train_evaluation *e) {
    return evaluate(session, progress, LS_SPLIT_VALIDATION, in_detail, e);
}
