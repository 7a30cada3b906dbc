#include "train/diagnose/verdict.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "data/sampler.h"

static const double SHORT_SECONDS = 1;        // of a run of which nothing is said
static const double BINDING_SHARE = 0.1;      // of the time, from which on waiting binds a run
static const double BUSY_SHARE = 0.5;         // that a host enqueues, from which on launches can
static const double WORTH = 0.03;             // a gain that is named
static const double AGREEABLE_SHARE = 0.05;   // of the time that evaluation or checkpoints may take
static const double BACKWARD_SHARE = 2.0 / 3; // of the computation, beside which sums may run
static const double WINOGRAD_SHARE = 5.0 / 9; // of a convolution's multiplications that F(2x2, 3x3) spares

// --- where the time went -------------------------------------------------------------------------

// Shares of the time, of the slowest rank.
typedef struct {
    const ls_verdict_facts *facts;
    int slowest, gpu, crowded; // crowded: more threads than cores
    double compute, loader, communication, cores, enqueue, evaluation, checkpoint, gradients, convolution;
    double late; // that the others wait for it
    ls_binds binds;
} situation;

static int slowest_of(const ls_verdict_facts *f, double *late) {
    int slowest = 0;
    double sum = 0;
    for (int r = 0; r < f->ranks; r++) {
        sum += f->each[r].wait;
        if (f->each[r].wait < f->each[slowest].wait) slowest = r;
    }
    const double least = f->each[slowest].wait;
    *late = (sum - f->ranks * least) / (f->ranks - 1) / f->each_seconds;
    return slowest;
}

static void take_rank(situation *s) {
    const ls_verdict_facts *f = s->facts;
    s->slowest = slowest_of(f, &s->late);
    const ls_rank_time *rank = &f->each[s->slowest];
    s->compute = rank->compute / f->each_seconds;
    s->loader = rank->loader_wait / f->each_seconds;
    s->communication = rank->wait / f->each_seconds;
    s->cores = rank->core_wait / f->each_seconds;
}

static situation look(const ls_verdict_facts *f) {
    const ls_run_time *t = &f->time;
    situation s = { .facts = f,
        .gpu = !t->kinds_known,
        .crowded = f->room.cores > 0 && f->threads > f->room.cores + 0.01,
        .compute = t->compute / t->seconds,
        .loader = t->loader_wait / t->seconds,
        .communication = t->communication / t->seconds,
        .cores = t->core_wait / t->seconds,
        .enqueue = isnan(t->enqueue) ? 0 : t->enqueue / t->seconds,
        .evaluation = t->evaluation / t->seconds,
        .checkpoint = t->checkpoint / t->seconds,
        .gradients = t->kind[LS_OP_KIND_GRADIENTS] / t->seconds,
        .convolution = t->kind[LS_OP_KIND_CONVOLUTION] / t->seconds };
    if (f->each && f->ranks > 1 && f->each_seconds > 0) take_rank(&s);
    s.cores = s.gpu ? 0 : fmin(s.cores / f->threads, s.compute + s.loader); // a GPU's host has cores to spare
    return s;
}

static ls_binds what_binds(const situation *s) {
    const int launches = s->enqueue >= BUSY_SHARE && s->compute - s->enqueue < BINDING_SHARE;
    const struct {
        ls_binds binds;
        double share;
    } rows[] = { { LS_BINDS_CORES, s->cores }, { LS_BINDS_LOADER, s->loader },
        { LS_BINDS_LAUNCHES, launches ? s->enqueue : 0 }, { LS_BINDS_COMMUNICATION, s->communication } };
    if (s->crowded && s->cores >= BINDING_SHARE) return LS_BINDS_CORES;
    int most = 0;
    for (int i = 1; i < (int)(sizeof rows / sizeof *rows); i++)
        if (rows[i].share > rows[most].share) most = i;
    return rows[most].share >= BINDING_SHARE ? rows[most].binds : LS_BINDS_COMPUTE;
}

// --- settings ------------------------------------------------------------------------------------

enum { HOW_BYTES = 160 };

typedef struct {
    int option; // LS_OPTION_...
    char value[48];
    double gain;         // the factor, at most; 0: nothing to gain; NAN: something, but who knows what
    int about;           // it is an estimate, and no bound
    char how[HOW_BYTES]; // how that was estimated
    const char *changes; // what else it decides; NULL: nothing
} setting;

// As much faster as without this share of the time.
static double without(double share) {
    return 1 / (1 - fmin(fmax(share, 0), 0.99));
}

static setting number(int option, int64_t value, double gain) {
    setting c = { .option = option, .gain = gain };
    snprintf(c.value, sizeof c.value, "%lld", (long long)value);
    return c;
}

static setting word(int option, const char *value, double gain) {
    setting c = { .option = option, .gain = gain };
    snprintf(c.value, sizeof c.value, "%s", value);
    return c;
}

static LS_PRINTF(2, 3) setting because(setting c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(c.how, sizeof c.how, format, args);
    va_end(args);
    return c;
}

static setting about(setting c) {
    c.about = 1;
    return c;
}

static const setting none = { .gain = 0 };

static setting threads(const situation *s) {
    const ls_verdict_facts *f = s->facts;
    const int now = f->threads, then = f->room.threads;
    if (s->gpu || then == 0 || then == now || f->cfg->device_threads == 0) return none;
    if (then > now && s->cores >= BINDING_SHARE) return none; // others have them
    if (then > now)
        return because(word(LS_OPTION_device_threads, "0", without(s->compute * (1 - (double)now / then))),
            "a rank has cores for %d threads", then);
    if (s->binds != LS_BINDS_CORES) return none;
    // They take turns, and compute as much together: only what turns and barriers cost would be gained.
    return because(
        word(LS_OPTION_device_threads, "0", NAN), "a rank has cores for %d thread%s", then, then == 1 ? "" : "s");
}

static setting cache(const situation *s) {
    const ls_config *cfg = s->facts->cfg;
    if (cfg->data_dataset != LS_DATASET_FOLDER || strcmp(cfg->data_cache, "off") != 0) return none;
    return because(word(LS_OPTION_data_cache, "auto", without(s->loader)),
        "pictures are decoded in every epoch, and would be once");
}

// What is left of a second when so many workers fill batches instead of those that are busy all the time: computation
// goes on, batches come no later than it, and all of that needs cores.
static double left_with(const situation *s, double workers, double busy) {
    const double cores = s->facts->room.cores, compute = 1 - s->loader;
    const double core_s = busy + (s->gpu ? 1 : compute * s->facts->threads);
    return fmax(fmax(compute, busy / workers), core_s / cores);
}

// The threads that can fill a batch at once: each needs a slot, and one slot is being read.
static int64_t usable(const situation *s, int64_t workers) {
    const int64_t slots = s->facts->cfg->data_prefetch - !s->gpu;
    return workers < slots ? workers : slots;
}

static setting workers(const situation *s) {
    const int64_t now = s->facts->cfg->data_workers;
    if (s->facts->room.cores <= 0 || s->loader < WORTH) return none;
    const double busy = (double)usable(s, now), best = left_with(s, 1e9, busy);
    const int64_t then = usable(s, (int64_t)ceil(busy / best - 1e-9));
    if (then <= now) return none;
    return because(about(number(LS_OPTION_data_workers, then, 1 / left_with(s, (double)then, busy))),
        "batches would be filled %.2g times as fast, where there are cores for that", (double)then / busy);
}

static setting prefetch(const situation *s) {
    const int64_t wanted = s->facts->cfg->data_workers, now = usable(s, wanted);
    if (s->facts->room.cores <= 0 || now == wanted) return none;
    return because(about(number(LS_OPTION_data_prefetch, 2 * wanted, 1 / left_with(s, (double)wanted, (double)now))),
        "%lld slots keep %lld of %lld workers busy", (long long)s->facts->cfg->data_prefetch, (long long)now,
        (long long)wanted);
}

static setting resident(const situation *s) {
    const ls_run_room *room = &s->facts->room;
    if (s->facts->cfg->data_loader == LS_LOADER_RESIDENT || room->resident_bytes > room->memory_bytes / 2) return none;
    char bytes[32];
    return because(word(LS_OPTION_data_loader, "resident", without(s->loader)), "the data set's %s fit into the GPU",
        ls_text_bytes(bytes, (uint64_t)room->resident_bytes));
}

static setting graphs(const situation *s) {
    if (s->facts->cfg->device_graphs || s->binds != LS_BINDS_LAUNCHES) return none;
    return because(word(LS_OPTION_device_graphs, "true", without(s->enqueue)), "an update is then launched at one go");
}

static setting overlap(const situation *s) {
    if (s->facts->cfg->dist_overlap) return none;
    return because(word(LS_OPTION_dist_overlap, "true", without(fmin(s->communication, BACKWARD_SHARE * s->compute))),
        "sums run beside the backward pass");
}

// Of what takes this share of the time, and happens after every `now` of `all`: how often it should.
static int64_t seldom(double share, int64_t now, int64_t all) {
    const int64_t then = (int64_t)ceil((double)now * fmin(share / AGREEABLE_SHARE, 1000));
    return then < all ? then : all;
}

static setting eval_every(const situation *s) {
    const ls_config *cfg = s->facts->cfg;
    const int64_t now = cfg->train_eval_every, epochs = cfg->train_epochs;
    if (now == 0 || now >= epochs || cfg->train_patience > 0 || s->evaluation < WORTH) return none;
    const int64_t then = seldom(s->evaluation, now, epochs), before = (epochs + now - 1) / now,
                  after = (epochs + then - 1) / then;
    return because(
        number(LS_OPTION_train_eval_every, then, without(s->evaluation * (1 - (double)after / (double)before))),
        "%lld of %lld evaluations are left, to find the best checkpoint by", (long long)after, (long long)before);
}

static setting checkpoints(const situation *s) {
    const ls_config *cfg = s->facts->cfg;
    const int by_updates = cfg->checkpoint_every_updates > 0;
    const int64_t now = by_updates ? cfg->checkpoint_every_updates : cfg->checkpoint_every_epochs;
    if (now == 0 || s->checkpoint < WORTH) return none;
    const int64_t then = seldom(s->checkpoint, now, by_updates ? INT64_MAX : cfg->train_epochs);
    return because(number(by_updates ? LS_OPTION_checkpoint_every_updates : LS_OPTION_checkpoint_every_epochs, then,
                       without(s->checkpoint * (1 - (double)now / (double)then))),
        "fewer checkpoints; after a fault more is done again");
}

static setting recompute(const situation *s) {
    const ls_run_room *room = &s->facts->room;
    if (s->facts->cfg->train_recompute == LS_RECOMPUTE_OFF || room->kept_bytes > room->memory_bytes / 2) return none;
    return because(
        word(LS_OPTION_train_recompute, "off", without(s->compute / 4)), "a second forward pass is a quarter of all");
}

static setting precision(const situation *s) {
    if (!s->gpu || s->facts->cfg->train_precision != LS_PRECISION_FP32 || s->binds == LS_BINDS_LAUNCHES) return none;
    setting c =
        because(word(LS_OPTION_train_precision, "bf16", without(s->compute / 2)), "half of the bytes are moved");
    c.changes = "it rounds";
    return c;
}

static setting micro_batch(const situation *s) {
    const ls_config *cfg = s->facts->cfg;
    ls_batches b;
    if (s->binds != LS_BINDS_LAUNCHES || !cfg->device_graphs) return none;
    if (ls_failed(ls_batches_plan(cfg, s->facts->train_samples, 0, s->facts->ranks, &b)) || b.per_rank % 2) return none;
    setting c = because(number(LS_OPTION_train_micro_batch, 2 * (int64_t)b.micro_batch, without(s->enqueue / 2)),
        "half as many launches a sample");
    c.changes = "batch norm's statistics are of a micro-batch";
    return c;
}

static setting global_batch(const situation *s) {
    const double share = s->communication;
    if (s->facts->ranks == 1) return none;
    setting c =
        because(about(number(LS_OPTION_train_global_batch, 2 * s->facts->cfg->train_global_batch, without(share / 2))),
            "half as many sums a sample");
    c.changes = "there are half as many updates, and the learning rate must fit";
    return c;
}

static setting reduce_dtype(const situation *s) {
    const ls_config *cfg = s->facts->cfg;
    if (s->facts->ranks == 1 || cfg->dist_reduce_dtype == LS_REDUCE_DTYPE_BF16) return none;
    setting c =
        because(word(LS_OPTION_dist_reduce_dtype, "bf16", without(s->communication / 2)), "half of the bytes are sent");
    c.changes = "it rounds at every addition";
    return c;
}

static setting winograd(const situation *s) {
    const ls_config *cfg = s->facts->cfg;
    if (s->gpu || strcmp(ls_config_choice("device.winograd", cfg->device_winograd), "off") != 0) return none;
    if (cfg->device_type == LS_DEVICE_TYPE_REF) return none;
    setting c = because(word(LS_OPTION_device_winograd, "auto", without(s->convolution * WINOGRAD_SHARE)),
        "where all convolutions are 3x3 without stride");
    c.changes = "it rounds otherwise";
    return c;
}

static setting deterministic(const situation *s) {
    if (!s->facts->cfg->run_deterministic) return none;
    setting c =
        because(word(LS_OPTION_run_deterministic, "false", without(s->gradients)), "gradients stay in floating point");
    c.changes = "weights then depend on the number of ranks";
    return c;
}

static setting (*const settings[])(const situation *s) = { threads, cache, workers, prefetch, resident, graphs, overlap,
    eval_every, checkpoints, recompute, precision, micro_batch, global_batch, reduce_dtype, winograd, deterministic };

// --- the best ------------------------------------------------------------------------------------

// Does the configuration take it, do the ranks and the data share its batches, and is there memory for them?
static int is_possible(const situation *s, const setting *c) {
    const ls_verdict_facts *f = s->facts;
    char assignment[128];
    const char *name;
    ls_config *cfg;
    ls_batches now, then;
    if (!ls_config_value(f->cfg, c->option, &name, assignment, sizeof assignment)) return 0;
    if (ls_failed(LS_NEW(cfg, 1, "configuration"))) return 0;
    *cfg = *f->cfg;
    snprintf(assignment, sizeof assignment, "%s=%s", name, c->value);
    ls_status status = ls_config_set(cfg, assignment);
    LS_THEN(status, ls_config_check(cfg));
    LS_THEN(status, ls_batches_plan(f->cfg, f->train_samples, 0, f->ranks, &now));
    LS_THEN(status, ls_batches_plan(cfg, f->train_samples, 0, f->ranks, &then));
    free(cfg);
    if (ls_failed(status)) return 0;
    if (c->option == LS_OPTION_train_global_batch && f->cfg->run_deterministic &&
        then.micro_batches > 1 << LS_FIXED_RANK_BITS)
        return 0;
    if (then.micro_batch != now.micro_batch && then.samples % then.micro_batch == 1) return 0; // no variance of one
    const double more = f->room.activation_bytes * ((double)then.micro_batch / now.micro_batch - 1);
    if (s->gpu && more > f->room.memory_bytes / 2) return 0;
    return then.windows >= 16 || then.windows == now.windows; // an epoch of a few updates trains nothing
}

static setting best_of(const situation *s) {
    setting best = none;
    double score = WORTH;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const setting c = settings[i](s);
        if (isnan(c.gain) && is_possible(s, &c)) return c;
        const double gain = c.gain - 1, counted = c.changes ? gain / 2 : gain;
        // One that is hardly better than one before it is not: those come in the order in which they are to be tried.
        if (!(gain >= WORTH) || counted < score || (best.gain > 0 && counted < 1.02 * score) || !is_possible(s, &c))
            continue;
        best = c;
        score = counted;
    }
    return best;
}

// --- texts ---------------------------------------------------------------------------------------

static void put_binding(const situation *s, ls_text_room *out) {
    const ls_verdict_facts *f = s->facts;
    switch (s->binds) {
    case LS_BINDS_CORES:
        ls_text_put(out, "cores bind: threads wait for one %.0f %% of the time (", 100 * s->cores);
        if (s->crowded)
            ls_text_put(out, "a rank has %d thread%s and %.3g core%s", f->threads, f->threads == 1 ? "" : "s",
                f->room.cores, f->room.cores > 1.01 ? "s" : "");
        else
            ls_text_put(out, "others run on them, too");
        ls_text_put(out, s->crowded && f->threads == f->room.threads && f->ranks > 1 ? ": start fewer ranks)" : ")");
        break;
    case LS_BINDS_LOADER:
        ls_text_put(out, "the loader binds: training waits for it %.0f %% of the time", 100 * s->loader);
        break;
    case LS_BINDS_LAUNCHES:
        ls_text_put(out, "launches bind: the host enqueues %.0f %% of the time, and hardly waits for the GPU",
            100 * s->enqueue);
        break;
    case LS_BINDS_COMMUNICATION:
        ls_text_put(
            out, "communication binds: sums over ranks hold training up %.0f %% of the time", 100 * s->communication);
        break;
    default:
        ls_text_put(out, "computation binds: it takes %.0f %% of the time", 100 * s->compute);
    }
    if (f->ranks > 1 && s->late >= WORTH)
        ls_text_put(
            out, "; rank %d is the slowest: the others wait for it %.0f %% of the time", s->slowest, 100 * s->late);
}

static void put_setting(const situation *s, const setting *c, ls_text_room *out) {
    const char *name;
    char now[64];
    if (c->gain == 0) {
        ls_text_put(out, "; no single setting is worth %.0f %%", 100 * WORTH);
        return;
    }
    ls_config_value(s->facts->cfg, c->option, &name, now, sizeof now);
    ls_text_put(out, "; %s = %s instead of %s would make it ", name, c->value, now);
    if (isnan(c->gain))
        ls_text_put(out, "faster");
    else if (c->gain < 2)
        ls_text_put(out, "%s %.0f %% faster", c->about ? "about" : "at most", 100 * (c->gain - 1));
    else
        ls_text_put(out, "%s %.1f times as fast", c->about ? "about" : "at most", c->gain);
    ls_text_put(out, " (%s)", c->how);
    if (c->changes) ls_text_put(out, ", but changes results: %s", c->changes);
}

ls_verdict ls_verdict_find(const ls_verdict_facts *facts) {
    ls_verdict verdict = { .text = "" };
    if (!(facts->time.seconds >= SHORT_SECONDS) || facts->updates < LS_VERDICT_UPDATES_MIN) return verdict;
    situation s = look(facts);
    verdict.binds = s.binds = what_binds(&s);
    const setting best = best_of(&s);
    ls_text_room room = { verdict.text, sizeof verdict.text };
    put_binding(&s, &room);
    put_setting(&s, &best, &room);
    if (best.gain == 0) return verdict;
    const char *name;
    char now[64];
    ls_config_value(facts->cfg, best.option, &name, now, sizeof now);
    snprintf(verdict.option, sizeof verdict.option, "%s", name);
    snprintf(verdict.value, sizeof verdict.value, "%s", best.value);
    verdict.gain = isnan(best.gain) ? 0 : best.gain;
    verdict.changes_results = best.changes != NULL;
    return verdict;
}

// "convolution 40, norm 12": those of at least 1 %, the largest first.
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
