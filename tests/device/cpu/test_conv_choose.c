// How a convolution on the cpu device comes to its algorithm: by the rule, by a measurement, or as a cache says, when
// what the cache says can be done. The tests of the cache itself are in test_algorithm_cache.c.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "device/algorithm_cache.h"
#include "support/cmocka.h"

static void succeed(ls_status status) {
    if (ls_failed(status)) fail_msg("%s", status.text);
}

static ls_op_desc conv(ls_op op, int channels, int kernel, int stride) {
    const int side = 9, out = (side + 2 * (kernel / 2) - kernel) / stride + 1;
    return (ls_op_desc){ .op = op,
        .layer = "conv",
        .attr.conv = { .src = { 4, channels, side, side },
            .dst = { 4, 16, out, out },
            .kernel = kernel,
            .stride = stride,
            .pad = kernel / 2,
            .dilation = 1,
            .groups = 1,
            .has_bias = 1,
            .storage = LS_F32 } };
}

static ls_algorithm_cache *new_cache(void) {
    ls_algorithm_cache *cache;
    succeed(ls_algorithm_cache_open(NULL, "test.plans", &cache));
    return cache;
}

typedef struct {
    char algorithm[64];
    const char *chosen;
} outcome;

// Plans on a device of its own. winograd NULL: auto.
static outcome plan(ls_algorithm_cache *cache, const char *winograd, const ls_op_desc *desc) {
    ls_device *device;
    ls_plan *made;
    succeed(ls_device_open("cpu",
        &(ls_device_options){ .threads = 2, .vector_width = 8, .winograd = winograd, .plans = cache }, &device, NULL));
    succeed(device->api->plan_new(device, desc, &made));
    outcome got = { .chosen = made->chosen };
    snprintf(got.algorithm, sizeof got.algorithm, "%s", made->algorithm);
    device->api->plan_free(made);
    ls_device_close(device);
    return got;
}

static void expect(const char *what, outcome got, const char *algorithm, const char *chosen) {
    if (strncmp(got.algorithm, algorithm, strlen(algorithm)) != 0 || strcmp(got.chosen, chosen) != 0)
        fail_msg("%s: %s, %s; expected %s, %s", what, got.algorithm, got.chosen, algorithm, chosen);
}

// The key under which the device keeps this operator's choice, from a measurement.
static void find_key(const char *winograd, const ls_op_desc *desc, char key[1024]) {
    ls_algorithm_cache *cache = new_cache();
    char *text;
    size_t bytes;
    plan(cache, winograd, desc);
    succeed(ls_algorithm_cache_give(cache, &text, &bytes));
    assert_int_equal(ls_algorithm_cache_measured(cache), 1);
    snprintf(key, 1024, "%.*s", (int)strcspn(text, "\t"), text);
    free(text);
    ls_algorithm_cache_free(cache);
}

// What is measured is one of the algorithms that can be had, is put once, and is found again.
static void a_measurement_is_made_once(void **state) {
    (void)state;
    static const ls_op ops[] = { LS_OP_CONV_FORWARD, LS_OP_CONV_BACKWARD_DATA, LS_OP_CONV_BACKWARD_WEIGHT };
    ls_algorithm_cache *cache = new_cache();
    for (int i = 0; i < 3; i++) {
        for (int kernel = 1; kernel <= 5; kernel += 2) {
            const ls_op_desc desc = conv(ops[i], 16, kernel, 1);
            const outcome first = plan(cache, NULL, &desc), second = plan(cache, NULL, &desc);
            expect("measured", first, "", LS_CHOSEN_NOW);
            expect("found", second, first.algorithm, LS_CHOSEN_NOW);
        }
    }
    assert_int_equal(ls_algorithm_cache_measured(cache), 9);
    ls_algorithm_cache_free(cache);
}

static void without_a_cache_the_rule_decides(void **state) {
    (void)state;
    const ls_op_desc desc = conv(LS_OP_CONV_FORWARD, 16, 3, 1), first = conv(LS_OP_CONV_FORWARD, 3, 3, 1);
    const outcome rule = plan(NULL, NULL, &desc);
    expect("no cache", rule, "", LS_CHOSEN_BY_RULE);
    ls_algorithm_cache *cache = new_cache();
    ls_algorithm_cache_settle(cache, 1);
    expect("settled", plan(cache, NULL, &desc), rule.algorithm, LS_CHOSEN_BY_RULE);
    ls_algorithm_cache_settle(cache, 0);
    expect("nothing to choose from", plan(cache, NULL, &first), "own direct", LS_CHOSEN_BY_RULE);
    assert_int_equal(ls_algorithm_cache_measured(cache), 0);
    ls_algorithm_cache_free(cache);
}

// What the rule chooses, here for 8 floats wide vectors.
static void the_rule(void **state) {
    (void)state;
    static const struct {
        const char *winograd;
        int channels, side, kernel, stride;
        const char *algorithm;
    } rows[] = {
        { "auto", 16, 8, 3, 1, "winograd f(4,3)" },
        { "auto", 16, 7, 3, 1, "winograd f(4,3)" },
        { "auto", 16, 3, 3, 1, "winograd f(4,3)" },
        { "auto", 16, 5, 3, 1, "winograd f(2,3)" }, // whose tiles leave less over
        { "auto", 16, 2, 3, 1, "winograd f(2,3)" },
        { "auto", 16, 1, 3, 1, "onednn" },
        { "auto", 16, 14, 5, 1, "winograd f(2,5)" },
        { "auto", 16, 8, 3, 2, "onednn" },
        { "auto", 16, 8, 1, 1, "onednn" },
        { "auto", 3, 8, 3, 1, "own direct" },
        { "f2", 16, 8, 3, 1, "winograd f(2,3)" },
        { "f2", 16, 14, 5, 1, "onednn" },
        { "off", 16, 8, 3, 1, "onednn" },
        { "off", 16, 5, 3, 1, "onednn" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_op_desc desc = conv(LS_OP_CONV_FORWARD, rows[i].channels, rows[i].kernel, rows[i].stride);
        ls_conv_attr *a = &desc.attr.conv;
        char name[64];
        a->src.h = a->src.w = rows[i].side;
        a->dst.h = a->dst.w = (rows[i].side - 1) / rows[i].stride + 1;
        snprintf(name, sizeof name, "%s, %d channels, %dx%d, kernel %d, stride %d", rows[i].winograd, rows[i].channels,
            rows[i].side, rows[i].side, rows[i].kernel, rows[i].stride);
        expect(name, plan(NULL, rows[i].winograd, &desc), rows[i].algorithm, LS_CHOSEN_BY_RULE);
    }
}

// Choices planted for the right key, and for wrong ones.
static void a_planted_choice(void **state) {
    (void)state;
    static const struct {
        const char *name, *winograd;
        int kernel, stride;
        const char *choice;
        int spoil_key, obeyed;
    } rows[] = {
        { "own direct instead of Winograd", NULL, 3, 1, "own direct", 0, 1 },
        { "oneDNN instead of Winograd", NULL, 3, 1, "onednn", 0, 1 },
        { "F(2,3) instead of F(4,3)", NULL, 3, 1, "winograd f(2,3)", 0, 1 },
        { "Winograd where the rule sees no gain", NULL, 5, 1, "winograd f(2,5)", 0, 1 },
        { "another key", NULL, 3, 1, "own direct", 1, 0 },
        { "unknown algorithm", NULL, 3, 1, "fft", 0, 0 },
        { "cut off", NULL, 3, 1, "own dir", 0, 0 },
        { "empty", NULL, 3, 1, "", 0, 0 },
        { "of another kernel size", NULL, 3, 1, "winograd f(2,5)", 0, 0 },
        { "cannot compute strides", NULL, 3, 2, "winograd f(4,3)", 0, 0 },
        { "not allowed by off", "off", 3, 1, "winograd f(4,3)", 0, 0 },
        { "not allowed by f2", "f2", 3, 1, "winograd f(4,3)", 0, 0 },
        { "allowed by f2", "f2", 3, 1, "winograd f(2,3)", 0, 1 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const ls_op_desc desc = conv(LS_OP_CONV_BACKWARD_WEIGHT, 16, rows[i].kernel, rows[i].stride);
        char key[1024];
        find_key(rows[i].winograd, &desc, key);
        if (rows[i].spoil_key) key[strlen(key) - 1] ^= 1;
        ls_algorithm_cache *cache = new_cache();
        succeed(ls_algorithm_cache_put(cache, key, rows[i].choice));
        const int before = ls_algorithm_cache_measured(cache);
        ls_algorithm_cache_settle(cache, 1);
        const outcome rule = plan(NULL, rows[i].winograd, &desc), got = plan(cache, rows[i].winograd, &desc);
        if (rows[i].obeyed)
            expect(rows[i].name, got, rows[i].choice, LS_CHOSEN_NOW);
        else
            expect(rows[i].name, got, rule.algorithm, LS_CHOSEN_BY_RULE);
        ls_algorithm_cache_settle(cache, 0); // what is of no use is measured again, and replaced
        plan(cache, rows[i].winograd, &desc);
        assert_int_equal(ls_algorithm_cache_measured(cache), before + rows[i].spoil_key);
        if (!rows[i].obeyed && !rows[i].spoil_key &&
            strcmp(ls_algorithm_cache_find(cache, key, NULL), rows[i].choice) == 0)
            fail_msg("%s: is still there", rows[i].name);
        ls_algorithm_cache_free(cache);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_measurement_is_made_once),
        cmocka_unit_test(without_a_cache_the_rule_decides),
        cmocka_unit_test(the_rule),
        cmocka_unit_test(a_planted_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
