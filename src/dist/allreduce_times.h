// allreduce_times.h - times all-reduces and fits a line: an all-reduce of n bytes takes latency + n / bandwidth.
#ifndef LS_DIST_ALLREDUCE_TIMES_H
#define LS_DIST_ALLREDUCE_TIMES_H

#include <stdint.h>
#include "base/status.h"
#include "dist/comm.h"

typedef struct {
    int64_t bytes; // bytes of one rank's data
    int repeats;
    double seconds; // time of one sum: each rank's median over the repeats, of these the largest
    double spread;  // distance of the quartiles of a rank's times, the largest of all ranks, as a share of `seconds`
} ls_allreduce_sample;

enum { LS_ALLREDUCE_SAMPLES_MAX = 10 };
typedef struct {
    int count;
    ls_allreduce_sample sample[LS_ALLREDUCE_SAMPLES_MAX];
} ls_allreduce_samples;

// Times sums of fp32 data, of 8 bytes to 8 MiB, over comm for about budget_s seconds in all. The first four sizes are
// always measured, larger ones while time is left. Collective; all ranks get the same samples (one rank: no samples).
LS_CHECKED ls_status ls_allreduce_measure(ls_comm *comm, double budget_s, ls_allreduce_samples *samples);

typedef struct {
    int known;          // 0: fewer than two sizes were measured
    double latency_s;   // >= 0
    double bytes_per_s; // INFINITY: the times do not depend on the size
    double rms;         // root mean square of the relative distances of the samples from the line: 0.1 is 10 %
} ls_allreduce_fit;

// Fits latency and bandwidth to the samples, with the least squares of relative errors.
ls_allreduce_fit ls_allreduce_fit_of(const ls_allreduce_samples *samples);

// Returns the bytes/s that each rank's link carries in an all-reduce: 2 (p-1)/p of the rank's data for p ranks. This is
// comparable between numbers of ranks, and with the hardware's bandwidth (nccl-tests, doc/PERFORMANCE.md).
double ls_allreduce_bus_bandwidth(int ranks, double bytes, double seconds);

#endif
