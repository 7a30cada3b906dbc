// conv.h - declarations shared by the files of convolution.
//
// Every engine except conv_grouped.c starts from dense blocked weights [dst block][src block][r][s][depth][B]. depth is
// B, or the number of channels of a plain source, which has one source block. A convolution with groups is split into
// dense convolutions, its parts: as many as possible with whole blocks of channels in each, else one. Source blocks are
// counted within a part. Grouped weights are first expanded to this layout, with zeros between the groups of one part.
#ifndef LS_DEVICE_CPU_CONV_H
#define LS_DEVICE_CPU_CONV_H

#include "device/cpu/cpu.h"
#include "device/cpu/winograd.h"

// The first values are Winograd's (ls_winograd_variant).
typedef enum {
    LS_CONV_GROUPED = LS_WINOGRAD_VARIANTS,
    LS_CONV_ONEDNN,
    LS_CONV_DIRECT, // computes every convolution
    LS_CONV_ALGORITHMS
} ls_conv_algorithm;
const char *ls_conv_name(int algorithm);

typedef struct {
    ls_cpu_plan base;
    int block;            // B: channels in a block
    int depth, dst_depth; // channels in a block of src, of dst: B; in a plain tensor all C channels
    int parts;            // number of dense convolutions; more than 1 only with groups
    // Blocks of the weights: src_blocks of one part's source, dst_blocks of all results. A plain tensor counts as one
    // block.
    int src_blocks, dst_blocks;
    size_t weight_floats; // size of the dense weights
    // oneDNN primitives for tasks with one more sample and for the other tasks; NULL: own kernels
    ls_onednn_conv *longer, *shorter;
    ls_winograd_plan winograd; // used if its `kernels` are set
    int tasks;                 // number of ranges of samples
    // Tasks for each range of samples; each computes some blocks of the results. More than 1 only in oneDNN's forward
    // pass with few samples.
    int cuts;
    size_t dense_at, turned_at, partial_at, bias_at, scratch_at; // offsets into the workspace in bytes
    size_t scratch_bytes;                                        // scratch memory of one thread
} ls_conv_plan;

typedef struct {
    const ls_conv_plan *plan;
    void *src, *dst;    // activations or their gradients, in storage type
    const void *weight; // in the engine's layout: floats; with oneDNN and bf16, oneDNN's layout
    float *bias;        // forward; may be NULL
    float *grad_weight, *grad_bias;
    char *workspace;
    ls_queue *queue; // records failures
} ls_conv_run;

static inline size_t ls_conv_bias_floats(const ls_conv_plan *plan) {
    return (size_t)(plan->dst_blocks * plan->block);
}

static inline int ls_conv_part_outputs(const ls_conv_plan *plan) { // blocks of one part's results
    return plan->dst_blocks / plan->parts;
}

// op_conv.c: returns the convolution's attributes with groups = the number of parts into which the device splits it.
ls_conv_attr ls_conv_of_parts(const ls_cpu *cpu, const ls_conv_attr *attr);
// Whether oneDNN can multiply the stored bf16 values directly.
int ls_conv_multiplies_bf16(const ls_cpu *cpu, const ls_conv_attr *attr);
// Makes a plan with this ls_conv_algorithm or ls_winograd_variant. *out is NULL if the algorithm cannot compute the
// operator.
LS_CHECKED ls_status ls_cpu_conv_plan_by(ls_cpu *cpu, const ls_op_desc *desc, int algorithm, ls_plan **out);

// conv_grouped.c: grouped and depthwise convolutions; each vector lane computes one output channel.
int ls_conv_grouped_can(const ls_cpu *cpu, const ls_op_desc *desc);
// Whether grouped kernels are expected to be faster than dense convolution of the parts. winograd_gain: how many times
// fewer multiplications Winograd needs for the parts; 1: Winograd does not compute them.
int ls_conv_grouped_gains(const ls_cpu *cpu, const ls_op_desc *desc, double winograd_gain);
LS_CHECKED ls_status ls_cpu_conv_grouped_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out);

// conv_weights.c
// stored: the parameter in the operator's storage type. dense: floats, with groups expanded.
void ls_conv_expand(const ls_conv_run *run, const void *stored, float *dense);
// Exchanges the two innermost dimensions of the dense weights, for oneDNN's backward data.
void ls_conv_exchange(const ls_conv_run *run, const float *dense, float *exchanged);
// Makes the weights of the convolution that computes backward data: [src block][dst block][r][s][dst_depth][B], with
// the taps in reverse order.
void ls_conv_turn(const ls_conv_run *run, const float *dense, float *turned);
// grad_weight += the tasks' partial sums, in order; likewise grad_bias. Gradients that are NULL are skipped.
void ls_conv_reduce(const ls_conv_run *run);

// conv_direct.c: own kernels
size_t ls_conv_direct_scratch(const ls_conv_plan *plan);           // bytes for one thread
ls_pool_task ls_conv_direct_forward, ls_conv_direct_backward_data; // one task is one sample
ls_pool_task ls_conv_direct_backward_weight;                       // one task is a range of samples

#endif
