#include "train/schedule.h"

#include <math.h>
#include "config/values.h"

ls_status ls_schedule_new(const ls_config *cfg, int64_t samples_per_epoch, ls_schedule *out) {
    *out = (ls_schedule){
        .kind = cfg->schedule_kind,
        .warmup_epochs = cfg->schedule_warmup_epochs,
        .warmup_start = cfg->schedule_warmup_start,
        .final_factor = cfg->schedule_final,
        .gamma = cfg->schedule_gamma,
        .peak = cfg->schedule_peak,
        .samples_per_epoch = (double)samples_per_epoch,
        .epochs = (double)cfg->train_epochs,
    };
    if (cfg->schedule_milestones[0])
        LS_TRY(ls_parse_reals("schedule.milestones", cfg->schedule_milestones, out->milestones, LS_MILESTONES_MAX,
            &out->milestone_count));
    return LS_SUCCESS;
}

static double clamp01(double t) {
    return t < 0 ? 0 : t > 1 ? 1 : t;
}

static double after_warmup(const ls_schedule *s, double epoch) {
    double rest = s->epochs - s->warmup_epochs;
    double t = rest > 0 ? clamp01((epoch - s->warmup_epochs) / rest) : 1;
    switch (s->kind) {
    case LS_SCHEDULE_LINEAR:
        return 1 - t * (1 - s->final_factor);
    case LS_SCHEDULE_COSINE:
        return s->final_factor + (1 - s->final_factor) * 0.5 * (1 + cos(3.14159265358979323846 * t));
    case LS_SCHEDULE_STEP: {
        double factor = 1;
        for (int i = 0; i < s->milestone_count; i++)
            if (epoch >= s->milestones[i]) factor *= s->gamma;
        return factor;
    }
    default:
        return 1;
    }
}

double ls_schedule_factor(const ls_schedule *s, double samples) {
    double epoch = samples / s->samples_per_epoch;
    if (s->kind == LS_SCHEDULE_ONE_CYCLE) {
        double t = clamp01(epoch / s->epochs);
        if (t < s->peak) return s->warmup_start + (1 - s->warmup_start) * t / s->peak;
        return s->peak < 1 ? 1 + (s->final_factor - 1) * (t - s->peak) / (1 - s->peak) : 1;
    }
    if (epoch < s->warmup_epochs) return s->warmup_start + (1 - s->warmup_start) * epoch / s->warmup_epochs;
    return after_warmup(s, epoch);
}
