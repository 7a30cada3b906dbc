#include "cli/bench/cost_scale.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include "base/memory.h"

// --- places ---------------------------------------------------------------------------------------

static ls_cost_place filled(int ranks, int per_host) {
    return (ls_cost_place){ ranks, (ranks + per_host - 1) / per_host };
}

// "8" or "4x8" up to a comma or the end; NULL: neither.
static const char *read_place(const char *text, int per_host, ls_cost_place *place) {
    char *end;
    errno = 0;
    long first = strtol(text, &end, 10), second = 0;
    if (end == text || errno || first < 1 || first > LS_COST_RANKS_MAX) return NULL;
    if (*end == 'x') {
        const char *from = end + 1;
        second = strtol(from, &end, 10);
        if (end == from || errno || second < 1 || second > LS_COST_RANKS_MAX) return NULL;
    }
    if ((*end && *end != ',') || first * (second ? second : 1) > LS_COST_RANKS_MAX) return NULL;
    *place = second ? (ls_cost_place){ (int)(first * second), (int)first } : filled((int)first, per_host);
    return end;
}

ls_status ls_cost_places(const char *list, int per_host, ls_cost_place *places, int *count) {
    *count = 0;
    for (int ranks = 1; !list && ranks <= LS_COST_RANKS_MAX; ranks *= 2) places[(*count)++] = filled(ranks, per_host);
    if (!list) return LS_SUCCESS;
    for (const char *at = list;; at++) {
        if (*count == LS_COST_POINTS_MAX)
            return ls_fail(LS_USAGE, "--ranks %s: more than %d places", list, LS_COST_POINTS_MAX);
        at = read_place(at, per_host, &places[*count]);
        if (!at)
            return ls_fail(LS_USAGE,
                "--ranks %s: expected numbers of GPUs, or hosts x GPUs of each, up to %d in all, as in 1,4,8,2x8", list,
                LS_COST_RANKS_MAX);
        ++*count;
        if (!*at) return LS_SUCCESS;
    }
}

// --- one point ------------------------------------------------------------------------------------

static const double PCIE_SHARE = 0.8; // of copies from pinned memory

// Seconds of the items that are, or are not, of a micro-batch, before or behind the sums; `until`: of the first so many.
static double seconds_of(const ls_cost_update *u, const ls_cost_time *times, int once, int after, int until) {
    double sum = 0;
    for (int i = 0; i < until; i++)
        if (u->items[i].once == once && u->items[i].after == after) sum += times[i].seconds;
    return sum;
}

// What synchronised batch norm waits for in each micro-batch.
static double waiting_s(const ls_cost_update *u, const ls_allreduce_workload *w) {
    double sum = 0;
    for (int i = 0; i < u->item_count; i++)
        if (u->items[i].reduced_bytes > 0)
            sum += ls_allreduce_seconds(w->model, w->algorithm, w->ranks, w->hosts, u->items[i].reduced_bytes);
    return sum * u->batches.per_rank;
}

static ls_status sum_gradients(
    const ls_cost_update *u, const ls_cost_time *times, const ls_cost_gpu *gpu, ls_cost_place place, ls_cost_point *p) {
    const ls_allreduce_model model =
        ls_allreduce_model_of_links(gpu->inside, gpu->between, (place.ranks + place.hosts - 1) / place.hosts);
    const double micro_s = seconds_of(u, times, 0, 0, u->item_count);
    ls_allreduce_workload w = { .model = &model,
        .algorithm = LS_ALLREDUCE_HALVING,
        .ranks = place.ranks,
        .hosts = place.hosts,
        .compute_s = p->compute_s,
        .alone_s = p->compute_s,
        .overlap = u->cfg->dist_overlap,
        .in_turn = 1,
        .taken = LS_ALLREDUCE_TAKEN_BY_NCCL };
    for (int b = 0; b < u->bucket_count; b++) p->reduced_bytes += u->buckets[b].bytes;
    p->bucket_bytes = u->bucket_bytes;
    ls_allreduce_bucket *buckets;
    LS_TRY(LS_NEW(buckets, u->bucket_count + 1, "buckets"));
    for (int b = 0; b < u->bucket_count; b++) {
        const double left_s = micro_s - seconds_of(u, times, 0, 0, u->buckets[b].after);
        buckets[b] = (ls_allreduce_bucket){ u->buckets[b].bytes, 1 - left_s / p->compute_s };
    }
    w.buckets = buckets;
    w.bucket_count = p->buckets = u->bucket_count;
    const ls_allreduce_prediction prediction = ls_allreduce_predict(&w);
    const double waiting = waiting_s(u, &w);
    p->sums_s = prediction.comm_s + waiting;
    p->exposed_s = prediction.exposed_s + waiting;
    free(buckets);
    return LS_SUCCESS;
}

ls_status ls_cost_at(
    ls_cost_update *u, const ls_cost_time *times, const ls_cost_gpu *gpu, ls_cost_place place, ls_cost_point *out) {
    const ls_batches *b = &u->batches;
    const double images = (double)b->micro_batch * b->per_rank;
    ls_cost_point p = { .ranks = place.ranks,
        .hosts = place.hosts,
        .global_batch = b->global_batch,
        .micro_batch = b->micro_batch,
        .accumulation = b->per_rank };
    p.compute_s = seconds_of(u, times, 1, 0, u->item_count) + b->per_rank * seconds_of(u, times, 0, 0, u->item_count);
    p.end_s = seconds_of(u, times, 1, 1, u->item_count);
    if (place.ranks > 1) LS_TRY(sum_gradients(u, times, gpu, place, &p));
    if (gpu && u->cfg->data_loader == LS_LOADER_STREAM)
        p.copy_s = images * (double)ls_chw_count(u->picture) / (gpu->pcie_gbytes * 1e9 * PCIE_SHARE);
    p.update_s = fmax(p.compute_s + p.exposed_s + p.end_s, p.copy_s);
    p.images_per_second = b->global_batch / p.update_s;
    *out = p;
    return LS_SUCCESS;
}
