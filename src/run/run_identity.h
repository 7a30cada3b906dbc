// run_identity.h - which run a file is of: 128 random bits, drawn when the run is first started.
//
// They are in RUN/run.json, by which a run's folder is recognised, in every checkpoint's manifest, in metrics.jsonl and
// in summary.json. They decide nothing that is computed, and no two runs are compared by them; but a checkpoint of
// another run is neither gone on from nor retained, counted or removed as one's own.
#ifndef LS_RUN_RUN_IDENTITY_H
#define LS_RUN_RUN_IDENTITY_H

#include <stdint.h>
#include "base/json.h"
#include "base/status.h"

enum { LS_RUN_ID_BYTES = 33, LS_RUN_ADOPTED_MAX = 16 };

typedef struct {
    char id[LS_RUN_ID_BYTES]; // 32 hex digits; "": of no run (a trainer without a folder)
    struct {
        char id[LS_RUN_ID_BYTES]; // "": written by a version of the program that knew no identities
        int64_t update;
    } adopted[LS_RUN_ADOPTED_MAX]; // checkpoints of these runs up to these updates belong to this one, too
    int adopted_count;
} ls_run_identity;

LS_CHECKED ls_status ls_run_identity_new(ls_run_identity *out); // LS_DEVICE: no random bits to be had
// The text of an "id" or "run" in a file, or "" where it is none of ours.
const char *ls_run_identity_text(const cJSON *item);
// Does a checkpoint of the run `id` after that update belong to this run?
int ls_run_identity_owns(const ls_run_identity *identity, const char *id, int64_t update);
LS_CHECKED ls_status ls_run_identity_adopt(ls_run_identity *identity, const char *id, int64_t update);
// What was adopted without a limit (INT64_MAX) reaches up to this update: later ones are another run's.
void ls_run_identity_close(ls_run_identity *identity, int64_t update);
// Is all that belongs to `other` its own, too, and both the same run?
int ls_run_identity_covers(const ls_run_identity *identity, const ls_run_identity *other);
// run.json. *known: it is one of ours (a file of another kind is no error, and neither is none at all). LS_STORAGE: it
// cannot be read, or is of a later version of the program.
LS_CHECKED ls_status ls_run_identity_read(const char *path, ls_run_identity *out, int *known);
LS_CHECKED ls_status ls_run_identity_write(const char *path, const ls_run_identity *identity);

#endif
