// trainer.h - a whole training run on one of many ranks, as the commands use it.
//
// ls_trainer_new opens data, network, device and programs, and plans all memory. It creates no file in the run's
// folder. Observers (metrics file, progress bar) are called on rank 0, outside of timed work. All calls are collective
// unless their comment says otherwise. Many functions only forward to one part of the trainer. Their full description
// is in that part's header: run_plan.h, run_session.h, run_weights.h, snapshots.h, run_saving.h.
#ifndef LS_TRAIN_TRAINER_H
#define LS_TRAIN_TRAINER_H

#include <stdio.h>
#include "device/op_kind.h"
#include "dist/reduce/reducer.h"
#include "run/evaluation.h"
#include "run/snapshot.h"

typedef struct ls_trainer ls_trainer;

// Opens a trainer: data, network, device and programs. cfg and comm must outlive it.
LS_CHECKED ls_status ls_trainer_new(const ls_config *cfg, ls_comm *comm, ls_trainer **out);
// Opens a trainer that only loads weights and evaluates. It accepts configurations that only training would refuse,
// such as a train.global_batch that the ranks cannot share.
LS_CHECKED ls_status ls_trainer_new_to_evaluate(const ls_config *cfg, ls_comm *comm, ls_trainer **out);
void ls_trainer_free(ls_trainer *trainer); // NULL is allowed

// --- before the first update ---
LS_CHECKED ls_status ls_trainer_verify_pictures(ls_trainer *trainer); // LS_DATA: a training picture cannot be read
// Rank 0, not collective: set the run's folder for evidence of failures, and the run's identity for its records.
LS_CHECKED ls_status ls_trainer_set_folder(ls_trainer *trainer, const char *folder);
LS_CHECKED ls_status ls_trainer_set_run(ls_trainer *trainer, const ls_run_identity *run);
// Resumes from the newest good checkpoint in rank 0's folder. *resumed: one was found; info->resumed_at: its update.
LS_CHECKED ls_status ls_trainer_resume(ls_trainer *trainer, const char *folder, int *resumed);
// Loads the weights of model.init. Do not call it after resuming.
LS_CHECKED ls_status ls_trainer_init_from_file(ls_trainer *trainer);
LS_CHECKED ls_status ls_trainer_load_weights(ls_trainer *trainer, const char *path);
// From now on, checkpoints are written into rank 0's folder, and the run reacts to requests to stop.
LS_CHECKED ls_status ls_trainer_save_into(ls_trainer *trainer, const char *folder);
// Traces the updates [from, to). 0, 0: traces 20 updates after 10 warm-up updates, or fewer in a short run.
LS_CHECKED ls_status ls_trainer_trace(ls_trainer *trainer, int64_t from, int64_t to);
// Starts to read training pictures now instead of at the first update. Not collective.
LS_CHECKED ls_status ls_trainer_read_ahead(ls_trainer *trainer);

// --- the run ---
// Runs until the end. LS_STOPPED on all ranks: the run was asked to stop (system/signals.h, run.max_minutes, the
// scheduler's time limit), and a checkpoint holds all work so far.
LS_CHECKED ls_status ls_trainer_run(
    ls_trainer *trainer, const ls_train_observer *observers, int observer_count, ls_train_summary *summary);
// Like ls_trainer_run, but also returns after `update` updates, which must be more than are done. The next call goes on
// as if the run had not paused.
LS_CHECKED ls_status ls_trainer_run_until(ls_trainer *trainer, int64_t update, const ls_train_observer *observers,
    int observer_count, ls_train_summary *summary);
// Rank 0 prints the tensors of the next update, or of the update that ended the run (diagnose/inspect.h). No further
// update is possible.
LS_CHECKED ls_status ls_trainer_inspect(ls_trainer *trainer, FILE *file);
// Runs more updates without evaluation, for benchmarks and tests. loss[i] (or NULL): mean loss of the i-th one.
LS_CHECKED ls_status ls_trainer_updates(ls_trainer *trainer, int64_t updates, double *loss);
// Evaluates the whole test split. in_detail: also evaluates by eval.tta (tta.h), and makes ls_trainer_details. Fills in
// the test fields of *evaluation, which begins as {0}.
LS_CHECKED ls_status ls_trainer_evaluate(ls_trainer *trainer, int in_detail, ls_train_evaluation *evaluation);
// Evaluates the validation pictures like ls_trainer_evaluate, but never by eval.tta. ls_train_info.val_data must not be
// NULL.
LS_CHECKED ls_status ls_trainer_validate(ls_trainer *trainer, int in_detail, ls_train_evaluation *evaluation);
// Rank 0 writes weights.safetensors: parameters and statistics under their names, in canonical layout, in fp32.
LS_CHECKED ls_status ls_trainer_save_weights(ls_trainer *trainer, const char *path);
LS_CHECKED ls_status ls_trainer_write_trace(ls_trainer *trainer, const char *path); // call after the run; rank 0 writes
LS_CHECKED ls_status ls_trainer_snapshot_new(const ls_trainer *trainer, ls_snapshot **out); // not collective
LS_CHECKED ls_status ls_trainer_snapshot(ls_trainer *trainer, ls_snapshot *snapshot);
LS_CHECKED ls_status ls_trainer_restore(ls_trainer *trainer, ls_snapshot *snapshot);

// Measures how long each instruction of a micro-batch takes. Each is run by itself for about `seconds` on one batch;
// the optimizer's pass comes last. Overwrites gradients and the tensors that the optimizer keeps (momentum),
// but not the weights. The caller frees *rows; the trainer owns the texts.
typedef struct {
    const char *op, *layer, *algorithm, *chosen; // chosen: see ls_plan.chosen
    ls_op_kind kind;
    double seconds, flops; // of one run; flops are counted as for direct convolution
    size_t bytes;          // size of all arguments: the least that must be read or written
    int once;              // 1: runs once in an update; 0: once in each micro-batch
} ls_layer_time;
LS_CHECKED ls_status ls_trainer_layer_times(ls_trainer *trainer, double seconds, ls_layer_time **rows, int *count);

// --- facts; all of this rank, and borrowed; not collective ---
const ls_train_info *ls_trainer_get_info(const ls_trainer *trainer);
void ls_trainer_print_plan(const ls_trainer *trainer, FILE *file); // for --dry-run: network, groups, programs, memory
// Rank 0: returns the last detailed evaluation, by test-time augmentation if that is on. NULL: no such evaluation.
const ls_evaluation *ls_trainer_details(const ls_trainer *trainer);
// Returns the report of a loss or gradient that was not finite and ended the run. NULL: no such failure.
const struct ls_nonfinite *ls_trainer_nonfinite(const ls_trainer *trainer);
ls_device *ls_trainer_device(const ls_trainer *trainer);
double ls_trainer_loader_wait_seconds(const ls_trainer *trainer); // since ls_trainer_new
ls_reducer_counts ls_trainer_comm_counts(const ls_trainer *trainer);
size_t ls_trainer_device_bytes(const ls_trainer *trainer); // planned memory on the device

#endif
