// cost.h - what an update takes by figures: of each operator the time that its bytes, its arithmetic and its launches take at least,
// where a machine attains a stated share of what it can do. Pure functions. docs/cost-model.md has formulas and figures.
//
//   memory      (bytes from memory / its rate + bytes from cache / its rate) / share;  a tensor is in cache where less than the cache holds
//               was touched since its last use
//   arithmetic  operations really done (padding, Winograd's savings) / (rate * share * units with work)
//   launch      launches * the shortest kernel
//   an operator takes launches * gap, where a grid's blocks wait for each other one such wait, and the largest of the three; on a processor, whose phases follow each other, all three together
#ifndef LS_CLI_BENCH_COST_H
#define LS_CLI_BENCH_COST_H

#include "device/op_kind.h"

typedef struct {
    char name[128];
    int is_gpu;
    double memory, cache; // bytes/s
    double cache_bytes;   // that may hold what will be used again
    double vector_rate, fp32_rate,
        half_rate;            // FLOP/s: outside of products; of products on fp32 (or TF32) and on 16-bit tensors
    double units;             // that share out blocks; 0: no matter
    double gap_s, shortest_s; // from the end of a launch to the start of the next; the shortest one
    double grid_wait_s;       // until all blocks of a grid have met, and have read what the others left
} ls_cost_machine;

typedef enum { LS_COST_RATE_VECTOR, LS_COST_RATE_FP32, LS_COST_RATE_HALF } ls_cost_rate;

typedef struct {
    int64_t tensor; // which; the same number is the same memory
    double bytes;
    int passes; // over it
} ls_cost_arg;

// One operator of an update, or what else it enqueues.
typedef struct {
    const char *op, *layer, *algorithm; // borrowed
    ls_op_kind kind;
    int once;  // an update, not a micro-batch
    int after; // once: behind the sums over ranks
    int launches;
    int grid_waits; // in them
    double flops;   // as ls_op_flops counts them
    double work;    // operations really done
    double blocks;  // of the work, that run side by side; 0: enough
    ls_cost_rate rate;
    double rate_share, memory_share; // attained
    double reduced_bytes;            // summed over ranks before the next one (synchronised batch norm)
    int arg_count;
    ls_cost_arg args[LS_OP_ARGS_MAX];
} ls_cost_item;

typedef enum { LS_COST_BY_MEMORY, LS_COST_BY_ARITHMETIC, LS_COST_BY_LAUNCHES, LS_COST_BOUNDS } ls_cost_bound;
const char *ls_cost_bound_name(ls_cost_bound bound); // "memory", "arithmetic", "launches"

typedef struct {
    double memory_bytes, cache_bytes; // over all passes
    double part_s[LS_COST_BOUNDS];    // each by itself
    double seconds;
    ls_cost_bound bound; // the largest part
} ls_cost_time;

// Of all items, in their order, of an update among many: what the last one left in cache is there. times: count.
void ls_cost_items(const ls_cost_machine *machine, const ls_cost_item *items, int count, ls_cost_time *times);

#endif
