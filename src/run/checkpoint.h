// checkpoint.h - writes and reads checkpoints. A checkpoint is a snapshot in a folder, which is complete or absent.
//
//   update-000000000481/
//     weights.safetensors   parameters and statistics with the names and layout of PyTorch (a state_dict), and the
//                         metadata of weights_metadata.h
//     state.safetensors     tensors that the optimizer keeps: "<parameter>.momentum", ... (config/optimizers.def); with
//                         a running average also "<parameter>.slow" or "<parameter>.unaveraged" (snapshot.h)
//     manifest.json         written last: the members below, and the hash of every tensor and file
//
// manifest.json holds
//   format, format_version   "lockstep checkpoint", 1
//   run                      the run's identity (run_identity.h)
//   program, libraries, device, arithmetic, written (seconds since 1970)
//   config                   every option except data.path; files without their folders (no absolute paths)
//   network, teacher         name and hash of the network file; hash of the teacher's weights, if there is a teacher
//   data, test_data, validation_data   number of samples and checksum of each data set; for picture files also content,
//                            a hash of all their bytes (not from earlier versions); data also has name and decoder
//   cursor                   completed epoch, window, update, samples; nothing else decides which samples come next
//   batches                  global_batch, micro_batch, world_size when the checkpoint was made
//   random                   generator and seed: the key of all random streams, which have no other state
//   update                   applied, skipped, finite_in_row, skipped_in_row, loss_scale
//   sums, evaluation, steady counters from which the metrics continue; seconds of training so far
//   parts                    the processes that computed the run so far (run_parts.h)
//   files                    for each file: name, bytes, hash, and its tensors with their hashes (XXH3, 64 bits)
//   manifest_hash            hash of all bytes of the manifest before this member
//
// Writing: the files are written into a folder with a temporary name and synced, then the folder is synced and renamed,
// then the folder above it is synced. After a power cut the checkpoint is therefore complete or absent.
// Errors  LS_STORAGE: path, value found, value expected; LS_USAGE, LS_DATA: an option or data set that may not change
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

// Writes a checkpoint. If one with exactly this state exists at `path`, it stays. A damaged one, or one of this run
// with another state, is replaced. One of another run stays, and nothing is written (LS_STORAGE). metadata (may be
// NULL): makes weights.safetensors enough to predict and to export. *bytes (may be NULL): size of all files written; 0
// if the checkpoint stays.
LS_CHECKED ls_status ls_checkpoint_write(const char *path, const ls_snapshot *snapshot, const ls_train_info *info,
    const ls_weights_metadata *metadata, int64_t *bytes);
// Fails with LS_STORAGE if the file system of `folder` has no room for `weights` (0 or 1) weights files and
// `checkpoints` checkpoints of this snapshot. The message names `path`, the bytes needed and the bytes free.
LS_CHECKED ls_status ls_checkpoint_check_room(
    const char *folder, const char *path, const ls_snapshot *snapshot, int weights, int checkpoints);
// Reads the whole checkpoint and verifies every byte against the manifest.
LS_CHECKED ls_status ls_checkpoint_read(const char *path, ls_checkpoint **out);
void ls_checkpoint_free(ls_checkpoint *checkpoint); // NULL is allowed
// Reads only the manifest and verifies it by its own hash. The caller frees it with cJSON_Delete.
LS_CHECKED ls_status ls_checkpoint_read_manifest(const char *path, cJSON **manifest, ls_train_counters *counters);
// Checks that the run `info` may continue from the checkpoint. LS_USAGE or LS_DATA names an option or data set that may
// not change; LS_STORAGE: the cursor fits no epoch. Other differences that are recorded (ls_manifest_records; network,
// decoder, ...) are appended to the list `changed` as objects with option, before and now.
LS_CHECKED ls_status ls_checkpoint_suits(const ls_checkpoint *checkpoint, const ls_train_info *info, cJSON *changed);
// Copies tensors and counters into a snapshot of the same network and optimizer. LS_STORAGE: it has other tensors.
LS_CHECKED ls_status ls_checkpoint_take(const ls_checkpoint *checkpoint, ls_snapshot *snapshot);
// Removes the checkpoint's folder, the manifest first, so that a partly removed checkpoint is never taken for a whole
// one. If `path` is a symbolic link, only the link is removed.
LS_CHECKED ls_status ls_checkpoint_remove(const char *path);

// Returns the update in a checkpoint's name: 481 for "update-000000000481"; -1: not a checkpoint's name.
int64_t ls_checkpoint_update(const char *name);
// Writes "FOLDER/update-000000000481" into dst.
LS_CHECKED ls_status ls_checkpoint_path(const char *folder, int64_t update, char *dst, size_t bytes);

#endif
