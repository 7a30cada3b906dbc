// peak.h - what this rank's device can do at most, measured: the rate of matrix multiplication and of moving
// bytes, which training is compared with.
#ifndef LS_CLI_BENCH_PEAK_H
#define LS_CLI_BENCH_PEAK_H

#include "device/device.h"

typedef struct ls_bench_peak ls_bench_peak;

// A linear layer of 1024 inputs and outputs on a batch of 1024 (a GPU: 8192; less where that would take seconds), on a
// queue of its own. device: borrowed until free.
LS_CHECKED ls_status ls_bench_peak_new(ls_device *device, ls_dtype storage, ls_bench_peak **out);
void ls_bench_peak_free(ls_bench_peak *peak); // NULL is allowed
// GFLOP/s over about `seconds`.
LS_CHECKED ls_status ls_bench_peak_measure(ls_bench_peak *peak, double seconds, double *gflops);
// GB/s, read and written, of adding two arrays: the three of them take about `bytes`.
enum { LS_BENCH_LARGE = 192 << 20 }; // no cache holds them
LS_CHECKED ls_status ls_bench_peak_bandwidth(ls_bench_peak *peak, double bytes, double seconds, double *gbytes);

#endif
