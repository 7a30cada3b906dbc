// trainer.h - a whole training run on one rank of many: everything planned in new, then updates until done.
//
// new opens data, network, device and programs and plans all memory; it creates no file. The caller hears of progress
// through observers (metrics file, progress bar), called on rank 0 only and outside of timed work.
#ifndef LS_TRAIN_TRAINER_H
#define LS_TRAIN_TRAINER_H

#include <stdio.h>
#include "config/config.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include "device/device.h"
#include "dist/comm.h"
#include "dist/placement.h"
#include "dist/reducer.h"
#include "model/graph.h"
#include "train/gpu_records.h"
#include "train/memory_plan.h"
#include "train/replicas.h"
#include "train/run_identity.h"
#include "train/stragglers.h"

typedef struct ls_trainer ls_trainer;

// Facts known after new.
typedef struct {
    const ls_config *cfg;
    const ls_graph *graph;
    const ls_dataset_facts *train_data, *test_data;
    const ls_comm_facts *comm;
    ls_batches batches;
    const char *device; // "cpu"
    ls_device_facts device_facts;
    const char *why_not_cuda;           // one line, or NULL
    const ls_place *places;             // of all ranks
    char warning[LS_STATUS_TEXT_BYTES]; // in which ranks differ, though they may; "": nothing
    char sums[96];                      // what sums gradients over ranks: "NCCL 2.28.9", "MPI"; "": one rank
    char why_not_nccl[256];             // one line, or ""
    int threads;                        // per rank
    int64_t parameters;                 // trained
    int64_t updates_planned;            // of the whole run
    int64_t resumed_at;                 // update that a checkpoint lets this process go on from; 0: none does
    double seconds_before;              // of training, in the parts of the run before this process
    ls_run_identity run;                // rank 0's
    const cJSON *parts;      // of the run, the last is this process's (run_parts.h); NULL: no run, not rank 0
    ls_memory_plan memory;   // of this rank
    double flops_per_sample; // of training
} ls_train_facts;

typedef struct { // updates but the first of each process, without evaluation
    double seconds;
    int64_t samples; // over all ranks
} ls_train_steady;

typedef struct { // after an update
    int record; // 1: every log.every updates and at the end of an epoch, exact over all ranks: goes into metrics.jsonl;
                // 0: in between, at most ten a second, to refresh a display: losses are those of the last record
    int64_t update;        // updates done, from 1
    int64_t epoch;         // from 0
    double epoch_progress; // 0..1 within the epoch
    int64_t samples_seen;  // over all ranks
    double train_loss;     // mean over the samples since the last report
    double train_accuracy;
    double learning_rate, loss_scale, grad_norm;
    int64_t skipped;              // updates skipped so far
    double images_per_second;     // since the last report, over all ranks
    double seconds, part_seconds; // of training: in all parts of the run, as samples_seen; in this one
    double seconds_left;          // estimate; NAN: none yet
    double loader_wait_seconds, comm_seconds_exposed; // since this process's start, this rank
    const ls_gpu_sample *gpus;                        // of a record: each rank's GPU, on rank 0; NULL: none, or unknown
    const ls_rank_time *times;                        // of a record: each rank's, since the start; NULL: one rank
} ls_train_progress;

typedef struct {
    int64_t update, epoch; // epoch: completed ones
    double test_loss, test_accuracy;
    int64_t test_samples;
    double seconds; // that the evaluation took
} ls_train_evaluation;

typedef struct { // that was written, or could not be
    ls_status status;
    const char *path;
    int64_t update, epoch; // epoch: completed ones
    int64_t bytes;
    double held_seconds, seconds; // training waited; until it was safe on the disk
} ls_train_checkpoint;

typedef struct {
    const char *status; // "completed"
    int64_t resumed_at; // update that a checkpoint let this process go on from; 0: from the start
    int64_t epochs, updates, skipped, samples_seen;
    double train_loss; // mean over the last epoch (or what was run of it)
    double test_loss, test_accuracy;
    int64_t test_samples;
    int64_t best_update; // of the kept checkpoint with the best test accuracy, on rank 0; -1: none
    double best_accuracy;
    // Of all parts of the run, as samples_seen; then of this process's part alone.
    double train_images_per_second; // steady state: evaluation and the first window excluded
    double wall_seconds;
    double part_images_per_second, part_seconds;
    int64_t part_updates, part_samples;
    double time_to_first_update_seconds;
    double comm_seconds_exposed, loader_wait_seconds; // mean over ranks
    size_t peak_device_bytes, peak_host_bytes;        // maximum over ranks
    ls_gpu_sample gpus;                               // of all ranks, as ls_gpu_records_sum; samples 0: unknown
    uint64_t weights_hash;
    ls_replica_checks replica_checks;          // of rank 0
    char stragglers[LS_STRAGGLERS_TEXT_BYTES]; // who held up the others over the whole run; "": nobody, or not rank 0
    double stragglers_share;                   // of the time, which the others waited
    uint64_t allocations_in_updates; // of the steady state; counted only with the counting allocator linked (tests)
} ls_train_summary;

typedef struct {
    void *context;
    void (*progress)(void *context, const ls_train_progress *progress);
    void (*evaluated)(void *context, const ls_train_evaluation *evaluation);
    void (*warning)(void *context, const char *text);
    void (*checkpoint)(void *context, const ls_train_checkpoint *checkpoint);
} ls_train_observer;

// What is shared with `bench`: cfg and comm are borrowed and must outlive the trainer.
LS_CHECKED ls_status ls_trainer_new(const ls_config *cfg, ls_comm *comm, ls_trainer **out);
// For ls_trainer_load_weights and ls_trainer_evaluate alone: what only training would refuse is no error, such as a
// train.global_batch that the ranks cannot share.
LS_CHECKED ls_status ls_trainer_new_to_evaluate(const ls_config *cfg, ls_comm *comm, ls_trainer **out);
// Every training picture of a set of files is decoded once, unless it is remembered from an earlier start (data/verify.h):
// LS_DATA on all ranks alike where some cannot be read, their names in warnings; or, by data.broken = skip, others take
// their places. All ranks; before the first update. (Test pictures: by new.)
LS_CHECKED ls_status ls_trainer_verify_pictures(ls_trainer *trainer);
void ls_trainer_free(ls_trainer *trainer);
const ls_train_facts *ls_trainer_about(const ls_trainer *trainer);
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
// Until the run's end, or LS_STOPPED on all ranks: it was asked to stop (base/stop.h, run.max_minutes, the scheduler's
// limit), and a checkpoint holds all that was done.
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
    double seconds, flops;                       // of one run; operations as direct convolution counts them
    size_t bytes;                                // of all arguments: what must be read or written at least once
    int once;                                    // an update, not a micro-batch
} ls_layer_time;
LS_CHECKED ls_status ls_trainer_layer_times(ls_trainer *trainer, double seconds, ls_layer_time **rows, int *count);
// The buckets that several ranks would sum, in launch order. *rows: to be freed by the caller.
typedef struct {
    size_t bytes;
    int after; // complete when so many rows of ls_trainer_layer_times are done
} ls_train_bucket;
LS_CHECKED ls_status ls_trainer_buckets(const ls_trainer *trainer, ls_train_bucket **rows, int *count);
// Exact over the test split, on all ranks.
LS_CHECKED ls_status ls_trainer_evaluate(ls_trainer *trainer, ls_train_evaluation *evaluation);
// weights.safetensors: parameters and statistics under their names, canonical layout, fp32. Rank 0 writes; all ranks
// read.
LS_CHECKED ls_status ls_trainer_save_weights(ls_trainer *trainer, const char *path);
LS_CHECKED ls_status ls_trainer_load_weights(ls_trainer *trainer, const char *path);
// Traces updates [from, to) of the run that comes (base/trace.h); 0, 0: some 20 after some 10 that warm up, or what
// a short run has of them. All ranks; once, before the first update. Traced updates are enqueued one instruction after
// another, not as recordings. LS_USAGE: the run has no such updates.
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
