// The learning rate's factor over a run, each kind at chosen points.
#include <stdint.h>
#include <math.h>
#include "support/cmocka.h"
#include "train/schedule.h"

typedef struct {
    const char *name;
    const char *options[6]; // assignments
    double epoch, factor;
} row;

#define RESTARTS(factor) "schedule.kind=cosine-restarts", "schedule.period=2", "schedule.period_factor=" #factor

static const row rows[] = {
    { "constant", { 0 }, 3.0, 1.0 },
    { "warm-up starts", { "schedule.warmup_epochs=2", "schedule.warmup_start=0.2" }, 0.0, 0.2 },
    { "warm-up half way", { "schedule.warmup_epochs=2", "schedule.warmup_start=0.2" }, 1.0, 0.6 },
    { "warm-up ends", { "schedule.warmup_epochs=2", "schedule.warmup_start=0.2" }, 2.0, 1.0 },
    { "linear starts", { "schedule.kind=linear", "schedule.final=0.1" }, 0.0, 1.0 },
    { "linear half way", { "schedule.kind=linear", "schedule.final=0.1" }, 5.0, 0.55 },
    { "linear ends", { "schedule.kind=linear", "schedule.final=0.1" }, 10.0, 0.1 },
    { "linear after warm-up", { "schedule.kind=linear", "schedule.warmup_epochs=2" }, 6.0, 0.5 },
    { "cosine half way", { "schedule.kind=cosine" }, 5.0, 0.5 },
    { "cosine a quarter", { "schedule.kind=cosine" }, 2.5, 0.85355339059327373 },
    { "cosine ends", { "schedule.kind=cosine", "schedule.final=0.01" }, 10.0, 0.01 },
    // torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(T_0=2, T_mult=2): periods 0..2, 2..6, 6..14
    { "restarts start", { RESTARTS(2) }, 0.0, 1.0 },
    { "restarts half way of the first", { RESTARTS(2) }, 1.0, 0.5 },
    { "restarts before the second", { RESTARTS(2) }, 2 - 1e-9, 0.0 },
    { "restarts at the second", { RESTARTS(2) }, 2.0, 1.0 },
    { "restarts a quarter of the second", { RESTARTS(2) }, 3.0, 0.85355339059327373 },
    { "restarts at the third", { RESTARTS(2) }, 6.0, 1.0 },
    { "restarts half way of the third", { RESTARTS(2) }, 10.0, 0.5 },
    { "restarts of one length", { RESTARTS(1) }, 7.0, 0.5 },
    { "restarts of one length, at one", { RESTARTS(1) }, 8.0, 1.0 },
    { "restarts to final", { RESTARTS(2), "schedule.final=0.2" }, 4.0, 0.6 },
    { "restarts warm up", { RESTARTS(2), "schedule.warmup_epochs=1" }, 0.5, 0.5 },
    { "restarts after warm-up", { RESTARTS(2), "schedule.warmup_epochs=1" }, 3.0, 1.0 },
    { "step before", { "schedule.kind=step", "schedule.milestones=3, 6", "schedule.gamma=0.1" }, 2.999, 1.0 },
    { "step at the first", { "schedule.kind=step", "schedule.milestones=3, 6", "schedule.gamma=0.1" }, 3.0, 0.1 },
    { "step after both", { "schedule.kind=step", "schedule.milestones=3, 6", "schedule.gamma=0.1" }, 9.0, 0.01 },
    { "one-cycle starts", { "schedule.kind=one-cycle", "schedule.peak=0.25" }, 0.0, 0.0 },
    { "one-cycle half way up", { "schedule.kind=one-cycle", "schedule.peak=0.25" }, 1.25, 0.5 },
    { "one-cycle at its peak", { "schedule.kind=one-cycle", "schedule.peak=0.25" }, 2.5, 1.0 },
    { "one-cycle half way down", { "schedule.kind=one-cycle", "schedule.peak=0.25" }, 6.25, 0.5 },
    { "linear to its own end", { "schedule.kind=linear", "schedule.epochs=8.5", "schedule.final=0.1" }, 4.25, 0.55 },
    { "linear behind its own end", { "schedule.kind=linear", "schedule.epochs=8.5", "schedule.final=0.1" }, 9.0, 0.1 },
    // cifar10-speedrun's e1: max(1 - step/272, 0.05)
    { "linear above its floor", { "schedule.kind=linear", "schedule.epochs=8.5", "schedule.floor=0.05" }, 8.0,
        0.058823529411764705 },
    { "linear on its floor", { "schedule.kind=linear", "schedule.epochs=8.5", "schedule.floor=0.05" }, 8.25, 0.05 },
    { "a warm-up begins below the floor", { "schedule.kind=linear", "schedule.warmup_epochs=1", "schedule.floor=0.5" },
        0.25, 0.25 },
    { "cosine to its own end", { "schedule.kind=cosine", "schedule.epochs=4" }, 2.0, 0.5 },
    { "one-cycle to its own end", { "schedule.kind=one-cycle", "schedule.peak=0.25", "schedule.epochs=5" }, 3.125,
        0.5 },
    { "one-cycle behind its own end", { "schedule.kind=one-cycle", "schedule.final=0.07", "schedule.epochs=5" }, 7.0,
        0.07 },
    { "one-cycle ends", { "schedule.kind=one-cycle", "schedule.peak=0.25", "schedule.final=0.05" }, 10.0, 0.05 },
};

static void factors(void **state) {
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        ls_config cfg;
        ls_config_defaults(&cfg);
        assert_int_equal(ls_config_set(&cfg, "train.epochs=10").code, LS_OK);
        for (int o = 0; o < 6 && rows[r].options[o]; o++)
            assert_int_equal(ls_config_set(&cfg, rows[r].options[o]).code, LS_OK);
        ls_schedule schedule;
        assert_int_equal(ls_schedule_new(&cfg, 1000, 100, &schedule).code, LS_OK);
        double factor = ls_schedule_factor(&schedule, rows[r].epoch * 1000);
        if (fabs(factor - rows[r].factor) > 1e-9)
            fail_msg(
                "%s: factor at epoch %g is %.12g, expected %.12g", rows[r].name, rows[r].epoch, factor, rows[r].factor);
    }
}

static void rates_with_an_end(void **state) {
    (void)state;
    static const struct {
        ls_rate_rule rule;
        double epoch, factor;
    } rate_rows[] = {
        { { NAN, INFINITY }, 5, 0.5 },
        { { 4, INFINITY }, 0, 1 },
        { { 4, INFINITY }, 1, 0.75 },
        { { 4, INFINITY }, 4, 0 },
        { { 4, INFINITY }, 7, 0 },
        { { NAN, 2 }, 1, 0.9 },
        { { NAN, 2 }, 2, 0 },
        { { 4, 2 }, 1.5, 0.625 },
        { { 4, 2 }, 3, 0 },
        { { NAN, 0 }, 0, 0 },
    };
    ls_config cfg;
    ls_schedule schedule;
    ls_config_defaults(&cfg);
    assert_int_equal(ls_config_set(&cfg, "train.epochs=10").code, LS_OK);
    assert_int_equal(ls_config_set(&cfg, "schedule.kind=linear").code, LS_OK);
    assert_int_equal(ls_schedule_new(&cfg, 1000, 100, &schedule).code, LS_OK);
    for (size_t r = 0; r < sizeof rate_rows / sizeof *rate_rows; r++) {
        double factor = ls_schedule_rate_factor(&schedule, &rate_rows[r].rule, rate_rows[r].epoch * 1000);
        if (fabs(factor - rate_rows[r].factor) > 1e-12) fail_msg("row %zu: factor %.12g", r, factor);
    }
}

// As cifar10-speedrun counts: at step s, from 1, where s - last >= 2 + int(15 * s / 272); the others by hand.
static void weights_are_rescaled_now_and_then(void **state) {
    (void)state;
    static const struct {
        const char *options[3];
        int expected[8]; // updates from 0; -1 ends them
    } rescale_rows[] = {
        { { "optimizer.renormalise_every=1" }, { 0, 1, 2, 3, 4, 5, 6, -1 } },
        { { "optimizer.renormalise_every=3" }, { 2, 5, 8, 11, -1 } },
        { { "optimizer.renormalise_every=2", "optimizer.renormalise_growth=15", "schedule.epochs=8.5" },
            { 1, 3, 5, 7, 9, 11, 13, -1 } },
        { { "optimizer.renormalise_every=2", "optimizer.renormalise_growth=8", "schedule.epochs=0.5" },
            { 2, 8, 20, -1 } },
    };
    for (size_t r = 0; r < sizeof rescale_rows / sizeof *rescale_rows; r++) {
        ls_config cfg;
        ls_schedule schedule;
        ls_config_defaults(&cfg);
        assert_int_equal(ls_config_set(&cfg, "schedule.kind=linear").code, LS_OK);
        for (int o = 0; o < 3 && rescale_rows[r].options[o]; o++)
            assert_int_equal(ls_config_set(&cfg, rescale_rows[r].options[o]).code, LS_OK);
        assert_int_equal(ls_schedule_new(&cfg, 1000, 32, &schedule).code, LS_OK);
        const int *next = rescale_rows[r].expected;
        for (int u = 0; *next >= 0; u++) {
            if (ls_schedule_rescales(&schedule, u) != (u == *next)) fail_msg("row %zu: update %d", r, u);
            next += u == *next;
        }
        next = rescale_rows[r].expected;
        assert_int_equal(ls_schedule_rescales(&schedule, *next), 1); // back, as a resumed run asks
    }
}

// airbench's lookahead (0.95^5 (s/T)^3 after every fifth step, and 1 after the last), e1's average of the last steps, and an
// average that begins between two updates.
static void averages_are_due(void **state) {
    (void)state;
    static const struct {
        const char *options[4];
        int update, starts, due; // of 284, 32 an epoch
        double decay;
    } average_rows[] = {
        { { 0 }, 0, 0, 0, 0 },
        { { "average.kind=lookahead", "average.every=5", "average.decay=0.77378", "average.decay_power=3" }, 0, 1, 0,
            1 },
        { { "average.kind=lookahead", "average.every=5", "average.decay=0.77378", "average.decay_power=3" }, 3, 0, 0,
            1 },
        { { "average.kind=lookahead", "average.every=5", "average.decay=0.77378", "average.decay_power=3" }, 141, 0, 0,
            1 },
        { { "average.kind=lookahead", "average.every=2", "average.decay=0.8", "average.decay_power=3" }, 141, 0, 1,
            0.1 },
        { { "average.kind=lookahead", "average.every=5", "average.decay=0.77378" }, 4, 0, 1, 0.77378 },
        { { "average.kind=lookahead", "average.every=5" }, 283, 0, 1, 1 },
        { { "average.kind=ema", "average.every=5" }, 283, 0, 0, 1 },
        { { "average.kind=lookahead", "average.every=4", "average.decay=0.7", "average.start=8.25" }, 263, 0, 0, 1 },
        { { "average.kind=lookahead", "average.every=4", "average.decay=0.7", "average.start=8.25" }, 264, 1, 0, 1 },
        { { "average.kind=lookahead", "average.every=4", "average.decay=0.7", "average.start=8.25" }, 267, 0, 1, 0.7 },
        { { "average.kind=lookahead", "average.every=4", "average.decay=0.7", "average.start=8.25" }, 283, 0, 1, 0.7 },
        { { "average.kind=ema", "average.start=0.51" }, 16, 0, 0, 1 },
        { { "average.kind=ema", "average.start=0.51" }, 17, 1, 1, 0.999 },
        { { "average.kind=lookahead", "average.start=100" }, 283, 0, 0, 1 },
    };
    for (size_t r = 0; r < sizeof average_rows / sizeof *average_rows; r++) {
        ls_config cfg;
        ls_schedule schedule;
        ls_config_defaults(&cfg);
        for (int o = 0; o < 4 && average_rows[r].options[o]; o++)
            assert_int_equal(ls_config_set(&cfg, average_rows[r].options[o]).code, LS_OK);
        assert_int_equal(ls_schedule_new(&cfg, 49152, 32, &schedule).code, LS_OK);
        const ls_average_step got = ls_schedule_average(&schedule, average_rows[r].update, 284);
        if (got.starts != average_rows[r].starts || got.due != average_rows[r].due ||
            fabs((double)got.decay - average_rows[r].decay) > 1e-6)
            fail_msg("row %zu: starts %d, due %d, decay %.9g", r, got.starts, got.due, (double)got.decay);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(factors), cmocka_unit_test(rates_with_an_end),
        cmocka_unit_test(weights_are_rescaled_now_and_then), cmocka_unit_test(averages_are_due) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
