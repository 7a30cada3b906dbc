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
        assert_int_equal(ls_schedule_new(&cfg, 1000, &schedule).code, LS_OK);
        double factor = ls_schedule_factor(&schedule, rows[r].epoch * 1000);
        if (fabs(factor - rows[r].factor) > 1e-9)
            fail_msg(
                "%s: factor at epoch %g is %.12g, expected %.12g", rows[r].name, rows[r].epoch, factor, rows[r].factor);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(factors) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
