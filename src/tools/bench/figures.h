// figures.h - the measurements of each arrangement, as plain data, and the figures computed from them.
// docs/benchmarks.md has the formulas.
#ifndef LS_TOOLS_BENCH_FIGURES_H
#define LS_TOOLS_BENCH_FIGURES_H

#include <stddef.h>
#include <stdint.h>
#include "tools/bench/plan.h"
#include "dist/allreduce_times.h"

// One measurement: a number of updates, timed by the slowest rank.
typedef struct {
    double seconds, images_per_second;
    double loader_wait_s, comm_exposed_s; // means over ranks
    double comm_busy_s;                   // buckets under way, mean over ranks
    double peak_gflops;                   // of matrix multiplication, all ranks together
    double alone_s; // the same computation without communication: every rank by itself, at the same time; 0: not taken
} ls_bench_sample;

// A measured arrangement. Complete on rank 0.
typedef struct {
    char name[LS_BENCH_NAME_BYTES], settings[LS_BENCH_NAME_BYTES];
    char device[16], device_name[96], precision[8];
    char model[1024], dataset[64];
    int ranks, weak, base; // as in ls_bench_case
    int hosts;
    int threads;  // of a rank
    double units; // processor cores, or GPUs, that the ranks have together
    int shared;   // fewer than they would use
    int global_batch, micro_batch, accumulation;
    int64_t updates; // of one measurement
    int64_t parameters;
    double flops_per_sample;
    double reduced_bytes;  // of all buckets: summed over ranks in every update; 0: one rank
    size_t memory_bytes;   // planned for one rank on its device, the largest
    double first_update_s; // from the beginning of opening to the end of the first update
    int count;
    ls_bench_sample *sample; // count; in the order of the rounds
    char failure[256];       // "": none; otherwise its samples are ignored
    ls_code failure_code;
} ls_bench_result;

// All-reduces of host memory, measured over the first `ranks` ranks.
typedef struct {
    int ranks;
    int shared; // ranks that shared cores
    ls_allreduce_samples samples;
    ls_allreduce_fit fit;
} ls_bench_link;

typedef struct {
    double median, lowest, highest;
    // Bounds of an interval that holds the true median with at least 95 % probability, for every distribution, by order
    // statistics. NAN with fewer than six values, as there is no such interval.
    double low_95, high_95;
} ls_bench_spread;

ls_bench_spread ls_bench_spread_of(const double *values, int count); // all NAN for count == 0

typedef struct {
    ls_bench_spread images_per_second;
    double speed_up;                  // over the first arrangement
    double efficiency;                // a rank's images/s over that of the base arrangement
    double unit_efficiency;           // the same by core or GPU really given
    double loader_wait, comm_exposed; // shares of the time
    double comm_cost;                 // share of the time that is not computation: 1 - alone / measured; NAN: not taken
    double bus_gbytes;                // GB/s of the buckets, as nccl-tests counts it; NAN: one rank
    double gflops, peak_gflops, share_of_peak;
    double update_s; // median
    double alone_s;  // median; NAN: not taken
} ls_bench_figures;

// The figures of results[index]; NAN if there is no measurement to compute them from.
ls_bench_figures ls_bench_figures_of(const ls_bench_result *results, int index);

#endif
