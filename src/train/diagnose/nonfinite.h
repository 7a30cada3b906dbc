// nonfinite.h - the report of a loss or gradient that was not finite: where the failure began, and its cause in words.
#ifndef LS_TRAIN_DIAGNOSE_NONFINITE_H
#define LS_TRAIN_DIAGNOSE_NONFINITE_H

#include "base/json.h"
#include "config/config.h"
#include "train/diagnose/tensor_stats.h"

enum { LS_NONFINITE_SAMPLES_MAX = LS_TENSOR_STATS_SAMPLES_MAX, LS_NONFINITE_NAME_BYTES = 256 };

typedef enum {
    LS_CAUSE_NOT_REPEATED, // computing the micro-batches again found only finite values
    LS_CAUSE_INPUT,        // the normalised pictures were not finite
    LS_CAUSE_WEIGHT,       // a weight was not finite before the update
    LS_CAUSE_F16,          // finite operands gave a value too large for fp16
    LS_CAUSE_DIVERGED,     // finite operands gave a value too large for fp32 (or bf16)
    LS_CAUSE_SUMS,         // the gradient of every micro-batch is finite, but the sum of them is not
    LS_CAUSE_FIXED_POINT,  // the value is finite, but too large for ordered mode
    LS_CAUSES
} ls_nonfinite_cause;
const char *ls_nonfinite_cause_name(ls_nonfinite_cause cause); // "fp16 overflow", ...: in messages and in JSON

typedef struct ls_nonfinite {
    int64_t update, epoch, window;
    float loss_scale;       // loss scale of the failed update
    int64_t bad_losses;     // number of samples whose loss was not finite, over all ranks
    int32_t skipped_in_row; // number of updates skipped in a row, including this one
    int64_t later;          // number of later updates that the device had applied before the host saw the failure
    ls_nonfinite_cause cause;
    int32_t rank, world_size; // rank: the rank with the failing micro-batch; -1: no single rank
    char host[64];
    int32_t micro, micro_batches; // number of the micro-batch in its window; number of micro-batches in the window
    uint64_t position;            // position of the micro-batch's first sample in the window
    int32_t count;                // number of samples in the micro-batch
    ls_tensor_stats bad;          // the first bad tensor
    // Entries of samples[]: samples with bad elements, or if these are not known the first samples of the micro-batch.
    int32_t sample_count;
    int64_t samples[LS_NONFINITE_SAMPLES_MAX];                     // the samples' numbers in the data set
    char names[LS_NONFINITE_SAMPLES_MAX][LS_NONFINITE_NAME_BYTES]; // the samples' files; "": the samples are not files
    char folder[LS_TEXT_BYTES]; // the run's folder, for `train audit --inspect`; "": the run has no folder
} ls_nonfinite;

// Returns the cause of a failure, derived from the first bad tensor.
ls_nonfinite_cause ls_nonfinite_find_cause(const ls_tensor_stats *first);
// Fails with LS_NUMERIC and one message: the report and advice. cfg: for names and values of options.
LS_CHECKED ls_status ls_nonfinite_failure(const ls_nonfinite *report, const ls_config *cfg);
// Describes the first bad tensor and its defect, without rank and samples: "layer 'c1' (conv forward), forward: 12 of
// 512 elements of its output are not finite ...". Writes into dst and returns dst.
char *ls_nonfinite_origin(const ls_tensor_stats *first, char *dst, size_t bytes);
// Writes the cause and advice into dst. Returns dst.
char *ls_nonfinite_advice(
    ls_nonfinite_cause cause, const ls_tensor_stats *first, float loss_scale, char *dst, size_t bytes);
// Adds the facts of the report to a JSON object.
void ls_nonfinite_json(const ls_nonfinite *report, cJSON *object);

#endif
