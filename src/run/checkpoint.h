// checkpoint.h - a snapshot in files: one folder, whole or not there.
//
//   update-000000000481/
//     weights.safetensors   parameters and statistics under their names in PyTorch's layout (a state_dict), with what
//                           weights_metadata.h has
//     state.safetensors     what the optimizer keeps: "<parameter>.momentum", ... (config/optimizers.def); with a running
//                           average the other of the two: "<parameter>.slow", "<parameter>.unaveraged" (snapshot.h)
//     manifest.json         written last: what follows here, and the hash of every tensor and file
//
// manifest.json holds
//   format, format_version   "lockstep checkpoint", 1
//   run                      the run's identity (run_identity.h)
//   program, libraries, written (seconds since 1970)
//   config                   every option but data.path (no absolute paths); network: its file's name and hash
//   data, test_data          samples and checksum of the training and the test data; their name; of picture
//                            files content, too: a hash of all their bytes (not written by earlier versions)
//   cursor                   epoch, window, update, samples: what is done; the order of samples depends on nothing else
//   batches                  global_batch, micro_batch, world_size that it was made with
//   random                   generator and seed: the key of all its streams, which have no other state
//   update                   applied, skipped, finite_in_row, skipped_in_row, loss_scale
//   sums, evaluation, steady what metrics go on from; seconds of training so far
//   parts                    what computed the run up to here (run_parts.h)
//   files                    for each: name, bytes, hash, and tensors with their hashes (XXH3, 64 bits)
//   manifest_hash            of all bytes of the manifest before this member
//
// Writing: a folder under a temporary name beside it, each file synced, then the folder, then renamed, then the folder
// above synced. After a power cut there is a whole checkpoint under its name, or none.
// Errors  LS_STORAGE: path, what was found, what was expected; LS_USAGE, LS_DATA: what a run may not change
#ifndef LS_RUN_CHECKPOINT_H
#define LS_RUN_CHECKPOINT_H

#include "base/json.h"
#include "formats/safetensors.h"
#include "run/snapshot.h"
#include "formats/weights_metadata.h"

typedef struct {
    char *path;
    cJSON *manifest;
    ls_train_counters counters;
    ls_safetensors *weights, *state;
} ls_checkpoint;

// One that is there already and holds just this state stays as it is; a damaged one, or one of this run with another
// state, gives way; one of another run stays, and nothing is written (LS_STORAGE). metadata: of weights.safetensors, which
// is then enough to predict and to export; NULL: none. bytes (may be NULL): of all files.
LS_CHECKED ls_status ls_checkpoint_write(const char *path, const ls_snapshot *snapshot, const ls_train_info *info,
    const ls_weights_metadata *metadata, int64_t *bytes);
// Has the file system of `folder` room for the weights (0 or 1 file) and so many checkpoints of a snapshot? LS_STORAGE
// names `path`, what they need and what is free.
LS_CHECKED ls_status ls_checkpoint_check_room(
    const char *folder, const char *path, const ls_snapshot *snapshot, int weights, int checkpoints);
// Reads all of it and verifies every byte against the manifest.
LS_CHECKED ls_status ls_checkpoint_read(const char *path, ls_checkpoint **out);
void ls_checkpoint_free(ls_checkpoint *checkpoint); // NULL is allowed
// The manifest alone, verified by its own hash; cJSON_Delete it.
LS_CHECKED ls_status ls_checkpoint_read_manifest(const char *path, cJSON **manifest, ls_train_counters *counters);
// May the run `info` go on from it? LS_USAGE or LS_DATA naming what it may not change; else `changed`, a list, is
// given an object (option, before, now) for each of the other options that differ (ls_manifest_changes_text).
LS_CHECKED ls_status ls_checkpoint_suits(const ls_checkpoint *checkpoint, const ls_train_info *info, cJSON *changed);
// Its contents, into a snapshot made for the same network and optimizer; LS_STORAGE for another one's.
LS_CHECKED ls_status ls_checkpoint_take(const ls_checkpoint *checkpoint, ls_snapshot *snapshot);
// Removes the folder: first its manifest, so that no half of it is taken for a whole. Of a symbolic link the link alone.
LS_CHECKED ls_status ls_checkpoint_remove(const char *path);

// The update that "update-000000000481" is of; -1: no name of a checkpoint.
int64_t ls_checkpoint_update(const char *name);
// "FOLDER/update-000000000481"
LS_CHECKED ls_status ls_checkpoint_path(const char *folder, int64_t update, char *dst, size_t bytes);

#endif
