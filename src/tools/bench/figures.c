#include "tools/bench/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// --- medians -------------------------------------------------------------------------------------

static int compare_reals(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Returns the largest k for which the k-th lowest and the k-th highest of n values enclose the true median with at
// least 95 % probability, or 0 if no k does. Each of the two lies on the wrong side of the median with the probability
// that fewer than k of n coin tosses are heads.
static int order_of_95(int n) {
    double probability = exp2(-n), below = 0; // probability of exactly k heads; of fewer than k
    int k = 0;
    while (2 * (below + probability) <= 0.05) {
        below += probability;
        probability *= (double)(n - k) / (k + 1);
        k++;
    }
    return k;
}

ls_bench_spread ls_bench_spread_of(const double *values, int count) {
    ls_bench_spread s = { NAN, NAN, NAN, NAN, NAN };
    double *sorted = count > 0 ? malloc(sizeof *sorted * (size_t)count) : NULL;
    if (!sorted) return s;
    memcpy(sorted, values, sizeof *sorted * (size_t)count);
    qsort(sorted, (size_t)count, sizeof *sorted, compare_reals);
    s.median = count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
    s.lowest = sorted[0];
    s.highest = sorted[count - 1];
    int k = order_of_95(count);
    if (k > 0) {
        s.low_95 = sorted[k - 1];
        s.high_95 = sorted[count - k];
    }
    free(sorted);
    return s;
}

// Returns the spread of the samples' double field at `offset`.
static ls_bench_spread spread_of(const ls_bench_result *r, size_t offset) {
    double *values = r->count > 0 ? malloc(sizeof *values * (size_t)r->count) : NULL;
    for (int i = 0; values && i < r->count; i++)
        values[i] = *(const double *)(const void *)((const char *)&r->sample[i] + offset);
    ls_bench_spread s = ls_bench_spread_of(values, values ? r->count : 0);
    free(values);
    return s;
}

static double sum_of(const ls_bench_result *r, size_t offset) {
    double sum = 0;
    for (int i = 0; i < r->count; i++) sum += *(const double *)(const void *)((const char *)&r->sample[i] + offset);
    return sum;
}

// --- figures -------------------------------------------------------------------------------------

static double median_rate(const ls_bench_result *r) {
    return r->failure[0] ? NAN : spread_of(r, offsetof(ls_bench_sample, images_per_second)).median;
}

// Compares the time of updates without communication with the time of full updates. Both were measured in the same
// rounds, under the same load of the machine.
static void add_alone(const ls_bench_result *r, ls_bench_figures *f) {
    f->alone_s = f->comm_cost = NAN;
    double alone = sum_of(r, offsetof(ls_bench_sample, alone_s));
    if (!(alone > 0)) return;
    f->alone_s = spread_of(r, offsetof(ls_bench_sample, alone_s)).median / (double)r->updates;
    f->comm_cost = 1 - alone / sum_of(r, offsetof(ls_bench_sample, seconds));
}

ls_bench_figures ls_bench_figures_of(const ls_bench_result *results, int index) {
    const ls_bench_result *r = &results[index], *base = &results[r->base];
    ls_bench_figures f = { .images_per_second = spread_of(r, offsetof(ls_bench_sample, images_per_second)) };
    if (r->failure[0]) f.images_per_second = ls_bench_spread_of(NULL, 0);
    const ls_bench_spread *rate = &f.images_per_second;
    double seconds = sum_of(r, offsetof(ls_bench_sample, seconds));
    f.speed_up = rate->median / median_rate(&results[0]);
    f.efficiency = rate->median / median_rate(base) * base->ranks / r->ranks;
    f.unit_efficiency = rate->median / median_rate(base) * base->units / r->units;
    f.loader_wait = sum_of(r, offsetof(ls_bench_sample, loader_wait_s)) / seconds;
    f.comm_exposed = sum_of(r, offsetof(ls_bench_sample, comm_exposed_s)) / seconds;
    f.update_s = r->global_batch / rate->median;
    double busy = sum_of(r, offsetof(ls_bench_sample, comm_busy_s));
    double bytes = r->reduced_bytes * (double)r->updates * r->count;
    f.bus_gbytes = r->ranks > 1 && busy > 0 ? 1e-9 * ls_allreduce_bus_bandwidth(r->ranks, bytes, busy) : NAN;
    f.gflops = rate->median * r->flops_per_sample * 1e-9;
    for (int i = 0; i < r->count; i++) f.peak_gflops = fmax(f.peak_gflops, r->sample[i].peak_gflops);
    f.share_of_peak = f.gflops / f.peak_gflops;
    add_alone(r, &f);
    return f;
}
