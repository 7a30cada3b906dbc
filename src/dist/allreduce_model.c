#include "dist/allreduce_model.h"

#include <math.h>

// What an algorithm costs over p ranks at one level: L and V of the header.
typedef struct {
    double latencies, volumes;
} cost;

static double lg(int p) {
    double steps = 0;
    for (int reached = 1; reached < p; reached *= 2) steps++;
    return steps;
}

static cost cost_of(ls_allreduce_algorithm algorithm, int p) {
    double steps = lg(p), scattered = p > 1 ? 2 * (p - 1.0) / p : 0;
    switch (algorithm) {
    case LS_ALLREDUCE_RING:
        return (cost){ 2 * (p - 1.0), scattered };
    case LS_ALLREDUCE_TREE:
        return (cost){ 2 * steps, p > 1 ? 2 : 0 };
    case LS_ALLREDUCE_DOUBLING:
        return (cost){ steps, steps };
    default:
        return (cost){ 2 * steps, scattered };
    }
}

// How many of the latencies are of messages of more than `limit` bytes.
static double long_messages(ls_allreduce_algorithm algorithm, int p, double bytes, double limit) {
    double count = 0;
    switch (algorithm) {
    case LS_ALLREDUCE_RING:
        return bytes / p > limit ? 2 * (p - 1.0) : 0;
    case LS_ALLREDUCE_TREE:
    case LS_ALLREDUCE_DOUBLING:
        return bytes > limit ? cost_of(algorithm, p).latencies : 0;
    default:
        for (int reached = 1; reached < p; reached *= 2) {
            bytes /= 2;
            if (bytes > limit) count += 2;
        }
        return count;
    }
}

// What one latency after the other takes.
static double latencies_s(const ls_allreduce_fit *link, ls_allreduce_algorithm algorithm, int p, double bytes) {
    return cost_of(algorithm, p).latencies * link->alpha_s +
           long_messages(algorithm, p, bytes, link->long_bytes) * link->long_s;
}

const char *ls_allreduce_algorithm_name(ls_allreduce_algorithm algorithm) {
    static const char *const names[LS_ALLREDUCE_ALGORITHMS] = { "halving", "ring", "tree", "doubling" };
    return names[algorithm];
}

double ls_allreduce_bus_bandwidth(int ranks, double bytes, double seconds) {
    return cost_of(LS_ALLREDUCE_RING, ranks).volumes * bytes / seconds;
}

// --- fitting -------------------------------------------------------------------------------------

// A sample's seconds are a sum of unknowns times what is known of them; divided by the seconds, which weighs relative
// errors alike, that is 1 = row . unknown.
enum { ALPHA, LONG, PER_BYTE, UNKNOWNS };
typedef struct {
    double square[UNKNOWNS][UNKNOWNS], right[UNKNOWNS]; // normal equations
} equations;

static void add_sample(
    equations *e, const ls_allreduce_sample *sample, ls_allreduce_algorithm algorithm, double limit) {
    cost c = cost_of(algorithm, sample->ranks);
    double bytes = (double)sample->bytes;
    double row[UNKNOWNS] = { c.latencies, long_messages(algorithm, sample->ranks, bytes, limit), c.volumes * bytes };
    for (int i = 0; i < UNKNOWNS; i++) row[i] /= sample->seconds;
    for (int i = 0; i < UNKNOWNS; i++) {
        e->right[i] += row[i];
        for (int j = 0; j < UNKNOWNS; j++) e->square[i][j] += row[i] * row[j];
    }
}

// Solves for the unknowns in `set` (a bit each), the others being 0. Returns 0 where they cannot be separated.
static int solve(const equations *e, unsigned set, double x[UNKNOWNS]) {
    double a[UNKNOWNS][UNKNOWNS + 1] = { { 0 } };
    for (int i = 0; i < UNKNOWNS; i++) {
        for (int j = 0; j < UNKNOWNS; j++) a[i][j] = (set >> i & set >> j & 1) ? e->square[i][j] : i == j;
        a[i][UNKNOWNS] = (set >> i & 1) ? e->right[i] : 0;
    }
    for (int k = 0; k < UNKNOWNS; k++) { // symmetric and positive: no pivoting
        if (!(a[k][k] > 1e-12 * ((set >> k & 1) ? e->square[k][k] : 1))) return 0;
        for (int i = 0; i < UNKNOWNS; i++) {
            double factor = i == k ? 0 : a[i][k] / a[k][k];
            for (int j = k; j <= UNKNOWNS; j++) a[i][j] -= factor * a[k][j];
        }
    }
    for (int i = 0; i < UNKNOWNS; i++) x[i] = a[i][UNKNOWNS] / a[i][i];
    return 1;
}

// The best of all unknowns >= 0: that of one of the subsets, with the others at the border. Of the squares of what is
// left to explain, all subsets have the number of samples in common.
static int solve_positive(const equations *e, double best[UNKNOWNS]) {
    double least = INFINITY;
    for (unsigned set = 1; set < 1u << UNKNOWNS; set++) {
        double x[UNKNOWNS], squares = 0;
        if (!solve(e, set, x)) continue;
        int is_possible = 1;
        for (int i = 0; i < UNKNOWNS; i++) {
            is_possible &= x[i] >= 0;
            squares -= x[i] * e->right[i];
        }
        if (!is_possible || squares >= least) continue;
        least = squares;
        for (int i = 0; i < UNKNOWNS; i++) best[i] = x[i];
    }
    return least < INFINITY;
}

static void measure_error(const ls_allreduce_samples *samples, ls_allreduce_level level, ls_allreduce_fit *fit) {
    double squares = 0;
    int count = 0;
    for (int i = 0; i < samples->count; i++) {
        const ls_allreduce_sample *sample = &samples->sample[i];
        if (sample->level != level || sample->seconds <= 0) continue;
        double bytes = (double)sample->bytes, volumes = cost_of(fit->algorithm, sample->ranks).volumes;
        double fitted = latencies_s(fit, fit->algorithm, sample->ranks, bytes) + volumes * bytes / fit->beta;
        double distance = fabs(fitted / sample->seconds - 1);
        squares += distance * distance;
        if (distance > fit->worst) fit->worst = distance;
        count++;
    }
    fit->rms = sqrt(squares / count);
}

static ls_allreduce_fit fit_with_limit(
    const ls_allreduce_samples *samples, ls_allreduce_level level, ls_allreduce_algorithm algorithm, double limit) {
    ls_allreduce_fit fit = { .algorithm = algorithm, .long_bytes = limit };
    equations e = { .right = { 0 } };
    double x[UNKNOWNS] = { 0 };
    for (int i = 0; i < samples->count; i++) {
        const ls_allreduce_sample *sample = &samples->sample[i];
        if (sample->level == level && sample->seconds > 0) add_sample(&e, sample, algorithm, limit);
    }
    if (!solve_positive(&e, x)) return fit;
    fit.known = 1;
    fit.alpha_s = x[ALPHA];
    fit.long_s = x[LONG];
    fit.beta = x[PER_BYTE] > 0 ? 1 / x[PER_BYTE] : INFINITY;
    measure_error(samples, level, &fit);
    return fit;
}

typedef struct {
    int samples, several_sizes, several_ranks;
} variety;

static variety variety_of(const ls_allreduce_samples *samples, ls_allreduce_level level) {
    variety v = { 0 };
    const ls_allreduce_sample *first = NULL;
    for (int i = 0; i < samples->count; i++) {
        const ls_allreduce_sample *sample = &samples->sample[i];
        if (sample->level != level || sample->seconds <= 0) continue;
        if (!first) first = sample;
        v.samples++;
        v.several_sizes |= sample->bytes != first->bytes;
        v.several_ranks |= sample->ranks != first->ranks;
    }
    return v;
}

// A more complicated explanation must be better by more than noise and rounding would make it.
static int is_clearly_better(const ls_allreduce_fit *fit, const ls_allreduce_fit *simple) {
    return fit->rms < 0.7 * simple->rms - 1e-6;
}

ls_allreduce_fit ls_allreduce_fit_level(
    const ls_allreduce_samples *samples, ls_allreduce_level level, ls_allreduce_algorithm algorithm) {
    enum { LIMIT_FIRST = 1024, LIMIT_LAST = 1 << 20, SAMPLES_MIN = 5 };
    variety v = variety_of(samples, level);
    if (!v.several_sizes) return (ls_allreduce_fit){ .algorithm = algorithm, .long_bytes = INFINITY };
    ls_allreduce_fit plain = fit_with_limit(samples, level, algorithm, INFINITY), best = plain;
    for (int limit = LIMIT_FIRST; limit <= LIMIT_LAST && v.samples >= SAMPLES_MIN; limit *= 2) {
        ls_allreduce_fit fit = fit_with_limit(samples, level, algorithm, limit - 1); // a message of 64 KB is a long one
        if (fit.known && fit.long_s > 0 && fit.rms < best.rms) best = fit;
    }
    return is_clearly_better(&best, &plain) ? best : plain;
}

ls_allreduce_fit ls_allreduce_fit_best(const ls_allreduce_samples *samples, ls_allreduce_level level) {
    ls_allreduce_fit halving = ls_allreduce_fit_level(samples, level, LS_ALLREDUCE_HALVING), best = halving;
    int several = variety_of(samples, level).several_ranks;
    for (int a = 0; a < LS_ALLREDUCE_ALGORITHMS && several; a++) {
        ls_allreduce_fit fit = ls_allreduce_fit_level(samples, level, (ls_allreduce_algorithm)a);
        if (fit.known && fit.rms < best.rms) best = fit;
    }
    return is_clearly_better(&best, &halving) ? best : halving;
}

ls_allreduce_model ls_allreduce_model_fit(const ls_allreduce_samples *samples) {
    return (ls_allreduce_model){ .inside = ls_allreduce_fit_best(samples, LS_ALLREDUCE_INSIDE),
        .between = ls_allreduce_fit_best(samples, LS_ALLREDUCE_BETWEEN) };
}

// --- predicting ----------------------------------------------------------------------------------

// Seconds of one all-reduce: waiting for messages to arrive, and keeping the link busy.
typedef struct {
    double latency_s, volume_s;
} parts;

static parts parts_of(
    const ls_allreduce_model *model, ls_allreduce_algorithm algorithm, int ranks, int hosts, double bytes) {
    const double start_s = model->start_s;
    if (ranks <= 1) return (parts){ 0, 0 };
    if (hosts < 1) hosts = 1;
    if (hosts > ranks) hosts = ranks;
    int local = (ranks + hosts - 1) / hosts;
    const ls_allreduce_fit *in = &model->inside, *out = &model->between;
    if ((local > 1 && !in->known) || (hosts > 1 && !out->known)) return (parts){ NAN, NAN };
    // A level without links takes no part.
    double slow_in = local > 1 ? 1 / in->beta : 0, slow_out = hosts > 1 ? 1 / out->beta : 0; // s/byte
    double late_in = local > 1 ? latencies_s(in, algorithm, local, bytes) : 0;
    double late_out = hosts > 1 ? latencies_s(out, algorithm, hosts, bytes) : 0;
    double all = cost_of(algorithm, ranks).volumes, inside = cost_of(algorithm, local).volumes,
           between = cost_of(algorithm, hosts).volumes;
    switch (algorithm) {
    case LS_ALLREDUCE_RING:
        late_in = local > 1 ? latencies_s(in, algorithm, ranks, bytes) : 0;
        late_out = hosts > 1 ? latencies_s(out, algorithm, ranks, bytes) : 0;
        return (parts){ start_s + fmax(late_in, late_out), all * bytes * fmax(slow_in, slow_out) };
    case LS_ALLREDUCE_TREE:
        return (parts){ start_s + late_in + late_out, all * bytes * fmax(slow_in, slow_out) };
    case LS_ALLREDUCE_DOUBLING:
        return (parts){ start_s + late_in + late_out, inside * bytes * slow_in + between * local * bytes * slow_out };
    default:
        return (parts){ start_s + late_in + late_out, inside * bytes * slow_in + between * bytes * slow_out };
    }
}

double ls_allreduce_seconds(
    const ls_allreduce_model *model, ls_allreduce_algorithm algorithm, int ranks, int hosts, double bytes) {
    parts p = parts_of(model, algorithm, ranks, hosts, bytes);
    return p.latency_s + p.volume_s;
}

typedef struct {
    double comm_s, free_s, end_s; // of all sums; when the link is free; when the update's last sum and computation end
} schedule;

static void add_sum(const ls_allreduce_workload *w, schedule *s, double bytes, double ready) {
    parts p = parts_of(w->model, w->algorithm, w->ranks, w->hosts, bytes);
    s->comm_s += p.latency_s + p.volume_s;
    s->free_s = fmax(s->free_s, ready * w->compute_s) + p.volume_s + (w->in_turn ? p.latency_s : 0);
    double done_s = s->free_s + (w->in_turn ? 0 : p.latency_s);
    if (!(done_s <= s->end_s)) s->end_s = done_s; // not by fmax, which would drop a NAN
}

static ls_allreduce_prediction conclude(const ls_allreduce_workload *w, const schedule *s) {
    ls_allreduce_prediction result = { .comm_s = s->comm_s };
    result.exposed_s = w->overlap ? s->end_s - w->compute_s : s->comm_s;
    result.exposed_s += w->taken * fmax(s->comm_s - result.exposed_s, 0);
    result.update_s = w->compute_s + result.exposed_s;
    result.efficiency = w->alone_s / result.update_s;
    return result;
}

ls_allreduce_prediction ls_allreduce_predict(const ls_allreduce_workload *w) {
    schedule s = { .end_s = w->compute_s };
    for (int i = 0; i < w->bucket_count; i++) add_sum(w, &s, w->buckets[i].bytes, w->buckets[i].ready);
    return conclude(w, &s);
}

int64_t ls_allreduce_bucket_bytes(const ls_allreduce_workload *w, double bytes) {
    enum { LEAST = 1 << 20, MOST = 32 << 20 };
    const double forward = 1 / 3.0; // of the computation, which completes no gradient
    int64_t best = LEAST;
    double shortest_s = INFINITY;
    for (int64_t size = LEAST; size <= MOST && w->ranks > 1; size *= 2) {
        schedule s = { .end_s = w->compute_s };
        for (double done = 0, end; done < bytes; done = end) {
            end = fmin(done + (double)size, bytes);
            add_sum(w, &s, end - done, forward + (1 - forward) * end / bytes);
        }
        const double update_s = conclude(w, &s).update_s;
        if (update_s < shortest_s) shortest_s = update_s, best = size;
    }
    return best;
}
