// run_info.h - facts and reports about a run, as plain data. The trainer fills them in; observers and files (metrics,
// summary, manifest) write them. Texts and pointers are borrowed from the trainer.
#ifndef LS_RUN_RUN_INFO_H
#define LS_RUN_RUN_INFO_H

#include "base/json.h"
#include "base/log.h"
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
#include "run/startup_times.h"

enum { LS_STRAGGLERS_TEXT_BYTES = 768 };

typedef struct { // seconds by purpose, counted from the end of this process's first update on
    double wait; // time spent waiting for sums over ranks, with nothing left to compute
    double loader_wait;
    double core_wait; // time for which threads that were ready to run waited for a core, summed over threads
    double compute;
} ls_rank_time;

typedef enum { LS_BINDS_COMPUTE, LS_BINDS_LOADER, LS_BINDS_COMMUNICATION, LS_BINDS_LAUNCHES, LS_BINDS_CORES } ls_binds;

typedef struct { // the limit of a run's speed, and a suggestion (train/diagnose/verdict.h)
    ls_binds binds;
    char text[512];             // one sentence with limit and suggestion; "": the run was too short
    char option[24], value[24]; // the suggestion if it is a setting, such as "data.workers", "3"; else ""
} ls_verdict;

typedef struct { // comparisons of replicas
    int64_t count;
    double seconds; // total time of this rank for all comparisons
} ls_replica_checks;

typedef struct { // checks of gradients by other ranks (train/cross_check.h)
    int64_t count, differences;
    double seconds; // total time for which this rank has computed its neighbour's micro-batches, in all checks
    int wrong_rank; // the last rank that was wrong; -1: no rank was wrong
} ls_cross_checks;

enum { LS_ENERGY_TEXT_BYTES = 512, LS_ENERGY_SOURCE_BYTES = 96 };

typedef struct {                        // energy of this process's part of the run, over all ranks (train/energy.h)
    double joules;                      // NAN: nothing could be read
    int hosts, packages, memories;      // hosts with readable energy counters; their packages; memories with counters
    int gpus_counted;                   // GPUs that were measured by their energy counters
    int gpus_integrated;                // GPUs that were measured by their power, sampled twice a second
    char missing[LS_ENERGY_TEXT_BYTES]; // parts that are not counted, and the reason; "": all are counted
} ls_run_energy;

typedef struct {              // the weights file from which the run began (model.init)
    char path[LS_TEXT_BYTES]; // "": the run began without one, or continues from a checkpoint
    uint64_t hash;            // hash of the file
    int taken, all;           // tensors taken from the file; all tensors of the network
    char which[1024];         // text of ls_weights_map_text
} ls_init_info;

typedef struct {              // the weights file of the teacher (distill.weights)
    char path[LS_TEXT_BYTES]; // "": there is no teacher
    uint64_t hash;            // hash of the file
} ls_teacher_info;

// Facts that are known when a trainer is made.
typedef struct {
    const ls_config *cfg;
    const ls_graph *graph;
    const ls_param_rules *rules;
    const ls_dataset_info *train_data, *test_data, *val_data; // val_data NULL: no validation data
    const ls_comm_info *comm;
    ls_batches batches;
    const char *device; // "cpu"
    ls_device_info device_info;
    // Everything that affects the rounding of rank 0's sums: device, vector instructions or GPU, libraries, algorithms.
    char arithmetic[384];
    const char *why_not_gpu;            // one line; NULL: a GPU is used, or device.type excludes GPUs
    const ls_rank_info *places;         // host and device of each rank
    char warning[LS_STATUS_TEXT_BYTES]; // warning about differences between ranks; "": no warning
    char sums[96];                      // library that sums gradients over ranks: "NCCL 2.28.9", "MPI"; "": one rank
    char why_not_collective[256];       // one line that says why no collective library is used, or ""
    int threads;                        // threads of each rank
    int64_t parameters;                 // number of trained parameters
    int64_t updates_planned;            // updates of the whole run
    int stopped_early;                  // 1: train.patience had ended the run before this process continued it
    int64_t resumed_at;                 // update of the checkpoint from which this process continues; 0: from the start
    double seconds_before;              // seconds of training in the earlier parts of the run
    ls_run_identity run;                // rank 0's identity of the run
    ls_init_info init;                  // rank 0's initial weights
    ls_teacher_info teacher;
    const cJSON *parts; // parts of the run, the last is this process's (run_parts.h); NULL: no run, or not rank 0
    const ls_memory_plan *memory; // memory of this rank
    ls_run_room room;             // unused capacity of this rank
    double flops_per_sample;      // operations to train on one sample, at the resolution of epoch 0
} ls_train_info;

typedef struct { // all updates except the first of each process; evaluations are not counted
    double seconds;
    int64_t samples; // over all ranks
} ls_train_steady;

typedef struct { // progress of a run, reported after an update
    // 1: a record for metrics.jsonl, exact over all ranks, every log.every updates and at the end of each epoch and of
    // the run. 0: a report in between to refresh a display, at most ten a second; train_loss and train_accuracy are
    // those of the last record.
    int record;
    int64_t update;        // updates done, from 1
    int64_t epoch;         // from 0
    double epoch_progress; // share of the epoch that is done, 0..1
    int64_t samples_seen;  // over all ranks
    double train_loss;     // mean over the samples since the last record
    double train_accuracy;
    double learning_rate, loss_scale, grad_norm;
    int64_t skipped;                                  // updates skipped so far
    double images_per_second;                         // since the last record, over all ranks
    double seconds, part_seconds;                     // of training: in all parts of the run; in this process's part
    double seconds_left;                              // estimated time to the end; NAN: unknown yet
    double loader_wait_seconds, comm_seconds_exposed; // of this rank, since this process's start
    // Only in a record:
    ls_run_time time;          // time of this rank
    const ls_gpu_sample *gpus; // each rank's GPU, on rank 0; NULL: no GPU, or unknown
    const ls_rank_time *times; // time of each rank; NULL: there is one rank
    double joules;             // see ls_run_energy
} ls_train_progress;

typedef struct {
    int64_t update, epoch;         // epoch: completed ones
    double val_loss, val_accuracy; // on the validation data
    int64_t val_samples;           // 0: no validation data
    // The highest validation accuracy so far, the update that reached it, and the number of evaluations since then.
    double best_accuracy;
    int64_t best_update, without_improvement;
    double test_loss, test_accuracy;
    int64_t test_samples; // 0: not evaluated, because the run has validation data and has not ended
    // Test-time augmentation (eval.tta), over all test pictures. tta_samples: the pictures that were evaluated in all
    // views; 0: this evaluation did not use it.
    double tta_loss, tta_accuracy;
    int64_t tta_samples;
    double seconds; // duration of the evaluation
} ls_train_evaluation;

// Returns the accuracy by which weights are compared: on validation data if there are any, else on test data; -1: none.
static inline double ls_train_evaluation_accuracy(const ls_train_evaluation *e) {
    return e->val_samples > 0 ? e->val_accuracy : e->test_samples > 0 ? e->test_accuracy : -1;
}

typedef struct { // a checkpoint that was written, or could not be written (status)
    ls_status status;
    const char *path;
    int64_t update, epoch; // epoch: completed ones
    int64_t bytes;
    uint64_t weights_hash;        // hash of the checkpoint's weights, comparable with the summary's hash
    double held_seconds, seconds; // time for which training waited; time until the checkpoint was safe
} ls_train_checkpoint;

typedef struct {
    const char *status; // how the run ended, such as "completed"
    int64_t resumed_at; // update of the checkpoint from which this process continued; 0: from the start
    int64_t epochs, updates, skipped, samples_seen;
    int stopped_early;              // 1: train.patience ended the run before the planned updates
    double train_loss;              // mean over the last epoch, or over the part of it that was run
    ls_train_evaluation evaluation; // the last evaluation
    // Rank 0: the kept checkpoint with the best accuracy (ls_train_evaluation_accuracy); -1: no such checkpoint.
    int64_t best_update;
    double best_accuracy;
    // Over all parts of the run. The speed excludes evaluations and each process's first update.
    double train_images_per_second;
    double wall_seconds;
    // Over this process's part alone.
    double part_images_per_second, part_seconds;
    int64_t part_updates, part_samples;
    double time_to_first_update_seconds;              // maximum over ranks
    ls_startup_times startup;                         // phases of this rank
    double comm_seconds_exposed, loader_wait_seconds; // mean over ranks
    size_t peak_device_bytes, peak_host_bytes;        // maximum over ranks
    ls_gpu_sample gpus;                               // summary over all ranks (ls_gpu_records_sum); samples 0: unknown
    uint64_t weights_hash;
    ls_run_time time;                 // time of this rank in this process's part
    ls_verdict verdict;               // only on rank 0
    ls_replica_checks replica_checks; // those of rank 0
    ls_cross_checks cross_checks;     // those of rank 0
    ls_run_energy energy;
    char stragglers[LS_STRAGGLERS_TEXT_BYTES]; // rank 0: the ranks that held up the others; "": no rank did
    double stragglers_share;                   // share of the training time: other ranks waited for `stragglers`
    uint64_t allocations_in_updates;           // in the steady state; only counted if tests link the counting allocator
} ls_train_summary;

typedef struct { // each function may be NULL
    void *context;
    void (*progress)(void *context, const ls_train_progress *progress);
    void (*evaluated)(void *context, const ls_train_evaluation *evaluation);
    void (*warning)(void *context, ls_log_level level, const char *text); // level: LS_LOG_WARNING or LS_LOG_ALERT
    void (*checkpoint)(void *context, const ls_train_checkpoint *checkpoint);
} ls_train_observer;

// Adds the members that the start event of the metrics and the summary share to a JSON object: identity, program,
// device, data sets with their identities (16 hex digits of ls_dataset_info's source), network and batches.
void ls_run_info_json(const ls_train_info *info, cJSON *object);
void ls_verdict_json(const ls_verdict *verdict, cJSON *object);
// Writes the name of energy source number `index` into text: "2 processor packages (RAPL)". Returns 0 after the last.
int ls_run_energy_source(const ls_run_energy *energy, int index, char text[LS_ENERGY_SOURCE_BYTES]);
// Adds loss, accuracy and samples of each evaluated set to a JSON object: members val_..., test_..., tta_...
void ls_train_evaluation_json(const ls_train_evaluation *evaluation, cJSON *object);

#endif
