// The cost model of an update on figures whose results are known: what binds an operator, what is found in cache, passes, launches;
// the table of GPUs against their clocks and buses; the work of a convolution counted by hand; lists of places.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "cli/bench/cost_operators.h"
#include "cli/bench/cost_scale.h"
#include "support/cmocka.h"

static void expect_near(const char *what, double is, double expected, double share) {
    if (fabs(is - expected) <= share * fabs(expected)) return;
    fail_msg("%s: is %.9g, expected %.9g", what, is, expected);
}

// --- the table ------------------------------------------------------------------------------------

// From the parts that the vendor names: bus width in bits and Gbit/s of a pin; FLOP a clock of a multiprocessor, and boost clock, which is
// another one for tensor cores on some.
static const struct {
    const char *word;
    double bus_bits, pin_gbits;
    int units;
    double vector_ghz, vector_flop, tensor_ghz, tf32_flop, half_flop;
} parts[] = {
    { "h100", 5120, 5.24, 132, 1.98, 256, 1.83, 2048, 4096 },
    { "h200", 6144, 6.25, 132, 1.98, 256, 1.83, 2048, 4096 },
    { "a100", 5120, 3.186, 108, 1.41, 128, 1.41, 1024, 2048 },
    { "b200", 8192, 7.8, 148, 1.965, 256, 1.855, 4096, 8192 },
    { "4090", 384, 21, 128, 2.52, 256, 2.52, 256, 512 },
};

static void gpus_are_their_parts(void **state) {
    (void)state;
    assert_int_equal(sizeof parts / sizeof *parts, ls_cost_gpu_count);
    for (int i = 0; i < ls_cost_gpu_count; i++) {
        const ls_cost_gpu *g;
        assert_int_equal(ls_cost_find_gpu(parts[i].word, &g).code, LS_OK);
        char what[64];
        const double units = parts[i].units;
        assert_int_equal(g->units, parts[i].units);
        snprintf(what, sizeof what, "%s: memory", g->word);
        expect_near(what, g->memory_gbytes, parts[i].bus_bits * parts[i].pin_gbits / 8, 0.01);
        snprintf(what, sizeof what, "%s: fp32", g->word);
        expect_near(what, g->fp32_tflops, units * parts[i].vector_flop * parts[i].vector_ghz * 1e-3, 0.01);
        snprintf(what, sizeof what, "%s: TF32", g->word);
        expect_near(what, g->tf32_tflops, units * parts[i].tf32_flop * parts[i].tensor_ghz * 1e-3, 0.01);
        snprintf(what, sizeof what, "%s: 16 bits", g->word);
        expect_near(what, g->half_tflops, units * parts[i].half_flop * parts[i].tensor_ghz * 1e-3, 0.01);
    }
}

static void unknown_gpu_is_refused(void **state) {
    (void)state;
    const ls_cost_gpu *g;
    assert_int_equal(ls_cost_find_gpu("cpu", &g).code, LS_OK);
    assert_null(g);
    const ls_status status = ls_cost_find_gpu("h1000", &g);
    assert_int_equal(status.code, LS_USAGE);
    for (int i = 0; i < ls_cost_gpu_count; i++) assert_non_null(strstr(status.text, ls_cost_gpus[i].word));
}

// --- one operator ---------------------------------------------------------------------------------

// 100 B/s of memory, 1000 of cache that holds 50 B; 10 FLOP/s; launches of 1 s, half a second apart; a grid's blocks wait 2 s
static const ls_cost_machine gpu = { .is_gpu = 1,
    .memory = 100,
    .cache = 1000,
    .cache_bytes = 50,
    .vector_rate = 10,
    .fp32_rate = 20,
    .half_rate = 40,
    .units = 4,
    .gap_s = 0.5,
    .shortest_s = 1,
    .grid_wait_s = 2 };

#define ITEM(count, of_rate, of_memory, ...) \
    { .launches = (count), .rate_share = (of_rate), .memory_share = (of_memory), __VA_ARGS__ }
static const struct {
    const char *name;
    ls_cost_item item;
    double seconds, cached;
    ls_cost_bound bound;
} operators[] = {
    { "memory: 600 B", ITEM(1, 1, 1, .arg_count = 2, .args = { { 1, 400, 1 }, { 2, 200, 1 } }), 6.5, 0,
        LS_COST_BY_MEMORY },
    { "half of memory's rate is attained", ITEM(1, 1, 0.5, .arg_count = 1, .args = { { 1, 400, 1 } }), 8.5, 0,
        LS_COST_BY_MEMORY },
    { "a second pass over what the cache cannot hold", ITEM(1, 1, 1, .arg_count = 1, .args = { { 1, 400, 2 } }), 8.5, 0,
        LS_COST_BY_MEMORY },
    { "arithmetic: 60 FLOP at 10", ITEM(1, 1, 1, .work = 60), 6.5, 0, LS_COST_BY_ARITHMETIC },
    { "a quarter of 40 FLOP/s", ITEM(1, 0.25, 1, .work = 60, .rate = LS_COST_RATE_HALF), 6.5, 0,
        LS_COST_BY_ARITHMETIC },
    { "one block for four units", ITEM(1, 1, 1, .work = 60, .blocks = 1), 24.5, 0, LS_COST_BY_ARITHMETIC },
    { "five blocks", ITEM(1, 1, 1, .work = 60, .blocks = 5), 6.5, 0, LS_COST_BY_ARITHMETIC },
    { "launches", ITEM(3, 1, 1, .work = 10), 4.5, 0, LS_COST_BY_LAUNCHES },
    { "a grid that waits", ITEM(1, 1, 1, .grid_waits = 1, .work = 60), 8.5, 0, LS_COST_BY_ARITHMETIC },
    { "the same tensor in every update, in cache", ITEM(1, 1, 1, .arg_count = 1, .args = { { 1, 50, 3 } }), 1.5, 150,
        LS_COST_BY_LAUNCHES },
    { "too large for the cache by a byte", ITEM(1, 1, 1, .arg_count = 1, .args = { { 1, 51, 1 } }), 1.5, 0,
        LS_COST_BY_LAUNCHES },
};

static void bounds(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        ls_cost_time t;
        ls_cost_items(&gpu, &operators[i].item, 1, &t);
        expect_near(operators[i].name, t.seconds, operators[i].seconds, 1e-12);
        expect_near(operators[i].name, t.cache_bytes, operators[i].cached, 1e-12);
        assert_int_equal(t.bound, operators[i].bound);
    }
}

// On a processor the parts follow each other.
static void parts_add_up_on_a_processor(void **state) {
    (void)state;
    ls_cost_machine cpu = gpu;
    cpu.is_gpu = 0;
    const ls_cost_item item = ITEM(1, 1, 1, .work = 60, .arg_count = 1, .args = { { 1, 400, 1 } });
    ls_cost_time t;
    ls_cost_items(&cpu, &item, 1, &t);
    expect_near("6 s, 4 s, 1 s, and a gap", t.seconds, 11.5, 1e-12);
}

// b is read 30 B after it was written, a 60 B after: of 50 B of cache, b is there, a is not.
static void reuse_goes_by_what_was_touched_between(void **state) {
    (void)state;
    const ls_cost_item items[] = { ITEM(1, 1, 1, .arg_count = 1, .args = { { 'a', 15, 1 } }),
        ITEM(1, 1, 1, .arg_count = 1, .args = { { 'b', 15, 1 } }),
        ITEM(1, 1, 1, .arg_count = 1, .args = { { 'c', 30, 1 } }),
        ITEM(1, 1, 1, .arg_count = 1, .args = { { 'b', 15, 1 } }),
        ITEM(1, 1, 1, .arg_count = 1, .args = { { 'a', 15, 1 } }) };
    ls_cost_time t[5];
    ls_cost_items(&gpu, items, 5, t);
    assert_true(t[0].cache_bytes == 15); // right behind the last update's
    assert_true(t[2].cache_bytes == 0);
    assert_true(t[3].cache_bytes == 15);
    assert_true(t[4].cache_bytes == 0);
}

// --- operators ------------------------------------------------------------------------------------

// 3x3 from 3 to 20 channels, 8x8 pixels, 4 pictures, bf16, with bias
static const ls_conv_attr conv = { .src = { 4, 3, 8, 8 },
    .dst = { 4, 20, 8, 8 },
    .kernel_h = 3,
    .kernel_w = 3,
    .stride_h = 1,
    .stride_w = 1,
    .pad_h = 1,
    .pad_w = 1,
    .dilation = 1,
    .groups = 1,
    .has_bias = 1,
    .storage = LS_BF16 };

static const ls_cuda_norm_gpu h200 = { .multiprocessors = 132, .cluster = 8, .shared_bytes = 227 << 10, .alone = 1 },
                              a100 = { .multiprocessors = 108, .cluster = 1, .shared_bytes = 163 << 10, .alone = 1 },
                              shared = { .multiprocessors = 132, .cluster = 8, .shared_bytes = 227 << 10 };

static void a_convolution_on_a_gpu(void **state) {
    (void)state;
    const ls_op_desc forward = { .op = LS_OP_CONV_FORWARD, .layer = "conv", .attr.conv = conv };
    const ls_op_desc weight = { .op = LS_OP_CONV_BACKWARD_WEIGHT, .layer = "conv", .attr.conv = conv };
    ls_cost_item item = { .flops = ls_op_flops(&forward), .arg_count = 4 };
    // 2 x 4 pictures x 64 pixels x 20 outputs x 3 inputs x 9 taps
    assert_true(item.flops == 276480);
    ls_cost_on_gpu(&forward, &h200, &item);
    assert_int_equal(item.launches, 2);                   // and the bias
    assert_true(item.work == 276480.0 * 8 / 3 * 32 / 20); // channels as tensor cores take them
    assert_true(item.blocks == 2);                        // 256 rows, 20 columns
    assert_int_equal(item.rate, LS_COST_RATE_HALF);
    ls_cost_on_gpu(&weight, &h200, &item);
    assert_int_equal(item.launches, 2); // and the bias
}

// Of 131072 pixels, resnet20's first stage, no cluster holds a channel; of 8192, one block of an A100 does, but takes longer than all of
// them together. What one launch reads, it reads once.
static void a_batch_norm_on_a_gpu(void **state) {
    (void)state;
    static const struct {
        const char *name;
        const ls_cuda_norm_gpu *gpu;
        ls_op op;
        ls_norm_attr attr;
        int launches, waits;
    } rows[] = {
        { "first stage", &h200, LS_OP_NORM_FORWARD, { .shape = { 128, 16, 32, 32 }, .storage = LS_BF16 }, 1, 1 },
        { "beside sums over ranks", &shared, LS_OP_NORM_FORWARD, { .shape = { 128, 16, 32, 32 }, .storage = LS_BF16 },
            2, 0 },
        { "second stage", &h200, LS_OP_NORM_FORWARD, { .shape = { 128, 32, 16, 16 }, .storage = LS_BF16 }, 1, 1 },
        { "third stage", &a100, LS_OP_NORM_FORWARD, { .shape = { 128, 64, 8, 8 }, .storage = LS_BF16 }, 1, 1 },
        { "in clusters", &shared, LS_OP_NORM_FORWARD, { .shape = { 128, 64, 8, 8 }, .storage = LS_BF16 }, 1, 0 },
        { "two gradients", &a100, LS_OP_NORM_BACKWARD,
            { .shape = { 128, 16, 32, 32 }, .two_grads = 1, .storage = LS_BF16 }, 1, 1 },
        { "32 MiB", &h200, LS_OP_NORM_FORWARD, { .shape = { 512, 128, 16, 16 }, .storage = LS_BF16 }, 2, 0 },
        { "pooling", &h200, LS_OP_NORM_FORWARD,
            { .shape = { 128, 16, 8, 8 },
                .pool_kernel = 2,
                .pool_stride = 2,
                .pooled = { 128, 16, 4, 4 },
                .storage = LS_BF16 },
            2, 0 },
        { "more columns than multiprocessors", &a100, LS_OP_NORM_FORWARD,
            { .shape = { 1, 2048, 200, 200 }, .storage = LS_BF16 }, 2, 0 },
        { "statistics alone", &h200, LS_OP_NORM_SUMS, { .shape = { 128, 16, 32, 32 }, .storage = LS_BF16 }, 1, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const ls_op_desc desc = { .op = rows[i].op, .layer = "norm", .attr.norm = rows[i].attr };
        ls_cost_item item = { .arg_count = LS_OP_ARGS_MAX };
        ls_cost_on_gpu(&desc, rows[i].gpu, &item);
        if (item.launches != rows[i].launches || item.grid_waits != rows[i].waits)
            fail_msg("%s: %d launches, %d waits", rows[i].name, item.launches, item.grid_waits);
        assert_int_equal(item.args[0].passes, item.launches);
    }
}

static void winograd_saves_products(void **state) {
    (void)state;
    const ls_op_desc desc = { .op = LS_OP_CONV_FORWARD, .layer = "conv", .attr.conv = conv };
    ls_cost_item item = { .flops = 576 };
    ls_cost_on_cpu(&desc, "winograd f(4,3)", &item);
    assert_true(fabs(item.work - 144) < 1e-9); // 36 products for 16 outputs of 9 taps; 8x8 outputs are whole tiles
    ls_cost_on_cpu(&desc, "onednn jit:avx2", &item);
    assert_true(item.work == 576);
}

static void every_operator_has_shares(void **state) {
    (void)state;
    for (int op = 0; op < LS_OP_COUNT; op++) {
        ls_op_desc desc = { .op = (ls_op)op,
            .layer = "any",
            .attr = {
                .conv = { .src = { 1, 8, 4, 4 }, .dst = { 1, 8, 4, 4 }, .kernel_h = 1, .kernel_w = 1, .groups = 1 } } };
        if (ls_op_family_of(desc.op) == LS_FAMILY_loss) desc.attr.loss = (ls_loss_attr){ .src = { 1, 8, 4, 4 } };
        ls_cost_item on_gpu = { .arg_count = LS_OP_ARGS_MAX }, on_cpu = on_gpu;
        ls_cost_on_gpu(&desc, &h200, &on_gpu);
        ls_cost_on_cpu(&desc, NULL, &on_cpu);
        const ls_cost_item *both[] = { &on_gpu, &on_cpu };
        for (int i = 0; i < 2; i++) {
            assert_true(both[i]->launches >= 1);
            assert_true(both[i]->rate_share > 0 && both[i]->memory_share > 0);
            for (int a = 0; a < both[i]->arg_count; a++) assert_in_range(both[i]->args[a].passes, 1, 3);
        }
    }
}

// --- places ---------------------------------------------------------------------------------------

static void lists_of_places(void **state) {
    (void)state;
    static const char *const refused[] = { "", "0", "1,", "x8", "8x", "1025", "2x513", "4x8x2", "eight", "-1", "1,,2",
        "99999999999999999999" };
    ls_cost_place p[LS_COST_POINTS_MAX];
    int count;
    assert_int_equal(ls_cost_places("1,12,2x4,1x8,128x8", 8, p, &count).code, LS_OK);
    const ls_cost_place expected[] = { { 1, 1 }, { 12, 2 }, { 8, 2 }, { 8, 1 }, { 1024, 128 } };
    assert_int_equal(count, 5);
    assert_memory_equal(p, expected, sizeof expected);
    assert_int_equal(ls_cost_places(NULL, 8, p, &count).code, LS_OK);
    assert_int_equal(count, 11);
    assert_int_equal(p[10].hosts, 128);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (ls_cost_places(refused[i], 8, p, &count).code != LS_USAGE) fail_msg("--ranks '%s' was taken", refused[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_are_their_parts),
        cmocka_unit_test(unknown_gpu_is_refused),
        cmocka_unit_test(bounds),
        cmocka_unit_test(parts_add_up_on_a_processor),
        cmocka_unit_test(reuse_goes_by_what_was_touched_between),
        cmocka_unit_test(a_convolution_on_a_gpu),
        cmocka_unit_test(a_batch_norm_on_a_gpu),
        cmocka_unit_test(winograd_saves_products),
        cmocka_unit_test(every_operator_has_shares),
        cmocka_unit_test(lists_of_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
