// trainer.h - a whole training run on one rank of many, as the commands see it.
//
// new opens data, network, device and programs and plans all memory; it creates no file. Observers (metrics file,
// progress bar) are called on rank 0, outside of timed work. All calls are collective unless they say otherwise.
// Calls that forward to one part of the trainer are described in full there: run_plan.h, run_session.h,
// run_weights.h, snapshots.h, run_saving.h.
#ifndef LS_TRAIN_TRAINER_H
#define LS_TRAIN_TRAINER_H

#include <stdio.h>
#include "device/op_kind.h"
#include "dist/reduce/reducer.h"
#include "run/evaluation.h"
#include "run/snapshot.h"

typedef struct ls_trainer ls_trainer;

// cfg and comm must outlive the trainer.
LS_CHECKED ls_status ls_trainer_new(const ls_config *cfg, ls_comm *comm, ls_trainer **out);
// Only for loading weights and evaluating: accepts what only training would refuse, such as a train.global_batch that
// the ranks cannot share.
LS_CHECKED ls_status ls_trainer_new_to_evaluate(const ls_config *cfg, ls_comm *comm, ls_trainer **out);
void ls_trainer_free(ls_trainer *trainer); // NULL is allowed

// --- before the first update ---
LS_CHECKED ls_status ls_trainer_verify_pictures(ls_trainer *trainer); // LS_DATA: a training picture cannot be read
// Rank 0: the run's folder, where evidence of a failure is kept; and the run's identity, for checkpoints and records.
LS_CHECKED ls_status ls_trainer_set_folder(ls_trainer *trainer, const char *folder);
LS_CHECKED ls_status ls_trainer_set_run(ls_trainer *trainer, const ls_run_identity *run);
// Goes on from the newest good checkpoint of the folder (rank 0's), if there is one: *resumed, and info->resumed_at
// is its update.
LS_CHECKED ls_status ls_trainer_resume(ls_trainer *trainer, const char *folder, int *resumed);
LS_CHECKED ls_status ls_trainer_init_from_file(ls_trainer *trainer); // the weights of model.init; not after a resume
LS_CHECKED ls_status ls_trainer_load_weights(ls_trainer *trainer, const char *path);
// Checkpoints go into the folder (rank 0's), and the run heeds requests to stop.
LS_CHECKED ls_status ls_trainer_save_into(ls_trainer *trainer, const char *folder);
// Updates [from, to) are traced; 0, 0: some 20 after some 10 that warm up.
LS_CHECKED ls_status ls_trainer_trace(ls_trainer *trainer, int64_t from, int64_t to);
// This rank alone: training pictures are read from here on, not from the first update on.
LS_CHECKED ls_status ls_trainer_read_ahead(ls_trainer *trainer);

// --- the run ---
// Until the run's end, or LS_STOPPED on all ranks: the run was asked to stop (system/signals.h, run.max_minutes, the
// scheduler's limit), and a checkpoint holds all that was done.
LS_CHECKED ls_status ls_trainer_run(
    ls_trainer *trainer, const ls_train_observer *observers, int observer_count, ls_train_summary *summary);
// Runs `updates` further updates without evaluation, for benchmarks and tests; loss[i] (may be NULL) is the mean loss
// of the window.
LS_CHECKED ls_status ls_trainer_updates(ls_trainer *trainer, int64_t updates, double *loss);
// Exact over the test split. in_detail: also by eval.tta (tta.h), and for ls_trainer_details. Fills in its part of
// *evaluation, which begins as {0}.
LS_CHECKED ls_status ls_trainer_evaluate(ls_trainer *trainer, int in_detail, ls_train_evaluation *evaluation);
// The same, without eval.tta, over the validation pictures; there must be some (ls_train_info.val_data).
LS_CHECKED ls_status ls_trainer_validate(ls_trainer *trainer, int in_detail, ls_train_evaluation *evaluation);
// weights.safetensors: parameters and statistics under their names, canonical layout, fp32. Rank 0 writes.
LS_CHECKED ls_status ls_trainer_save_weights(ls_trainer *trainer, const char *path);
LS_CHECKED ls_status ls_trainer_write_trace(ls_trainer *trainer, const char *path); // after the run; rank 0 writes
LS_CHECKED ls_status ls_trainer_snapshot_new(const ls_trainer *trainer, ls_snapshot **out); // this rank alone
LS_CHECKED ls_status ls_trainer_snapshot(ls_trainer *trainer, ls_snapshot *snapshot);
LS_CHECKED ls_status ls_trainer_restore(ls_trainer *trainer, ls_snapshot *snapshot);

// How long each instruction of a micro-batch takes, run by itself for about `seconds` on one batch, and last the
// optimizer's pass. Spoils gradients and the optimizer's memory of them, but not the weights. The caller frees *rows;
// texts belong to the trainer.
typedef struct {
    const char *op, *layer, *algorithm, *chosen; // chosen: as ls_plan.chosen
    ls_op_kind kind;
    double seconds, flops; // of one run; operations as direct convolution counts them
    size_t bytes;          // of all arguments: what must be read or written at least once
    int once;              // an update, not a micro-batch
} ls_layer_time;
LS_CHECKED ls_status ls_trainer_layer_times(ls_trainer *trainer, double seconds, ls_layer_time **rows, int *count);

// --- what is known; all of this rank, and borrowed ---
const ls_train_info *ls_trainer_get_info(const ls_trainer *trainer);
void ls_trainer_print_plan(const ls_trainer *trainer, FILE *file); // --dry-run: network, groups, programs, memory
// Rank 0: the last evaluation in detail, by test-time augmentation if that is on; NULL: there was none.
const ls_evaluation *ls_trainer_details(const ls_trainer *trainer);
const struct ls_nonfinite *ls_trainer_nonfinite(
    const ls_trainer *trainer); // why the run ended with LS_NUMERIC, or NULL
ls_device *ls_trainer_device(const ls_trainer *trainer);
double ls_trainer_loader_wait_seconds(const ls_trainer *trainer); // counters since new
ls_reducer_counts ls_trainer_comm_counts(const ls_trainer *trainer);
size_t ls_trainer_device_bytes(const ls_trainer *trainer); // on its device

#endif
