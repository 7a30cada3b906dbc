// snapshot.h - the state from which a run can continue, in host memory: tensors in canonical layout, and counters.
//
// It depends neither on the device and its layouts nor on the number of ranks, so a run can continue from it anywhere.
// Everything else follows from the configuration and the counters: the order of samples, augmentation, dropout, the
// learning rate.
#ifndef LS_RUN_SNAPSHOT_H
#define LS_RUN_SNAPSHOT_H

#include "run/run_info.h"
#include "formats/safetensors.h"
#include "program/param_rules.h"

enum { LS_SNAPSHOT_NAME_BYTES = 160 };
// `state` of the second tensor that an averaged parameter has. The first one, which is evaluated, has the parameter's
// name. The second is "conv1.weight.slow", the average of lookahead, or "conv1.weight.unaveraged", the trained weight
// beside the average of ema.
enum { LS_SNAPSHOT_OTHER = -1 };

typedef struct {
    char name[LS_SNAPSHOT_NAME_BYTES]; // "conv1.weight"; a tensor that the optimizer keeps: "conv1.weight.momentum"
    int param;                         // index of the graph's parameter
    int state; // 0: the parameter or statistic itself; 1, 2, ...: kept by the optimizer; or LS_SNAPSHOT_OTHER
    int rank;
    int64_t dim[4];
    int64_t elements;
    float *values; // in canonical layout
} ls_snapshot_tensor;

typedef struct { // sums over the samples of all ranks
    double loss_sum;
    int64_t correct, count;
} ls_train_sums;

typedef struct {
    int64_t epoch, window, update, samples; // completed work; next comes window `window` of epoch `epoch`
    int64_t applied, skipped;               // number of updates
    int32_t finite_in_row, skipped_in_row;
    double loss_scale;
    ls_train_sums since_report, of_epoch; // sums since the last record; sums of the current epoch
    double last_epoch_loss;               // mean over the last epoch that has ended (early by train.max_updates)
    ls_train_evaluation evaluation;       // the last evaluation; ls_train_evaluation_accuracy below 0: none yet
    double seconds;                       // seconds of training, over all parts of the run
    ls_train_steady steady;               // over all parts of the run
} ls_train_counters;

typedef struct {
    ls_snapshot_tensor *tensors;
    int count, params; // the first `params` are parameters and statistics, in the network's order
    size_t bytes;      // size of all values
    float *values;
    ls_train_counters counters;
} ls_snapshot;

// Makes a snapshot with room for the state of this network and its optimizers. All values are 0.
LS_CHECKED ls_status ls_snapshot_new(const ls_graph *graph, const ls_param_rules *rules, ls_snapshot **out);
void ls_snapshot_free(ls_snapshot *snapshot); // NULL is allowed
// Makes a snapshot that only lists the tensors and has no memory for their values.
LS_CHECKED ls_status ls_snapshot_list(const ls_graph *graph, const ls_param_rules *rules, ls_snapshot **out);
// Writes tensors first..end-1 as a safetensors file with the metadata `notes`. *digest describes the file; may be NULL.
LS_CHECKED ls_status ls_snapshot_write(const char *path, const ls_snapshot *snapshot, int first, int end,
    const ls_metadata_entry *notes, int note_count, ls_safetensors_digest *digest);
// Returns the hash of one tensor's values.
uint64_t ls_snapshot_hash(const ls_snapshot_tensor *tensor);
// Returns the hash of all parameters and statistics, as ls_param_store_hash computes it for the device's store.
uint64_t ls_snapshot_weights_hash(const ls_snapshot *snapshot);

#endif
