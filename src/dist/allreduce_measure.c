// allreduce_measure.c - times all-reduces for the model of allreduce_model.h.
#include <stdlib.h>
#include "base/clock.h"
#include "base/memory.h"
#include "dist/allreduce_model.h"

enum { REPEATS_MIN = 3, REPEATS_MAX = 100, SIZES_MIN = 4 };
static const int64_t sizes[] = { 8, 64, 512, 4096, 32768, 131072, 524288, 1 << 20, 2 << 20, 8 << 20 };
enum { SIZES = sizeof sizes / sizeof *sizes };

typedef struct {
    ls_comm *comm;  // of all ranks that agree on the results
    ls_comm *group; // of those that are measured; NULL: not this rank
    float *data;
    double left_s; // of the level's budget
} series;

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// `repeats` all-reduces in a row: each is a meeting of all ranks, so the intervals between their ends are its times.
// result: median and distance of the quartiles, of the slowest rank.
static ls_status time_size(series *s, int64_t bytes, int repeats, double result[2]) {
    double took[REPEATS_MAX] = { 0 };
    if (s->group) {
        LS_TRY(ls_comm_allreduce(s->group, s->data, bytes / 4, LS_F32, LS_REDUCE_SUM)); // warms up, and lines up
        double since = ls_clock_seconds();
        for (int i = 0; i < repeats; i++) {
            LS_TRY(ls_comm_allreduce(s->group, s->data, bytes / 4, LS_F32, LS_REDUCE_SUM));
            double now = ls_clock_seconds();
            took[i] = now - since;
            since = now;
        }
        qsort(took, (size_t)repeats, sizeof *took, by_size);
    }
    result[0] = took[repeats / 2];
    result[1] = took[repeats * 3 / 4] - took[repeats / 4];
    return ls_comm_allreduce(s->comm, result, 2, LS_F64, LS_REDUCE_MAX);
}

// All ranks see the same times, so all decide alike.
static ls_status measure_sizes(series *s, ls_allreduce_sample sample, ls_allreduce_samples *samples) {
    for (int i = 0; i < SIZES && samples->count < LS_ALLREDUCE_SAMPLES_MAX; i++) {
        double share_s = s->left_s / (SIZES - i), first[2], result[2];
        double expected_s = i > 0 ? sample.seconds * (double)sizes[i] / (double)sizes[i - 1] : 0;
        if (i >= SIZES_MIN && expected_s * (REPEATS_MIN + 2) > s->left_s) break;
        LS_TRY(time_size(s, sizes[i], 1, first));
        double fit = share_s / first[0] - 3;
        sample.repeats = fit < REPEATS_MIN ? REPEATS_MIN : fit > REPEATS_MAX ? REPEATS_MAX : (int)fit;
        LS_TRY(time_size(s, sizes[i], sample.repeats, result));
        sample.bytes = sizes[i];
        sample.seconds = result[0];
        sample.spread = result[1] / result[0];
        samples->sample[samples->count++] = sample;
        s->left_s -= 2 * first[0] + (sample.repeats + 1) * result[0];
    }
    return LS_SUCCESS;
}

static ls_status measure_level(
    ls_comm *comm, ls_allreduce_level level, double budget_s, ls_allreduce_samples *samples) {
    const ls_comm_info *info = ls_comm_get_info(comm);
    ls_allreduce_sample sample = { .level = level, .ranks = info->world_size, .hosts = info->hosts };
    ls_comm *group = comm;
    if (level == LS_ALLREDUCE_INSIDE) {
        LS_TRY(ls_comm_of_host(comm, &group));
        int32_t largest = info->local_size; // where hosts differ, the largest one is the slowest
        LS_TRY(ls_comm_allreduce(comm, &largest, 1, LS_I32, LS_REDUCE_MAX));
        sample.ranks = largest;
        sample.hosts = 1;
    } else if (level == LS_ALLREDUCE_BETWEEN) {
        LS_TRY(ls_comm_of_leaders(comm, &group));
        sample.ranks = info->hosts;
    }
    series s = { .comm = comm, .group = group, .left_s = budget_s };
    ls_status mine = LS_NEW_BYTES(s.data, (size_t)sizes[SIZES - 1], "measuring links");
    ls_status status = ls_comm_agree(comm, mine, NULL);
    LS_THEN(status, measure_sizes(&s, sample, samples));
    free(s.data);
    if (group && group != comm) ls_comm_finish(group);
    return status;
}

ls_status ls_allreduce_measure(ls_comm *comm, double budget_s, ls_allreduce_samples *samples) {
    const ls_comm_info *info = ls_comm_get_info(comm);
    int inside = info->hosts<info->world_size, between = info->hosts> 1, levels = inside + between;
    if (inside && between) levels++;
    if (inside) LS_TRY(measure_level(comm, LS_ALLREDUCE_INSIDE, budget_s / levels, samples));
    if (between) LS_TRY(measure_level(comm, LS_ALLREDUCE_BETWEEN, budget_s / levels, samples));
    if (inside && between) LS_TRY(measure_level(comm, LS_ALLREDUCE_ALL, budget_s / levels, samples));
    return LS_SUCCESS;
}
