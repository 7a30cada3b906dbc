#include "train/tta.h"

#include <math.h>
#include <stdlib.h>
#include "base/log.h"
#include "base/memory.h"
#include "train/positions.h"
#include "train/views.h"

// Returns the number of test pictures that are evaluated in all views.
static int64_t count_wanted(const ls_run_plan *plan) {
    return ls_ticks_down(ls_ticks(plan->cfg->eval_tta_share, plan->info.test_data->count));
}

ls_status ls_tta_upload_views(ls_run_session *session) {
    const ls_run_plan *plan = session->plan;
    if (plan->cfg->eval_tta == LS_TTA_OFF) return LS_SUCCESS;
    // a training run reports this at its start
    if (plan->evaluates && plan->info.comm->rank == 0 && count_wanted(plan) == 0)
        ls_warn("eval.tta_share = %g of %lld test pictures is none: eval.tta has no effect", plan->cfg->eval_tta_share,
            (long long)plan->info.test_data->count);
    LS_TRY(ls_views_new(&session->compute, plan->cfg, plan->eval_batches.micro_batch, &session->views));
    session->compute.memory.control += session->views->bytes;
    return LS_SUCCESS;
}

// --- pictures ------------------------------------------------------------------------------------

struct ls_tta {
    ls_run_session *session;
    int64_t count, kept; // number of this rank's pictures; number of pictures kept so far
    uint32_t *samples;   // numbers of the kept pictures in the test split
    int32_t *labels;
    double *logits;      // of the kept pictures: (count, classes)
    float *batch_logits; // logits of the last run: (micro-batch, classes)
    // Pictures that are evaluated in all views: numbers in the test split, and among this rank's pictures.
    int64_t chosen_count;
    uint32_t *chosen;
    int64_t *chosen_kept;
};

static int classes_of(const ls_tta *tta) {
    return tta->session->plan->graph->classes;
}

ls_status ls_tta_new(ls_run_session *session, int64_t samples, ls_tta **out) {
    ls_tta *tta;
    const size_t n = (size_t)samples, classes = (size_t)session->plan->graph->classes;
    tta = ls_new(1, sizeof *tta, "test-time augmentation");
    *tta = (ls_tta){ .session = session, .count = samples };
    ls_status status = ls_try_new(&tta->samples, n + 1, sizeof *tta->samples, "logits of %zu test pictures", n);
    LS_THEN(status, ls_try_new(&tta->labels, n + 1, sizeof *tta->labels, "logits of %zu test pictures", n));
    LS_THEN(status, ls_try_new(&tta->logits, n * classes + 1, sizeof *tta->logits, "logits of %zu test pictures", n));
    LS_THEN(status, ls_try_new(&tta->chosen, n + 1, sizeof *tta->chosen, "logits of %zu test pictures", n));
    LS_THEN(status, ls_try_new(&tta->chosen_kept, n + 1, sizeof *tta->chosen_kept, "logits of %zu test pictures", n));
    LS_THEN(status, ls_try_new(&tta->batch_logits, (size_t)session->plan->eval_batches.micro_batch * classes,
                        sizeof *tta->batch_logits, "logits of %zu test pictures", n));
    return LS_GIVE_OR_FREE(status, tta, out, ls_tta_free);
}

void ls_tta_free(ls_tta *tta) {
    if (!tta) return;
    free(tta->samples);
    free(tta->labels);
    free(tta->logits);
    free(tta->chosen);
    free(tta->chosen_kept);
    free(tta->batch_logits);
    free(tta);
}

void ls_tta_keep(ls_tta *tta, int64_t index, int label, const double *logits) {
    const int classes = classes_of(tta);
    tta->samples[tta->kept] = (uint32_t)index;
    tta->labels[tta->kept] = label;
    memcpy(tta->logits + tta->kept * classes, logits, (size_t)classes * sizeof *logits);
    tta->kept++;
}

// --- choosing pictures to evaluate in all views --------------------------------------------------

typedef struct {
    double confidence;
    int64_t sample;
} candidate;

static int order_candidates(const void *left, const void *right) {
    const candidate *a = left, *b = right;
    if (a->confidence != b->confidence) return a->confidence < b->confidence ? -1 : 1;
    return (a->sample > b->sample) - (a->sample < b->sample);
}

// Returns a kept picture with the probability of its predicted class or labels, or with 0 if that is not a number.
static candidate candidate_of(const ls_tta *tta, int64_t kept) {
    const int classes = classes_of(tta);
    const double *logits = tta->logits + kept * classes;
    double log_p = 0;
    if (tta->session->plan->info.train_data->label_rows) {
        for (int k = 0; k < classes; k++) log_p -= ls_label_loss(fabs(logits[k]));
    } else {
        int best;
        const double log_of_sum = ls_log_sum(logits, classes, &best);
        log_p = logits[best] - log_of_sum;
    }
    const double confidence = exp(log_p);
    return (candidate){ confidence >= 0 ? confidence : 0, tta->samples[kept] };
}

// Gathers the candidates of all ranks (pictures and the confidence of their predictions) into `all`, sorted. Each
// picture belongs to one rank; the other ranks add 0 to its confidence.
static ls_status gather_candidates(const ls_tta *tta, double *confidence, candidate *all) {
    const int64_t samples = tta->session->plan->info.test_data->count;
    for (int64_t i = 0; i < tta->count; i++) confidence[tta->samples[i]] = candidate_of(tta, i).confidence;
    LS_TRY(ls_comm_allreduce(tta->session->plan->comm, confidence, samples, LS_F64, LS_REDUCE_SUM));
    for (int64_t s = 0; s < samples; s++) all[s] = (candidate){ confidence[s], s };
    qsort(all, (size_t)samples, sizeof *all, order_candidates);
    return LS_SUCCESS;
}

// Finds the last of the `wanted` pictures that are evaluated in all views, in the sorted order of all ranks'
// candidates.
static ls_status find_last(const ls_tta *tta, int64_t wanted, candidate *last) {
    const size_t samples = (size_t)tta->session->plan->info.test_data->count;
    double *confidence = NULL;
    candidate *all = NULL;
    ls_status status =
        ls_try_new(&confidence, samples, sizeof *confidence, "confidences of %zu test pictures", samples);
    LS_THEN(status, ls_try_new(&all, samples, sizeof *all, "confidences of %zu test pictures", samples));
    status = ls_comm_agree(tta->session->plan->comm, status, NULL);
    LS_THEN(status, gather_candidates(tta, confidence, all));
    if (!ls_failed(status)) *last = wanted > 0 ? all[wanted - 1] : (candidate){ -1, 0 };
    free(confidence);
    free(all);
    return status;
}

static ls_status choose_pictures(ls_tta *tta, int64_t *wanted) {
    const ls_run_plan *plan = tta->session->plan;
    candidate last = { INFINITY, 0 };
    *wanted = count_wanted(plan);
    if (plan->cfg->eval_tta_share < 1) LS_TRY(find_last(tta, *wanted, &last));
    for (int64_t i = 0; i < tta->count; i++) {
        const candidate mine = candidate_of(tta, i);
        if (order_candidates(&mine, &last) > 0) continue;
        tta->chosen_kept[tta->chosen_count] = i;
        tta->chosen[tta->chosen_count++] = tta->samples[i];
    }
    return LS_SUCCESS;
}

// --- evaluating them -----------------------------------------------------------------------------

// Adds the last view's logits, times its weight, to the logits of the batch's pictures. first: index in `chosen` of the
// first picture.
static void add_view(ls_tta *tta, const ls_batch *batch, int64_t first, double weight) {
    const int classes = classes_of(tta);
    for (int i = 0; i < batch->count * classes; i++)
        tta->logits[tta->chosen_kept[first + i / classes] * classes + i % classes] +=
            weight * (double)tta->batch_logits[i];
}

static ls_status evaluate_batch(ls_tta *tta, ls_program_inputs *inputs) {
    ls_run_session *session = tta->session;
    const ls_run_plan *plan = session->plan;
    ls_batch batch;
    LS_TRY(ls_input_pipeline_next(session->eval_input, inputs, &batch));
    const int64_t first = batch.window * plan->eval_batches.micro_batch;
    for (int v = 1; v < ls_views_count(plan->cfg); v++) {
        LS_TRY(ls_run_session_run_view(session, v, inputs));
        LS_TRY(ls_run_session_read_logits(session, tta->batch_logits));
        add_view(tta, &batch, first, ls_views_weight(plan->cfg, v));
    }
    return ls_input_pipeline_done(session->eval_input);
}

static ls_status evaluate_chosen(ls_tta *tta) {
    ls_run_session *session = tta->session;
    const ls_run_plan *plan = session->plan;
    const int classes = classes_of(tta), micro = plan->eval_batches.micro_batch;
    const int64_t windows = (tta->chosen_count + micro - 1) / micro;
    for (int64_t i = 0; i < tta->chosen_count * classes; i++)
        tta->logits[tta->chosen_kept[i / classes] * classes + i % classes] *= ls_views_weight(plan->cfg, 0);
    if (windows == 0) return LS_SUCCESS;
    const ls_loader_options options = { .batches = { .samples = tta->chosen_count,
                                            .windows = windows,
                                            .global_batch = micro,
                                            .micro_batch = micro,
                                            .micro_batches = 1,
                                            .per_rank = 1,
                                            .world_size = 1 },
        .epochs = 1,
        .workers = (int)plan->cfg->data_workers,
        .order = tta->chosen };
    LS_TRY(ls_input_pipeline_start(session->eval_input, &options, windows));
    ls_program_inputs inputs = ls_session_inputs(&session->compute);
    ls_update_inputs(session->update, &inputs);
    ls_status status = LS_SUCCESS;
    for (int64_t i = 0; i < windows; i++) LS_THEN(status, evaluate_batch(tta, &inputs));
    ls_input_pipeline_stop(session->eval_input);
    return status;
}

ls_status ls_tta_finish(ls_tta *tta, ls_picture_results *outcomes, int64_t *evaluated) {
    LS_TRY(choose_pictures(tta, evaluated));
    LS_TRY(evaluate_chosen(tta));
    for (int64_t i = 0; i < tta->count; i++)
        ls_picture_results_add(outcomes, tta->samples[i], tta->labels[i], tta->logits + i * classes_of(tta));
    return LS_SUCCESS;
}
