// The learning rate's factor over a run, each kind at chosen points.
#include <stdint.h>
#include <math.h>
#include "support/cmocka.h"
#include "support/must.h"
#include "train/positions.h"
#include "train/schedule.h"

typedef struct {
    const char *name;
    const char *options[6]; // assignments
    double epoch, factor;
} row;

static const ls_batches single = { .samples = 1000, .windows = 1000, .global_batch = 1 };
static const ls_batches recipe = { .samples = 49152, .windows = 32, .global_batch = 1536 }; // cifar10-speedrun's

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
    { "exponential half way", { "schedule.kind=exponential", "schedule.final=0.01" }, 5.0, 0.1 },
    { "exponential ends", { "schedule.kind=exponential", "schedule.final=0.01" }, 10.0, 0.01 },
    { "exponential after warm-up", { "schedule.kind=exponential", "schedule.final=0.01", "schedule.warmup_epochs=2" },
        4.0, 0.31622776601683794 },
    // torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(T_0=2, T_mult=2): periods 0..2, 2..6, 6..14
    { "restarts start", { RESTARTS(2) }, 0.0, 1.0 },
    { "restarts half way of the first", { RESTARTS(2) }, 1.0, 0.5 },
    { "restarts before the second", { RESTARTS(2) }, 1.999, 6.168501482384e-07 },
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
        assert_int_equal(ls_schedule_new(&cfg, &single, &schedule).code, LS_OK);
        double factor = ls_schedule_factor(&schedule, lround(rows[r].epoch * 1000));
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
    assert_int_equal(ls_schedule_new(&cfg, &single, &schedule).code, LS_OK);
    for (size_t r = 0; r < sizeof rate_rows / sizeof *rate_rows; r++) {
        double factor = ls_schedule_rate_factor(&schedule, &rate_rows[r].rule, lround(rate_rows[r].epoch * 1000));
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
        assert_int_equal(ls_schedule_new(&cfg, &recipe, &schedule).code, LS_OK);
        ls_rescaling so_far = { 0 };
        const int *next = rescale_rows[r].expected;
        for (int u = 0; *next >= 0; u++) {
            if (ls_schedule_rescales(&schedule, &so_far, u) != (u == *next)) fail_msg("row %zu: update %d", r, u);
            next += u == *next;
        }
        next = rescale_rows[r].expected;
        assert_int_equal(ls_schedule_rescales(&schedule, &so_far, *next), 1); // back, as a resumed run asks
    }
}

// airbench's lookahead (0.95^5 (s/T)^3 after every fifth step, and 1 after the last), e1's average of the last steps,
// and an average that begins between two updates.
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
        assert_int_equal(ls_schedule_new(&cfg, &recipe, &schedule).code, LS_OK);
        const ls_average_step got = ls_schedule_average(&schedule, average_rows[r].update, 284);
        if (got.starts != average_rows[r].starts || got.due != average_rows[r].due ||
            fabs((double)got.decay - average_rows[r].decay) > 1e-6)
            fail_msg("row %zu: starts %d, due %d, decay %.9g", r, got.starts, got.due, (double)got.decay);
    }
}

// --- moments in decimal epochs -------------------------------------------------------------------

// Options that take epochs, as one row sets them; what is 1 before the moment and less from it on, or the other way
// around.
static const struct {
    const char *name, *kind, *option;
    ls_rate_rule rule; // 0 stands for the moment, in epochs
    int rises;         // from below 1 to 1; else falls to the least
    double least;
} moments[] = {
    { "warm-up", "constant", "schedule.warmup_epochs", { NAN, INFINITY }, 1, 1 },
    { "milestone", "step", "schedule.milestones", { NAN, INFINITY }, 0, 0.1 },
    { "end of linear", "linear", "schedule.epochs", { NAN, INFINITY }, 0, 0 },
    { "end of cosine", "cosine", "schedule.epochs", { NAN, INFINITY }, 0, 0 },
    { "end of one-cycle", "one-cycle", "schedule.epochs", { NAN, INFINITY }, 0, 0 },
    { "frozen_after", "constant", NULL, { NAN, 0 }, 0, 0 },
    { "end of a group", "constant", NULL, { 0, INFINITY }, 0, 0 },
};

static void open_schedule(
    ls_config *cfg, const char *kind, const char *option, double epochs, const ls_batches *b, ls_schedule *out) {
    char assignment[64];
    ls_config_defaults(cfg);
    snprintf(assignment, sizeof assignment, "schedule.kind=%s", kind);
    must(ls_config_set(cfg, assignment));
    snprintf(assignment, sizeof assignment, "%s=%.2f", option ? option : "average.start", epochs);
    must(ls_config_set(cfg, assignment));
    must(ls_config_set(cfg, "average.kind=ema"));
    must(ls_config_set(cfg, "schedule.warmup_start=0.5"));
    must(ls_schedule_new(cfg, b, out));
}

static void check_moment(size_t m, double epochs, const ls_batches *b, int64_t first) {
    ls_config cfg;
    ls_schedule s;
    ls_rate_rule rule = moments[m].rule;
    if (rule.end == 0) rule.end = epochs;
    if (rule.frozen_after == 0) rule.frozen_after = epochs;
    open_schedule(&cfg, moments[m].kind, moments[m].option, epochs, b, &s);
    const double before = ls_schedule_rate_factor(&s, &rule, first - 1), at = ls_schedule_rate_factor(&s, &rule, first);
    const int early = moments[m].rises ? before >= 1 : before <= moments[m].least;
    const int late = fabs(at - moments[m].least) > 0;
    if (early || late)
        fail_msg("%s at %.2f epochs of %lld updates: the factor is %.17g before update %lld and %.17g in it",
            moments[m].name, epochs, (long long)b->windows, before, (long long)first, at);
}

// Full rate at every multiple of the period, and less in between.
static void check_restarts(int hundredths, const ls_batches *b) {
    ls_config cfg;
    ls_schedule s;
    const int64_t period = hundredths * b->windows / 100;
    if (hundredths * b->windows % 100 != 0) return;
    open_schedule(&cfg, "cosine-restarts", "schedule.period", hundredths / 100.0, b, &s);
    for (int64_t u = 0; u <= 4 * period; u++)
        if ((ls_schedule_factor(&s, u) >= 1) != (u % period == 0))
            fail_msg("restarts after %lld updates, %.2f epochs of %lld: %.17g in update %lld", (long long)period,
                hundredths / 100.0, (long long)b->windows, ls_schedule_factor(&s, u), (long long)u);
}

// Every hundredth of an epoch from 0.01 to 2, in epochs of 1 to 60 updates, of whole windows or with a short last one:
// each moment is the update that integers make of it, hundredths * updates / 100 rounded up.
static void decimal_epochs_are_whole_updates(void **state) {
    (void)state;
    for (int windows = 1; windows <= 60; windows++)
        for (int hundredths = 1; hundredths <= 200; hundredths++)
            for (int missing = 0; missing < 4; missing += 3) { // samples of the last window
                const ls_batches b = { .samples = windows * 4 - missing, .windows = windows, .global_batch = 4 };
                const int64_t first = (hundredths * windows + 99) / 100;
                ls_config cfg;
                ls_schedule s;
                open_schedule(&cfg, "constant", NULL, hundredths / 100.0, &b, &s);
                assert_int_equal(s.average_start, first);
                assert_true(ls_schedule_average(&s, first, 1000).starts);
                for (size_t m = 0; m < sizeof moments / sizeof *moments; m++)
                    check_moment(m, hundredths / 100.0, &b, first);
                check_restarts(hundredths, &b);
            }
}

// Shares of a count, as eval.tta_share, and the whole quotients of renormalise_growth.
static void shares_are_whole(void **state) {
    (void)state;
    for (int count = 1; count <= 1000; count++)
        for (int share = 1; share <= 100; share++)
            assert_int_equal(ls_ticks_down(ls_ticks(share / 100.0, count)), share * count / 100);
    assert_int_equal(ls_ticks(1e6, INT64_MAX), LS_TICKS_MAX);
    assert_int_equal(ls_ticks(INFINITY, 1), LS_TICKS_MAX);
    assert_int_equal(ls_ticks_up(ls_ticks(0.3333333, 9)), 3); // a third
    assert_int_equal(ls_ticks_up(ls_ticks(0.33334, 9)), 4);
}

// torch.optim.lr_scheduler in updates, in double precision: CosineAnnealingWarmRestarts(T_0=4) and (T_0=2, T_mult=2),
// LinearLR(start_factor=0.1, total_iters=3), MultiStepLR([7, 13]); between updates LinearLR(total_iters=2.5) and
// CosineAnnealingWarmRestarts.step(epoch) with T_0=2.5. Ten updates an epoch.
static void as_torch_has_it(void **state) {
    (void)state;
    static const struct {
        const char *options[3];
        double factors[15];
    } torch_rows[] = {
        { { "schedule.kind=cosine-restarts", "schedule.period=0.4" },
            { 1, 0.85355339059327378, 0.5, 0.14644660940672624, 1, 0.85355339059327378, 0.5, 0.14644660940672624, 1,
                0.85355339059327378, 0.5, 0.14644660940672624, 1, 0.85355339059327378, 0.5 } },
        { { "schedule.kind=cosine-restarts", "schedule.period=0.2", "schedule.period_factor=2" },
            { 1, 0.5, 1, 0.85355339059327378, 0.5, 0.14644660940672624, 1, 0.96193976625564337, 0.85355339059327378,
                0.69134171618254492, 0.5, 0.30865828381745514, 0.14644660940672624, 0.038060233744356631, 1 } },
        { { "schedule.warmup_epochs=0.3", "schedule.warmup_start=0.1" },
            { 0.1, 0.4, 0.7, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 } },
        { { "schedule.kind=step", "schedule.milestones=0.7,1.3" },
            { 1, 1, 1, 1, 1, 1, 1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.01, 0.01 } },
        { { "schedule.warmup_epochs=0.25", "schedule.warmup_start=0.5" },
            { 0.5, 0.7, 0.9, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 } },
        { { "schedule.kind=cosine-restarts", "schedule.period=0.25" },
            { 1, 0.65450849718747373, 0.095491502812526274, 0.90450849718747373, 0.34549150281252627, 1,
                0.65450849718747373, 0.095491502812526274, 0.90450849718747373, 0.34549150281252627, 1,
                0.65450849718747373, 0.095491502812526274, 0.90450849718747373, 0.34549150281252627 } },
    };
    for (size_t r = 0; r < sizeof torch_rows / sizeof *torch_rows; r++) {
        ls_config cfg;
        ls_schedule s;
        ls_config_defaults(&cfg);
        for (int o = 0; o < 3 && torch_rows[r].options[o]; o++) must(ls_config_set(&cfg, torch_rows[r].options[o]));
        must(ls_schedule_new(&cfg, &(ls_batches){ .samples = 40, .windows = 10, .global_batch = 4 }, &s));
        for (int u = 0; u < 15; u++)
            if (fabs(ls_schedule_factor(&s, u) - torch_rows[r].factors[u]) > 1e-15)
                fail_msg("row %zu, update %d: %.17g, expected %.17g", r, u, ls_schedule_factor(&s, u),
                    torch_rows[r].factors[u]);
    }
}

static void periods_have_an_update(void **state) {
    (void)state;
    ls_config cfg;
    ls_schedule s;
    ls_config_defaults(&cfg);
    must(ls_config_set(&cfg, "schedule.kind=cosine-restarts"));
    must(ls_config_set(&cfg, "schedule.period=0.33"));
    const ls_status refused = ls_schedule_new(&cfg, &(ls_batches){ .samples = 3, .windows = 3, .global_batch = 1 }, &s);
    assert_int_equal(refused.code, LS_USAGE);
    assert_string_equal(refused.text,
        "--set schedule.period=0.33: shorter than an update, of which an epoch has 3; expected at least 0.333334");
    must(ls_config_set(&cfg, "schedule.period=0.333334"));
    must(ls_schedule_new(&cfg, &(ls_batches){ .samples = 3, .windows = 3, .global_batch = 1 }, &s));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(factors), cmocka_unit_test(rates_with_an_end),
        cmocka_unit_test(weights_are_rescaled_now_and_then), cmocka_unit_test(averages_are_due),
        cmocka_unit_test(decimal_epochs_are_whole_updates), cmocka_unit_test(shares_are_whole),
        cmocka_unit_test(as_torch_has_it), cmocka_unit_test(periods_have_an_update) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
