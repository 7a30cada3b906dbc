// tensor_stats.h - runs a training program instruction by instruction and examines every weight read and tensor
// written: how many elements are not finite, and which instruction wrote the first of them.
//
// Slow, because every tensor is copied to the host: used only after a failure and on request (nonfinite_search.h).
// Program and plans are the same as in training, and so are the bits of all values.
#ifndef LS_TRAIN_DIAGNOSE_TENSOR_STATS_H
#define LS_TRAIN_DIAGNOSE_TENSOR_STATS_H

#include "dist/comm.h"
#include "program/program.h"

enum { LS_TENSOR_STATS_NAME_BYTES = 128, LS_TENSOR_STATS_SAMPLES_MAX = 16 };

typedef enum {
    LS_TENSOR_STATS_ACTIVATION, // the output of a layer in the forward pass
    LS_TENSOR_STATS_GRADIENT,   // the gradient of an activation
    LS_TENSOR_STATS_WEIGHT, // a weight before the update: the master, or if that is good, its copy in 16-bit storage
    LS_TENSOR_STATS_WEIGHT_GRADIENT, // the gradient of a weight, for this micro-batch alone
    LS_TENSOR_STATS_STATISTIC,       // batch norm's statistics of this micro-batch
    LS_TENSOR_STATS_LOSS,
    LS_TENSOR_STATS_KINDS
} ls_tensor_stats_kind;
const char *ls_tensor_stats_kind_name(ls_tensor_stats_kind kind); // "activation", "gradient", "weight", ...

typedef struct {                   // one tensor; plain data, so that ranks can exchange it
    int32_t instruction, backward; // backward: 1 in the backward pass
    int32_t kind;                  // ls_tensor_stats_kind
    // 1: the update does not depend on this tensor, such as batch norm's running estimates outside ordered mode
    int32_t inert;
    int32_t samples; // 1: the first dimension counts the samples of the micro-batch
    char layer[LS_TENSOR_STATS_NAME_BYTES], op[32];
    char tensor[LS_TENSOR_STATS_NAME_BYTES]; // "output", "c1.weight", "gradient of c1.weight"
    int32_t storage;                         // ls_dtype of the tensor in memory
    int32_t rank;
    int64_t dim[4];
    int64_t count, nans, infs; // number of elements; number of NaN; number of infinite elements
    int64_t beyond;            // ordered mode: number of finite elements that are too large for fixed point
    int64_t first;             // index of the first bad element in canonical order; -1: all elements are good
    double min, max, mean;     // of the finite elements; 0 if no element is finite
    int32_t bad_samples;       // number of samples with bad elements; -1: elements do not belong to samples
    int32_t bad_sample[LS_TENSOR_STATS_SAMPLES_MAX]; // positions of the first bad samples in the micro-batch
} ls_tensor_stats;

static inline int ls_tensor_stats_is_bad(const ls_tensor_stats *stats) {
    return stats->first >= 0;
}
// Writes the coordinates of element stats->first, such as "[3, 0, 7, 7]", into dst (96 bytes). Returns dst.
char *ls_tensor_stats_place(const ls_tensor_stats *stats, char *dst);

typedef struct {
    const ls_program *program;       // a training program, bound
    const ls_program_inputs *inputs; // the inspection uses its own state and result, so these need not be set
    ls_queue *queue;
    float loss_scale;
    int ordered;   // 1: gradients and statistics must also fit into fixed point (op_update.h)
    ls_comm *comm; // shows the watchdog that this rank is alive; NULL: no other rank waits
    // Synchronised batch norm: replaces these `count` sums by their sums over all ranks, like the program's hook.
    // NULL: the sums stay as they are.
    ls_status (*reduce)(void *context, ls_buffer sums, int64_t count);
    // Called for every tensor, in order. NULL: only the first bad tensor is returned.
    void (*seen)(void *context, const ls_tensor_stats *stats);
    void *context;
} ls_tensor_stats_list;

// Runs the whole program on one micro-batch, with gradients that start from zero, and examines its tensors. It does not
// stop at the first bad tensor, because ranks meet in sums. *first: the first bad tensor that is not inert; its `first`
// is -1 if every tensor is good. *harmed: whether the loss, the gradient of a weight or, in ordered mode, a statistic
// was bad. Otherwise the bad tensor did no harm (for example, a relu turned -inf into 0). Afterwards, the parameter
// store has the gradients of this micro-batch. LS_DEVICE: there is not enough memory, or the device failed.
LS_CHECKED ls_status ls_tensor_stats_run(const ls_tensor_stats_list *inspection, ls_tensor_stats *first, int *harmed);

#endif
