#include "deploy/quantise.h"

#include <math.h>
#include "base/memory.h"
#include "deploy/execute.h"

enum { BINS = 2048, HELD_OUT = 4 }; // every fourth picture is held out
static const double shrink_step = 0.05, shrink_least = 0.3;

// A value's numbers on the calibration pictures.
typedef struct {
    double least, most;
    uint32_t bins[BINS];
    uint64_t count;
} histogram;

typedef struct {
    ls_network *network;
    const ls_quantise_pictures *pictures;
    histogram *histograms; // by value
    int fills;             // 0: find least and most; 1: fill the bins
    int finite;            // 0: step `broken` gave a value that is not finite
    int broken;
    float *slab, *logits;
} calibration;

static int is_held_out(int picture) {
    return picture % HELD_OUT == HELD_OUT - 1;
}

static const uint8_t *picture(const calibration *c, int index) {
    return c->pictures->pixels + (ptrdiff_t)index * ls_chw_count(c->network->info->graph->input);
}

// --- ranges ----------------------------------------------------------------------------------------

static void record_values(void *context, int step, const float *values) {
    calibration *c = context;
    const int value = c->network->steps[step].output;
    const int64_t count = ls_network_elements(c->network, value);
    histogram *h = &c->histograms[value];
    const double factor = h->most > h->least ? BINS / (h->most - h->least) : 0;
    for (int64_t i = 0; i < count; i++) {
        const double x = (double)values[i];
        if (c->fills) {
            const int bin = (int)((x - h->least) * factor);
            h->bins[bin < BINS ? bin : BINS - 1]++;
            h->count++;
            continue;
        }
        if (!isfinite(x)) {
            if (c->finite) c->broken = step;
            c->finite = 0;
        }
        if (x < h->least) h->least = x;
        if (x > h->most) h->most = x;
    }
}

static ls_status find_histograms(calibration *c) {
    const ls_step_observer observer = { record_values, c };
    for (c->fills = 0; c->fills < 2; c->fills++) {
        for (int i = 0; i < c->pictures->count; i++)
            if (!is_held_out(i)) ls_execute_float(c->network, picture(c, i), c->slab, c->logits, &observer);
        if (!c->finite)
            return ls_fail(LS_NUMERIC, "%s: layer '%s' gives values that are not finite: did the run diverge?",
                c->network->info->graph->path, c->network->steps[c->broken].name);
    }
    return LS_SUCCESS;
}

typedef struct {
    double least, most;
} range;

static range whole(const histogram *h) {
    return (range){ h->least, h->most };
}

// Cuts off at most half of the share `tails` at each end.
static range without_tails(const histogram *h, double tails) {
    const double width = (h->most - h->least) / BINS, most = (double)h->count * tails / 2;
    double below = 0, above = 0;
    int first = 0, last = BINS - 1;
    while (first < last && below + h->bins[first] <= most) below += h->bins[first++];
    while (last > first && above + h->bins[last] <= most) above += h->bins[last--];
    return (range){ h->least + first * width, h->least + (last + 1) * width };
}

static range most_of(const histogram *h) {
    return without_tails(h, 1e-4);
}

static range nearly_all(const histogram *h) {
    return without_tails(h, 1e-3);
}

// Returns the sum of squared errors if the values are clipped to the range and rounded to 255 steps.
static double square_error(const histogram *h, range r) {
    const double width = (h->most - h->least) / BINS, step = (r.most - r.least) / 255;
    double sum = 0;
    for (int i = 0; i < BINS; i++) {
        const double x = h->least + (i + 0.5) * width;
        const double outside = x < r.least ? r.least - x : x > r.most ? x - r.most : 0;
        sum += h->bins[i] * (outside * outside + step * step / 12);
    }
    return sum;
}

static range least_squares(const histogram *h) {
    range best = whole(h);
    double least = square_error(h, best);
    for (double factor = 1 - shrink_step; factor > shrink_least; factor -= shrink_step) {
        const range r = { h->least * factor, h->most * factor };
        const double error = square_error(h, r);
        if (error >= least) continue;
        least = error;
        best = r;
    }
    return best;
}

static const struct {
    const char *name;
    range (*range)(const histogram *h);
} rules[] = {
    { "least and largest value", whole },
    { "99.99 % of the values", most_of },
    { "99.9 % of the values", nearly_all },
    { "least squares", least_squares },
};
enum { RULES = sizeof rules / sizeof *rules };

static void set_ranges(const calibration *c, int rule) {
    for (int v = 0; v < c->network->value_count; v++) {
        const range r = v == 0 ? whole(&c->histograms[v]) : rules[rule].range(&c->histograms[v]);
        c->network->values[v].least = r.least;
        c->network->values[v].most = r.most;
    }
}

// Widens the range of normalised pixels to cover all bytes, 0 to 255, even if no calibration picture has them.
static void set_pixel_range(calibration *c) {
    const ls_step *s = &c->network->steps[0];
    histogram *h = &c->histograms[0];
    for (int k = 0; k < s->bias_count; k++) {
        const double dark = (double)s->bias[k], bright = dark + 255 * (double)s->weight[k];
        if (dark < h->least) h->least = dark;
        if (bright > h->most) h->most = bright;
    }
}

static void find_clipped(const calibration *c, ls_quantised *result) {
    for (int i = 1; i < c->network->step_count - 1; i++) {
        const int value = c->network->steps[i].output;
        const histogram *h = &c->histograms[value];
        const ls_network_value *v = &c->network->values[value];
        const double width = (h->most - h->least) / BINS;
        double outside = 0;
        for (int bin = 0; bin < BINS; bin++) {
            const double x = h->least + (bin + 0.5) * width;
            if (x < v->least || x > v->most) outside += h->bins[bin];
        }
        if (h->count && outside / (double)h->count > result->clipped) {
            result->clipped = outside / (double)h->count;
            result->clipped_layer = c->network->steps[i].name;
        }
    }
}

// --- choice of the rule ----------------------------------------------------------------------------

static double loss_of(const float *logits, int classes, int label) {
    double most = (double)logits[0], sum = 0;
    for (int k = 1; k < classes; k++) most = fmax(most, (double)logits[k]);
    for (int k = 0; k < classes; k++) sum += exp((double)logits[k] - most);
    return log(sum) + most - (double)logits[label];
}

// Returns the mean loss on the pictures held out.
static double held_out_loss(const calibration *c, int integer) {
    double sum = 0;
    int count = 0;
    for (int i = 0; i < c->pictures->count; i++) {
        if (!is_held_out(i)) continue;
        if (integer)
            ls_execute_int8(c->network, picture(c, i), (int8_t *)c->slab, c->logits);
        else
            ls_execute_float(c->network, picture(c, i), c->slab, c->logits, NULL);
        sum += loss_of(c->logits, c->network->info->graph->classes, c->pictures->labels[i]);
        count++;
    }
    return sum / count;
}

static ls_status choose_rule(calibration *c, ls_quantised *result) {
    int best = -1;
    ls_status first_failure = LS_SUCCESS;
    for (int rule = 0; rule < RULES; rule++) {
        set_ranges(c, rule);
        const ls_status status = ls_integers_make(c->network, result);
        ls_keep_first(&first_failure, status);
        if (ls_failed(status)) continue;
        const double loss = held_out_loss(c, 1);
        if (best >= 0 && loss >= result->loss) continue;
        best = rule;
        result->loss = loss;
    }
    if (best < 0) return first_failure;
    result->rule = rules[best].name;
    set_ranges(c, best);
    LS_TRY(ls_integers_make(c->network, result));
    find_clipped(c, result);
    return LS_SUCCESS;
}

ls_status ls_quantise(ls_network *n, const ls_quantise_pictures *pictures, ls_quantised *result) {
    calibration c = { .network = n, .pictures = pictures, .finite = 1 };
    *result = (ls_quantised){ 0 };
    ls_status status = ls_try_new(&c.slab, n->slab_elements, sizeof *c.slab, "buffers for calibration");
    LS_THEN(status, ls_try_new(&c.histograms, n->value_count, sizeof *c.histograms, "histograms for calibration"));
    LS_THEN(status, ls_try_new(&c.logits, n->info->graph->classes, sizeof *c.logits, "logits for calibration"));
    if (!ls_failed(status)) set_pixel_range(&c);
    LS_THEN(status, find_histograms(&c));
    if (!ls_failed(status)) result->float_loss = held_out_loss(&c, 0);
    LS_THEN(status, choose_rule(&c, result));
    free(c.slab);
    free(c.histograms);
    free(c.logits);
    return status;
}
