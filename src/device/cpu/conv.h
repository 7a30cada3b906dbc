// conv.h - what the files of convolution share.
//
// Every engine but conv_grouped.c works on dense blocked weights [dst block][src block][r][s][depth][B], depth = B, or the
// number of channels of a plain source (then there is one source block). Groups are as many dense convolutions side by
// side, the parts, as each can have whole blocks of channels; source blocks are those of a part. Grouped weights are
// expanded to that first: zeros where groups of one part do not meet.
#ifndef LS_DEVICE_CPU_CONV_H
#define LS_DEVICE_CPU_CONV_H

#include "device/cpu/cpu.h"
#include "device/cpu/winograd.h"

// The first are Winograd's, by ls_winograd_variant.
typedef enum {
    LS_CONV_GROUPED = LS_WINOGRAD_VARIANTS,
    LS_CONV_ONEDNN,
    LS_CONV_DIRECT, // computes everything
    LS_CONV_ALGORITHMS
} ls_conv_algorithm;
const char *ls_conv_name(int algorithm);

typedef struct {
    ls_cpu_plan base;
    int block;                        // B
    int depth, dst_depth;             // channels side by side in memory: B, or C of a plain tensor
    int parts;                        // more than one: groups
    int src_blocks, dst_blocks;       // of weights: of a part's source; of all results. A plain tensor counts as one
    size_t weight_floats;             // dense
    ls_onednn_conv *longer, *shorter; // for tasks of one sample more and of the rest; NULL: own kernels
    ls_winograd_plan winograd;        // used when it has kernels
    int tasks;                        // ranges of samples
    int cuts; // tasks of a sample, each some of its results' blocks: oneDNN forward, few samples
    size_t dense_at, turned_at, partial_at, bias_at, scratch_at; // bytes into the workspace
    size_t scratch_bytes;                                        // of one thread
} ls_conv_plan;

typedef struct {
    const ls_conv_plan *plan;
    void *src, *dst;    // activations or their gradients, as stored
    const void *weight; // as the engine reads them: floats, but for oneDNN with bf16
    float *bias;        // forward: or NULL
    float *grad_weight, *grad_bias;
    char *workspace;
    ls_queue *queue; // notes failures
} ls_conv_run;

static inline size_t ls_conv_bias_floats(const ls_conv_plan *plan) {
    return (size_t)(plan->dst_blocks * plan->block);
}

static inline int ls_conv_part_outputs(const ls_conv_plan *plan) { // blocks of a part's results
    return plan->dst_blocks / plan->parts;
}

// op_conv.c: the convolution whose groups are the parts
ls_conv_attr ls_conv_of_parts(const ls_cpu *cpu, const ls_conv_attr *attr);
// Whether oneDNN multiplies what is stored, bf16, as such.
int ls_conv_multiplies_bf16(const ls_cpu *cpu, const ls_conv_attr *attr);
// A plan by this ls_conv_algorithm or ls_winograd_variant; *out is NULL where it does not compute this operator.
LS_CHECKED ls_status ls_cpu_conv_plan_by(ls_cpu *cpu, const ls_op_desc *desc, int algorithm, ls_plan **out);

// conv_grouped.c: grouped convolutions lane by lane, the depthwise among them
int ls_conv_grouped_can(const ls_op_desc *desc);
// Against dense convolution of the parts, by Winograd with so many times fewer multiplications; 1: by others.
int ls_conv_grouped_gains(const ls_cpu *cpu, const ls_op_desc *desc, double winograd_gain);
LS_CHECKED ls_status ls_cpu_conv_grouped_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out);

// conv_weights.c
// stored: the parameter, of the operator's storage; dense: floats, of groups expanded.
void ls_conv_expand(const ls_conv_run *run, const void *stored, float *dense);
// Exchanges the two innermost dimensions (for oneDNN's backward data).
void ls_conv_exchange(const ls_conv_run *run, const float *dense, float *exchanged);
// [src block][dst block][r][s][dst_depth][B], taps in reverse order: the weights
// of the convolution that is the backward pass.
void ls_conv_turn(const ls_conv_run *run, const float *dense, float *turned);
// grad_weight += the tasks' partial sums, in order; the same for grad_bias; what is NULL is left out.
void ls_conv_reduce(const ls_conv_run *run);

// conv_direct.c: own kernels
size_t ls_conv_direct_scratch(const ls_conv_plan *plan);           // bytes for one thread
ls_pool_task ls_conv_direct_forward, ls_conv_direct_backward_data; // a task is a sample
ls_pool_task ls_conv_direct_backward_weight;                       // a task is a range of samples

#endif
