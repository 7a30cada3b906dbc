#include "dist/allreduce_times.h"

#include <math.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/memory.h"

enum { REPEATS_MIN = 3, REPEATS_MAX = 100, SIZES_MIN = 4 };
static const int64_t sizes[LS_ALLREDUCE_SAMPLES_MAX] = { 8, 64, 512, 4096, 32768, 131072, 524288, 1 << 20, 2 << 20,
    8 << 20 };
enum { SIZES = LS_ALLREDUCE_SAMPLES_MAX };

// --- measuring -----------------------------------------------------------------------------------

static int compare_reals(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Sums `repeats` times in a row. All ranks meet in each sum, so the interval between the ends of two sums is the time
// of a sum. result: the median and the distance of the quartiles, each the largest of all ranks.
static ls_status time_size(ls_comm *comm, float *data, int64_t bytes, int repeats, double result[2]) {
    double took[REPEATS_MAX] = { 0 };
    LS_TRY(ls_comm_allreduce(comm, data, bytes / 4, LS_F32, LS_REDUCE_SUM)); // so that the ranks start together
    double since = ls_clock_seconds();
    for (int i = 0; i < repeats; i++) {
        LS_TRY(ls_comm_allreduce(comm, data, bytes / 4, LS_F32, LS_REDUCE_SUM));
        double now = ls_clock_seconds();
        took[i] = now - since;
        since = now;
    }
    qsort(took, (size_t)repeats, sizeof *took, compare_reals);
    result[0] = took[repeats / 2];
    result[1] = took[repeats * 3 / 4] - took[repeats / 4];
    return ls_comm_allreduce(comm, result, 2, LS_F64, LS_REDUCE_MAX);
}

// Measures sums of rising sizes until left_s is used up. All ranks see the same times, so they choose the same sizes.
static ls_status measure_sizes(ls_comm *comm, float *data, double left_s, ls_allreduce_samples *samples) {
    ls_allreduce_sample sample = { .bytes = 0 };
    for (int i = 0; i < SIZES; i++) {
        double share_s = left_s / (SIZES - i), first[2], result[2];
        double expected_s = i > 0 ? sample.seconds * (double)sizes[i] / (double)sizes[i - 1] : 0;
        if (i >= SIZES_MIN && expected_s * (REPEATS_MIN + 2) > left_s) break;
        LS_TRY(time_size(comm, data, sizes[i], 1, first));
        double repeats = share_s / first[0] - 3;
        sample.repeats = repeats < REPEATS_MIN ? REPEATS_MIN : repeats > REPEATS_MAX ? REPEATS_MAX : (int)repeats;
        LS_TRY(time_size(comm, data, sizes[i], sample.repeats, result));
        sample.bytes = sizes[i];
        sample.seconds = result[0];
        sample.spread = result[1] / result[0];
        samples->sample[samples->count++] = sample;
        left_s -= 2 * first[0] + (sample.repeats + 1) * result[0];
    }
    return LS_SUCCESS;
}

ls_status ls_allreduce_measure(ls_comm *comm, double budget_s, ls_allreduce_samples *samples) {
    samples->count = 0;
    if (ls_comm_get_info(comm)->world_size == 1) return LS_SUCCESS;
    float *data;
    ls_status mine = LS_NEW_BYTES(data, (size_t)sizes[SIZES - 1], "measuring all-reduces");
    ls_status status = ls_comm_agree(comm, mine, NULL);
    LS_THEN(status, measure_sizes(comm, data, budget_s, samples));
    free(data);
    return status;
}

// --- fitting -------------------------------------------------------------------------------------

static double error_of(const ls_allreduce_samples *samples, double latency_s, double s_per_byte) {
    double squares = 0;
    for (int i = 0; i < samples->count; i++) {
        const ls_allreduce_sample *s = &samples->sample[i];
        const double distance = (latency_s + s_per_byte * (double)s->bytes) / s->seconds - 1;
        squares += distance * distance;
    }
    return sqrt(squares / samples->count);
}

// Fits latency and bandwidth. With u = 1 / seconds and v = bytes / seconds, an exact fit has latency * u + s_per_byte *
// v = 1 for each sample.
ls_allreduce_fit ls_allreduce_fit_of(const ls_allreduce_samples *samples) {
    double u = 0, v = 0, uu = 0, uv = 0, vv = 0; // sums over the samples
    int several_sizes = 0;
    for (int i = 0; i < samples->count; i++) {
        const ls_allreduce_sample *s = &samples->sample[i];
        const double ui = 1 / s->seconds, vi = (double)s->bytes / s->seconds;
        u += ui, v += vi, uu += ui * ui, uv += ui * vi, vv += vi * vi;
        several_sizes |= s->bytes != samples->sample[0].bytes;
    }
    if (!several_sizes) return (ls_allreduce_fit){ .known = 0 };
    const double determinant = uu * vv - uv * uv;
    double latency_s = (u * vv - v * uv) / determinant, s_per_byte = (v * uu - u * uv) / determinant;
    if (latency_s < 0) latency_s = 0, s_per_byte = v / vv;
    if (s_per_byte < 0) s_per_byte = 0, latency_s = u / uu;
    return (ls_allreduce_fit){ .known = 1,
        .latency_s = latency_s,
        .bytes_per_s = s_per_byte > 0 ? 1 / s_per_byte : INFINITY,
        .rms = error_of(samples, latency_s, s_per_byte) };
}

double ls_allreduce_bus_bandwidth(int ranks, double bytes, double seconds) {
    return 2 * (ranks - 1.0) / ranks * bytes / seconds;
}
