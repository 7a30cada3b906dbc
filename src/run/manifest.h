// manifest.h - makes, reads and compares the manifest of a checkpoint, which checkpoint.h describes.
#ifndef LS_RUN_MANIFEST_H
#define LS_RUN_MANIFEST_H

#include "base/json.h"
#include "formats/safetensors.h"
#include "run/snapshot.h"

enum { LS_CHECKPOINT_VERSION = 1 };

typedef struct { // a file that holds the tensors first..end-1 of the snapshot
    const char *name;
    int first, end;
    ls_safetensors_digest digest;
} ls_manifest_file;

// Returns the text of the manifest, for free().
char *ls_manifest_text(
    const ls_snapshot *snapshot, const ls_train_info *info, const ls_manifest_file *files, int count);
// Adds the counters to a JSON object as sections of a manifest: cursor, update, sums, evaluation and steady.
void ls_manifest_add_counters(cJSON *tree, const ls_train_counters *counters);
// Parses a manifest. LS_STORAGE: its hash shows damage, it is not a manifest, or it has another format version.
LS_CHECKED ls_status ls_manifest_parse(const char *path, const char *text, size_t bytes, cJSON **manifest);
LS_CHECKED ls_status ls_manifest_counters(const char *path, const cJSON *manifest, ls_train_counters *counters);
// Call before reading a file of the checkpoint: one that is too long could take all memory. LS_STORAGE: its length
// differs from the manifest's, so the checkpoint is damaged.
LS_CHECKED ls_status ls_manifest_check_length(const cJSON *manifest, const char *path, const char *name);
// Compares a file with the manifest's hashes. LS_STORAGE: they differ, or the manifest does not name the file; the
// message names the first tensor that differs, if there is one.
LS_CHECKED ls_status ls_manifest_verify(
    const cJSON *manifest, const char *path, const char *name, const ls_safetensors *file);
// Returns the identity of the manifest's run; "": no run, or an earlier version of the program wrote the manifest.
const char *ls_manifest_run(const cJSON *manifest);
// Checks that a run may continue from the manifest's checkpoint; ls_checkpoint_suits describes it.
LS_CHECKED ls_status ls_manifest_suits(
    const char *path, const cJSON *manifest, const ls_train_info *info, cJSON *changed);
// Returns 1 if a change of the option is part of the record of a run. Other options tell where things are, or how a run
// continues.
int ls_manifest_records(int option);
// Returns 1 if the option affects the result of a run, 0 if it is about saving, logging, use of the machine or names.
int ls_manifest_decides(int option);
// Writes the changes that are reported to the user into dst: "train.epochs 5, now 10; ..." or "". Returns dst.
char *ls_manifest_changes_text(const cJSON *changed, char *dst, size_t bytes);

#endif
