// peak.h - measures the limits of this rank's device: its rate of matrix multiplication and the bandwidth of its
// memory. Benchmarks compare training with these limits.
#ifndef LS_TOOLS_BENCH_PEAK_H
#define LS_TOOLS_BENCH_PEAK_H

#include "device/device.h"

typedef struct ls_bench_peak ls_bench_peak;

// Plans a linear layer of 1024 inputs and 1024 outputs on a batch of 1024, with its own queue. A GPU gets 8192 instead
// of 1024. A device on which that would take too long gets a smaller layer. device: borrowed until the peak is freed.
LS_CHECKED ls_status ls_bench_peak_new(ls_device *device, ls_dtype storage, ls_bench_peak **out);
void ls_bench_peak_free(ls_bench_peak *peak); // NULL is allowed
// Measures the GFLOP/s of the planned layer for about `seconds`.
LS_CHECKED ls_status ls_bench_peak_measure(ls_bench_peak *peak, double seconds, double *gflops);
// Measures the bandwidth of memory: adds two arrays that are larger than the caches for about `seconds`. *gbytes: GB/s
// that were read and written.
LS_CHECKED ls_status ls_bench_peak_bandwidth(ls_bench_peak *peak, double seconds, double *gbytes);

// The measured limits of a device.
typedef struct {
    double gflops, gbytes; // GFLOP/s; GB/s
} ls_bench_limits;
// Returns the least seconds that `flops` operations and `bytes` bytes take within the limits: the larger of the two
// quotients. A real operator can be faster: Winograd needs fewer operations than are counted, and a cache is faster
// than memory.
double ls_bench_floor_s(const ls_bench_limits *limits, double flops, double bytes);

#endif
