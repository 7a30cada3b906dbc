// trainer.h - a whole training run on one rank of many: everything planned in new, then updates until done.
//
// new opens data, network, device and programs and plans all memory; it creates no file. The caller hears of progress
// through observers (metrics file, progress bar), called on rank 0 only and outside of timed work.
#ifndef LS_TRAIN_TRAINER_H
#define LS_TRAIN_TRAINER_H

#include <stdio.h>
#include "device/op_kind.h"
#include "dist/reduce/reducer.h"
#include "train/gpu_records.h"
#include "train/diagnose/replicas.h"
#include "files/evaluation.h"
#include "files/snapshot.h"
#include "train/diagnose/stragglers.h"

typedef struct ls_trainer ls_trainer;

// What is shared with `bench`: cfg and comm are borrowed and must outlive the trainer.
LS_CHECKED ls_status ls_trainer_new(const ls_config *cfg, ls_comm *comm, ls_trainer **out);
// For ls_trainer_load_weights and ls_trainer_evaluate alone: what only training would refuse is no error, such as a
// train.global_batch that the ranks cannot share.
LS_CHECKED ls_status ls_trainer_new_to_evaluate(const ls_config *cfg, ls_comm *comm, ls_trainer **out);
// Every training picture of a set of files is decoded once, unless it is packed from an earlier start (data/verify.h):
// LS_DATA on all ranks alike where some cannot be read, their names in warnings; or, by data.broken = skip, others take
// their places. All ranks; before the first update. (Test pictures: by new.)
LS_CHECKED ls_status ls_trainer_verify_pictures(ls_trainer *trainer);
// Training pictures are read from here on, from where the run stands, not from the first update on. This rank alone.
LS_CHECKED ls_status ls_trainer_read_ahead(ls_trainer *trainer);
void ls_trainer_free(ls_trainer *trainer);
const ls_train_info *ls_trainer_get_info(const ls_trainer *trainer);
void ls_trainer_print_plan(
    const ls_trainer *trainer, FILE *file); // --dry-run: network table, groups, programs, memory by slab

// Checkpoints go into this folder (rank 0's; the others' is ignored), as checkpoint.* says, and the run heeds requests
// to stop. All ranks; before ls_trainer_run.
LS_CHECKED ls_status ls_trainer_save_into(ls_trainer *trainer, const char *folder);
// Rank 0: the run that this trainer is of, for its checkpoints and records. Before resume and save_into.
LS_CHECKED ls_status ls_trainer_set_run(ls_trainer *trainer, const ls_run_identity *run);
// Takes over the newest good checkpoint of the folder (rank 0's). *resumed: there was one; facts.resumed_at is its
// update. Damaged ones, and options that differ from then, are told in warnings. LS_USAGE: one of another run is there
// (with run.adopt = true it belongs to this one from now on), or what a run may not change has. Writes nothing. All
// ranks; before the first update.
LS_CHECKED ls_status ls_trainer_resume(ls_trainer *trainer, const char *folder, int *resumed);
// Until the run's end, or LS_STOPPED on all ranks: it was asked to stop (base/signals.h, run.max_minutes, the
// scheduler's limit), and a checkpoint holds all that was done.
LS_CHECKED ls_status ls_trainer_run(
    ls_trainer *trainer, const ls_train_observer *observers, int observer_count, ls_train_summary *summary);
// Runs `updates` further updates without evaluation, for benchmarks and tests; loss[i] (may be NULL) is the mean loss
// of the window.
LS_CHECKED ls_status ls_trainer_updates(ls_trainer *trainer, int64_t updates, double *loss);
// How long each instruction of a micro-batch takes, run by itself for about `seconds` on one batch, and last the
// optimizer's pass. It spoils gradients and the optimizer's memory of them, not the weights. *rows: to be freed by the
// caller; texts belong to the trainer.
typedef struct {
    const char *op, *layer, *algorithm, *chosen; // chosen: as ls_plan.chosen
    ls_op_kind kind;
    double seconds, flops; // of one run; operations as direct convolution counts them
    size_t bytes;          // of all arguments: what must be read or written at least once
    int once;              // an update, not a micro-batch
} ls_layer_time;
LS_CHECKED ls_status ls_trainer_layer_times(ls_trainer *trainer, double seconds, ls_layer_time **rows, int *count);
// Exact over the test split, on all ranks. in_detail: by eval.tta, too, where that is on (train/tta.h), and what
// ls_trainer_details has. Fills in its part of *evaluation, which begins as {0}.
LS_CHECKED ls_status ls_trainer_evaluate(ls_trainer *trainer, int in_detail, ls_train_evaluation *evaluation);
// The same, without eval.tta, over what is held out for validation; there must be some (ls_train_info.val_data).
LS_CHECKED ls_status ls_trainer_validate(ls_trainer *trainer, int in_detail, ls_train_evaluation *evaluation);
// Rank 0: the last evaluation in detail, which a run's last one is; the trainer's. Its top1 is that of test-time
// augmentation where that is on. NULL: there was none.
const ls_evaluation *ls_trainer_details(const ls_trainer *trainer);
// weights.safetensors: parameters and statistics under their names, canonical layout, fp32. Rank 0 writes; all ranks
// read.
LS_CHECKED ls_status ls_trainer_save_weights(ls_trainer *trainer, const char *path);
LS_CHECKED ls_status ls_trainer_load_weights(ls_trainer *trainer, const char *path);
// The run starts from the weights of model.init, by model.init_rules (files/weights_map.h), where it is set: else
// nothing is done. Rank 0 reads the file, the others get what it has. To evaluate, all of the network has to be
// there. LS_USAGE: the file does not fit. All ranks; before the first update, and not where a checkpoint is gone on
// from.
LS_CHECKED ls_status ls_trainer_init_from_file(ls_trainer *trainer);
// Room for a snapshot of this trainer; ls_snapshot_free it.
LS_CHECKED ls_status ls_trainer_snapshot_new(const ls_trainer *trainer, ls_snapshot **out);
// Nothing is under way: every update that was enqueued is completed. All ranks call it; the tensors are this rank's
// own, which are those of all ranks; snapshot may be NULL on ranks that do not want it.
LS_CHECKED ls_status ls_trainer_snapshot(ls_trainer *trainer, ls_snapshot *snapshot);
// One tensor of this rank's into tensor->values. An export that failed shows at the queue's next sync.
void ls_trainer_export_tensor(ls_trainer *trainer, const ls_snapshot_tensor *tensor);
// The trainer goes on as the one that the snapshot was taken of. All ranks call it before their first update or where
// nothing is under way; rank 0's contents count, on the others snapshot is overwritten with them.
LS_CHECKED ls_status ls_trainer_restore(ls_trainer *trainer, ls_snapshot *snapshot);
// Traces updates [from, to) of the run that comes (base/spans.h); 0, 0: some 20 after some 10 that warm up, or what
// a short run has of them. All ranks; once, before the first update. Traced updates are enqueued one instruction after
// another, not as captured graphs. LS_USAGE: the run has no such updates.
LS_CHECKED ls_status ls_trainer_trace(ls_trainer *trainer, int64_t from, int64_t to);
// The trace of all ranks, after the run; rank 0 writes. All ranks; the status is each rank's own.
LS_CHECKED ls_status ls_trainer_write_trace(ls_trainer *trainer, const char *path);
// Rank 0: the run's folder, where a batch that ends the run is kept. Without one, none is.
LS_CHECKED ls_status ls_trainer_set_folder(ls_trainer *trainer, const char *folder);
// Why the run ended with LS_NUMERIC (nonfinite.h); NULL: it did not.
const struct ls_nonfinite *ls_trainer_nonfinite(const ls_trainer *trainer);
ls_device *ls_trainer_device(const ls_trainer *trainer); // borrowed
// Counters since new, for bench.
double ls_trainer_loader_wait_seconds(const ls_trainer *trainer);
ls_reducer_counts ls_trainer_comm_counts(const ls_trainer *trainer); // of this rank
size_t ls_trainer_device_bytes(const ls_trainer *trainer);           // of this rank, on its device

#endif
