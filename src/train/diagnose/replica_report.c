#include "train/diagnose/replica_report.h"

#include <inttypes.h>
#include <string.h>
#include "base/atomic_file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "dist/rank_groups.h"
#include "formats/safetensors.h"
#include "train/snapshots.h"
#include "formats/weights_metadata.h"
#include "train/diagnose/state_diff.h"

enum { KINDS_MAX = 8, GROUPS_BYTES = 1024, PATH_BYTES = 2 * LS_TEXT_BYTES };

static const char *const counter_names[LS_REPLICA_COUNTERS] = { "the loss scale", "the number of applied updates",
    "the number of skipped updates", "the number of finite updates in a row",
    "the number of skipped updates in a row" };

static uint64_t word_of(int64_t value) {
    return (uint64_t)value;
}

void ls_replica_report_counters(const ls_train_state *state, uint64_t words[LS_REPLICA_COUNTERS]) {
    double scale = (double)state->loss_scale;
    memcpy(&words[LS_REPLICA_LOSS_SCALE], &scale, sizeof scale);
    words[LS_REPLICA_APPLIED] = word_of(state->applied);
    words[LS_REPLICA_SKIPPED] = word_of(state->skipped);
    words[LS_REPLICA_FINITE_IN_ROW] = word_of(state->finite_in_row);
    words[LS_REPLICA_SKIPPED_IN_ROW] = word_of(state->skipped_in_row);
}

static void show_hash(uint64_t value, char text[LS_RANK_GROUPS_VALUE_BYTES]) {
    ls_hash_text(value, text);
}

static void show_scale(uint64_t value, char text[LS_RANK_GROUPS_VALUE_BYTES]) {
    double scale;
    memcpy(&scale, &value, sizeof scale);
    snprintf(text, LS_RANK_GROUPS_VALUE_BYTES, "%.9g", scale);
}

static void show_count(uint64_t value, char text[LS_RANK_GROUPS_VALUE_BYTES]) {
    snprintf(text, LS_RANK_GROUPS_VALUE_BYTES, "%" PRId64, (int64_t)value);
}

// The words (counters and hashes of tensors) of all ranks. They are the same on all ranks, so all ranks draw the same
// conclusions.
typedef struct {
    ls_run_session *session;
    const ls_run_progress *progress;
    const ls_run_saving *saving;
    const ls_snapshot *list;
    int ranks, words;
    uint64_t *all;    // [ranks][words]: the words of all ranks
    uint64_t *column; // [ranks]: the same word of each rank
    uint64_t *whole;  // [ranks]: a hash of all words of each rank
    float *mine, *theirs;
    // Tensors: index of the first in the network's order that differs (-1: none), and number of tensors that differ.
    int first, differing;
} evidence;

static const uint64_t *column_of(const evidence *e, int word) {
    for (int r = 0; r < e->ranks; r++) e->column[r] = e->all[(size_t)r * (size_t)e->words + (size_t)word];
    return e->column;
}

static int differs(const evidence *e, int word) {
    const uint64_t *column = column_of(e, word);
    return ls_rank_groups_size(column, e->ranks, column[0]) < e->ranks;
}

// Returns 1 if tensor a comes before tensor b in the report: by the network's layers; after each tensor come the
// tensors that the optimizer keeps for it.
static int is_before(const ls_snapshot_tensor *a, const ls_snapshot_tensor *b) {
    return a->param != b->param ? a->param < b->param : a->state < b->state;
}

static void find_differences(evidence *e) {
    const ls_snapshot_tensor *tensors = e->list->tensors;
    e->first = -1;
    for (int i = 0; i < e->list->count; i++) {
        if (!differs(e, LS_REPLICA_COUNTERS + i)) continue;
        e->differing++;
        if (e->first < 0 || is_before(&tensors[i], &tensors[e->first])) e->first = i;
    }
    for (int r = 0; r < e->ranks; r++)
        e->whole[r] = ls_hash(e->all + (size_t)r * (size_t)e->words, (size_t)e->words * sizeof *e->all);
}

// --- elements ------------------------------------------------------------------------------------

// Describes the first tensor that differs, on the lowest rank outside the majority and on a rank of the majority.
static ls_status describe_elements(const evidence *e, ls_text_room *out) {
    ls_run_session *session = e->session;
    const ls_run_plan *plan = session->plan;
    ls_snapshot_tensor tensor = e->list->tensors[e->first];
    const uint64_t *column = column_of(e, LS_REPLICA_COUNTERS + e->first);
    int reference = ls_rank_groups_largest(column, e->ranks), other = 0;
    while (column[other] == column[reference]) other++;
    size_t bytes = (size_t)tensor.elements * sizeof(float);
    tensor.values = e->mine;
    ls_run_export_tensor(session, e->progress->done.updates, &tensor);
    LS_TRY(session->compute.device->api->queue_sync(session->compute.queue));
    memcpy(e->theirs, e->mine, bytes);
    LS_TRY(ls_comm_broadcast(plan->comm, e->theirs, (int64_t)bytes, reference));
    ls_tensor_difference d;
    ls_tensor_compare(LS_F32, tensor.elements, e->mine, e->theirs, &d);
    LS_TRY(ls_comm_broadcast(plan->comm, &d, sizeof d, other));
    if (d.differing == 0) return LS_SUCCESS;
    ls_text_put(out,
        "; in %" PRId64 " of its %" PRId64 " elements, first in number %" PRId64 ": %.9g on rank %d, %.9g on rank %d%s",
        d.differing, d.elements, d.first, d.first_b, reference, d.first_a, other, d.one_bit ? " (one bit apart)" : "");
    return LS_SUCCESS;
}

// --- files ---------------------------------------------------------------------------------------

// Rank 0: writes the state of a rank, with the metadata of a weights file and the rank's number.
static ls_status write_file(const evidence *e, const char *path, const ls_snapshot *s, int rank) {
    char number[32], update[32];
    snprintf(number, sizeof number, "%d", rank);
    snprintf(update, sizeof update, "%" PRId64, e->progress->done.updates);
    ls_metadata_entry notes[LS_WEIGHTS_METADATA_MAX + 2] = { { "lockstep.rank", number },
        { "lockstep.update", update } };
    ls_weights_metadata *own = NULL;
    LS_TRY(
        ls_weights_metadata_new(e->session->plan->graph, e->session->plan->train_data, e->session->plan->parts, &own));
    memcpy(notes + 2, own->list, (size_t)own->count * sizeof *notes);
    ls_status status = ls_snapshot_write(path, s, 0, s->count, notes, own->count + 2, NULL);
    ls_weights_metadata_free(own);
    return status;
}

static ls_status write_rank(const evidence *e, const ls_snapshot *s, int rank) {
    char folder[PATH_BYTES], name[64];
    snprintf(name, sizeof name, "diverged-update-%" PRId64, e->progress->done.updates);
    LS_TRY(ls_path_join(folder, sizeof folder, e->saving->folder, name));
    LS_TRY(ls_make_folders(folder));
    char path[PATH_BYTES + 64];
    snprintf(name, sizeof name, "rank-%d.safetensors", rank);
    LS_TRY(ls_path_join(path, sizeof path, folder, name));
    return write_file(e, path, s, rank);
}

// Writes the state of one rank of each group of equal ranks. The states are sent to rank 0, because only rank 0 has the
// run's folder and can be sure to reach its file system. Only the text on rank 0 is complete.
static ls_status save_kinds(const evidence *e, ls_snapshot *s, ls_text_room *out) {
    ls_run_session *session = e->session;
    const ls_run_plan *plan = session->plan;
    ls_status written = LS_SUCCESS;
    int32_t has_folder = e->saving->folder[0] != '\0', kinds = 0;
    LS_TRY(ls_comm_broadcast(plan->comm, &has_folder, sizeof has_folder, 0));
    if (!has_folder) return LS_SUCCESS;
    char names[KINDS_MAX * 32];
    ls_text_room list = { names, sizeof names };
    for (int r = 0; r < e->ranks && kinds < KINDS_MAX; r++) {
        if (ls_rank_groups_lowest(e->whole, r) != r) continue;
        for (int i = 0; i < s->count; i++) ls_run_export_tensor(session, e->progress->done.updates, &s->tensors[i]);
        LS_TRY(session->compute.device->api->queue_sync(session->compute.queue));
        LS_TRY(ls_comm_broadcast(plan->comm, s->values, (int64_t)s->bytes, r));
        if (plan->info.comm->rank == 0) ls_keep_first(&written, write_rank(e, s, r));
        ls_text_put(&list, "%srank-%d.safetensors", kinds++ ? ", " : "", r);
    }
    if (ls_failed(written))
        ls_text_put(out, "; their states could not be saved: %.500s", written.text);
    else
        ls_text_put(out, "; %s/diverged-update-%" PRId64 " has their whole states: %s (`train compare` compares two)",
            e->saving->folder, e->progress->done.updates, names);
    return LS_SUCCESS;
}

// --- the message ---------------------------------------------------------------------------------

static void describe(const evidence *e, int64_t equal_at, ls_text_room *out) {
    char groups[GROUPS_BYTES];
    ls_text_put(out, "replicas have diverged: after update %" PRId64, e->progress->done.updates);
    const char *comma = " ";
    for (int c = 0; c < LS_REPLICA_COUNTERS; c++) {
        if (!differs(e, c)) continue;
        ls_text_put(out, "%s%s differs (%s)", comma, counter_names[c],
            ls_rank_groups_text(column_of(e, c), e->ranks, c == LS_REPLICA_LOSS_SCALE ? show_scale : show_count, groups,
                sizeof groups));
        comma = ", ";
    }
    if (e->first >= 0)
        ls_text_put(out, "%stensor '%s' differs (%s)", comma, e->list->tensors[e->first].name,
            ls_rank_groups_text(
                column_of(e, LS_REPLICA_COUNTERS + e->first), e->ranks, show_hash, groups, sizeof groups));
    if (e->differing > 1) ls_text_put(out, ", the first of %d that do", e->differing);
    if (equal_at == 0)
        ls_text_put(out, "; at the start all ranks were the same");
    else
        ls_text_put(out, "; after update %" PRId64 " all ranks were the same", equal_at);
}

static void describe_way_on(const ls_run_saving *saving, ls_text_room *out) {
    ls_text_put(out, "; memory or a device may be faulty (docs/faults.md)");
    if (saving->on && saving->saved > 0)
        ls_text_put(
            out, "; the checkpoint of update %" PRId64 " is from before: --resume goes on from it", saving->saved);
}

static ls_status report_differences(evidence *e, int64_t equal_at, ls_snapshot *snapshot) {
    char message[LS_STATUS_TEXT_BYTES];
    ls_text_room out = { message, sizeof message };
    find_differences(e);
    describe(e, equal_at, &out);
    if (e->first >= 0) LS_TRY(describe_elements(e, &out));
    LS_TRY(save_kinds(e, snapshot, &out));
    describe_way_on(e->saving, &out);
    LS_TRY(ls_comm_broadcast(e->session->plan->comm, message, sizeof message, 0));
    return ls_fail(LS_NUMERIC, "%s", message);
}

ls_status ls_replica_report(ls_run_session *session, const ls_run_progress *progress, const ls_run_saving *saving,
    const ls_snapshot *list, const uint64_t *words, float *values, int64_t equal_at) {
    const ls_run_plan *plan = session->plan;
    size_t ranks = (size_t)plan->info.comm->world_size, count = (size_t)(LS_REPLICA_COUNTERS + list->count);
    ls_snapshot *snapshot = NULL;
    ls_status status = ls_run_snapshot_new(plan, &snapshot);
    evidence e = { .session = session,
        .progress = progress,
        .saving = saving,
        .list = list,
        .ranks = (int)ranks,
        .words = (int)count,
        .mine = values };
    e.all = ls_new((count + 2) * ranks, sizeof *e.all, "replicas have diverged; how");
    status = ls_comm_agree(plan->comm, status, NULL);
    if (!ls_failed(status)) {
        e.column = e.all + count * ranks;
        e.whole = e.column + ranks;
        e.theirs = snapshot->values;
        status = ls_comm_allgather(plan->comm, words, e.all, (int64_t)(count * sizeof *words));
    }
    LS_THEN(status, report_differences(&e, equal_at, snapshot));
    ls_snapshot_free(snapshot);
    free(e.all);
    return status;
}
