#include "dist/link_model.h"

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

static cost cost_of(ls_link_algorithm algorithm, int p) {
    double steps = lg(p), scattered = p > 1 ? 2 * (p - 1.0) / p : 0;
    switch (algorithm) {
    case LS_LINK_RING:
        return (cost){ 2 * (p - 1.0), scattered };
    case LS_LINK_TREE:
        return (cost){ 2 * steps, p > 1 ? 2 : 0 };
    case LS_LINK_DOUBLING:
        return (cost){ steps, steps };
    default:
        return (cost){ 2 * steps, scattered };
    }
}

const char *ls_link_algorithm_name(ls_link_algorithm algorithm) {
    static const char *const names[LS_LINK_ALGORITHMS] = { "halving", "ring", "tree", "doubling" };
    return names[algorithm];
}

double ls_link_bus_bandwidth(int ranks, double bytes, double seconds) {
    return cost_of(LS_LINK_RING, ranks).volumes * bytes / seconds;
}

// ---- fitting ----

// seconds = latencies alpha + volume/beta, both sides divided by seconds: 1 = x alpha + y /beta.
typedef struct {
    double xx, xy, yy, x, y;
} sums;

static void solve(const sums *s, ls_link_fit *fit) {
    double determinant = s->xx * s->yy - s->xy * s->xy;
    double alpha = (s->yy * s->x - s->xy * s->y) / determinant, per_byte = (s->xx * s->y - s->xy * s->x) / determinant;
    // On the border of what is possible, the best is that of the other parameter alone.
    if (alpha < 0) alpha = 0, per_byte = s->y / s->yy;
    if (per_byte < 0) per_byte = 0, alpha = s->x / s->xx;
    fit->alpha_s = alpha;
    fit->beta = per_byte > 0 ? 1 / per_byte : INFINITY;
}

static void judge(const ls_link_samples *samples, ls_link_level level, ls_link_fit *fit) {
    double squares = 0;
    int count = 0;
    for (int i = 0; i < samples->count; i++) {
        const ls_link_sample *sample = &samples->sample[i];
        if (sample->level != level || sample->seconds <= 0) continue;
        cost c = cost_of(fit->algorithm, sample->ranks);
        double fitted = c.latencies * fit->alpha_s + c.volumes * (double)sample->bytes / fit->beta;
        double distance = fabs(fitted / sample->seconds - 1);
        squares += distance * distance;
        if (distance > fit->worst) fit->worst = distance;
        count++;
    }
    fit->rms = sqrt(squares / count);
}

ls_link_fit ls_link_fit_level(const ls_link_samples *samples, ls_link_level level, ls_link_algorithm algorithm) {
    ls_link_fit fit = { .algorithm = algorithm };
    sums s = { 0 };
    int64_t smallest = INT64_MAX, largest = 0;
    for (int i = 0; i < samples->count; i++) {
        const ls_link_sample *sample = &samples->sample[i];
        if (sample->level != level || sample->seconds <= 0) continue;
        cost c = cost_of(algorithm, sample->ranks);
        double x = c.latencies / sample->seconds, y = c.volumes * (double)sample->bytes / sample->seconds;
        s.xx += x * x, s.xy += x * y, s.yy += y * y;
        s.x += x, s.y += y;
        if (sample->bytes < smallest) smallest = sample->bytes;
        if (sample->bytes > largest) largest = sample->bytes;
    }
    if (smallest >= largest) return fit;
    fit.known = 1;
    solve(&s, &fit);
    judge(samples, level, &fit);
    return fit;
}

ls_link_fit ls_link_fit_best(const ls_link_samples *samples, ls_link_level level) {
    const double clearly = 1e-6; // more than rounding
    ls_link_fit best = ls_link_fit_level(samples, level, LS_LINK_HALVING);
    for (int a = 0; a < LS_LINK_ALGORITHMS; a++) {
        ls_link_fit fit = ls_link_fit_level(samples, level, (ls_link_algorithm)a);
        if (fit.known && fit.rms < best.rms - clearly) best = fit;
    }
    return best;
}

ls_link_model ls_link_model_fit(const ls_link_samples *samples) {
    return (ls_link_model){ ls_link_fit_best(samples, LS_LINK_INSIDE), ls_link_fit_best(samples, LS_LINK_BETWEEN) };
}

// ---- predicting ----

// Seconds of one all-reduce: waiting for messages to arrive, and keeping the link busy.
typedef struct {
    double latency_s, volume_s;
} parts;

static parts parts_of(const ls_link_model *model, ls_link_algorithm algorithm, int ranks, int hosts, double bytes) {
    if (ranks <= 1) return (parts){ 0, 0 };
    if (hosts < 1) hosts = 1;
    if (hosts > ranks) hosts = ranks;
    int local = (ranks + hosts - 1) / hosts;
    const ls_link_fit *in = &model->inside, *out = &model->between;
    if ((local > 1 && !in->known) || (hosts > 1 && !out->known)) return (parts){ NAN, NAN };
    // A level without links takes no part.
    double alpha_in = local > 1 ? in->alpha_s : 0, alpha_out = hosts > 1 ? out->alpha_s : 0;
    double slow_in = local > 1 ? 1 / in->beta : 0, slow_out = hosts > 1 ? 1 / out->beta : 0; // s/byte
    cost all = cost_of(algorithm, ranks), inside = cost_of(algorithm, local), between = cost_of(algorithm, hosts);
    switch (algorithm) {
    case LS_LINK_RING:
        return (parts){ all.latencies * fmax(alpha_in, alpha_out), all.volumes * bytes * fmax(slow_in, slow_out) };
    case LS_LINK_TREE:
        return (parts){ inside.latencies * alpha_in + between.latencies * alpha_out,
            all.volumes * bytes * fmax(slow_in, slow_out) };
    case LS_LINK_DOUBLING:
        return (parts){ inside.latencies * alpha_in + between.latencies * alpha_out,
            inside.volumes * bytes * slow_in + between.volumes * local * bytes * slow_out };
    default:
        return (parts){ inside.latencies * alpha_in + between.latencies * alpha_out,
            inside.volumes * bytes * slow_in + between.volumes * bytes * slow_out };
    }
}

double ls_link_allreduce_seconds(
    const ls_link_model *model, ls_link_algorithm algorithm, int ranks, int hosts, double bytes) {
    parts p = parts_of(model, algorithm, ranks, hosts, bytes);
    return p.latency_s + p.volume_s;
}

ls_link_prediction ls_link_predict(const ls_link_workload *w) {
    ls_link_prediction result = { 0 };
    double free_s = 0, end_s = w->compute_s; // the link; the update
    for (int i = 0; i < w->bucket_count; i++) {
        parts p = parts_of(w->model, w->algorithm, w->ranks, w->hosts, w->buckets[i].bytes);
        result.comm_s += p.latency_s + p.volume_s;
        free_s = fmax(free_s, w->buckets[i].ready * w->compute_s) + p.volume_s;
        double done_s = free_s + p.latency_s;
        // not by fmax, which would drop a NAN
        if (!(done_s <= end_s)) end_s = done_s;
    }
    result.update_s = w->overlap ? end_s : w->compute_s + result.comm_s;
    result.exposed_s = result.update_s - w->compute_s;
    result.efficiency = w->alone_s / result.update_s;
    return result;
}
