// run_info.h - what is known and reported of a run, as plain data: the trainer fills it in, observers and files (metrics,
// summary, manifest) write it. Texts and pointers are borrowed from the trainer.
#ifndef LS_RUN_RUN_INFO_H
#define LS_RUN_RUN_INFO_H

#include "base/json.h"
#include "config/config.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include "device/device.h"
#include "system/monitor.h"
#include "dist/comm.h"
#include "dist/rank_table.h"
#include "model/graph.h"
#include "program/memory_plan.h"
#include "program/param_rules.h"
#include "run/run_identity.h"
#include "run/run_time.h"

enum { LS_STRAGGLERS_TEXT_BYTES = 768 };

typedef struct { // seconds since the end of the first update
    double wait; // for sums, when nothing was left to compute
    double loader_wait;
    double core_wait; // threads that were ready to run, for a core; over all threads
    double compute;
} ls_rank_time;

typedef enum { LS_BINDS_COMPUTE, LS_BINDS_LOADER, LS_BINDS_COMMUNICATION, LS_BINDS_LAUNCHES, LS_BINDS_CORES } ls_binds;

typedef struct { // what a run waited for, and a suggestion (train/diagnose/verdict.h)
    ls_binds binds;
    char text[512];             // one sentence with both; "": the run was too short
    char option[24], value[24]; // the suggestion, if it is a setting: "data.workers", "3"; else ""
} ls_verdict;

typedef struct { // comparisons of replicas
    int64_t count;
    double seconds; // of this rank
} ls_replica_checks;

enum { LS_ENERGY_TEXT_BYTES = 512, LS_ENERGY_SOURCE_BYTES = 96 };

typedef struct {                        // of this process's part, over all ranks (train/energy.h)
    double joules;                      // NAN: nothing could be read
    int hosts, packages, memories;      // whose processors are in it: packages, and memory with counters of its own
    int gpus_counted;                   // that are in it by their own counters
    int gpus_integrated;                // by their power, sampled twice a second
    char missing[LS_ENERGY_TEXT_BYTES]; // what is not in it, and why; "": nothing
} ls_run_energy;

typedef struct {              // the file that the run's first weights come from (model.init)
    char path[LS_TEXT_BYTES]; // "": there is none, or the run goes on from a checkpoint
    uint64_t hash;            // of the file
    int taken, all;           // tensors from it; of the network
    char which[1024];         // as ls_weights_map_text
} ls_init_info;

// Known when a trainer is made.
typedef struct {
    const ls_config *cfg;
    const ls_graph *graph;
    const ls_param_rules *rules;
    const ls_dataset_info *train_data, *test_data, *val_data; // val_data: held out for validation; NULL: nothing is
    const ls_comm_info *comm;
    ls_batches batches;
    const char *device; // "cpu"
    ls_device_info device_info;
    char arithmetic
        [384]; // what decides how rank 0's sums are rounded: device, vector instructions or GPU, libraries, algorithms
    const char *why_not_gpu;            // one line, or NULL
    const ls_rank_info *places;         // of all ranks
    char warning[LS_STATUS_TEXT_BYTES]; // in which ranks differ, though they may; "": nothing
    char sums[96];                      // what sums gradients over ranks: "NCCL 2.28.9", "MPI"; "": one rank
    char why_not_collective[256];       // one line, or ""
    int threads;                        // per rank
    int64_t parameters;                 // trained
    int64_t updates_planned;            // of the whole run
    int stopped_early;                  // by train.patience, as the checkpoint says that this process goes on from
    int64_t resumed_at;                 // update that a checkpoint lets this process go on from; 0: none does
    double seconds_before;              // of training, in the parts of the run before this process
    ls_run_identity run;                // rank 0's
    ls_init_info init;                  // rank 0's
    const cJSON *parts;           // of the run, the last is this process's (run_parts.h); NULL: no run, not rank 0
    const ls_memory_plan *memory; // of this rank
    ls_run_room room;             // of this rank
    double flops_per_sample;      // of training, at the resolution of epoch 0
} ls_train_info;

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
    ls_run_time time;                                 // of a record: this rank's
    const ls_gpu_sample *gpus;                        // of a record: each rank's GPU, on rank 0; NULL: none, or unknown
    const ls_rank_time *times;                        // of a record: each rank's; NULL: one rank
    double joules;                                    // of a record: as ls_run_energy
} ls_train_progress;

typedef struct {
    int64_t update, epoch;         // epoch: completed ones
    double val_loss, val_accuracy; // over what is held out for validation
    int64_t val_samples;           // 0: nothing is
    // The highest validation accuracy so far, after which update it was, and how many evaluations in a row have had none higher.
    double best_accuracy;
    int64_t best_update, without_improvement;
    double test_loss, test_accuracy;
    int64_t test_samples; // 0: of a run with validation, before its end
    // By eval.tta: over all test pictures, of which tta_samples were looked at in all views; 0: this evaluation is without.
    double tta_loss, tta_accuracy;
    int64_t tta_samples;
    double seconds; // that the evaluation took
} ls_train_evaluation;

// What says which weights are the best: of validation where there is some, else of the test split. -1: of neither.
static inline double ls_train_evaluation_accuracy(const ls_train_evaluation *e) {
    return e->val_samples > 0 ? e->val_accuracy : e->test_samples > 0 ? e->test_accuracy : -1;
}

typedef struct { // that was written, or could not be
    ls_status status;
    const char *path;
    int64_t update, epoch; // epoch: completed ones
    int64_t bytes;
    uint64_t weights_hash;        // of its weights, as the summary has that of the last ones
    double held_seconds, seconds; // training waited; until it was safe on the disk
} ls_train_checkpoint;

typedef struct {
    const char *status; // "completed"
    int64_t resumed_at; // update that a checkpoint let this process go on from; 0: from the start
    int64_t epochs, updates, skipped, samples_seen;
    int stopped_early;              // by train.patience, before the planned updates
    double train_loss;              // mean over the last epoch (or what was run of it)
    ls_train_evaluation evaluation; // the last one
    int64_t
        best_update; // of the retained checkpoint with the best accuracy (ls_train_evaluation_accuracy), on rank 0; -1: none
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
    ls_run_time time;                 // of this rank and part
    ls_verdict verdict;               // on rank 0
    ls_replica_checks replica_checks; // of rank 0
    ls_run_energy energy;
    char stragglers
        [LS_STRAGGLERS_TEXT_BYTES];  // which ranks held up the others over the whole run; "": none, or not rank 0
    double stragglers_share;         // of the time, which the others waited
    uint64_t allocations_in_updates; // of the steady state; counted only with the counting allocator linked (tests)
} ls_train_summary;

typedef struct {
    void *context;
    void (*progress)(void *context, const ls_train_progress *progress);
    void (*evaluated)(void *context, const ls_train_evaluation *evaluation);
    void (*warning)(void *context, const char *text);
    void (*checkpoint)(void *context, const ls_train_checkpoint *checkpoint);
} ls_train_observer;

// Identity, program, device, data (with their identities: 16 hex digits of ls_dataset_info's source), network and
// batches, as members of a JSON object: the start of the metrics and the summary have the same ones.
void ls_run_info_json(const ls_train_info *info, cJSON *object);
void ls_verdict_json(const ls_verdict *verdict, cJSON *object);
// Where the energy is from, from index 0 on: "2 packages (RAPL)" into text; 0: there is no more.
int ls_run_energy_source(const ls_run_energy *energy, int index, char text[LS_ENERGY_SOURCE_BYTES]);
// Loss, accuracy and samples of what was evaluated: val_..., test_..., tta_...
void ls_train_evaluation_json(const ls_train_evaluation *evaluation, cJSON *object);

#endif
