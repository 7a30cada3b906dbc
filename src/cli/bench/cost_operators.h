// cost_operators.h - what the model of cost.h must know of each operator beside its descriptor: launches, passes over tensors, operations
// really done, and the shares of a machine's rates that it attains.
#ifndef LS_CLI_BENCH_COST_OPERATORS_H
#define LS_CLI_BENCH_COST_OPERATORS_H

#include "cli/bench/cost.h"
#include "device/gpu/norm_rule.h"

// Fills in launches, passes, work, blocks, rate and shares of an item, whose args and flops are there.
// GPU: as the CUDA device enqueues it (docs/cuda.md); gpu: which one, for batch norm.
void ls_cost_on_gpu(const ls_op_desc *desc, const ls_cuda_norm_gpu *gpu, ls_cost_item *item);
// CPU: as the plan says that the cpu device computes it.
void ls_cost_on_cpu(const ls_op_desc *desc, const char *algorithm, ls_cost_item *item);

#endif
