#include "train/diagnose/verdict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"

static const double SHORT_SECONDS = 1;   // a shorter run gets no verdict
static const double BINDING_SHARE = 0.1; // of the time; a smaller share of waiting is not mentioned
static const double BUSY_SHARE = 0.5;    // of the time; a host that enqueues for less time than this is not the limit

// --- the resource that the run waited for --------------------------------------------------------

// How the slowest rank spent its time: each member is a share of the time.
typedef struct {
    const ls_verdict_facts *facts;
    int rank, is_gpu, lacks_cores; // lacks_cores: the rank has more threads than cores
    double compute, loader, communication, cores, enqueue;
    double others_wait; // mean share of the time that the other ranks wait for this one
} rank_shares;

static void take_slowest_rank(rank_shares *s) {
    const ls_verdict_facts *f = s->facts;
    double all_waits = 0;
    for (int r = 0; r < f->ranks; r++) {
        all_waits += f->each[r].wait;
        if (f->each[r].wait < f->each[s->rank].wait) s->rank = r;
    }
    const ls_rank_time *slowest = &f->each[s->rank];
    s->compute = slowest->compute / f->each_seconds;
    s->loader = slowest->loader_wait / f->each_seconds;
    s->communication = slowest->wait / f->each_seconds;
    s->cores = slowest->core_wait / f->each_seconds;
    s->others_wait = (all_waits - f->ranks * slowest->wait) / (f->ranks - 1) / f->each_seconds;
}

static rank_shares find_shares(const ls_verdict_facts *f) {
    const ls_run_time *t = &f->time;
    rank_shares s = { .facts = f,
        .is_gpu = !t->kinds_known,
        .lacks_cores = f->room.cores > 0 && f->threads > f->room.cores + 0.01,
        .compute = t->compute / t->seconds,
        .loader = t->loader_wait / t->seconds,
        .communication = t->communication / t->seconds,
        .cores = t->core_wait / t->seconds,
        .enqueue = isnan(t->enqueue) ? 0 : t->enqueue / t->seconds };
    if (f->each && f->ranks > 1 && f->each_seconds > 0) take_slowest_rank(&s);
    s.cores = s.is_gpu ? 0 : fmin(s.cores / f->threads, s.compute + s.loader); // a GPU's host has cores to spare
    return s;
}

static ls_binds what_binds(const rank_shares *s) {
    const int launches = s->enqueue >= BUSY_SHARE && s->compute - s->enqueue < BINDING_SHARE;
    const struct {
        ls_binds binds;
        double share;
    } rows[] = { { LS_BINDS_CORES, s->cores }, { LS_BINDS_LOADER, s->loader },
        { LS_BINDS_LAUNCHES, launches ? s->enqueue : 0 }, { LS_BINDS_COMMUNICATION, s->communication } };
    if (s->lacks_cores && s->cores >= BINDING_SHARE) return LS_BINDS_CORES;
    int most = 0;
    for (int i = 1; i < (int)(sizeof rows / sizeof *rows); i++)
        if (rows[i].share > rows[most].share) most = i;
    return rows[most].share >= BINDING_SHARE ? rows[most].binds : LS_BINDS_COMPUTE;
}

static void put_core_wait(const rank_shares *s, ls_text_room *out) {
    const ls_verdict_facts *f = s->facts;
    ls_text_put(out, "the run waited for a core %.0f %% of the time: ", 100 * s->cores);
    if (s->lacks_cores)
        ls_text_put(out, "a rank has %d thread%s and %.3g core%s", f->threads, f->threads == 1 ? "" : "s",
            f->room.cores, f->room.cores > 1.01 ? "s" : "");
    else
        ls_text_put(out, "other processes use its cores");
}

static void put_wait(const rank_shares *s, ls_binds binds, ls_text_room *out) {
    switch (binds) {
    case LS_BINDS_CORES:
        put_core_wait(s, out);
        break;
    case LS_BINDS_LOADER:
        ls_text_put(out, "the run waited for the loader %.0f %% of the time", 100 * s->loader);
        break;
    case LS_BINDS_LAUNCHES:
        ls_text_put(out, "the GPU waited for its host, which enqueued operators %.0f %% of the time", 100 * s->enqueue);
        break;
    case LS_BINDS_COMMUNICATION:
        ls_text_put(out, "the run waited for sums over ranks %.0f %% of the time", 100 * s->communication);
        break;
    default:
        ls_text_put(out, "the run waited for computation %.0f %% of the time", 100 * s->compute);
    }
    if (s->others_wait >= BINDING_SHARE)
        ls_text_put(out, "; rank %d is the slowest: the others waited for it %.0f %% of the time", s->rank,
            100 * s->others_wait);
}

// --- the suggestion ------------------------------------------------------------------------------

static void suggest(ls_verdict *v, ls_text_room *out, const char *option, int64_t value, int64_t now, const char *why) {
    snprintf(v->option, sizeof v->option, "%s", option);
    snprintf(v->value, sizeof v->value, "%lld", (long long)value);
    ls_text_put(out, "; set %s = %s instead of %lld (%s)", option, v->value, (long long)now, why);
}

static void suggest_all_cores(const rank_shares *s, ls_verdict *v, ls_text_room *out) {
    const int fit = s->facts->room.threads;
    char why[64];
    snprintf(why, sizeof why, "a rank has cores for %d thread%s", fit, fit == 1 ? "" : "s");
    suggest(v, out, "device.threads", 0, s->facts->threads, why);
}

// If a rank lacks cores: suggests fewer threads if the configuration asks for too many, otherwise fewer ranks.
static void suggest_fewer(const rank_shares *s, ls_verdict *v, ls_text_room *out) {
    const ls_verdict_facts *f = s->facts;
    if (!s->lacks_cores) return;
    if (f->cfg->device_threads > 0 && f->room.threads > 0 && f->room.threads < f->threads) {
        suggest_all_cores(s, v, out);
        return;
    }
    const double fit = floor(fmax(1, f->room.cores * f->ranks + 1e-6));
    if (fit < f->ranks) ls_text_put(out, "; start at most %.0f rank%s", fit, fit > 1 ? "s" : "");
}

static void suggest_more_threads(const rank_shares *s, ls_verdict *v, ls_text_room *out) {
    const ls_verdict_facts *f = s->facts;
    if (!s->is_gpu && f->cfg->device_threads > 0 && f->room.threads > f->threads) suggest_all_cores(s, v, out);
}

// Suggests data.workers: one more loader thread for each idle core, as far as there are slots. Each thread fills one
// slot. If training reads from host memory, it holds one more slot.
static void suggest_workers(const rank_shares *s, ls_verdict *v, ls_text_room *out) {
    const ls_verdict_facts *f = s->facts;
    const double now = (double)f->cfg->data_workers, slots = (double)(f->cfg->data_prefetch - !s->is_gpu);
    const double idle = round(f->room.cores - now - (s->is_gpu ? 1 : s->compute * f->threads));
    const double more = fmin(now + idle, slots);
    if (idle >= 1 && more > now) suggest(v, out, "data.workers", (int64_t)more, (int64_t)now, "cores are idle");
}

static void suggest_micro_batch(const rank_shares *s, ls_verdict *v, ls_text_room *out) {
    const ls_verdict_facts *f = s->facts;
    const int64_t twice = 2 * (int64_t)f->micro_batch;
    if (f->accumulation % 2 != 0 || f->room.activation_bytes > f->room.memory_bytes / 2) return;
    if (f->train_samples % twice == 1) return; // batch norm might refuse a last micro-batch of one sample
    suggest(v, out, "train.micro_batch", twice, f->micro_batch,
        "half as many launches; batch norm's statistics will change");
}

// --- the verdict ---------------------------------------------------------------------------------

ls_verdict ls_verdict_find(const ls_verdict_facts *facts) {
    static void (*const suggestions[])(
        const rank_shares *s, ls_verdict *v, ls_text_room *out) = { [LS_BINDS_COMPUTE] = suggest_more_threads,
        [LS_BINDS_CORES] = suggest_fewer,
        [LS_BINDS_LOADER] = suggest_workers,
        [LS_BINDS_LAUNCHES] = suggest_micro_batch,
        [LS_BINDS_COMMUNICATION] = NULL };
    ls_verdict verdict = { .text = "" };
    if (!(facts->time.seconds >= SHORT_SECONDS) || facts->updates < LS_VERDICT_UPDATES_MIN) return verdict;
    const rank_shares s = find_shares(facts);
    ls_text_room out = { verdict.text, sizeof verdict.text };
    verdict.binds = what_binds(&s);
    put_wait(&s, verdict.binds, &out);
    if (suggestions[verdict.binds]) suggestions[verdict.binds](&s, &verdict, &out);
    return verdict;
}

// Writes for example " (convolution 40, norm 12)": the kinds of operators with at least 1 % of the time, largest first.
static void put_kinds(const ls_run_time *t, ls_text_room *out) {
    double left[LS_OP_KIND_COUNT];
    memcpy(left, t->kind, sizeof left);
    for (int n = 0;; n++) {
        int most = 0;
        for (int k = 1; k < LS_OP_KIND_COUNT; k++)
            if (left[k] > left[most]) most = k;
        if (!(left[most] > 0.01 * t->seconds)) {
            if (n > 0) ls_text_put(out, ")");
            return;
        }
        ls_text_put(
            out, "%s%s %.0f", n ? ", " : " (", ls_op_kind_name((ls_op_kind)most), 100 * left[most] / t->seconds);
        left[most] = 0;
    }
}

char *ls_verdict_shares(const ls_run_time *t, char dst[LS_VERDICT_SHARES_BYTES]) {
    const struct {
        const char *name;
        double seconds;
    } rows[] = { { "loader", t->loader_wait }, { "communication", t->communication }, { "evaluation", t->evaluation },
        { "checkpoints", t->checkpoint }, { "other", ls_run_time_other(t) } };
    ls_text_room out = { dst, LS_VERDICT_SHARES_BYTES };
    ls_text_put(&out, "compute %.0f %%", 100 * t->compute / t->seconds);
    if (t->kinds_known) put_kinds(t, &out);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].seconds >= 0.005 * t->seconds)
            ls_text_put(&out, ", %s %.0f %%", rows[i].name, 100 * rows[i].seconds / t->seconds);
    return dst;
}
