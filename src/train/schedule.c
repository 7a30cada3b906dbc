#include "train/schedule.h"

#include <math.h>
#include "config/values.h"
#include "train/positions.h"

static const double PI = 3.14159265358979323846;

static ls_status read_milestones(ls_schedule *s) {
    double epochs[LS_MILESTONES_MAX];
    if (!s->cfg->schedule_milestones[0]) return LS_SUCCESS;
    LS_TRY(ls_parse_reals(
        "schedule.milestones", s->cfg->schedule_milestones, epochs, LS_MILESTONES_MAX, &s->milestone_count));
    for (int i = 0; i < s->milestone_count; i++)
        s->milestones[i] = ls_ticks_up(ls_ticks(epochs[i], s->batches.windows));
    return LS_SUCCESS;
}

static ls_status check_period(const ls_schedule *s) {
    char where[LS_STATUS_TEXT_BYTES / 4];
    if (s->cfg->schedule_kind != LS_SCHEDULE_COSINE_RESTARTS || s->period >= LS_TICKS) return LS_SUCCESS;
    return ls_fail(LS_USAGE, "%s: shorter than an update, of which an epoch has %lld; expected at least %.6g",
        ls_config_where(s->cfg, LS_OPTION_schedule_period, where, sizeof where), (long long)s->batches.windows,
        ceil(1e6 / (double)s->batches.windows) * 1e-6);
}

ls_status ls_schedule_new(const ls_config *cfg, const ls_batches *batches, ls_schedule *out) {
    const int64_t windows = batches->windows;
    const double epochs = cfg->schedule_epochs > 0 ? cfg->schedule_epochs : (double)cfg->train_epochs;
    *out = (ls_schedule){ .cfg = cfg,
        .batches = *batches,
        .warmup = ls_ticks(cfg->schedule_warmup_epochs, windows),
        .peak = ls_ticks(cfg->schedule_peak * epochs, windows),
        .end = ls_ticks(epochs, windows),
        .period = ls_ticks(cfg->schedule_period, windows),
        .average_start = ls_ticks_up(ls_ticks(cfg->average_start, windows)) };
    LS_TRY(read_milestones(out));
    return check_period(out);
}

// --- moments in epochs ---------------------------------------------------------------------------

// Converts a moment to epochs, measured by samples: the samples before the moment divided by the samples of an epoch. A
// moment within an update counts the same fraction of that update's samples. If there is no short window, the start of
// an update gives the double nearest to the number of epochs in the option.
static double epoch_at(const ls_schedule *s, int64_t ticks) {
    const ls_batches *b = &s->batches;
    const int64_t update = ticks / LS_TICKS, epoch = update / b->windows, window = update % b->windows;
    const double samples = (double)epoch * (double)b->samples + (double)window * b->global_batch;
    const double share = (double)(ticks % LS_TICKS) / (double)LS_TICKS;
    return (samples + ls_batches_window_samples(b, window) * share) / (double)b->samples;
}

// Returns how far the start of the update is on the way from one moment to another: 0 up to the first, 1 from the
// second on.
static double way(const ls_schedule *s, int64_t from, int64_t to, int64_t update) {
    const int64_t now = update * LS_TICKS;
    if (now >= to) return 1;
    if (now <= from) return 0;
    const double start = epoch_at(s, from);
    return (epoch_at(s, now) - start) / (epoch_at(s, to) - start);
}

// --- the formulas; each returns the factor of an update after the warm-up ------------------------

static double constant(const ls_schedule *s, int64_t update) {
    (void)s, (void)update;
    return 1;
}

static double linear(const ls_schedule *s, int64_t update) {
    return 1 - way(s, s->warmup, s->end, update) * (1 - s->cfg->schedule_final);
}

static double half_cosine(const ls_schedule *s, double angle) {
    return s->cfg->schedule_final + (1 - s->cfg->schedule_final) * 0.5 * (1 + cos(angle));
}

static double cosine(const ls_schedule *s, int64_t update) {
    return half_cosine(s, PI * way(s, s->warmup, s->end, update));
}

static double exponential(const ls_schedule *s, int64_t update) {
    return pow(s->cfg->schedule_final, way(s, s->warmup, s->end, update));
}

// Finds the period between two restarts (in ticks) in which the update lies, as in SGDR (Loshchilov and Hutter 2017).
static void find_period(const ls_schedule *s, int64_t update, int64_t *from, int64_t *to) {
    const int64_t now = update * LS_TICKS, factor = s->cfg->schedule_period_factor;
    int64_t period = s->period;
    *from = s->warmup;
    if (factor == 1) *from += (now - s->warmup) / period * period;
    for (; now - *from >= period; period = period < LS_TICKS_MAX / factor ? period * factor : LS_TICKS_MAX)
        *from += period;
    *to = *from + period;
}

static double cosine_restarts(const ls_schedule *s, int64_t update) {
    int64_t from, to;
    find_period(s, update, &from, &to);
    const double start = epoch_at(s, from);
    return half_cosine(s, PI * (epoch_at(s, update * LS_TICKS) - start) / (epoch_at(s, to) - start));
}

static double step(const ls_schedule *s, int64_t update) {
    double factor = 1;
    for (int i = 0; i < s->milestone_count; i++)
        if (update >= s->milestones[i]) factor *= s->cfg->schedule_gamma;
    return factor;
}

static double one_cycle(const ls_schedule *s, int64_t update) {
    const double t = way(s, 0, s->end, update), start = s->cfg->schedule_warmup_start, peak = s->cfg->schedule_peak;
    if (t < peak) return start + (1 - start) * t / peak;
    return peak < 1 ? 1 + (s->cfg->schedule_final - 1) * (t - peak) / (1 - peak) : 1;
}

static int warms(const ls_schedule *s, int64_t update) {
    return update * LS_TICKS < s->warmup && ls_config_has_effect(s->cfg, LS_OPTION_schedule_warmup_epochs);
}

double ls_schedule_factor(const ls_schedule *s, int64_t update) {
    static double (*const formulas[LS_SCHEDULE_COUNT])(const ls_schedule *s, int64_t update) = {
#define X(NAME, name, word, what, reads) [LS_SCHEDULE_##NAME] = name,
#include "config/schedules.def"
    };
    const double start = s->cfg->schedule_warmup_start;
    if (warms(s, update)) return start + (1 - start) * epoch_at(s, update * LS_TICKS) / epoch_at(s, s->warmup);
    return fmax(formulas[s->cfg->schedule_kind](s, update), s->cfg->schedule_floor);
}

int ls_schedule_rate_over(const ls_schedule *s, const ls_rate_rule *rule, int64_t update) {
    return update * LS_TICKS >= ls_ticks(ls_rate_rule_over(rule), s->batches.windows);
}

double ls_schedule_rate_factor(const ls_schedule *s, const ls_rate_rule *rule, int64_t update) {
    if (update * LS_TICKS >= ls_ticks(rule->frozen_after, s->batches.windows)) return 0;
    if (isnan(rule->end)) return ls_schedule_factor(s, update);
    return 1 - way(s, 0, ls_ticks(rule->end, s->batches.windows), update);
}

int64_t ls_schedule_fall_end(const ls_schedule *s, int64_t update) {
    int64_t from, to;
    if (ls_config_has_effect(s->cfg, LS_OPTION_schedule_epochs)) return s->end;
    if (s->cfg->schedule_kind != LS_SCHEDULE_COSINE_RESTARTS || warms(s, update)) return -1;
    find_period(s, update, &from, &to);
    return to;
}

// --- work that is due only at some updates -------------------------------------------------------

int ls_schedule_rescales(const ls_schedule *s, ls_rescaling *so_far, int64_t update) {
    const int64_t every = s->cfg->optimizer_renormalise_every, growth = s->cfg->optimizer_renormalise_growth;
    // length of the schedule, as in the source (hiverge, cifar10-speedrun)
    const double updates = (double)s->end / (double)LS_TICKS;
    const int64_t end = update + 1;
    if (every == 0) return 0;
    if (end < so_far->until) *so_far = (ls_rescaling){ 0 };
    while (so_far->until < end) {
        const int64_t u = ++so_far->until;
        const double added = (double)growth * (double)u / updates; // divided last, so that a whole quotient is exact
        if (u - so_far->last >= every + (int64_t)added) so_far->last = u;
    }
    return so_far->last == end;
}

// Returns the work of the running average in this update. With lookahead, the weights become the average at the end of
// a run, even if the average is not due then.
ls_average_step ls_schedule_average(const ls_schedule *s, int64_t update, int64_t updates) {
    const ls_config *cfg = s->cfg;
    const int64_t start = s->average_start, done = update + 1;
    const int due = done > start && (done - start) % cfg->average_every == 0;
    const int ends = cfg->average_kind == LS_AVERAGE_LOOKAHEAD && done == updates && done > start;
    const double decay = cfg->average_decay * pow((double)done / (double)updates, cfg->average_decay_power);
    if (cfg->average_kind == LS_AVERAGE_OFF) return (ls_average_step){ 0 };
    return (ls_average_step){ .starts = update == start, .due = due || ends, .decay = due ? decay : 1 };
}
