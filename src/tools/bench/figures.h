// figures.h - the measurements of each arrangement as plain data, and the figures that are computed from them.
// docs/benchmarks.md has the formulas.
#ifndef LS_TOOLS_BENCH_FIGURES_H
#define LS_TOOLS_BENCH_FIGURES_H

#include <stddef.h>
#include <stdint.h>
#include "tools/bench/plan.h"
#include "dist/allreduce_times.h"

// One measurement: the time of a number of updates on the slowest rank.
typedef struct {
    double seconds, images_per_second;
    double loader_wait_s, comm_exposed_s; // means over ranks
    double comm_busy_s;                   // time in which a bucket was being summed, mean over ranks
    double peak_gflops;                   // measured rate of matrix multiplication, summed over ranks
    double alone_s; // the same updates without communication, every rank by itself; 0: not measured
} ls_bench_sample;

// The measurements of one arrangement. Only rank 0's copy is complete.
typedef struct {
    char name[LS_BENCH_NAME_BYTES], settings[LS_BENCH_NAME_BYTES];
    char device[16], device_name[96], precision[8];
    char model[1024], dataset[64];
    int ranks, weak, base; // as in ls_bench_case
    int hosts;
    int threads;  // threads of each rank
    double units; // processor cores or GPUs that the ranks have together
    int shared;   // whether the ranks share cores or GPUs: they have more threads than cores, or outnumber the GPUs
    int global_batch, micro_batch, accumulation;
    int64_t updates; // number of updates in one measurement
    int64_t parameters;
    double flops_per_sample;
    double reduced_bytes;  // bytes of all buckets, which every update sums over ranks; 0 with one rank
    size_t memory_bytes;   // planned memory of a rank on its device; the largest over ranks
    double first_update_s; // seconds from the start of opening to the end of the first update
    int count;
    ls_bench_sample *sample; // [count], in the order of the rounds
    char failure[256];       // message of the failure that ended its measurement; "" without a failure
    ls_code failure_code;
} ls_bench_result;

// All-reduces of host memory, measured over the first `ranks` ranks.
typedef struct {
    int ranks;
    int shared; // whether ranks shared cores
    ls_allreduce_samples samples;
    ls_allreduce_fit fit;
} ls_bench_link;

typedef struct {
    double median, lowest, highest;
    // Bounds of an interval that holds the true median with at least 95 % probability, whatever the distribution (by
    // order statistics). NAN with fewer than six values, which are too few for such an interval.
    double low_95, high_95;
} ls_bench_spread;

ls_bench_spread ls_bench_spread_of(const double *values, int count); // count == 0: all NAN

typedef struct {
    ls_bench_spread images_per_second;
    double speed_up;                  // images/s over the images/s of the first arrangement
    double efficiency;                // images/s per rank, over images/s per rank of the base arrangement
    double unit_efficiency;           // the same per core or GPU (units) instead of per rank
    double loader_wait, comm_exposed; // shares of the measured time
    double comm_cost;  // share of the time lost to communication: 1 - alone / measured; NAN: not measured
    double bus_gbytes; // bus bandwidth of the buckets in GB/s, as in nccl-tests; NAN with one rank
    double gflops, peak_gflops, share_of_peak; // rate of training; highest rate of a matrix product; their quotient
    double update_s;                           // median seconds of an update
    double alone_s;                            // median seconds of an update without communication; NAN: not measured
} ls_bench_figures;

// Returns the figures of results[index]. A figure without a measurement is NAN.
ls_bench_figures ls_bench_figures_of(const ls_bench_result *results, int index);

#endif
