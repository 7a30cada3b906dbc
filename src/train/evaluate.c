// evaluate.c - loss and accuracy over the test split or what is held out for validation: every sample once, at any number
// of ranks; in detail also what the logits say beside (outcomes.h).
#include "base/clock.h"
#include "base/memory.h"
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
    // In detail, else all is NULL: logits come to the host, of the micro-batch and of one picture.
    float *logits;
    double *of_picture;
    ls_outcomes *outcomes;
    ls_tta *tta; // outcomes are of what it makes of the logits; NULL: of the logits themselves
} evaluated_set;

ls_status ls_trainer_read_logits(ls_trainer *t, float *logits) {
    const ls_session *s = &t->session.compute;
    LS_TRY(s->device->api->queue_sync(s->queue));
    ls_program_export_logits(s->program[LS_RUN_EVAL_PROGRAM], logits);
    return LS_SUCCESS;
}

static ls_status look_at_logits(ls_trainer *t, const evaluated_set *set, const ls_batch *batch) {
    const int classes = t->plan.graph->classes;
    const int32_t *labels = ls_input_pipeline_labels(set->input, batch);
    const int64_t first = batch->window * set->batches->global_batch + (int64_t)batch->position;
    LS_TRY(ls_trainer_read_logits(t, set->logits));
    for (int k = 0; k < batch->count; k++) {
        for (int c = 0; c < classes; c++) set->of_picture[c] = (double)set->logits[k * classes + c];
        if (set->tta)
            ls_tta_keep(set->tta, first + k, labels[k], set->of_picture);
        else
            ls_outcomes_add(set->outcomes, first + k, labels[k], set->of_picture);
    }
    return LS_SUCCESS;
}

static ls_status run_batches(ls_trainer *t, const evaluated_set *set, int64_t count) {
    ls_program_inputs inputs = ls_session_inputs(&t->session.compute);
    ls_update_inputs(t->session.update, &inputs);
    ls_update_evaluate_begin(t->session.update);
    for (int64_t i = 0; i < count; i++) {
        ls_batch batch;
        LS_TRY(ls_input_pipeline_next(set->input, &inputs, &batch));
        LS_TRY(ls_tta_run_view(t, 0, &inputs));
        if (set->outcomes) LS_TRY(look_at_logits(t, set, &batch));
        LS_TRY(ls_input_pipeline_done(set->input));
    }
    return LS_SUCCESS;
}

static ls_status evaluate_mine(ls_trainer *t, const evaluated_set *set, int64_t count, ls_micro_result *result) {
    ls_loader_options options = { .batches = *set->batches, .epochs = 1, .workers = (int)t->plan.cfg->data_workers };
    LS_TRY(ls_input_pipeline_start(set->input, &options, count));
    ls_status status = run_batches(t, set, count);
    LS_THEN(status, ls_update_take_result(t->session.update, result));
    ls_input_pipeline_stop(set->input);
    return status;
}

static ls_status sum_over_ranks(
    ls_trainer *t, const ls_micro_result *mine, double *loss, double *accuracy, int64_t *count) {
    int64_t counts[2] = { mine->correct, mine->count };
    double sum = mine->loss_sum;
    LS_TRY(ls_comm_allreduce(t->plan.comm, counts, 2, LS_I64, LS_REDUCE_SUM));
    LS_TRY(ls_comm_allreduce(t->plan.comm, &sum, 1, LS_F64, LS_REDUCE_SUM));
    *loss = sum / (double)counts[1];
    *accuracy = (double)counts[0] / (double)counts[1];
    *count = counts[1];
    return LS_SUCCESS;
}

// --- in detail -----------------------------------------------------------------------------------

static ls_status open_details(ls_trainer *t, int with_tta, int64_t samples, evaluated_set *set) {
    const size_t classes = (size_t)t->plan.graph->classes;
    LS_TRY(LS_NEW(set->logits, (size_t)set->batches->micro_batch * classes, "logits of an evaluation"));
    LS_TRY(LS_NEW(set->of_picture, classes, "logits of an evaluation"));
    LS_TRY(ls_outcomes_new(set->batches->samples, t->plan.graph->classes, &set->outcomes));
    return with_tta ? ls_tta_new(t, samples, &set->tta) : LS_SUCCESS;
}

static void close_details(evaluated_set *set) {
    free(set->logits);
    free(set->of_picture);
    ls_outcomes_free(set->outcomes);
    ls_tta_free(set->tta);
}

// On rank 0 t->progress.details becomes what the outcomes of all ranks say, which are gathered.
static ls_status keep_details(ls_trainer *t, const evaluated_set *set, int with_tta) {
    const int tests = set->input == t->session.eval_input;
    ls_evaluation *e;
    if (t->plan.info.comm->rank != 0) return LS_SUCCESS;
    LS_TRY(ls_outcomes_evaluate(set->outcomes, &e));
    ls_evaluation_free(t->progress.details);
    t->progress.details = e;
    e->set = tests ? "test" : "validation";
    e->of = with_tta ? "tta" : "plain";
    return ls_outcomes_illustrate(tests ? t->plan.test_data : t->plan.val_data, e);
}

// --- the whole -----------------------------------------------------------------------------------

static ls_status gather(ls_trainer *t, const evaluated_set *set) {
    return set->outcomes ? ls_outcomes_gather(set->outcomes, t->plan.comm) : LS_SUCCESS;
}

static ls_status evaluate_test(ls_trainer *t, int64_t batches, const evaluated_set *set, ls_train_evaluation *e) {
    ls_micro_result result;
    LS_TRY(evaluate_mine(t, set, batches, &result));
    LS_TRY(sum_over_ranks(t, &result, &e->test_loss, &e->test_accuracy, &e->test_samples));
    if (set->tta) LS_TRY(ls_tta_finish(set->tta, set->outcomes, &e->tta_samples));
    LS_TRY(gather(t, set));
    if (set->tta) ls_outcomes_mean(set->outcomes, &e->tta_loss, &e->tta_accuracy);
    return LS_SUCCESS;
}

static ls_status evaluate_validation(ls_trainer *t, int64_t batches, const evaluated_set *set, ls_train_evaluation *e) {
    ls_micro_result result;
    LS_TRY(evaluate_mine(t, set, batches, &result));
    LS_TRY(sum_over_ranks(t, &result, &e->val_loss, &e->val_accuracy, &e->val_samples));
    return gather(t, set);
}

static ls_status evaluate(ls_trainer *t, ls_split split, int in_detail, ls_train_evaluation *e) {
    const int tests = split == LS_SPLIT_TEST;
    evaluated_set set = { .input = tests ? t->session.eval_input : t->session.val_input,
        .batches = tests ? &t->plan.eval_batches : &t->plan.val_batches };
    const double start = ls_clock_seconds();
    int64_t batches, samples;
    ls_comm_phase(t->plan.comm, tests ? "evaluation" : "validation", t->progress.done.updates);
    e->update = t->progress.done.updates;
    e->epoch = t->progress.done.epoch;
    count_mine(set.batches, &batches, &samples);
    ls_status status = LS_SUCCESS;
    if (in_detail) status = open_details(t, tests && t->plan.cfg->eval_tta != LS_TTA_OFF, samples, &set);
    LS_THEN(status, tests ? evaluate_test(t, batches, &set, e) : evaluate_validation(t, batches, &set, e));
    if (in_detail) LS_THEN(status, keep_details(t, &set, tests && e->tta_samples > 0));
    close_details(&set);
    e->seconds += ls_clock_seconds() - start;
    return status;
}

ls_status ls_trainer_evaluate(ls_trainer *t, int in_detail, ls_train_evaluation *e) {
    e->tta_samples = 0;
    return evaluate(t, LS_SPLIT_TEST, in_detail, e);
}

ls_status ls_trainer_validate(ls_trainer *t, int in_detail, ls_train_evaluation *e) {
    return evaluate(t, LS_SPLIT_VALIDATION, in_detail, e);
}
