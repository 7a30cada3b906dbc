#include "train/cross_check.h"

#include <inttypes.h>
#include <string.h>
#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "train/run.h"
#include "train/update_internal.h"

// Hashes of gradients that a rank has computed in a check.
typedef struct {
    uint64_t own, next;           // of its own first micro-batch; of the next rank's first one
    uint64_t previous, once_more; // on a difference: of the previous rank's first one; with two ranks its own again
} hashes;

struct ls_cross_check {
    ls_device *device;
    ls_slab *copy;            // host memory: gradients or their sums, then the flag bad_gradient and the result
    ls_input_pipeline *input; // another rank's pictures
    // The micro-batch that `input` delivers next: the first one of rank `rank` in this update. update -1: none.
    int64_t update;
    int rank;
    hashes *all; // [ranks]
    int64_t every;
    // Numbers of updates, from 1: the last checked one, and the last that was checked without a difference (0: none
    // yet). Up to `watched`, every update of a whole window is checked.
    int64_t checked, clean, watched;
    ls_cross_checks counts;
    int warns; // `text` is a warning that nobody has taken yet
    char text[LS_STATUS_TEXT_BYTES / 2];
};

// --- opening -------------------------------------------------------------------------------------

static int is_on(const ls_run_plan *plan) {
    return plan->cfg->run_cross_check > 0 && !plan->evaluates;
}

static ls_input_pipeline_options input_options(const ls_run_session *session) {
    ls_input_pipeline_options options = ls_run_session_input_options(session, LS_SPLIT_TRAIN);
    options.prefetch = 1;
    return options;
}

size_t ls_cross_check_device_bytes(const ls_run_session *session) {
    if (!is_on(session->plan)) return 0;
    const ls_input_pipeline_options options = input_options(session);
    return ls_input_pipeline_slot_bytes(session->compute.device, &options);
}

static ls_status allocate(ls_cross_check *c, ls_run_session *session) {
    const ls_param_store *store = session->compute.store;
    const size_t bytes = (store->fixed ? store->fixed->bytes : store->grad->bytes) + 2 * LS_RECORD_BYTES;
    LS_TRY(c->device->api->slab_new(c->device, LS_MEMORY_PINNED, bytes, "cross-check", &c->copy));
    const ls_input_pipeline_options options = input_options(session);
    LS_TRY(ls_input_pipeline_new(c->device, &options, &c->input));
    session->compute.memory.ring += bytes + ls_input_pipeline_ring_bytes(c->input);
    return LS_SUCCESS;
}

ls_status ls_cross_check_new(ls_run_session *session, ls_cross_check **out) {
    const ls_run_plan *plan = session->plan;
    *out = NULL;
    if (!is_on(plan)) return LS_SUCCESS;
    ls_cross_check *c = ls_new(1, sizeof *c, "cross-check");
    c->device = session->compute.device;
    c->every = plan->cfg->run_cross_check;
    c->counts.wrong_rank = -1;
    c->update = -1;
    c->all = ls_new(plan->info.comm->world_size, sizeof *c->all, "cross-check");
    return LS_GIVE_OR_FREE(allocate(c, session), c, out, ls_cross_check_free);
}

void ls_cross_check_free(ls_cross_check *c) {
    if (!c) return;
    ls_input_pipeline_free(c->input);
    if (c->copy) c->device->api->slab_free(c->copy);
    free(c->all);
    free(c);
}

// Returns the number, from 1, of the first update that is due after the last checked one.
static int64_t next_due(const ls_cross_check *c) {
    return c->checked < c->watched ? c->checked + 1 : (c->checked / c->every + 1) * c->every;
}

int ls_cross_check_due(const ls_cross_check *c, const ls_position *at, const ls_sliding_window *window) {
    return c && window->whole && at->updates + 1 >= next_due(c);
}

ls_cross_checks ls_cross_check_counts(const ls_cross_check *c) {
    return c ? c->counts : (ls_cross_checks){ 0 };
}

int ls_cross_check_warns(const ls_cross_check *c) {
    return c && c->warns;
}

const char *ls_cross_check_take_warning(ls_cross_check *c) {
    if (!ls_cross_check_warns(c)) return NULL;
    c->warns = 0;
    return c->text;
}

// --- gradients -----------------------------------------------------------------------------------

// Copies the gradients or sums in `slab`, the flag bad_gradient and the result to the host, or from it.
static ls_status transfer(const ls_cross_check *c, const ls_update *u, ls_slab *slab, int to_host) {
    const ls_buffer parts[] = { ls_buffer_at(slab, 0, slab->bytes), ls_update_bad_gradient(u), u->result };
    size_t at = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const ls_buffer host = ls_buffer_at(c->copy, at, parts[i].bytes);
        c->device->api->copy(to_host ? host : parts[i], to_host ? parts[i] : host, host.bytes, u->queue);
        at += i ? LS_RECORD_BYTES : slab->bytes;
    }
    return c->device->api->queue_sync(u->queue);
}

static ls_status hash_gradient(const ls_cross_check *c, const ls_update *u, uint64_t *hash) {
    const size_t bytes = u->store->grad->bytes;
    LS_TRY(transfer(c, u, u->store->grad, 1));
    *hash = ls_hash_more(
        ls_hash(c->copy->address, bytes), c->copy->address + bytes + LS_RECORD_BYTES, sizeof(ls_micro_result));
    return LS_SUCCESS;
}

// An update that is checked.
typedef struct {
    ls_run_session *session;
    ls_cross_check *check;
    const ls_position *at;
    const ls_sliding_window *window;
    int rank, ranks;
} attempt;

// Begins the update and computes the next `micros` micro-batches of `input`. *hash: the hash of the first one's
// gradient; NULL: not needed.
static ls_status compute(const attempt *a, ls_input_pipeline *input, int micros, uint64_t *hash) {
    ls_sliding_window window = *a->window;
    window.held = 1;
    ls_update_begin(a->session->update, &window);
    for (int m = 0; m < micros; m++) {
        LS_TRY(ls_run_enqueue_micro_batch(a->session, input, a->at));
        if (m == 0 && hash) LS_TRY(hash_gradient(a->check, a->session->update, hash));
    }
    return LS_SUCCESS;
}

// Computes the first `micros` micro-batches of rank `rank`, apart from this rank's own reading.
static ls_status compute_for(const attempt *a, int rank, int micros, uint64_t *hash) {
    ls_cross_check *c = a->check;
    const int is_read = micros == 1 && c->update == a->at->updates && c->rank == rank;
    c->update = -1;
    if (!is_read) LS_TRY(ls_run_session_read_as(a->session, c->input, a->at, rank, micros));
    return compute(a, c->input, micros, hash);
}

// --- judgement -----------------------------------------------------------------------------------

static int votes_for(const ls_cross_check_vote *votes, int count, uint64_t hash) {
    int found = 0;
    for (int i = 0; i < count; i++) found += votes[i].hash == hash;
    return found;
}

int ls_cross_check_judge(const ls_cross_check_vote *votes, int count) {
    int best = 0, wrong = -1;
    for (int i = 1; i < count; i++)
        if (votes_for(votes, count, votes[i].hash) > votes_for(votes, count, votes[best].hash)) best = i;
    const int most = votes_for(votes, count, votes[best].hash);
    for (int i = 0; i < count; i++) {
        if (votes[i].hash == votes[best].hash) continue;
        const int tie = most < 2 || votes_for(votes, count, votes[i].hash) == most;
        if (tie || (wrong >= 0 && wrong != votes[i].rank)) return -1;
        wrong = votes[i].rank;
    }
    return wrong;
}

static int after(const attempt *a, int rank) {
    return (rank + 1) % a->ranks;
}

static int before(const attempt *a, int rank) {
    return (rank + a->ranks - 1) % a->ranks;
}

// Returns 1 if two ranks have computed different gradients of the first micro-batch of rank `owner`.
static int differs(const attempt *a, int owner) {
    return a->check->all[owner].own != a->check->all[before(a, owner)].next;
}

enum { VOTES_MAX = 4 };

// Fills in all hashes of the gradient of the first micro-batch of rank `owner`. Returns their number.
static int list_votes(const attempt *a, int owner, ls_cross_check_vote votes[VOTES_MAX]) {
    const hashes *all = a->check->all;
    votes[0] = (ls_cross_check_vote){ owner, all[owner].own };
    votes[1] = (ls_cross_check_vote){ before(a, owner), all[before(a, owner)].next };
    votes[2] = (ls_cross_check_vote){ after(a, owner), all[after(a, owner)].previous };
    votes[3] = (ls_cross_check_vote){ owner, all[owner].once_more };
    return a->ranks == 2 ? 4 : 3;
}

// Returns the rank that is wrong, or -1 if it is not known or several ranks are wrong. *owner: the rank whose
// micro-batch shows the difference.
static int find_wrong_rank(const attempt *a, int *owner) {
    int wrong = -1;
    *owner = -1;
    for (int s = 0; s < a->ranks; s++) {
        ls_cross_check_vote votes[VOTES_MAX];
        if (!differs(a, s)) continue;
        const int found = ls_cross_check_judge(votes, list_votes(a, s, votes));
        if (*owner < 0 || (found >= 0 && wrong < 0)) *owner = s;
        if (found < 0 && a->ranks == 2) continue; // the other micro-batch may tell
        if (found < 0 || (wrong >= 0 && wrong != found)) return -1;
        wrong = found;
    }
    return wrong;
}

// Computes each micro-batch that two ranks disagree on once more, on the rank after its owner. With two ranks that rank
// has computed it before, so the owner computes it once more, too.
static ls_status compute_disputed(const attempt *a, hashes *mine) {
    const int previous = before(a, a->rank);
    if (differs(a, previous)) LS_TRY(compute_for(a, previous, 1, &mine->previous));
    if (a->ranks == 2 && differs(a, a->rank)) LS_TRY(compute_for(a, a->rank, 1, &mine->once_more));
    const hashes known = *mine;
    return ls_comm_allgather(a->session->plan->comm, &known, a->check->all, sizeof known);
}

// --- messages ------------------------------------------------------------------------------------

static void put_rank(const attempt *a, int rank, ls_text_room *out) {
    const ls_rank_info *place = &a->session->plan->info.places[rank];
    ls_text_put(
        out, "rank %d (host %s, %s%s%s)", rank, place->host, place->name, place->uuid[0] ? ", " : "", place->uuid);
}

// Writes who is wrong, and the hashes that show it.
static void describe(const attempt *a, int wrong, int owner, ls_text_room *out) {
    ls_cross_check_vote votes[VOTES_MAX];
    const int count = list_votes(a, owner, votes);
    ls_text_put(out, "cross-check of update %" PRId64 ": ", a->at->updates + 1);
    if (wrong >= 0)
        put_rank(a, wrong, out);
    else
        ls_text_put(out, a->ranks == 2 ? "one of two ranks" : "more than one rank");
    ls_text_put(out, " computes wrong gradients: of micro-batch %d, ", owner * a->session->plan->info.batches.per_rank);
    for (int i = 0; i < count; i++) {
        if (i) ls_text_put(out, ", ");
        if (wrong >= 0)
            ls_text_put(out, "rank %d", votes[i].rank);
        else
            put_rank(a, votes[i].rank, out);
        ls_text_put(out, " has %016" PRIx64, votes[i].hash);
    }
}

// Ends the run, with advice.
static ls_status stop(const attempt *a, int wrong, int64_t newest, ls_text_room *out) {
    const ls_cross_check *c = a->check;
    if (wrong < 0 && a->ranks == 2) ls_text_put(out, "; each repeats its own, and a third rank would decide");
    if (c->clean > 0) ls_text_put(out, "; the check of update %" PRId64 " found no difference", c->clean);
    ls_text_put(out, "; leave the faulty device out");
    if (newest >= 0)
        ls_text_put(out, ", and --resume from the checkpoint of update %" PRId64 "%s", newest,
            newest > c->clean ? ", which may already have wrong weights" : "");
    return ls_fail(LS_NUMERIC, "%s (docs/faults.md)", c->text);
}

// --- the update ----------------------------------------------------------------------------------

// Repeats the update. Another rank computes the micro-batches of the wrong one and sends it their sums.
static ls_status repeat(const attempt *a, int wrong) {
    ls_update *u = a->session->update;
    const ls_cross_check *c = a->check;
    ls_slab *sums = ls_update_sums(u);
    const int helper = after(a, wrong), micros = a->window->steps;
    if (a->rank == helper) {
        LS_TRY(compute_for(a, wrong, micros, NULL));
        LS_TRY(transfer(c, u, sums, 1));
    }
    LS_TRY(ls_comm_broadcast(a->session->plan->comm, c->copy->address, (int64_t)c->copy->bytes, helper));
    if (a->rank != wrong) return compute_for(a, a->rank, micros, NULL);
    ls_sliding_window without = *a->window;
    without.held = 1;
    without.steps = 0;
    ls_update_begin(u, &without);
    return transfer(c, u, sums, 0);
}

static ls_status settle(const attempt *a, hashes *mine, int64_t newest) {
    ls_cross_check *c = a->check;
    int owner;
    LS_TRY(compute_disputed(a, mine));
    ls_text_room out = { c->text, sizeof c->text };
    const int wrong = find_wrong_rank(a, &owner);
    describe(a, wrong, owner, &out);
    c->counts.differences++;
    if (wrong < 0 || a->session->plan->cfg->run_cross_check_action == LS_CROSS_CHECK_STOP)
        return stop(a, wrong, newest, &out);
    ls_text_put(&out,
        "; rank %d has computed its micro-batches and the update was repeated; the next %" PRId64
        " updates are checked, too",
        after(a, wrong), c->every);
    // a permanent fault is reported once
    c->warns = wrong != c->counts.wrong_rank || c->checked > c->watched;
    c->counts.wrong_rank = wrong;
    c->watched = c->checked + c->every;
    return repeat(a, wrong);
}

// Starts to read the pictures of the next check, so that it need not wait for them.
static ls_status read_ahead(const attempt *a) {
    ls_cross_check *c = a->check;
    const int64_t windows = a->session->plan->info.batches.windows, window = a->at->window + next_due(c) - c->checked;
    const ls_position next = { .epoch = a->at->epoch + window / windows, .window = window % windows };
    c->update = next_due(c) - 1;
    c->rank = after(a, a->rank);
    return ls_run_session_read_as(a->session, c->input, &next, c->rank, 1);
}

ls_status ls_cross_check_update(
    ls_run_session *session, const ls_position *at, const ls_sliding_window *window, int64_t newest) {
    ls_comm *comm = session->plan->comm;
    ls_cross_check *c = session->cross_check;
    const ls_comm_info *info = ls_comm_get_info(comm);
    const attempt a = { session, c, at, window, info->rank, info->world_size };
    hashes mine = { 0 };
    const double start = ls_clock_seconds();
    LS_TRY(compute_for(&a, after(&a, a.rank), 1, &mine.next));
    c->counts.seconds += ls_clock_seconds() - start;
    LS_TRY(compute(&a, session->input, window->steps, &mine.own));
    ls_comm_phase(comm, "cross-check", at->updates);
    LS_TRY(ls_comm_allgather(comm, &mine, c->all, sizeof mine));
    c->counts.count++;
    c->checked = at->updates + 1;
    for (int r = 0; r < a.ranks; r++) {
        if (!differs(&a, r)) continue;
        LS_TRY(settle(&a, &mine, newest));
        return read_ahead(&a);
    }
    c->clean = c->checked;
    return read_ahead(&a);
}
