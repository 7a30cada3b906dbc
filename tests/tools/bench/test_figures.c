// What a benchmark computes from its measurements, on figures whose results are known: medians and their intervals,
// speed-up, efficiency of strong and weak scaling, cores really given, bus bandwidth, kinds of instructions;
// and the cores that ranks have together.
#include <stdint.h>
#include <math.h>
#include <string.h>
#include "tools/bench/figures.h"
#include "tools/bench/place.h"
#include "device/device.h"
#include "device/op_kind.h"
#include "support/cmocka.h"

enum { VALUES_MAX = 20 };

static void expect_real(const char *what, double is, double expected) {
    if (isnan(is) && isnan(expected)) return;
    if (fabs(is - expected) <= 1e-12 * fmax(1, fabs(expected))) return;
    fail_msg("%s: is %.17g, expected %.17g", what, is, expected);
}

// --- medians -------------------------------------------------------------------------------------

static const struct {
    const char *name;
    int count;
    double value[VALUES_MAX];
    double median, lowest, highest, low_95, high_95;
} spreads[] = {
    { "nothing", 0, { 0 }, NAN, NAN, NAN, NAN, NAN },
    { "one", 1, { 7 }, 7, 7, 7, NAN, NAN },
    { "two", 2, { 9, 7 }, 8, 7, 9, NAN, NAN },
    { "odd, unsorted", 3, { 3, 1, 2 }, 2, 1, 3, NAN, NAN },
    { "five: no interval of 95 %", 5, { 1, 2, 3, 4, 5 }, 3, 1, 5, NAN, NAN },
    { "six: 1st and 6th, 96.9 %", 6, { 6, 5, 4, 3, 2, 1 }, 3.5, 1, 6, 1, 6 },
    { "eight: 1st and 8th, as 2nd and 7th are 93 %", 8, { 1, 2, 3, 4, 5, 6, 7, 8 }, 4.5, 1, 8, 1, 8 },
    { "nine: 2nd and 8th, 96.1 %", 9, { 1, 2, 3, 4, 5, 6, 7, 8, 9 }, 5, 1, 9, 2, 8 },
    { "twenty: 6th and 15th, 95.9 %", 20, { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20 },
        10.5, 1, 20, 6, 15 },
};

static void medians(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof spreads / sizeof *spreads; i++) {
        ls_bench_spread s = ls_bench_spread_of(spreads[i].value, spreads[i].count);
        expect_real(spreads[i].name, s.median, spreads[i].median);
        expect_real(spreads[i].name, s.lowest, spreads[i].lowest);
        expect_real(spreads[i].name, s.highest, spreads[i].highest);
        expect_real(spreads[i].name, s.low_95, spreads[i].low_95);
        expect_real(spreads[i].name, s.high_95, spreads[i].high_95);
    }
}

// --- figures of whole results --------------------------------------------------------------------

static ls_bench_sample one_rank[] = { { .seconds = 1, .images_per_second = 90, .peak_gflops = 40 },
    { .seconds = 1, .images_per_second = 100, .loader_wait_s = 0.25, .peak_gflops = 50 },
    { .seconds = 1, .images_per_second = 110, .peak_gflops = 45 } };
// 2 ranks: 10 updates of 8 MB of gradients in 2 s, half of it with buckets under way
static ls_bench_sample two_ranks[] = { { .seconds = 2,
                                           .images_per_second = 150,
                                           .comm_exposed_s = 0.2,
                                           .comm_busy_s = 1,
                                           .peak_gflops = 80,
                                           .alone_s = 1.5 },
    { .seconds = 2,
        .images_per_second = 170,
        .comm_exposed_s = 0.6,
        .comm_busy_s = 1,
        .peak_gflops = 80,
        .alone_s = 1.7 } };
static ls_bench_sample four_shared[] = { { .seconds = 1, .images_per_second = 120, .peak_gflops = 60 } };

static const ls_bench_result results[] = {
    { .name = "cpu x 1",
        .ranks = 1,
        .base = 0,
        .threads = 1,
        .units = 1,
        .global_batch = 32,
        .updates = 3,
        .flops_per_sample = 2e8,
        .count = 3,
        .sample = one_rank },
    { .name = "cpu x 2",
        .ranks = 2,
        .base = 0,
        .threads = 1,
        .units = 2,
        .global_batch = 32,
        .updates = 10,
        .flops_per_sample = 2e8,
        .reduced_bytes = 8e6,
        .count = 2,
        .sample = two_ranks },
    { .name = "cpu x 4 weak",
        .ranks = 4,
        .weak = 1,
        .base = 0,
        .threads = 1,
        .units = 2,
        .shared = 1,
        .global_batch = 128,
        .updates = 1,
        .flops_per_sample = 2e8,
        .reduced_bytes = 8e6,
        .count = 1,
        .sample = four_shared },
    { .name = "cpu x 8",
        .ranks = 8,
        .base = 1,
        .units = 8,
        .global_batch = 32,
        .updates = 1,
        .count = 1,
        .sample = four_shared },
    { .name = "cpu x 2 failed", .ranks = 2, .base = 4, .units = 2, .failure = "out of memory" },
    { .name = "cpu x 4 over failed",
        .ranks = 4,
        .base = 4,
        .units = 4,
        .global_batch = 32,
        .updates = 1,
        .count = 1,
        .sample = four_shared },
};

static const struct {
    const char *name;
    int index;
    double rate, speed_up, efficiency, unit_efficiency, loader_wait, comm_exposed, comm_cost, bus_gbytes, gflops, peak,
        share;
} figures[] = {
    { "the base", 0, 100, 1, 1, 1, 0.25 / 3, 0, NAN, NAN, 20, 50, 0.4 },
    // bus: 2 * 1/2 * 8e6 * 20 updates / 2 s
    { "two ranks", 1, 160, 1.6, 0.8, 0.8, 0, 0.2, 0.2, 0.08, 32, 80, 0.4 },
    { "shared cores", 2, 120, 1.2, 0.3, 0.6, 0, 0, NAN, NAN, 24, 60, 0.4 },
    { "base of two ranks", 3, 120, 1.2, 120.0 / 160 / 4, 120.0 / 160 / 4, 0, 0, NAN, NAN, 0, 60, 0 },
    { "failed", 4, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, 0, NAN },
    { "over one that failed", 5, 120, 1.2, NAN, NAN, 0, 0, NAN, NAN, 0, 60, 0 },
};

static void arithmetic(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        ls_bench_figures f = ls_bench_figures_of(results, figures[i].index);
        const double is[] = { f.images_per_second.median, f.speed_up, f.efficiency, f.unit_efficiency, f.loader_wait,
            f.comm_exposed, f.comm_cost, f.bus_gbytes, f.gflops, f.peak_gflops, f.share_of_peak };
        const char *const names[] = { "rate", "speed-up", "efficiency", "unit efficiency", "loader wait",
            "comm exposed", "comm cost", "bus", "gflops", "peak", "share" };
        const double *expected = &figures[i].rate;
        for (size_t k = 0; k < sizeof is / sizeof *is; k++) {
            char what[96];
            snprintf(what, sizeof what, "%s, %s", figures[i].name, names[k]);
            expect_real(what, is[k], expected[k]);
        }
    }
    ls_bench_figures f = ls_bench_figures_of(results, 1);
    expect_real("seconds of an update", f.update_s, 0.2);
    expect_real("seconds of an update without communication", f.alone_s, 0.16);
}

// Every operator of the devices falls into the kind that its name says.
static void kinds(void **state) {
    (void)state;
    static const ls_op_kind expected[LS_OP_COUNT] = {
        [LS_OP_AUGMENT] = LS_OP_KIND_INPUT,
        [LS_OP_TRIVIAL_AUGMENT] = LS_OP_KIND_INPUT,
        [LS_OP_RESIZE] = LS_OP_KIND_INPUT,
        [LS_OP_CONV_FORWARD] = LS_OP_KIND_CONVOLUTION,
        [LS_OP_CONV_BACKWARD_DATA] = LS_OP_KIND_CONVOLUTION,
        [LS_OP_CONV_BACKWARD_WEIGHT] = LS_OP_KIND_CONVOLUTION,
        [LS_OP_LINEAR_FORWARD] = LS_OP_KIND_LINEAR,
        [LS_OP_LINEAR_BACKWARD_DATA] = LS_OP_KIND_LINEAR,
        [LS_OP_LINEAR_BACKWARD_WEIGHT] = LS_OP_KIND_LINEAR,
        [LS_OP_NORM_FORWARD] = LS_OP_KIND_NORM,
        [LS_OP_NORM_INFERENCE] = LS_OP_KIND_NORM,
        [LS_OP_NORM_BACKWARD] = LS_OP_KIND_NORM,
        [LS_OP_NORM_SUMS] = LS_OP_KIND_NORM,
        [LS_OP_NORM_APPLY] = LS_OP_KIND_NORM,
        [LS_OP_NORM_BACKWARD_SUMS] = LS_OP_KIND_NORM,
        [LS_OP_NORM_BACKWARD_APPLY] = LS_OP_KIND_NORM,
        [LS_OP_POOL_FORWARD] = LS_OP_KIND_POOL,
        [LS_OP_POOL_BACKWARD] = LS_OP_KIND_POOL,
        [LS_OP_RELU_FORWARD] = LS_OP_KIND_ELEMENTWISE,
        [LS_OP_RELU_BACKWARD] = LS_OP_KIND_ELEMENTWISE,
        [LS_OP_ADD] = LS_OP_KIND_ELEMENTWISE,
        [LS_OP_SCALE] = LS_OP_KIND_ELEMENTWISE,
        [LS_OP_DROPOUT] = LS_OP_KIND_ELEMENTWISE,
        [LS_OP_FAKE_QUANTISE] = LS_OP_KIND_ELEMENTWISE,
        [LS_OP_FAKE_QUANTISE_BACKWARD] = LS_OP_KIND_ELEMENTWISE,
        [LS_OP_FAKE_QUANTISE_WEIGHT] = LS_OP_KIND_ELEMENTWISE,
        [LS_OP_LOSS] = LS_OP_KIND_LOSS,
        [LS_OP_HEAD] = LS_OP_KIND_LOSS,
        [LS_OP_TO_FIXED_POINT] = LS_OP_KIND_GRADIENTS,
        [LS_OP_STEP_CONTROL] = LS_OP_KIND_GRADIENTS,
        [LS_OP_SGD] = LS_OP_KIND_OPTIMIZER,
        [LS_OP_ADAMW] = LS_OP_KIND_OPTIMIZER,
        [LS_OP_RMSPROP] = LS_OP_KIND_OPTIMIZER,
        [LS_OP_LION] = LS_OP_KIND_OPTIMIZER,
        [LS_OP_LARS] = LS_OP_KIND_OPTIMIZER,
        [LS_OP_MUON] = LS_OP_KIND_OPTIMIZER,
        [LS_OP_AVERAGE] = LS_OP_KIND_GRADIENTS,
    };
    for (int op = 0; op < LS_OP_COUNT; op++) {
        const ls_op_kind kind = ls_op_kind_of((ls_op)op);
        if (op != LS_OP_AUGMENT && expected[op] == 0 && op > LS_OP_CONV_BACKWARD_WEIGHT) continue; // not in the table
        if (kind != expected[op])
            fail_msg("%s: is of kind %s, expected %s", ls_op_name((ls_op)op), ls_op_kind_name(kind),
                ls_op_kind_name(expected[op]));
    }
}

// --- places --------------------------------------------------------------------------------------

#define AT(host_name, machine_name, ...) \
    { \
        .host = host_name, .machine = machine_name, .cores_of_cpu = 1, .mask = { { __VA_ARGS__ } } \
    }
#define ON(host_name, ...) AT(host_name, host_name, __VA_ARGS__)

static const struct {
    const char *name;
    ls_bench_place place[4];
    int ranks, threads;
    double cores;
    int shared, hosts;
} places[] = {
    { "one of two cores", { ON("a", 3) }, 1, 1, 1, 0, 1 },
    { "two of two cores", { ON("a", 3), ON("a", 3) }, 2, 1, 2, 0, 1 },
    { "four on two cores", { ON("a", 3), ON("a", 3), ON("a", 3), ON("a", 3) }, 4, 1, 2, 1, 1 },
    { "two of two threads on two cores", { ON("a", 3), ON("a", 3) }, 2, 2, 2, 1, 1 },
    { "bound to a core each", { ON("a", 1), ON("a", 2) }, 2, 1, 2, 0, 1 },
    { "bound to the same core", { ON("a", 2), ON("a", 2) }, 2, 1, 1, 1, 1 },
    { "two hosts", { ON("a", 3), ON("b", 3), ON("a", 3), ON("b", 3) }, 4, 1, 4, 0, 2 },
    { "one host is short", { ON("a", 1), ON("a", 1), ON("b", 3) }, 3, 1, 2, 1, 2 },
    { "two hosts on one machine", { AT("a", "m", 3), AT("b", "m", 3), AT("a", "m", 3) }, 3, 1, 2, 1, 2 },
    { "siblings share cores",
        { { .machine = "a", .cores_of_cpu = 0.5, .mask = { { 15 } } },
            { .machine = "a", .cores_of_cpu = 0.5, .mask = { { 15 } } } },
        2, 2, 2, 1, 1 },
    { "a quota",
        { { .machine = "a", .cores_of_cpu = 1, .quota = 1.5, .mask = { { 15 } } },
            { .machine = "a", .cores_of_cpu = 1, .quota = 1.5, .mask = { { 15 } } } },
        2, 1, 1.5, 1, 1 },
    { "mask unknown", { ON("a", 0), ON("a", 0) }, 2, 4, 8, 0, 1 },
};

static void cores(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int shared, hosts = ls_bench_place_hosts(places[i].place, places[i].ranks);
        double is = ls_bench_place_cores(places[i].place, places[i].ranks, places[i].threads, &shared);
        expect_real(places[i].name, is, places[i].cores);
        if (shared != places[i].shared || hosts != places[i].hosts)
            fail_msg("%s: shared %d, %d hosts; expected %d, %d", places[i].name, shared, hosts, places[i].shared,
                places[i].hosts);
    }
    const ls_rank_info gpus[] = { { .uuid = "GPU-1" }, { .uuid = "GPU-2" }, { .uuid = "GPU-1" }, { .uuid = "" } };
    assert_int_equal(ls_bench_place_gpus(gpus, 2), 2);
    assert_int_equal(ls_bench_place_gpus(gpus, 3), 2);
    assert_int_equal(ls_bench_place_gpus(gpus, 4), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians),
        cmocka_unit_test(arithmetic),
        cmocka_unit_test(kinds),
        cmocka_unit_test(cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
