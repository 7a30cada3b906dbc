// peak.h - the most that this rank's device can do, measured: the rate of matrix multiplication and the bandwidth of
// its memory. Training is compared with them.
#ifndef LS_TOOLS_BENCH_PEAK_H
#define LS_TOOLS_BENCH_PEAK_H

#include "device/device.h"

typedef struct ls_bench_peak ls_bench_peak;

// Plans a linear layer of 1024 inputs and outputs on a batch of 1024 (a GPU: 8192; less if that would take seconds), on
// its own queue. device: borrowed until free.
LS_CHECKED ls_status ls_bench_peak_new(ls_device *device, ls_dtype storage, ls_bench_peak **out);
void ls_bench_peak_free(ls_bench_peak *peak); // NULL is allowed
// GFLOP/s over about `seconds`.
LS_CHECKED ls_status ls_bench_peak_measure(ls_bench_peak *peak, double seconds, double *gflops);
// GB/s, read and written, of adding two arrays that no cache holds, over about `seconds`.
LS_CHECKED ls_status ls_bench_peak_bandwidth(ls_bench_peak *peak, double seconds, double *gbytes);

// The two measured limits of a device.
typedef struct {
    double gflops, gbytes; // a second
} ls_bench_limits;
// The least seconds that so many operations and bytes take within the limits: the larger of the two quotients. An
// operator can be faster: Winograd needs fewer operations than are counted, and a cache is faster than memory.
double ls_bench_floor_s(const ls_bench_limits *limits, double flops, double bytes);

#endif
