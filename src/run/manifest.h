// manifest.h - the text of a checkpoint's manifest: made, read, compared. checkpoint.h describes it.
#ifndef LS_RUN_MANIFEST_H
#define LS_RUN_MANIFEST_H

#include "base/json.h"
#include "formats/safetensors.h"
#include "run/snapshot.h"

enum { LS_CHECKPOINT_VERSION = 1 };

typedef struct { // a file of tensors [first, end) of the snapshot
    const char *name;
    int first, end;
    ls_safetensors_digest digest;
} ls_manifest_file;

// Returns the text of the manifest, for free().
char *ls_manifest_text(
    const ls_snapshot *snapshot, const ls_train_info *info, const ls_manifest_file *files, int count);
// Adds the counters to a JSON object as a manifest has them: sections cursor, update, sums, evaluation and steady.
void ls_manifest_add_counters(cJSON *tree, const ls_train_counters *counters);
// Refuses what is not whole, by its hash, and what another version wrote.
LS_CHECKED ls_status ls_manifest_parse(const char *path, const char *text, size_t bytes, cJSON **manifest);
LS_CHECKED ls_status ls_manifest_counters(const char *path, const cJSON *manifest, ls_train_counters *counters);
// Before it is read: has the file the length that is in the manifest? One that promises more than memory holds is
// damaged, too, and an older checkpoint serves.
LS_CHECKED ls_status ls_manifest_check_length(const cJSON *manifest, const char *path, const char *name);
// Is this the file of that name that the manifest was written for? Names the tensor that differs.
LS_CHECKED ls_status ls_manifest_verify(
    const cJSON *manifest, const char *path, const char *name, const ls_safetensors *file);
// The run that it is of; "": an earlier version of the program wrote it, or no run.
const char *ls_manifest_run(const cJSON *manifest);
// As ls_checkpoint_suits.
LS_CHECKED ls_status ls_manifest_suits(
    const char *path, const cJSON *manifest, const ls_train_info *info, cJSON *changed);
// Does the option decide what comes out of a run? 0 for how it saves, logs and shares the machine, and for names.
int ls_manifest_decides(int option);
// Those of the changes that are reported: "train.epochs 5, now 10; ..." into dst, "" for none; returns dst.
char *ls_manifest_changes_text(const cJSON *changed, char *dst, size_t bytes);

#endif
