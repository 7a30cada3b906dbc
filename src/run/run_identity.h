// run_identity.h - the identity of a run: 128 random bits, drawn when the run is first started.
//
// A run's folder has it in run.json, by which such a folder is recognised. Manifests of checkpoints, metrics.jsonl and
// summary.json have it, too. No computed value depends on it, and no runs are compared by it. But a run neither
// continues from a checkpoint of another run, nor counts or removes it as its own.
#ifndef LS_RUN_RUN_IDENTITY_H
#define LS_RUN_RUN_IDENTITY_H

#include <stdint.h>
#include "base/json.h"
#include "base/status.h"

enum { LS_RUN_ID_BYTES = 33, LS_RUN_ADOPTED_MAX = 16 };

typedef struct {
    char id[LS_RUN_ID_BYTES]; // 32 hex digits; "": the trainer has no folder, so it is not a run
    struct {
        char id[LS_RUN_ID_BYTES]; // "": a version of the program without identities wrote the checkpoints
        int64_t update;
    } adopted[LS_RUN_ADOPTED_MAX]; // checkpoints of these runs, up to these updates, also belong to this run
    int adopted_count;
} ls_run_identity;

LS_CHECKED ls_status ls_run_identity_new(ls_run_identity *out); // LS_DEVICE: the system gives no random bits
// Returns the text of an item if it is a valid identity, else "".
const char *ls_run_identity_text(const cJSON *item);
// Returns 1 if a checkpoint of the run `id`, made after `update`, belongs to this run.
int ls_run_identity_owns(const ls_run_identity *identity, const char *id, int64_t update);
// Makes the checkpoints of the run `id`, up to `update` (INT64_MAX: without a limit for now), part of this run.
// LS_USAGE: this run has adopted LS_RUN_ADOPTED_MAX runs already.
LS_CHECKED ls_status ls_run_identity_adopt(ls_run_identity *identity, const char *id, int64_t update);
// Sets the limit of runs that were adopted without a limit (INT64_MAX) to `update`.
void ls_run_identity_close(ls_run_identity *identity, int64_t update);
// Returns 1 if both are the same run, and all checkpoints that belong to `other` also belong to `identity`.
int ls_run_identity_covers(const ls_run_identity *identity, const ls_run_identity *other);
// Reads run.json. *known: 1 if the file is a run's; a missing file or one of another kind is not an error. LS_STORAGE:
// the file cannot be read, is damaged, or comes from another version of the program.
LS_CHECKED ls_status ls_run_identity_read(const char *path, ls_run_identity *out, int *known);
LS_CHECKED ls_status ls_run_identity_write(const char *path, const ls_run_identity *identity);

#endif
