#include "cli/bench/predict.h"

#include <math.h>
#include <string.h>
#include "base/memory.h"

enum { BUCKETS_MAX = 4096 };
const double LS_BENCH_NOTABLE = 0.15;
static const double LOADER_NOTABLE = 0.05;

typedef struct {
    const ls_bench_result *results;
    int result_count;
    const ls_bench_link *links;
    int link_count;
    ls_bench_prediction *rows;
    int count;
} predicting;

// That of so many ranks; else, or with 0, the largest one whose ranks have cores of their own; else the largest.
static const ls_bench_link *link_for(const predicting *p, int ranks) {
    const ls_bench_link *best = NULL;
    for (int i = 0; i < p->link_count; i++) {
        const ls_bench_link *link = &p->links[i];
        if (!link->model.inside.known && !link->model.between.known) continue;
        if (link->ranks == ranks) return link;
        int better =
            !best || link->shared < best->shared || (link->shared == best->shared && link->ranks > best->ranks);
        if (better) best = link;
    }
    return best;
}

static int result_of(const predicting *p, int base, int weak, int ranks) {
    for (int i = 0; i < p->result_count; i++) {
        const ls_bench_result *r = &p->results[i];
        if (r->setting == p->results[base].setting && r->ranks == ranks && r->weak == weak && !r->failure[0] &&
            r->count > 0)
            return i;
    }
    return -1;
}

// As many ranks a host as were measured: one where every rank had its own.
static int hosts_for(const predicting *p, int ranks) {
    int most_ranks = 1, hosts = 1;
    for (int i = 0; i < p->result_count; i++)
        if (p->results[i].ranks > most_ranks) most_ranks = p->results[i].ranks, hosts = p->results[i].hosts;
    int here = (most_ranks + hosts - 1) / hosts;
    return hosts == 1 ? 1 : (ranks + here - 1) / here;
}

// Computation of one update, without the optimizer's pass, which cannot overlap with the sums.
typedef struct {
    double alone_s, compute_s, optimizer_s; // alone_s: of the ideal, with the optimizer
    int accumulation;
} computation;

static computation computation_of(const predicting *p, const ls_bench_prediction *row) {
    const ls_bench_result *base = &p->results[row->base];
    const ls_bench_figures f = ls_bench_figures_of(p->results, row->base);
    const int share = row->weak ? 1 : row->ranks;
    computation c = { .optimizer_s = base->kind_s[LS_OP_KIND_OPTIMIZER], .accumulation = base->accumulation / share };
    if (c.optimizer_s > f.update_s) c.optimizer_s = f.update_s;
    if (c.accumulation < 1) c.accumulation = 1;
    c.alone_s = f.update_s / share;
    c.compute_s = (f.update_s - c.optimizer_s) / share;
    if (row->result < 0) return c;
    const ls_bench_result *r = &p->results[row->result];
    const double measured_s = ls_bench_figures_of(p->results, row->result).alone_s;
    c.accumulation = r->accumulation;
    if (isfinite(measured_s)) c.compute_s = fmax(measured_s - c.optimizer_s, 0);
    return c;
}

// The buckets of the last micro-batch, in shares of all of them.
static int fill_buckets(const ls_bench_result *r, int accumulation, ls_allreduce_bucket *buckets) {
    int count = r->bucket_count < BUCKETS_MAX ? r->bucket_count : BUCKETS_MAX;
    for (int b = 0; b < count; b++) {
        buckets[b].bytes = r->bucket[b].bytes;
        buckets[b].ready = (accumulation - 1 + r->bucket[b].ready) / accumulation;
    }
    return count;
}

static void predict(const predicting *p, ls_bench_prediction *row, ls_allreduce_bucket *buckets) {
    const ls_bench_link *link = link_for(p, row->result < 0 ? 0 : row->ranks);
    const ls_bench_result *r = &p->results[row->result < 0 ? row->base : row->result];
    const computation c = computation_of(p, row);
    ls_allreduce_workload work = { .model = &link->model,
        .ranks = row->ranks,
        .hosts = row->hosts,
        .buckets = buckets,
        .bucket_count = fill_buckets(r, c.accumulation, buckets),
        .compute_s = c.compute_s,
        .alone_s = c.alone_s,
        .overlap = r->overlap };
    const ls_allreduce_fit *fit = link->model.between.known ? &link->model.between : &link->model.inside;
    const struct {
        ls_allreduce_algorithm algorithm;
        double *efficiency;
    } wanted[] = { { fit->algorithm, &row->efficiency }, { LS_ALLREDUCE_RING, &row->ring },
        { LS_ALLREDUCE_TREE, &row->tree } };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        work.algorithm = wanted[i].algorithm;
        double update_s = ls_allreduce_predict(&work).update_s + c.optimizer_s;
        if (i == 0) row->update_s = update_s;
        *wanted[i].efficiency = c.alone_s / update_s;
    }
}

// Likely reasons, the likeliest first.
static void explain(const predicting *p, ls_bench_prediction *row) {
    const ls_bench_result *r = &p->results[row->result];
    const ls_bench_figures f = ls_bench_figures_of(p->results, row->result);
    const char *side = row->difference < 0 ? "lower" : "higher";
    if (r->shared)
        snprintf(row->remark, sizeof row->remark,
            "%s: %d ranks of %d thread%s share %.4g cores, where a rank that waits for a sum waits for the others' "
            "turns",
            side, r->ranks, r->threads, r->threads == 1 ? "" : "s", r->units);
    else if (f.loader_wait > LOADER_NOTABLE)
        snprintf(row->remark, sizeof row->remark, "%s: %.0f %% of the time is spent waiting for the loader", side,
            100 * f.loader_wait);
    else if (f.spread > LS_BENCH_NOTABLE)
        snprintf(row->remark, sizeof row->remark,
            "%s: the measurements themselves differ by %.0f %% (lowest to highest)", side, 100 * f.spread);
    else if (r->crowded && row->difference < 0)
        snprintf(row->remark, sizeof row->remark,
            "%s: no core is left for the threads that communicate, which take turns with computation", side);
    else
        snprintf(row->remark, sizeof row->remark,
            "%s: neither shared cores nor the loader nor scatter explain it; look at a trace (--trace)", side);
}

static void compare(const predicting *p, ls_bench_prediction *row) {
    row->measured = row->difference = NAN;
    if (row->result < 0) return;
    row->measured = ls_bench_figures_of(p->results, row->result).efficiency;
    row->difference = row->measured / row->efficiency - 1;
    row->notable = fabs(row->difference) > LS_BENCH_NOTABLE;
    if (row->notable) explain(p, row);
}

static ls_status add_row(predicting *p, ls_bench_prediction row, ls_allreduce_bucket *buckets) {
    const ls_bench_result *base = &p->results[row.base];
    row.result = result_of(p, row.base, row.weak, row.ranks);
    row.hosts = row.result < 0 ? hosts_for(p, row.ranks) : p->results[row.result].hosts;
    // strong: no rank computes less than one sample
    if (row.result < 0 && !row.weak && base->global_batch % row.ranks != 0) return LS_SUCCESS;
    LS_TRY(LS_GROW(p->rows, p->count, "predictions"));
    predict(p, &row, buckets);
    compare(p, &row);
    p->rows[p->count++] = row;
    return LS_SUCCESS;
}

// Whether this kind of scaling is of interest: it was measured.
static int is_measured(const predicting *p, int base, int weak) {
    for (int i = 0; i < p->result_count; i++) {
        const ls_bench_result *r = &p->results[i];
        if (r->setting == p->results[base].setting && r->ranks > 1 && r->weak == weak) return 1;
    }
    return 0;
}

// Powers of two, and what was measured between them.
static ls_status add_curve(predicting *p, int base, int weak, ls_allreduce_bucket *buckets) {
    for (int ranks = 2; ranks <= LS_BENCH_PREDICTED_RANKS_MAX; ranks++) {
        int power = (ranks & (ranks - 1)) == 0;
        if (!power && result_of(p, base, weak, ranks) < 0) continue;
        LS_TRY(add_row(p, (ls_bench_prediction){ .base = base, .weak = weak, .ranks = ranks }, buckets));
    }
    return LS_SUCCESS;
}

ls_status ls_bench_predict(const ls_bench_result *results, int result_count, const ls_bench_link *links, int link_count,
    ls_bench_prediction **rows, int *count) {
    predicting p = { results, result_count, links, link_count, NULL, 0 };
    ls_allreduce_bucket *buckets;
    ls_status status = LS_NEW(buckets, BUCKETS_MAX, "predictions");
    for (int i = 0; !ls_failed(status) && i < result_count && link_for(&p, 0); i++) {
        const ls_bench_result *r = &results[i];
        if (r->ranks != 1 || r->base != i || r->failure[0] || r->count == 0 || r->own_memory) continue;
        for (int weak = 0; weak <= 1 && !ls_failed(status); weak++)
            if (is_measured(&p, i, weak)) status = add_curve(&p, i, weak, buckets);
    }
    free(buckets);
    *rows = p.rows;
    *count = p.count;
    return status;
}
