#include "train/diagnose/replicas.h"

#include <string.h>
#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/spans.h"
#include "train/diagnose/replica_report.h"
#include "train/snapshots.h"

// The state of the comparison of ranks. Memory for the largest tensor is enough, because tensors are copied and hashed
// one after another.
struct ls_replicas {
    ls_snapshot *list; // the list of tensors, without values
    float *values;     // values of one tensor
    uint64_t *words;   // the LS_REPLICA_COUNTERS counters, then one hash for each tensor
    int64_t equal_at, checked_at;
    ls_replica_checks checks;
};

ls_status ls_replicas_new(const ls_run_session *session, ls_replicas **out) {
    const ls_run_plan *plan = session->plan;
    *out = NULL;
    if (plan->info.comm->world_size == 1 || plan->cfg->dist_check_replicas == 0) return LS_SUCCESS;
    ls_replicas *r = ls_new(1, sizeof *r, "comparison of replicas");
    ls_status status = ls_snapshot_list(plan->graph, plan->rules, &r->list);
    if (!ls_failed(status)) {
        int64_t largest = 1;
        for (int i = 0; i < r->list->count; i++)
            if (r->list->tensors[i].elements > largest) largest = r->list->tensors[i].elements;
        r->words = ls_new(LS_REPLICA_COUNTERS + r->list->count, sizeof *r->words, "comparison of replicas");
        r->checked_at = -1;
        status = ls_try_new(&r->values, largest, sizeof *r->values, "comparison of replicas");
    }
    return LS_GIVE_OR_FREE(status, r, out, ls_replicas_free);
}

void ls_replicas_free(ls_replicas *r) {
    if (!r) return;
    ls_snapshot_free(r->list);
    free(r->values);
    free(r->words);
    free(r);
}

int64_t ls_replicas_next_check(const ls_run_session *session, const ls_run_progress *progress) {
    int64_t every = session->plan->cfg->dist_check_replicas;
    return session->replicas ? (progress->done.updates / every + 1) * every : INT64_MAX;
}

int ls_replicas_due(const ls_run_session *session, const ls_run_progress *progress) {
    return session->replicas && (progress->done.updates % session->plan->cfg->dist_check_replicas == 0 ||
                                    progress->done.updates == progress->last);
}

void ls_replicas_equal(ls_replicas *replicas, int64_t updates) {
    if (replicas) replicas->equal_at = replicas->checked_at = updates;
}

ls_replica_checks ls_replicas_checks(const ls_replicas *replicas) {
    return replicas ? replicas->checks : (ls_replica_checks){ 0 };
}

static ls_status fill_words(ls_run_session *session, const ls_run_progress *progress, ls_replicas *r) {
    ls_train_state state;
    LS_TRY(ls_update_read_state(session->update, &state));
    ls_replica_report_counters(&state, r->words);
    for (int i = 0; i < r->list->count; i++) {
        ls_snapshot_tensor tensor = r->list->tensors[i];
        tensor.values = r->values;
        ls_run_export_tensor(session, progress->done.updates, &tensor);
        r->words[LS_REPLICA_COUNTERS + i] = ls_snapshot_hash(&tensor);
    }
    return session->compute.device->api->queue_sync(session->compute.queue); // returns the error of a failed export
}

ls_status ls_replicas_check(ls_run_session *session, const ls_run_progress *progress, const ls_run_saving *saving) {
    const ls_run_plan *plan = session->plan;
    ls_replicas *r = session->replicas;
    if (!r || r->checked_at == progress->done.updates) return LS_SUCCESS;
    double start = ls_clock_seconds();
    ls_comm_phase(plan->comm, "comparing replicas", progress->done.updates);
    LS_TRY(fill_words(session, progress, r));
    size_t bytes = (size_t)(LS_REPLICA_COUNTERS + r->list->count) * sizeof *r->words;
    // bound[0] becomes the lowest hash of all ranks, and -1 - bound[1] the highest. They are equal if all hashes are.
    int64_t hash = (int64_t)ls_hash(r->words, bytes), bound[2] = { hash, -1 - hash };
    LS_TRY(ls_comm_allreduce(plan->comm, bound, 2, LS_I64, LS_REDUCE_MIN));
    if (bound[0] != -1 - bound[1])
        return ls_replica_report(session, progress, saving, r->list, r->words, r->values, r->equal_at);
    r->equal_at = r->checked_at = progress->done.updates;
    r->checks.count++;
    double end = ls_clock_seconds();
    r->checks.seconds += end - start;
    if (ls_spans_on()) ls_spans_span(LS_SPANS_HOST, "compare replicas", NULL, -1, start, end);
    ls_comm_phase(plan->comm, "training", progress->done.updates);
    return LS_SUCCESS;
}
