// allreduce_times.h - measured times of all-reduces, and the line through them: an all-reduce of n bytes takes
// latency + n / bandwidth.
#ifndef LS_DIST_ALLREDUCE_TIMES_H
#define LS_DIST_ALLREDUCE_TIMES_H

#include <stdint.h>
#include "base/status.h"
#include "dist/comm.h"

typedef struct {
    int64_t bytes; // of one rank's data
    int repeats;
    double seconds; // median over the repeats, of the slowest rank
    double spread;  // distance of the quartiles, as a share of the median
} ls_allreduce_sample;

enum { LS_ALLREDUCE_SAMPLES_MAX = 10 };
typedef struct {
    int count;
    ls_allreduce_sample sample[LS_ALLREDUCE_SAMPLES_MAX];
} ls_allreduce_samples;

// Times fp32 sums of 8 bytes to 8 MiB over comm for about budget_s seconds in all. The first four sizes are always
// measured, larger ones while the time lasts. All ranks of comm call it and get the same samples. One rank: no samples.
LS_CHECKED ls_status ls_allreduce_measure(ls_comm *comm, double budget_s, ls_allreduce_samples *samples);

typedef struct {
    int known;          // 0: there are fewer than two sizes
    double latency_s;   // >= 0
    double bytes_per_s; // INFINITY: the times do not depend on the size
    double rms;         // of the samples' relative distances from the fit: 0.1 is 10 %
} ls_allreduce_fit;

// Least squares of the relative errors.
ls_allreduce_fit ls_allreduce_fit_of(const ls_allreduce_samples *samples);

// Bytes/s over the links, which must carry 2 (p-1)/p of the data: comparable between numbers of ranks, and with the
// hardware's bandwidth (nccl-tests, doc/PERFORMANCE.md).
double ls_allreduce_bus_bandwidth(int ranks, double bytes, double seconds);

#endif
