#include "train/diagnose/nonfinite_search.h"

#include <float.h>
#include <math.h>
#include <string.h>
#include "base/memory.h"

typedef struct {
    ls_run_session *session;
    const ls_run_progress *progress;
    ls_nonfinite *report;
    ls_tensor_table *table; // the tensors of the micro-batch that this rank examined last; NULL: they are not kept
    // For each trained element, canonical, in graph order: the sum of |gradient| over this rank's micro-batches.
    double *magnitude;
    int64_t elements;
} search;

// --- one micro-batch -----------------------------------------------------------------------------

static ls_status sum_over_ranks(void *context, ls_buffer sums, int64_t count) {
    const search *s = context;
    return ls_update_sum_now(s->session->update, sums, count);
}

static void keep_row(void *context, const ls_tensor_stats *stats) {
    ls_tensor_table *table = ((const search *)context)->table;
    table->row = ls_grow(table->row, table->count, sizeof *table->row, "tensors of a micro-batch");
    table->row[table->count++] = *stats;
}

typedef struct {
    ls_update *update;
    ls_status status;
} joining;

static void join_sum(void *context, ls_buffer sums, int64_t count) {
    joining *j = context;
    ls_keep_first(&j->status, ls_update_sum_now(j->update, sums, count));
}

static int has_micro(const ls_batches *b, int64_t window, int rank, int step) {
    return ls_batches_micro_samples(b, window, rank * b->per_rank + step) > 0;
}

static ls_status inspect_mine(search *s, int step, ls_tensor_stats *first) {
    ls_run_session *session = s->session;
    const ls_run_plan *plan = session->plan;
    ls_program_inputs inputs = ls_session_inputs(&session->compute);
    ls_batch batch;
    LS_TRY(ls_input_pipeline_next(session->input, &inputs, &batch));
    if (s->table)
        *s->table = (ls_tensor_table){ .row = s->table->row,
            .micro = plan->info.batches.rank * plan->info.batches.per_rank + step,
            .samples = batch.count };
    ls_tensor_stats_list inspection = { .program = ls_run_session_program_for(session, s->report->epoch, batch.count),
        .inputs = &inputs,
        .queue = session->compute.queue,
        .loss_scale = s->report->loss_scale,
        .ordered = plan->cfg->run_deterministic,
        .comm = plan->comm,
        .reduce = ls_config_syncs_norm(plan->cfg, plan->info.comm->world_size) ? sum_over_ranks : NULL,
        .seen = s->table ? keep_row : NULL,
        .context = s };
    int harmed;
    LS_TRY(ls_tensor_stats_run(&inspection, first, &harmed));
    if (!harmed) first->first = -1; // the failure did not begin in this micro-batch
    return ls_input_pipeline_done(session->input);
}

// Adds the absolute gradients of this rank's micro-batch to s->magnitude.
static void add_magnitudes(search *s, float *values) {
    const ls_param_store *a = s->session->compute.store;
    double *at = s->magnitude;
    for (int p = 0; p < a->graph->param_count; p++) {
        const ls_param *param = &a->graph->params[p];
        int64_t count = ls_param_count(&param->shape);
        if (ls_role_is_statistic(param->role)) continue;
        a->device->api->param_export(a->device, &param->shape, ls_param_store_grad(a, p), values);
        for (int64_t i = 0; i < count; i++) *at++ += fabs((double)values[i]);
    }
}

static ls_status run_step(search *s, int step, ls_tensor_stats *first) {
    ls_run_session *session = s->session;
    const ls_run_plan *plan = session->plan;
    const ls_batches *b = &plan->info.batches;
    *first = (ls_tensor_stats){ .first = -1 };
    if (has_micro(b, s->report->window, b->rank, step)) return inspect_mine(s, step, first);
    if (!ls_config_syncs_norm(plan->cfg, b->world_size) || !has_micro(b, s->report->window, 0, step)) return LS_SUCCESS;
    joining j = { .update = session->update };
    ls_program_join(ls_run_session_full_program(session, s->report->epoch), session->compute.queue,
        &(ls_program_hooks){ .context = &j, .reduce = join_sum });
    return j.status;
}

// --- all micro-batches ---------------------------------------------------------------------------

// Lets all ranks agree on the first bad tensor: the earliest instruction on any rank counts, then the lowest rank.
// *found: whether there is a bad tensor; the same on all ranks.
static ls_status agree_on_first(search *s, int step, ls_tensor_stats *first, int *found) {
    const ls_comm_info *comm = s->session->plan->info.comm;
    int64_t none = INT64_MAX, key = none;
    if (ls_tensor_stats_is_bad(first)) key = (int64_t)first->instruction * comm->world_size + comm->rank;
    LS_TRY(ls_comm_allreduce(s->session->plan->comm, &key, 1, LS_I64, LS_REDUCE_MIN));
    *found = key != none;
    if (!*found) return LS_SUCCESS;
    ls_nonfinite *r = s->report;
    r->rank = (int32_t)(key % comm->world_size);
    LS_TRY(ls_comm_broadcast(s->session->plan->comm, first, sizeof *first, r->rank));
    const ls_batches *b = &s->session->plan->info.batches;
    r->bad = *first;
    r->micro = r->rank * b->per_rank + step;
    r->position = (uint64_t)r->micro * (uint64_t)b->micro_batch;
    r->count = ls_batches_micro_samples(b, r->window, r->micro);
    r->cause = ls_nonfinite_find_cause(first);
    return LS_SUCCESS;
}

// Looks for the first tensor with an element whose terms may add up to more than the type of the sum holds. Called if
// the gradients of all micro-batches are finite.
static ls_status measure_sums(search *s) {
    const ls_param_store *a = s->session->compute.store;
    ls_nonfinite *r = s->report;
    double limit = a->options.wire ? 0x1.FFp127 : (double)FLT_MAX;
    LS_TRY(ls_comm_allreduce(s->session->plan->comm, s->magnitude, s->elements, LS_F64, LS_REDUCE_SUM));
    const double *at = s->magnitude;
    for (int p = 0; p < a->graph->param_count; p++) {
        const ls_param *param = &a->graph->params[p];
        if (ls_role_is_statistic(param->role)) continue;
        ls_tensor_stats stats = { .instruction = -1,
            .kind = LS_TENSOR_STATS_WEIGHT_GRADIENT,
            .storage = a->options.wire ? LS_BF16 : LS_F32,
            .rank = param->rank,
            .count = ls_param_count(&param->shape),
            .first = -1,
            .bad_samples = -1 };
        snprintf(stats.layer, sizeof stats.layer, "%s", a->graph->layers[param->layer].name);
        snprintf(stats.op, sizeof stats.op, "sum of gradients");
        snprintf(stats.tensor, sizeof stats.tensor, "gradient of %.100s", param->name);
        for (int d = 0; d < param->rank; d++) stats.dim[d] = param->file_dim[d];
        for (int64_t i = 0; i < stats.count; i++) {
            if (at[i] < limit) continue;
            stats.infs++;
            if (stats.first < 0) stats.first = i;
        }
        at += stats.count;
        if (!ls_tensor_stats_is_bad(&stats)) continue;
        r->bad = stats;
        r->cause = LS_CAUSE_SUMS;
        return LS_SUCCESS;
    }
    return LS_SUCCESS;
}

static ls_status find_first(search *s) {
    ls_run_session *session = s->session;
    const ls_run_plan *plan = session->plan;
    const ls_graph *g = plan->graph;
    int64_t largest = 1;
    for (int p = 0; p < g->param_count; p++) {
        int64_t count = ls_param_count(&g->params[p].shape);
        if (count > largest) largest = count;
        if (!ls_role_is_statistic(g->params[p].role)) s->elements += count;
    }
    float *values;
    ls_status status = ls_try_new(&values, largest, sizeof *values, "search for the first value that is not finite");
    ls_keep_first(&status, ls_try_new(&s->magnitude, s->elements + 1, sizeof *s->magnitude,
                               "search for the first value that is not finite"));
    int found = 0;
    for (int step = 0; step < plan->info.batches.per_rank && !found; step++) {
        ls_tensor_stats first;
        LS_TRY_GOTO(ls_comm_agree(plan->comm, status, NULL));
        status = run_step(s, step, &first);
        LS_TRY_GOTO(ls_comm_agree(plan->comm, status, NULL));
        LS_TRY_GOTO(agree_on_first(s, step, &first, &found));
        if (!found && has_micro(&plan->info.batches, s->report->window, plan->info.comm->rank, step))
            add_magnitudes(s, values);
    }
    if (!found) status = measure_sums(s);
done:
    free(values);
    return status;
}

// --- updates in progress -------------------------------------------------------------------------

// Completes the updates that were enqueued after the bad one. *later: how many of them were applied.
static ls_status drain(const search *s, const ls_train_state *state, int64_t *later) {
    ls_train_state last = *state;
    for (int64_t u = s->progress->done.updates + 1; u < s->progress->next.updates; u++) {
        ls_micro_result result;
        LS_TRY(ls_update_complete(s->session->update, &last, &result));
    }
    *later = last.applied - state->applied;
    return LS_SUCCESS;
}

// Restarts the input at the first micro-batch of the bad update.
static ls_status rewind_input(const search *s) {
    ls_input_pipeline_stop(s->session->input);
    return ls_run_session_start_input(s->session, &s->progress->done);
}

// --- samples -------------------------------------------------------------------------------------

static void name_samples(search *s, const int64_t *samples) {
    ls_nonfinite *r = s->report;
    int known = r->bad.bad_samples >= 0;
    int all = known ? r->bad.bad_samples : r->count;
    r->sample_count = all < LS_NONFINITE_SAMPLES_MAX ? all : LS_NONFINITE_SAMPLES_MAX;
    for (int i = 0; i < r->sample_count; i++) {
        r->samples[i] = samples[known ? r->bad.bad_sample[i] : i];
        ls_dataset_sample_name(s->session->plan->train_data, r->samples[i], r->names[i], sizeof r->names[i]);
    }
}

// Lists the numbers that the micro-batch's samples have in the data set, from seed, epoch and position. The caller
// frees *out.
static ls_status list_samples(const search *s, int64_t **out) {
    const ls_run_plan *plan = s->session->plan;
    const ls_nonfinite *r = s->report;
    int64_t all = plan->info.train_data->count;
    int64_t first = r->window * plan->info.batches.global_batch + (int64_t)r->position;
    uint32_t *order = NULL;
    LS_TRY(ls_try_new(&*out, r->count + 1, sizeof **out, "order of %lld samples", (long long)all));
    if (plan->cfg->data_shuffle)
        LS_TRY(ls_try_new(&order, all, sizeof *order, "order of %lld samples", (long long)all));
    if (order) ls_balance_order(s->session->balance, order, all, (uint64_t)plan->cfg->run_seed, r->epoch);
    for (int i = 0; i < r->count; i++) (*out)[i] = order ? (int64_t)order[first + i] % all : first + i;
    free(order);
    return LS_SUCCESS;
}

// Names the samples of the first bad micro-batch. Without memory the report has no samples.
static void find_samples(search *s) {
    int64_t *samples = NULL;
    if (!ls_failed(list_samples(s, &samples))) name_samples(s, samples);
    free(samples);
}

// --- the whole -----------------------------------------------------------------------------------

static ls_status investigate(search *s) {
    const ls_run_plan *plan = s->session->plan;
    ls_nonfinite *r = s->report;
    LS_TRY(ls_comm_agree(plan->comm, rewind_input(s), NULL));
    LS_TRY(find_first(s));
    if (r->rank < 0) return LS_SUCCESS;
    snprintf(r->host, sizeof r->host, "%s", plan->info.places[r->rank].host);
    if (plan->info.comm->rank == 0) find_samples(s);
    return LS_SUCCESS;
}

// Fails with LS_NUMERIC and the information in the reduced gradient, because the search failed. The parameter store
// begins with the network's last layer, so the highest element that is not finite belongs to the first bad layer.
static ls_status fail_without_place(
    const ls_run_session *session, const ls_nonfinite *r, int64_t element, ls_status why) {
    const ls_param_store *a = session->compute.store;
    const char *name = "unknown";
    for (int p = 0; p < session->plan->graph->param_count && element >= 0; p++)
        if (element >= a->offset[p] && element < a->offset[p] + a->elements[p])
            name = session->plan->graph->params[p].name;
    return ls_fail(LS_NUMERIC,
        "update %lld (epoch %lld): the gradient is not finite, first that of %s; the search for where it began failed: "
        "%s",
        (long long)r->update, (long long)r->epoch, name, why.text);
}

static ls_nonfinite new_report(const ls_run_session *session, const ls_run_progress *progress) {
    return (ls_nonfinite){ .update = progress->done.updates,
        .epoch = progress->done.epoch,
        .window = progress->done.window,
        .loss_scale = progress->nonfinite ? progress->nonfinite->loss_scale : progress->loss_scale,
        .rank = -1,
        .world_size = session->plan->info.comm->world_size,
        .micro_batches = session->plan->info.batches.micro_batches,
        .bad = { .first = -1 } };
}

static ls_status end_run(
    search *s, ls_run_progress *progress, const char *folder, const ls_train_state *state, int64_t bad_losses) {
    const ls_run_plan *plan = s->session->plan;
    int64_t element = state->bad_element;
    LS_TRY(ls_comm_allreduce(plan->comm, &element, 1, LS_I64, LS_REDUCE_MAX));
    ls_nonfinite *r = ls_new(1, sizeof *r, "report of a gradient that is not finite");
    *r = new_report(s->session, progress);
    r->bad_losses = bad_losses;
    r->skipped_in_row = state->skipped_in_row;
    snprintf(r->folder, sizeof r->folder, "%s", folder);
    progress->nonfinite = s->report = r;
    ls_status found = ls_comm_agree(plan->comm, drain(s, state, &r->later), NULL);
    LS_THEN(found, investigate(s));
    free(s->magnitude);
    if (!ls_failed(found)) return ls_nonfinite_failure(r, plan->cfg);
    return fail_without_place(s->session, r, element, found);
}

ls_status ls_run_check_finite(ls_run_session *session, ls_run_progress *progress, const char *folder,
    const ls_train_state *state, int64_t bad_losses) {
    search s = { .session = session, .progress = progress };
    ls_status status = LS_SUCCESS;
    if (state->skip) { // skipping is decided on the reduced gradient, so all ranks get here or none
        LS_TRY(ls_comm_allreduce(session->plan->comm, &bad_losses, 1, LS_I64, LS_REDUCE_SUM));
        if (state->halted || bad_losses) status = end_run(&s, progress, folder, state, bad_losses);
    }
    progress->loss_scale = state->loss_scale;
    return status;
}

// --- for people ----------------------------------------------------------------------------------

// Gives all ranks the table of rank `owner`.
static ls_status share_table(const search *s, int owner) {
    ls_comm *comm = s->session->plan->comm;
    ls_tensor_table *table = s->table;
    ls_tensor_table theirs = *table;
    LS_TRY(ls_comm_broadcast(comm, &theirs, sizeof theirs, owner));
    if (ls_comm_get_info(comm)->rank != owner) {
        free(table->row);
        theirs.row = ls_new(theirs.count + 1, sizeof *theirs.row, "tensors of a micro-batch");
        *table = theirs;
    }
    return ls_comm_broadcast(comm, table->row, table->count * (int64_t)sizeof *table->row, owner);
}

ls_status ls_run_tensors(
    ls_run_session *session, const ls_run_progress *progress, ls_nonfinite *report, ls_tensor_table *table) {
    search s = { .session = session, .progress = progress, .report = report, .table = table };
    *report = new_report(session, progress);
    *table = (ls_tensor_table){ 0 };
    ls_status status = investigate(&s);
    free(s.magnitude);
    LS_THEN(status, share_table(&s, report->rank < 0 ? 0 : report->rank));
    return status;
}
