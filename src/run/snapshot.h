// snapshot.h - all that decides how a run goes on, in host memory: tensors in canonical layout and counters.
//
// It depends neither on the device and its layouts nor on the number of ranks, so a run goes on from it anywhere. What
// is no part of it is a pure function of the configuration and of the counters: the order of samples, augmentation,
// dropout, the learning rate.
#ifndef LS_RUN_SNAPSHOT_H
#define LS_RUN_SNAPSHOT_H

#include "run/run_info.h"
#include "formats/safetensors.h"
#include "program/param_rules.h"

enum { LS_SNAPSHOT_NAME_BYTES = 160 };
// With a running average there are two of each: the one that is evaluated is the parameter itself, the other is
// "conv1.weight.slow", lookahead's average, or "conv1.weight.unaveraged", which goes on beside ema's.
enum { LS_SNAPSHOT_OTHER = -1 };

typedef struct {
    char name[LS_SNAPSHOT_NAME_BYTES]; // "conv1.weight"; of the optimizer's memory "conv1.weight.momentum"
    int param;                         // of the graph
    int state; // 0: the parameter or statistic itself; 1, 2, ...: what the optimizer keeps of it; LS_SNAPSHOT_OTHER
    int rank;
    int64_t dim[4];
    int64_t elements;
    float *values; // canonical
} ls_snapshot_tensor;

typedef struct { // sums over all ranks' samples
    double loss_sum;
    int64_t correct, count;
} ls_train_sums;

typedef struct {
    int64_t epoch, window, update, samples; // done; the next update is window `window` of epoch `epoch`
    int64_t applied, skipped;               // updates
    int32_t finite_in_row, skipped_in_row;
    double loss_scale;
    ls_train_sums since_report, of_epoch; // of what is not reported yet
    double last_epoch_loss;               // mean over the last whole epoch
    ls_train_evaluation evaluation;       // the last one; ls_train_evaluation_accuracy below 0: none yet
    double seconds;                       // of training, over all its parts
    ls_train_steady steady;               // over all parts
} ls_train_counters;

typedef struct {
    ls_snapshot_tensor *tensors;
    int count, params; // the first `params` are parameters and statistics, in the network's order
    size_t bytes;      // of all values
    float *values;
    ls_train_counters counters;
} ls_snapshot;

// Room for the state of this network and what optimizers keep of it, all zero.
LS_CHECKED ls_status ls_snapshot_new(const ls_graph *graph, const ls_param_rules *rules, ls_snapshot **out);
void ls_snapshot_free(ls_snapshot *snapshot); // NULL is allowed
// The same without values: which tensors there are.
LS_CHECKED ls_status ls_snapshot_list(const ls_graph *graph, const ls_param_rules *rules, ls_snapshot **out);
// Writes tensors first..end-1 as a safetensors file; *digest (may be NULL) is what was written.
LS_CHECKED ls_status ls_snapshot_write(const char *path, const ls_snapshot *snapshot, int first, int end,
    const ls_metadata_entry *notes, int note_count, ls_safetensors_digest *digest);
// The hash of one tensor's values.
uint64_t ls_snapshot_hash(const ls_snapshot_tensor *tensor);
// Of all parameters and statistics, as ls_param_store_hash of those that were taken into it.
uint64_t ls_snapshot_weights_hash(const ls_snapshot *snapshot);

#endif
