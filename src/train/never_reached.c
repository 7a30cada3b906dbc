#include "train/never_reached.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include "config/values.h"
#include "train/positions.h"
#include "train/schedule.h"

// Share of a schedule's fall: if a run ends with more than this share of the fall still to come, a line reports it.
static const double NEAR_FULL = 0.5;

typedef struct {
    const ls_train_info *info;
    ls_schedule schedule;
    int64_t updates; // number of updates of the run
    int64_t whole;   // number of updates in train.epochs, without the limit of train.max_updates
    void (*say)(void *context, const char *line);
    void *context;
} run_end;

// Writes the option that ends the run, for example "train.max_updates = 100", into dst. Returns dst.
static const char *cause(const run_end *r, char dst[64]) {
    const ls_config *cfg = r->info->cfg;
    if (r->updates < r->whole)
        snprintf(dst, 64, "train.max_updates = %" PRId64, cfg->train_max_updates);
    else
        snprintf(dst, 64, "train.epochs = %" PRId64, cfg->train_epochs);
    return dst;
}

// Reports a line of text about an option: "OPTION = VALUE: " and the formatted text.
static LS_PRINTF(3, 4) void say(const run_end *r, int option, const char *format, ...) {
    char line[LS_STATUS_TEXT_BYTES], text[LS_STATUS_TEXT_BYTES / 2], where[LS_STATUS_TEXT_BYTES / 4];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(line, sizeof line, "%s: %s", ls_config_where(r->info->cfg, option, where, sizeof where), text);
    r->say(r->context, line);
}

// Reports the option and returns 1 if the run ends before `what` happens, which is after `after` updates.
static int misses(const run_end *r, int option, const char *what, int64_t after, const char *so) {
    char ends[64];
    if (after < r->updates) return 0;
    say(r, option, "%s after %" PRId64 " updates, but the run has %" PRId64 " (%s): %s", what, after, r->updates,
        cause(r, ends), so);
    return 1;
}

// Reports the option if the run ends before update number `update` (counted from 1), at whose end `what` happens.
static void misses_end_of(const run_end *r, int option, const char *what, int64_t update, const char *so) {
    if (update > r->updates) misses(r, option, what, update, so);
}

static int64_t updates_of(const run_end *r, int64_t epochs) {
    const int64_t windows = r->info->batches.windows;
    return epochs < LS_TICKS_MAX / windows ? epochs * windows : LS_TICKS_MAX;
}

// --- the learning rate ---------------------------------------------------------------------------

static void check_milestones(const run_end *r) {
    const ls_schedule *s = &r->schedule;
    int missed = 0;
    char what[96];
    if (r->info->cfg->schedule_kind != LS_SCHEDULE_STEP) return;
    for (int i = 0; i < s->milestone_count; i++) missed += s->milestones[i] >= r->updates;
    snprintf(what, sizeof what, "the %s of %d milestones comes", missed == s->milestone_count ? "first" : "last",
        s->milestone_count);
    if (s->milestone_count == 1) snprintf(what, sizeof what, "the milestone comes");
    if (missed == 0) return;
    misses(r, LS_OPTION_schedule_milestones, what,
        s->milestones[missed == s->milestone_count ? 0 : s->milestone_count - 1],
        missed == s->milestone_count ? "the rate never falls" : "the rate does not fall so often");
}

// Reports the schedule if the run ends before half of its current fall is done.
static void check_fall(const run_end *r) {
    const ls_config *cfg = r->info->cfg;
    const int64_t last = r->updates - 1, end = ls_schedule_fall_end(&r->schedule, last);
    const double factor = ls_schedule_factor(&r->schedule, last);
    const int restarts = cfg->schedule_kind == LS_SCHEDULE_COSINE_RESTARTS;
    const double bottom = fmax(cfg->schedule_final, cfg->schedule_floor);
    char ends[64];
    if (end / LS_TICKS < r->updates || end == r->updates * LS_TICKS) return;
    if (factor - bottom <= NEAR_FULL * (1 - bottom)) return;
    say(r, LS_OPTION_schedule_kind,
        "the rate falls until %" PRId64 " updates are done, but the run has %" PRId64
        " (%s): it ends at %.2g of the full rate; schedule.%s = %.6g would let it fall to its end",
        ls_ticks_up(end), r->updates, cause(r, ends), factor, restarts ? "period" : "epochs",
        ((double)r->updates - (restarts ? (double)r->schedule.warmup / (double)LS_TICKS : 0)) /
            (double)r->info->batches.windows);
}

static void check_schedule(const run_end *r) {
    const ls_config *cfg = r->info->cfg;
    const ls_schedule *s = &r->schedule;
    if (ls_config_has_effect(cfg, LS_OPTION_schedule_warmup_epochs) && s->warmup > 0 &&
        misses(r, LS_OPTION_schedule_warmup_epochs, "the warm-up ends", ls_ticks_up(s->warmup),
            "optimizer.lr is never reached"))
        return;
    if (cfg->schedule_kind == LS_SCHEDULE_ONE_CYCLE && misses(r, LS_OPTION_schedule_peak, "the rate has its peak",
                                                           ls_ticks_up(s->peak), "optimizer.lr is never reached"))
        return;
    if (cfg->schedule_kind == LS_SCHEDULE_COSINE_RESTARTS && s->period <= LS_TICKS)
        say(r, LS_OPTION_schedule_period, "is one update: the rate restarts before it has fallen");
    if (cfg->schedule_kind == LS_SCHEDULE_COSINE_RESTARTS && s->warmup + s->period > r->updates * LS_TICKS)
        misses(r, LS_OPTION_schedule_period, "the first restart comes", ls_ticks_up(s->warmup + s->period),
            "there is none, and the first cosine is cut off");
    else
        check_fall(r);
    check_milestones(r);
}

static void check_group(const run_end *r, const ls_group *group) {
    const int64_t windows = r->info->batches.windows;
    char what[128], ends[64];
    snprintf(what, sizeof what, "'%s' is frozen", group->pattern);
    if (!isnan(group->frozen_after))
        misses(r, LS_OPTION_optimizer_groups, what, ls_ticks_up(ls_ticks(group->frozen_after, windows)),
            "it is trained to the end");
    if (isnan(group->end) || group->frozen || ls_ticks(group->end, windows) <= r->updates * LS_TICKS) return;
    const double left = ls_schedule_rate_factor(
        &r->schedule, &(ls_rate_rule){ .end = group->end, .frozen_after = INFINITY }, r->updates - 1);
    if (left <= NEAR_FULL) return;
    say(r, LS_OPTION_optimizer_groups,
        "the rate of '%s' falls to 0 after %" PRId64 " updates, but the run has %" PRId64
        " (%s): it ends at %.2g of its start",
        group->pattern, ls_ticks_up(ls_ticks(group->end, windows)), r->updates, cause(r, ends), left);
}

static void check_groups(const run_end *r) {
    ls_groups groups;
    const ls_status status = ls_parse_groups("optimizer.groups", r->info->cfg->optimizer_groups, &groups);
    for (int g = 0; !ls_failed(status) && g < groups.count; g++) check_group(r, &groups.group[g]);
}

// --- other changes of the weights ----------------------------------------------------------------

static void check_average(const run_end *r) {
    const ls_config *cfg = r->info->cfg;
    const int64_t start = r->schedule.average_start;
    const int ema = cfg->average_kind == LS_AVERAGE_EMA;
    if (cfg->average_kind == LS_AVERAGE_OFF) return;
    if (misses(r, LS_OPTION_average_start, "the average starts", start, "there is none")) return;
    misses_end_of(r, LS_OPTION_average_every, "the average takes weights in for the first time",
        start + cfg->average_every,
        ema ? "what is evaluated and saved stays the copy with which the average starts"
            : "the weights are set to it at the end alone");
    if (ema && cfg->average_decay >= 1 && cfg->average_decay_power == 0)
        say(r, LS_OPTION_average_decay,
            "the average takes nothing in: what is evaluated and saved stays the copy with which it starts");
}

static void check_resolutions(const run_end *r) {
    ls_resolutions all;
    char what[96];
    if (ls_failed(ls_parse_resolutions("train.resolution", r->info->cfg->train_resolution, &all))) return;
    for (int i = 1; i < all.count; i++) {
        snprintf(what, sizeof what, "pictures of %dx%d come", all.step[i].h, all.step[i].w);
        misses(r, LS_OPTION_train_resolution, what, updates_of(r, all.step[i].epoch), "the network never sees them");
    }
}

static void check_periods(const run_end *r) {
    const ls_config *cfg = r->info->cfg;
    if (cfg->optimizer_renormalise_every > 0 && ls_config_has_effect(cfg, LS_OPTION_optimizer_renormalise_every))
        misses_end_of(r, LS_OPTION_optimizer_renormalise_every, "matrices are rescaled for the first time",
            cfg->optimizer_renormalise_every, "they never are");
    if (cfg->train_precision == LS_PRECISION_FP16 && ls_config_asks_for(cfg, LS_OPTION_loss_scale_growth_interval))
        misses(r, LS_OPTION_loss_scale_growth_interval, "the scale grows", cfg->loss_scale_growth_interval,
            "it never does");
    if (cfg->data_flip == LS_FLIP_ALTERNATING)
        misses(r, LS_OPTION_data_flip, "sides change", updates_of(r, 1), "each picture has one side, as with true");
}

// --- options that only observe the run -----------------------------------------------------------

// Reports options that only observe the run (evaluations, checkpoints, log lines, checks) and that come due only after
// all of train.epochs. train.max_updates does not count here, so that a short trial does not report them.
static void check_observation(const run_end *r) {
    const ls_config *cfg = r->info->cfg;
    const struct {
        int option;
        int64_t updates; // 0: off
        const char *what, *so;
    } rows[] = {
        { LS_OPTION_train_eval_every, updates_of(r, cfg->train_eval_every), "the first evaluation comes",
            "there is one at the end alone" },
        { LS_OPTION_checkpoint_every_epochs, updates_of(r, cfg->checkpoint_every_epochs), "the first checkpoint comes",
            "there is none by epochs" },
        { LS_OPTION_checkpoint_every_updates, cfg->checkpoint_every_updates, "the first checkpoint comes",
            "there is none by updates" },
        { LS_OPTION_log_every, cfg->log_every, "the first line comes", "there is one an epoch alone" },
        { LS_OPTION_dist_check_replicas, r->info->comm->world_size > 1 ? cfg->dist_check_replicas : 0,
            "the first check comes", "there is none" },
        { LS_OPTION_run_cross_check, cfg->run_cross_check, "the first check comes", "there is none" },
    };
    run_end whole = *r;
    whole.updates = r->whole;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (ls_config_asks_for(cfg, rows[i].option))
            misses_end_of(&whole, rows[i].option, rows[i].what, rows[i].updates, rows[i].so);
    if (cfg->train_patience > 0)
        misses(&whole, LS_OPTION_train_patience, "it can end the run",
            updates_of(r, (cfg->train_patience + 1) * cfg->train_eval_every), "it never does");
    if (ls_config_asks_for(cfg, LS_OPTION_train_max_updates))
        misses_end_of(&whole, LS_OPTION_train_max_updates, "it ends the run", cfg->train_max_updates,
            "it has no effect; raise train.epochs for more updates");
}

// --- options with too little data ----------------------------------------------------------------

static void check_samples(const run_end *r) {
    const ls_config *cfg = r->info->cfg;
    const ls_augmentation augmentation = ls_config_augmentation(cfg);
    const int micro = r->info->batches.micro_batch;
    const int64_t tests = r->info->test_data->count;
    if (ls_augment_mixes(&augmentation) && micro % 2)
        say(r, cfg->data_mixup > 0 ? LS_OPTION_data_mixup : LS_OPTION_data_cutmix,
            "the middle one of each micro-batch of %d samples has no partner, and stays as it is; an even "
            "train.micro_batch mixes all",
            micro);
    if (cfg->eval_tta != LS_TTA_OFF && ls_ticks_down(ls_ticks(cfg->eval_tta_share, tests)) == 0)
        say(r, LS_OPTION_eval_tta_share, "of %" PRId64 " test pictures this is none; eval.tta has no effect", tests);
}

void ls_never_reached(const ls_train_info *info, void (*say_line)(void *context, const char *line), void *context) {
    const int64_t most = LS_TICKS_MAX / LS_TICKS;
    run_end r = { .info = info,
        .updates = info->updates_planned < most ? info->updates_planned : most,
        .whole = info->cfg->train_epochs * info->batches.windows,
        .say = say_line,
        .context = context };
    if (r.updates < 1 || ls_failed(ls_schedule_new(info->cfg, &info->batches, &r.schedule))) return;
    check_schedule(&r);
    check_groups(&r);
    check_average(&r);
    check_resolutions(&r);
    check_periods(&r);
    check_observation(&r);
    check_samples(&r);
}
