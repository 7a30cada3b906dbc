#include "sweep/race.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "sweep/folder.h"
#include "sweep/jobs.h"
#include "sweep/statistics.h"

enum { SIDES = 2, QUOTE_BYTES = 1024 };
typedef enum { PROCESS, TRAINING, CLOCKS } clock_kind;
static const char *const clock_name[CLOCKS] = { "process", "training" };

// One configuration of the race.
typedef struct {
    const char *config;
    char name[LS_SWEEP_NAME_BYTES]; // name of the configuration's file without its ending
    char folder[LS_TEXT_BYTES];     // folder of its runs
    ls_sweep_plan plan;             // the runs of all seeds
    ls_sweep_result *results;       // by seed
    int lock;                       // the lock of its folder; -1: not locked
    ls_statistics accuracy, seconds[CLOCKS];
    double t, p; // of the test that the mean accuracy exceeds the gate; NAN for fewer than two seeds
    char quote[QUOTE_BYTES];
} side;

typedef struct {
    const ls_args *args;
    ls_comm *comm;
    int count; // sides: 1 or 2
    side sides[SIDES];
    ls_sweep_measure measure;
    ls_paired_test ratio[CLOCKS]; // test of log(seconds of the rival / seconds of the first side)
    char ratio_text[QUOTE_BYTES];
} race;

// --- plan ------------------------------------------------------------------------------------------------------------

static ls_status plan_side(const race *r, const char *config, const char *folder, side *s) {
    s->config = config;
    ls_sweep_config_name(config, s->name);
    if ((size_t)snprintf(s->folder, sizeof s->folder, "%s/%s", folder, s->name) >= sizeof s->folder)
        return ls_fail(LS_USAGE, "--run-dir %s: a path longer than %zu characters", folder, sizeof s->folder - 1);
    ls_args args = *r->args;
    args.config = config;
    args.run_dir = s->folder;
    LS_TRY(ls_sweep_plan_new(&args, &s->plan));
    if (s->plan.settings == 1) return LS_SUCCESS;
    return ls_fail(
        LS_USAGE, "--set %s: a race has one value of each option; train sweep compares several", s->plan.axes[0].name);
}

static ls_status plan_race(race *r, char folder[LS_TEXT_BYTES]) {
    char name[LS_SWEEP_NAME_BYTES];
    ls_sweep_config_name(r->args->config, name);
    if (r->args->run_dir)
        snprintf(folder, LS_TEXT_BYTES, "%s", r->args->run_dir);
    else
        snprintf(folder, LS_TEXT_BYTES, "runs/%s-race", name);
    if (!r->args->seeds)
        return ls_fail(LS_USAGE, "no seeds: a race is about the mean of several runs; --seeds 1-40 has forty");
    r->count = r->args->against ? 2 : 1;
    LS_TRY(plan_side(r, r->args->config, folder, &r->sides[0]));
    const ls_sweep_plan *plan = &r->sides[0].plan;
    if (plan->seed_count == 1 && plan->seeds[0] > 1)
        return ls_fail(LS_USAGE,
            "--seeds %s: one run, with the seed %s; a race is about the mean of several runs; --seeds 1-%s has %s",
            r->args->seeds, r->args->seeds, r->args->seeds, r->args->seeds);
    if (!r->args->against) return LS_SUCCESS;
    LS_TRY(plan_side(r, r->args->against, folder, &r->sides[1]));
    if (strcmp(r->sides[0].name, r->sides[1].name) != 0) return LS_SUCCESS;
    return ls_fail(LS_USAGE, "--against %s: its runs and those of %s would share a folder; give one file another name",
        r->args->against, r->args->config);
}

// --- runs ------------------------------------------------------------------------------------------------------------

// Trains one seed of one side, unless that run is complete.
static ls_status run_one(const race *r, side *s, int seed) {
    ls_sweep_plan one = s->plan;
    one.seeds = &s->plan.seeds[seed];
    one.seed_count = one.runs = 1;
    const ls_sweep_jobs_options options = { .jobs = 1, .quiet = r->args->quiet, .comm = r->comm };
    if (s->results[seed].state == LS_SWEEP_COMPLETE) return LS_SUCCESS;
    ls_info("run       %s, seed %" PRId64, s->name, one.seeds[0]);
    return ls_sweep_jobs(&one, &s->results[seed], &options);
}

// The sides take turns, and the side that begins changes with each seed.
static ls_status run_all(race *r) {
    for (int seed = 0; seed < r->sides[0].plan.seed_count; seed++)
        for (int turn = 0; turn < r->count; turn++) LS_TRY(run_one(r, &r->sides[(turn + seed) % r->count], seed));
    return LS_SUCCESS;
}

static ls_status open_sides(race *r) {
    for (int i = 0; i < r->count; i++) {
        LS_TRY(ls_sweep_look_all(&r->sides[i].plan, &r->sides[i].results));
        LS_TRY(ls_sweep_folder_open(&r->sides[i].plan, LS_SWEEP_ALONE, &r->sides[i].lock));
    }
    return LS_SUCCESS;
}

// --- result ----------------------------------------------------------------------------------------------------------

static double seconds_of(const ls_sweep_result *result, clock_kind clock) {
    return clock == PROCESS ? result->process_seconds : result->training_seconds;
}

static int have_measure(const race *r, ls_sweep_measure measure) {
    for (int i = 0; i < r->count; i++)
        for (int seed = 0; seed < r->sides[i].plan.seed_count; seed++)
            if (isnan(r->sides[i].results[seed].accuracy[measure])) return 0;
    return 1;
}

static void test_gate(const race *r, side *s) {
    const ls_statistics *a = &s->accuracy;
    s->t = (a->mean - r->args->gate / 100) / (a->deviation / sqrt((double)a->count));
    const double two_sided = ls_student_two_sided(s->t, a->count - 1);
    s->p = s->t > 0 ? two_sided / 2 : 1 - two_sided / 2;
    if (a->count < 2) s->t = s->p = NAN;
}

static void put_quote(const race *r, side *s) {
    const ls_statistics *a = &s->accuracy, *process = &s->seconds[PROCESS], *training = &s->seconds[TRAINING];
    ls_text_room room = { s->quote, sizeof s->quote };
    ls_text_put(&room, "%s: %d seed%s, %s %.2f %%", s->name, a->count, a->count == 1 ? "" : "s",
        ls_sweep_measure_name(r->measure), 100 * a->mean);
    if (a->count > 1) ls_text_put(&room, " (deviation %.2f)", 100 * a->deviation);
    if (r->args->gate > 0 && a->count > 1)
        ls_text_put(
            &room, ", %s %g %% (p = %.2g)", s->p < 0.05 ? "above" : "not shown to be above", r->args->gate, s->p);
    ls_text_put(&room, "; training %.3g s", training->mean);
    if (a->count > 1) ls_text_put(&room, " (%.2g)", training->deviation);
    ls_text_put(&room, ", process %.3g s", process->mean);
    if (a->count > 1) ls_text_put(&room, " (%.2g)", process->deviation);
    if (process->count < a->count) ls_text_put(&room, " of the %d runs that nothing interrupted", process->count);
}

// Moves the finite values to the front. Returns their number.
static int keep_finite(double *values, int count) {
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (isfinite(values[i])) values[kept++] = values[i];
    return kept;
}

static void summarise_side(const race *r, side *s) {
    const int count = s->plan.seed_count;
    double *values = ls_new((size_t)count, sizeof *values, "results of %d seeds", count);
    for (int i = 0; i < count; i++) values[i] = s->results[i].accuracy[r->measure];
    s->accuracy = ls_statistics_of(values, count);
    for (int c = 0; c < CLOCKS; c++) {
        for (int i = 0; i < count; i++) values[i] = seconds_of(&s->results[i], (clock_kind)c);
        s->seconds[c] = ls_statistics_of(values, keep_finite(values, count));
    }
    free(values);
    test_gate(r, s);
    put_quote(r, s);
}

static void compare_sides(race *r) {
    const side *a = &r->sides[0], *b = &r->sides[1];
    const int count = a->plan.seed_count;
    double *logs = ls_new((size_t)count, sizeof *logs, "results of %d seeds", count);
    ls_text_room room = { r->ratio_text, sizeof r->ratio_text };
    ls_text_put(&room, "%s takes", b->name);
    for (int c = CLOCKS - 1; c >= 0; c--) {
        for (int i = 0; i < count; i++)
            logs[i] = log(seconds_of(&b->results[i], (clock_kind)c) / seconds_of(&a->results[i], (clock_kind)c));
        r->ratio[c] = ls_paired_test_of(logs, keep_finite(logs, count));
        const ls_statistics *d = &r->ratio[c].difference;
        ls_text_put(&room, "%s %.2f times as long in %s", c == CLOCKS - 1 ? "" : " and", exp(d->mean), clock_name[c]);
        if (d->count > 1)
            ls_text_put(
                &room, " (95 %% interval %.2f to %.2f)", exp(d->mean - d->half_width), exp(d->mean + d->half_width));
    }
    free(logs);
}

static void add_statistics(cJSON *object, const char *name, const ls_statistics *s) {
    cJSON *part = ls_json_add_object(object, name);
    ls_json_add_real(part, "mean", s->mean);
    ls_json_add_real(part, "deviation", s->deviation);
    ls_json_add_real(part, "half_width", s->half_width);
}

static void add_side(const race *r, const side *s, cJSON *list) {
    cJSON *object = ls_json_append(list, cJSON_CreateObject()), *runs;
    ls_json_add_text(object, "config", s->config);
    ls_json_add_int(object, "n", s->accuracy.count);
    add_statistics(object, "accuracy", &s->accuracy);
    add_statistics(object, "process_seconds", &s->seconds[PROCESS]);
    add_statistics(object, "training_seconds", &s->seconds[TRAINING]);
    if (r->args->gate > 0) ls_json_add_real(object, "t", s->t);
    if (r->args->gate > 0) ls_json_add_real(object, "p", s->p);
    ls_json_add_text(object, "text", s->quote);
    runs = ls_json_add_array(object, "runs");
    for (int i = 0; i < s->plan.seed_count; i++) {
        cJSON *run = ls_json_append(runs, cJSON_CreateObject());
        ls_json_add_int(run, "seed", s->plan.seeds[i]);
        ls_json_add_real(run, "accuracy", s->results[i].accuracy[r->measure]);
        ls_json_add_real(run, "process_seconds", s->results[i].process_seconds);
        ls_json_add_real(run, "training_seconds", s->results[i].training_seconds);
    }
}

static ls_status write_json(const race *r, const char *folder) {
    char path[LS_TEXT_BYTES];
    if ((size_t)snprintf(path, sizeof path, "%s/race.json", folder) >= sizeof path)
        return ls_fail(LS_USAGE, "--run-dir %s: a path longer than %zu characters", folder, sizeof path - 1);
    cJSON *tree = cJSON_CreateObject();
    if (r->args->gate > 0) ls_json_add_real(tree, "gate", r->args->gate / 100);
    ls_json_add_text(tree, "measure", ls_sweep_measure_key(r->measure));
    cJSON *list = ls_json_add_array(tree, "configurations");
    for (int i = 0; i < r->count; i++) add_side(r, &r->sides[i], list);
    for (int c = 0; c < CLOCKS && r->count == 2; c++) {
        const ls_statistics *d = &r->ratio[c].difference;
        cJSON *ratio = ls_json_add_object(tree, c == PROCESS ? "process_ratio" : "training_ratio");
        ls_json_add_real(ratio, "mean", exp(d->mean));
        ls_json_add_real(ratio, "low", exp(d->mean - d->half_width));
        ls_json_add_real(ratio, "high", exp(d->mean + d->half_width));
        ls_json_add_real(ratio, "p", r->ratio[c].p);
    }
    if (r->count == 2) ls_json_add_text(tree, "text", r->ratio_text);
    ls_status status = ls_json_write_file(path, tree);
    cJSON_Delete(tree);
    if (!ls_failed(status)) ls_info("results   %s", path);
    return status;
}

// Warns if the two sides were trained or tested on different data.
static void compare_data(const race *r) {
    const ls_sweep_result *a = r->sides[0].results, *b = r->sides[1].results;
    if (memcmp(a->data, b->data, sizeof a->data) != 0)
        ls_alert("%s and %s have different data or teachers: the one says nothing about the other", r->sides[0].name,
            r->sides[1].name);
}

static ls_status report(race *r, const char *folder) {
    int measure = LS_SWEEP_TTA; // a race is about test accuracy
    while (measure < LS_SWEEP_TEST && !have_measure(r, (ls_sweep_measure)measure)) measure++;
    r->measure = (ls_sweep_measure)measure;
    for (int i = 0; i < r->count; i++) summarise_side(r, &r->sides[i]);
    if (r->count == 2) compare_sides(r);
    if (r->count == 2) compare_data(r);
    LS_TRY(write_json(r, folder));
    for (int i = 0; i < r->count; i++) printf("%s\n", r->sides[i].quote);
    if (r->count == 2) printf("%s\n", r->ratio_text);
    return LS_SUCCESS;
}

ls_status ls_race(const ls_args *args, ls_comm *comm) {
    char folder[LS_TEXT_BYTES];
    race *r = ls_new(1, sizeof *r, "race");
    *r = (race){ .args = args, .comm = comm, .sides = { { .lock = -1 }, { .lock = -1 } } };
    ls_status status = plan_race(r, folder);
    LS_THEN(status, open_sides(r));
    if (!ls_failed(status)) ls_comm_leave_launch();
    LS_THEN(status, run_all(r));
    LS_THEN(status, report(r, folder));
    for (int i = 0; i < SIDES; i++) {
        if (r->sides[i].lock >= 0) close(r->sides[i].lock);
        free(r->sides[i].results);
        ls_sweep_plan_free(&r->sides[i].plan);
    }
    free(r);
    return status;
}
