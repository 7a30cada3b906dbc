#include "train/schedule.h"

#include <math.h>
#include "config/values.h"

static const double PI = 3.14159265358979323846;

ls_status ls_schedule_new(
    const ls_config *cfg, int64_t samples_per_epoch, int64_t updates_per_epoch, ls_schedule *out) {
    *out = (ls_schedule){ .cfg = cfg,
        .updates_per_epoch = updates_per_epoch,
        .samples_per_epoch = (double)samples_per_epoch,
        .epochs = cfg->schedule_epochs > 0 ? cfg->schedule_epochs : (double)cfg->train_epochs };
    if (cfg->schedule_milestones[0])
        LS_TRY(ls_parse_reals("schedule.milestones", cfg->schedule_milestones, out->milestones, LS_MILESTONES_MAX,
            &out->milestone_count));
    return LS_SUCCESS;
}

static double clamp01(double t) {
    return t < 0 ? 0 : t > 1 ? 1 : t;
}

// --- the formulas: each the factor at `epoch`, where the warm-up is over -------------------------

// 0 at the end of the warm-up to 1 at the schedule's end, and behind it.
static double progress(const ls_schedule *s, double epoch) {
    double rest = s->epochs - s->cfg->schedule_warmup_epochs;
    return rest > 0 ? clamp01((epoch - s->cfg->schedule_warmup_epochs) / rest) : 1;
}

static double constant(const ls_schedule *s, double epoch) {
    (void)s, (void)epoch;
    return 1;
}

static double linear(const ls_schedule *s, double epoch) {
    return 1 - progress(s, epoch) * (1 - s->cfg->schedule_final);
}

static double cosine(const ls_schedule *s, double epoch) {
    const double final = s->cfg->schedule_final;
    return final + (1 - final) * 0.5 * (1 + cos(PI * progress(s, epoch)));
}

// t and period as T_cur and T_i of SGDR (Loshchilov and Hutter 2017).
static double cosine_restarts(const ls_schedule *s, double epoch) {
    const double final = s->cfg->schedule_final, factor = (double)s->cfg->schedule_period_factor;
    double t = epoch - s->cfg->schedule_warmup_epochs, period = s->cfg->schedule_period;
    if (factor == 1) t = fmod(t, period);
    for (; t >= period; period *= factor) t -= period;
    return final + (1 - final) * 0.5 * (1 + cos(PI * t / period));
}

static double step(const ls_schedule *s, double epoch) {
    double factor = 1;
    for (int i = 0; i < s->milestone_count; i++)
        if (epoch >= s->milestones[i]) factor *= s->cfg->schedule_gamma;
    return factor;
}

static double one_cycle(const ls_schedule *s, double epoch) {
    const double t = clamp01(epoch / s->epochs), start = s->cfg->schedule_warmup_start, peak = s->cfg->schedule_peak;
    if (t < peak) return start + (1 - start) * t / peak;
    return peak < 1 ? 1 + (s->cfg->schedule_final - 1) * (t - peak) / (1 - peak) : 1;
}

double ls_schedule_factor(const ls_schedule *s, double samples) {
    static double (*const formulas[LS_SCHEDULE_COUNT])(const ls_schedule *s, double epoch) = {
#define X(NAME, name, word, what, reads) [LS_SCHEDULE_##NAME] = name,
#include "config/schedules.def"
    };
    const double epoch = samples / s->samples_per_epoch, start = s->cfg->schedule_warmup_start;
    const int warms = ls_config_has_effect(s->cfg, LS_OPTION_schedule_warmup_epochs);
    if (warms && epoch < s->cfg->schedule_warmup_epochs)
        return start + (1 - start) * epoch / s->cfg->schedule_warmup_epochs;
    return fmax(formulas[s->cfg->schedule_kind](s, epoch), s->cfg->schedule_floor);
}

double ls_schedule_rate_factor(const ls_schedule *s, const ls_rate_rule *rule, double samples) {
    const double epoch = samples / s->samples_per_epoch;
    if (epoch >= rule->frozen_after) return 0;
    return isnan(rule->end) ? ls_schedule_factor(s, samples) : clamp01(1 - epoch / rule->end);
}

int ls_schedule_rescales(ls_schedule *s, int64_t update) {
    const int64_t every = s->cfg->optimizer_renormalise_every, growth = s->cfg->optimizer_renormalise_growth;
    const int64_t end = update + 1;
    if (every == 0) return 0;
    if (end < s->rescaled_until) s->rescaled = s->rescaled_until = 0;
    while (s->rescaled_until < end) {
        const int64_t u = ++s->rescaled_until;
        const double progress =
            (double)u / (s->epochs * (double)s->updates_per_epoch); // of the schedule, as hiverge has it
        if (u - s->rescaled >= every + (int64_t)((double)growth * progress)) s->rescaled = u;
    }
    return s->rescaled == end;
}

int64_t ls_schedule_average_start(const ls_schedule *s) {
    return (int64_t)ceil(s->cfg->average_start * (double)s->updates_per_epoch);
}

// After a run's last update lookahead leaves the average itself.
ls_average_step ls_schedule_average(const ls_schedule *s, int64_t update, int64_t updates) {
    const ls_config *cfg = s->cfg;
    const int64_t start = ls_schedule_average_start(s), done = update + 1;
    const int due = done > start && (done - start) % cfg->average_every == 0;
    const int ends = cfg->average_kind == LS_AVERAGE_LOOKAHEAD && done == updates && done > start;
    const double decay = cfg->average_decay * pow((double)done / (double)updates, cfg->average_decay_power);
    if (cfg->average_kind == LS_AVERAGE_OFF) return (ls_average_step){ 0 };
    return (ls_average_step){ .starts = update == start, .due = due || ends, .decay = due ? (float)decay : 1 };
}
