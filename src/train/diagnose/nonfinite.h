// nonfinite.h - the report of a loss or gradient that was not finite: where it began, and in words why.
#ifndef LS_TRAIN_DIAGNOSE_NONFINITE_H
#define LS_TRAIN_DIAGNOSE_NONFINITE_H

#include "base/json.h"
#include "config/config.h"
#include "train/diagnose/tensor_stats.h"

enum { LS_NONFINITE_SAMPLES_MAX = LS_TENSOR_STATS_SAMPLES_MAX, LS_NONFINITE_NAME_BYTES = 256 };

typedef enum {
    LS_CAUSE_NOT_REPEATED, // computing the micro-batches again found nothing
    LS_CAUSE_INPUT,        // the normalised pictures
    LS_CAUSE_WEIGHT,       // a weight, before the update
    LS_CAUSE_F16,          // more than fp16 holds, from finite operands
    LS_CAUSE_DIVERGED,     // more than fp32 (or bf16) holds, from finite operands
    LS_CAUSE_SUMS,         // every micro-batch's gradient is finite, their sum is not
    LS_CAUSE_FIXED_POINT,  // finite, but ordered mode cannot hold it
    LS_CAUSES
} ls_nonfinite_cause;
const char *ls_nonfinite_cause_name(ls_nonfinite_cause cause); // "fp16 overflow", ...: in JSON, too

typedef struct ls_nonfinite {
    int64_t update, epoch, window;
    float loss_scale;       // of this update
    int64_t bad_losses;     // samples whose loss was not finite, over all ranks
    int32_t skipped_in_row; // updates, this one included
    int64_t later;          // updates that a device had applied since, before the host saw it
    ls_nonfinite_cause cause;
    int32_t rank, world_size; // rank: whose micro-batch it is; -1: no rank's
    char host[64];
    int32_t micro, micro_batches; // number of the micro-batch in its window
    uint64_t position;            // of its first sample in the window
    int32_t count;                // its samples
    ls_tensor_stats bad;          // the first bad tensor
    int32_t sample_count; // of samples[]: those with bad elements, or the micro-batch's first where `bad` cannot tell
    int64_t samples[LS_NONFINITE_SAMPLES_MAX];                     // their numbers in the data set
    char names[LS_NONFINITE_SAMPLES_MAX][LS_NONFINITE_NAME_BYTES]; // their files; "": they are none
    char folder[LS_TEXT_BYTES];                                    // with all that `train replay` needs; "": none
    char trouble[512];                                             // why there is none; "": none was to be written
} ls_nonfinite;

// The cause, from where it began.
ls_nonfinite_cause ls_nonfinite_find_cause(const ls_tensor_stats *first);
// LS_NUMERIC: one message with all of it, and what to do. cfg: for the names and values of options.
LS_CHECKED ls_status ls_nonfinite_failure(const ls_nonfinite *report, const ls_config *cfg);
// Where the first bad tensor is and what is wrong with it, without rank and samples: "layer 'c1' (conv forward),
// forward: 12 of 512 elements of its output are not finite ...", into dst; returns dst.
char *ls_nonfinite_origin(const ls_tensor_stats *first, char *dst, size_t bytes);
// Why, and what to do; into dst; returns dst.
char *ls_nonfinite_advice(
    ls_nonfinite_cause cause, const ls_tensor_stats *first, float loss_scale, char *dst, size_t bytes);
// Adds all facts as members.
void ls_nonfinite_json(const ls_nonfinite *report, cJSON *object);

#endif
