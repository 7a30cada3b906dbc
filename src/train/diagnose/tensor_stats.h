// tensor_stats.h - runs a training program instruction by instruction and looks at every tensor that it reads of the
// network or writes: how many of its elements are not finite, and which instruction wrote the first of them.
//
// Slow (every tensor comes to the host), and never part of a healthy run: nonfinite_search.h uses it after a failure,
// replay.h on a saved micro-batch. What it runs is the program of the training, with the same plans, so the bits are
// the same.
#ifndef LS_TRAIN_DIAGNOSE_TENSOR_STATS_H
#define LS_TRAIN_DIAGNOSE_TENSOR_STATS_H

#include "dist/comm.h"
#include "program/program.h"

enum { LS_TENSOR_STATS_NAME_BYTES = 128, LS_TENSOR_STATS_SAMPLES_MAX = 16 };

typedef enum {
    LS_TENSOR_STATS_ACTIVATION,      // what a layer hands on, forward
    LS_TENSOR_STATS_GRADIENT,        // of an activation
    LS_TENSOR_STATS_WEIGHT,          // as it was before the update: master, or what 16-bit storage makes of it
    LS_TENSOR_STATS_WEIGHT_GRADIENT, // of this micro-batch alone
    LS_TENSOR_STATS_STATISTIC,       // batch norm's, of this micro-batch
    LS_TENSOR_STATS_LOSS,
    LS_TENSOR_STATS_KINDS
} ls_tensor_stats_kind;
const char *ls_tensor_stats_kind_name(ls_tensor_stats_kind kind); // "activation", "gradient", "weight", ...

typedef struct {                   // one tensor; plain data, to be sent between ranks
    int32_t instruction, backward; // backward: in the backward pass
    int32_t kind;                  // ls_tensor_stats_kind
    int32_t inert;   // nothing of the update depends on it: batch norm's running estimates, but in ordered mode
    int32_t samples; // the first dimension counts the samples of the micro-batch
    char layer[LS_TENSOR_STATS_NAME_BYTES], op[32];
    char tensor[LS_TENSOR_STATS_NAME_BYTES]; // "output", "c1.weight", "gradient of c1.weight"
    int32_t storage;                         // ls_dtype in which it lies
    int32_t rank;
    int64_t dim[4];
    int64_t count, nans, infs; // elements; of them not finite
    int64_t beyond;            // ordered mode: finite, but more than fixed point can hold
    int64_t first;             // number of the first bad element in canonical order; -1: all are good
    double min, max, mean;     // of the finite ones; 0 where there are none
    int32_t bad_samples;       // with bad elements; -1: not counted by sample
    int32_t bad_sample[LS_TENSOR_STATS_SAMPLES_MAX]; // the first of them, by place in the micro-batch
} ls_tensor_stats;

static inline int ls_tensor_stats_is_bad(const ls_tensor_stats *stats) {
    return stats->first >= 0;
}
// "[3, 0, 7, 7]": where element look->first is. dst: at least 96 bytes; returns dst.
char *ls_tensor_stats_place(const ls_tensor_stats *stats, char *dst);

typedef struct {
    const ls_program *program;       // of training, bound
    const ls_program_inputs *inputs; // state and result are the inspection's own: they need not be set
    ls_queue *queue;
    float loss_scale;
    int ordered;   // gradients and statistics must fit into fixed point (op_update.h), too
    ls_comm *comm; // shows the watchdog life; NULL: no rank waits
    // Synchronised batch norm: makes these sums those over all ranks, as the program's hook does.
    // channels: of the layer. NULL: the sums stay as they are.
    ls_status (*reduce)(void *context, ls_buffer sums, int64_t count, int channels);
    void (*seen)(
        void *context, const ls_tensor_stats *stats); // every tensor, in order; NULL: only the first bad one is kept
    void *context;
} ls_tensor_stats_list;

// Runs the whole program on one micro-batch whose gradients start from zero, even after the first bad tensor, so that
// ranks meet in their sums. *first: the first bad tensor that is not inert; its `first` is -1 where there is none.
// *harmed: whether the loss or a weight's gradient was bad; else nothing came of it (a relu made 0 of -inf, say). The
// parameter store's gradients are then those of this micro-batch. LS_DEVICE: no memory, or the device failed.
LS_CHECKED ls_status ls_tensor_stats_run(const ls_tensor_stats_list *inspection, ls_tensor_stats *first, int *harmed);

#endif
