#include "run/trace_file.h"

#include <string.h>
#include "base/atomic_file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/spans.h"
#include "base/version.h"

enum { PIECE_BYTES = 1 << 20 };

ls_status ls_trace_file_check(const char *path) {
    return ls_atomic_file_check(path);
}

typedef struct {
    const char *path;
    ls_comm *comm;
    int64_t from, to, lost; // traced updates from..to-1; spans of all ranks that did not fit
    int64_t mine;           // length of text
    char *text, *piece;
    int64_t *bytes;       // by rank: length of its text
    ls_atomic_file *file; // only on rank 0
} gathering;

// Rank 0: opens the file and writes everything before the first event.
static ls_status open_file(gathering *g) {
    const ls_comm_info *self = ls_comm_get_info(g->comm);
    if (self->rank != 0) return LS_SUCCESS;
    LS_TRY(ls_atomic_file_open(g->path, &g->file));
    cJSON *head = cJSON_CreateObject();
    ls_json_add_text(head, "program", "lockstep");
    ls_json_add_text(head, "version", ls_version());
    ls_json_add_int(head, "ranks", self->world_size);
    ls_json_add_int(head, "first_update", g->from);
    ls_json_add_int(head, "updates", g->to - g->from);
    ls_json_add_int(head, "spans_dropped", g->lost);
    char *text = ls_json_text(head, 0);
    cJSON_Delete(head);
    const char *parts[] = { "{\"displayTimeUnit\":\"ms\",\"otherData\":", text, ",\"traceEvents\":[\n" };
    for (int i = 0; i < 3; i++) ls_atomic_file_write(g->file, parts[i], strlen(parts[i]));
    cJSON_free(text);
    return LS_SUCCESS;
}

// Prepares what each rank does alone and may fail: rank 0 opens the file, and every rank makes its text.
static ls_status prepare(gathering *g, const ls_trace_info *info, double zero_s) {
    const ls_comm_info *self = ls_comm_get_info(g->comm);
    size_t bytes = 0;
    LS_TRY(ls_trace_events_text(self, info, zero_s, &g->text, &bytes));
    g->mine = (int64_t)bytes;
    LS_TRY(ls_try_new(&g->piece, PIECE_BYTES, 1, "--trace: spans of %d ranks", self->world_size));
    g->bytes = ls_new(self->world_size, sizeof *g->bytes, "--trace: spans of %d ranks", self->world_size);
    return open_file(g);
}

// Sends a rank's text to rank 0's file piece by piece, so that no rank holds the texts of several ranks.
static ls_status pass_on(gathering *g, int rank) {
    const int me = ls_comm_get_info(g->comm)->rank;
    if (rank == 0) {
        if (me == 0) ls_atomic_file_write(g->file, g->text, (size_t)g->mine);
        return LS_SUCCESS;
    }
    if (me == 0) ls_atomic_file_write(g->file, ",\n", 2);
    for (int64_t at = 0; at < g->bytes[rank]; at += PIECE_BYTES) {
        int64_t length = g->bytes[rank] - at < PIECE_BYTES ? g->bytes[rank] - at : PIECE_BYTES;
        if (me == rank) memcpy(g->piece, g->text + at, (size_t)length);
        LS_TRY(ls_comm_broadcast(g->comm, g->piece, length, rank));
        if (me == 0) ls_atomic_file_write(g->file, g->piece, (size_t)length);
    }
    return LS_SUCCESS;
}

static ls_status gather(gathering *g) {
    LS_TRY(ls_comm_allgather(g->comm, &g->mine, g->bytes, sizeof g->mine));
    for (int rank = 0; rank < ls_comm_get_info(g->comm)->world_size; rank++) LS_TRY(pass_on(g, rank));
    if (!g->file) return LS_SUCCESS;
    ls_atomic_file_write(g->file, "\n]}\n", 4);
    ls_atomic_file *file = g->file;
    g->file = NULL;
    return ls_atomic_file_commit(file);
}

ls_status ls_trace_file_write(
    const char *path, ls_comm *comm, const ls_trace_info *info, int64_t from, int64_t to, double start_s) {
    gathering g = { .path = path, .comm = comm, .from = from, .to = to, .lost = ls_spans_dropped() };
    double zero_s = start_s + info->clock.offset_s;
    LS_TRY(ls_comm_allreduce(comm, &zero_s, 1, LS_F64, LS_REDUCE_MIN));
    LS_TRY(ls_comm_allreduce(comm, &g.lost, 1, LS_I64, LS_REDUCE_SUM));
    ls_status status = ls_comm_agree(comm, prepare(&g, info, zero_s), NULL);
    LS_THEN(status, gather(&g));
    ls_atomic_file_abandon(g.file);
    free(g.text);
    free(g.piece);
    free(g.bytes);
    return status;
}
