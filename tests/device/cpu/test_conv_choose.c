// How a convolution on the cpu device comes to its algorithm.
#include <stdio.h>
#include <string.h>

#include "system/cpus.h"
#include "device/device.h"
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
            .kernel_h = kernel,
            .kernel_w = kernel,
            .stride_h = stride,
            .stride_w = stride,
            .pad_h = kernel / 2,
            .pad_w = kernel / 2,
            .dilation = 1,
            .groups = 1,
            .has_bias = 1,
            .storage = LS_F32 } };
}

// What the rule chooses, here for 8 floats wide vectors.
static void the_rule(void **state) {
    (void)state;
    static const struct {
        const char *winograd;
        int channels, side, kernel, stride, groups;
        const char *algorithm;
    } rows[] = {
        { "auto", 16, 8, 3, 1, 1, "winograd f(4,3)" },
        { "auto", 16, 7, 3, 1, 1, "winograd f(4,3)" },
        { "auto", 16, 15, 3, 1, 1, "winograd f(4,3)" },
        { "auto", 16, 3, 3, 1, 1, "winograd f(3,3)" }, // whose tiles leave less over
        { "auto", 16, 5, 3, 1, 1, "winograd f(5,3)" },
        { "auto", 16, 10, 3, 1, 1, "winograd f(5,3)" },
        { "auto", 16, 13, 3, 1, 1, "winograd f(4,3)" },
        { "auto", 16, 6, 3, 1, 1, "winograd f(3,3)" },
        { "auto", 16, 2, 3, 1, 1, "winograd f(2,3)" },
        { "auto", 16, 1, 3, 1, 1, "own product" }, // eight of nine taps meet nothing
        { "auto", 16, 1, 5, 1, 1, "own product" },
        { "auto", 16, 2, 3, 2, 1, "own product" }, // five of nine
        { "auto", 16, 14, 5, 1, 1, "winograd f(3,5)" },
        { "auto", 16, 16, 5, 1, 1, "winograd f(2,5)" }, // whose tiles leave less over
        { "auto", 16, 8, 3, 2, 1, "onednn" },
        { "auto", 16, 8, 1, 1, 1, "onednn" },
        { "auto", 3, 8, 3, 1, 1, "own direct" },
        { "auto", 12, 8, 3, 2, 1, "own direct" }, // half of the last block is not there
        { "auto", 15, 8, 3, 2, 1, "onednn" },     // one channel of it is not
        { "auto", 12, 8, 1, 1, 1, "own direct" },
        { "auto", 12, 3, 5, 2, 1, "winograd f(2,3)" }, // phases of 2x2 outputs
        { "auto", 16, 15, 5, 2, 1, "winograd f(4,3)" },
        { "auto", 16, 17, 7, 2, 1, "winograd f(3,4)" },
        { "auto", 16, 25, 7, 3, 1, "winograd f(3,3)" },
        { "auto", 12, 5, 5, 3, 1, "onednn" }, // which leaves out what lies beside the map
        { "auto", 16, 8, 3, 1, 16, "own grouped" },
        { "auto", 16, 8, 3, 2, 16, "own grouped" },
        { "auto", 16, 14, 5, 1, 8, "own grouped" },
        { "auto", 16, 8, 3, 1, 2, "winograd f(4,3)" }, // two parts of a block of channels
        { "auto", 16, 8, 3, 1, 4, "winograd f(4,3)" }, // two groups in each
        { "auto", 16, 8, 3, 2, 2, "onednn" },
        { "auto", 16, 8, 1, 1, 8, "onednn" },    // bringing channels to their lanes would take longer than it saves
        { "auto", 24, 8, 1, 1, 2, "onednn" },    // no parts
        { "auto", 4, 8, 3, 1, 4, "own direct" }, // from a plain tensor to a blocked one
        { "f2", 16, 8, 3, 1, 1, "winograd f(2,3)" },
        { "f2", 16, 14, 5, 1, 1, "onednn" },
        { "off", 16, 8, 3, 1, 1, "onednn" },
        { "off", 16, 5, 3, 1, 1, "onednn" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_op_desc desc = conv(LS_OP_CONV_FORWARD, rows[i].channels, rows[i].kernel, rows[i].stride);
        ls_conv_attr *a = &desc.attr.conv;
        a->groups = rows[i].groups;
        char name[64];
        a->src.h = a->src.w = rows[i].side;
        a->dst.h = a->dst.w = (rows[i].side - 1) / rows[i].stride + 1;
        snprintf(name, sizeof name, "%s, %d channels, %dx%d, kernel %d, stride %d, groups %d", rows[i].winograd,
            rows[i].channels, rows[i].side, rows[i].side, rows[i].kernel, rows[i].stride, rows[i].groups);
        ls_plan *made;
        ls_device *device;
        succeed(ls_device_open("cpu",
            &(ls_device_options){ .threads = 2, .vector_width = 8, .winograd = rows[i].winograd }, &device, NULL));
        succeed(device->api->plan_new(device, &desc, &made));
        if (strncmp(made->algorithm, rows[i].algorithm, strlen(rows[i].algorithm)) != 0)
            fail_msg("%s: %s, expected %s", name, made->algorithm, rows[i].algorithm);
        assert_null(made->chosen);
        device->api->plan_free(made);
        ls_device_close(device);
    }
}

// Products of what each tap meets: up to half of the taps, and up to so many outputs of a weight gradient.
static void products(void **state) {
    (void)state;
    static const struct {
        ls_op op;
        int n, h, w, kernel_w, stride; // of dst
        int product;
    } rows[] = {
        { LS_OP_CONV_FORWARD, 4, 8, 1, 2, 2, 1 }, // one of a row's two taps
        { LS_OP_CONV_FORWARD, 4, 8, 2, 2, 2, 0 }, // both
        { LS_OP_CONV_BACKWARD_WEIGHT, 4, 16, 16, 3, 2, 1 }, { LS_OP_CONV_BACKWARD_WEIGHT, 1, 25, 41, 3, 2, 0 }, // 1025
    };
    ls_device *device;
    succeed(ls_device_open("cpu", &(ls_device_options){ .threads = 1, .vector_width = 8 }, &device, NULL));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_op_desc desc = conv(rows[i].op, 16, 3, rows[i].stride);
        ls_conv_attr *a = &desc.attr.conv;
        a->src = (ls_nchw){ rows[i].n, 16, (rows[i].h - 1) * rows[i].stride + 1, (rows[i].w - 1) * rows[i].stride + 1 };
        a->dst = (ls_nchw){ rows[i].n, 16, rows[i].h, rows[i].w };
        a->kernel_w = rows[i].kernel_w;
        ls_plan *made;
        succeed(device->api->plan_new(device, &desc, &made));
        if ((strncmp(made->algorithm, "own product", 11) == 0) != rows[i].product)
            fail_msg("row %zu: %s", i, made->algorithm);
        device->api->plan_free(made);
    }
    ls_device_close(device);
}

// Dilated ones are as many plain ones as the dilation has phases, and take what these take.
static void dilation(void **state) {
    (void)state;
    static const struct {
        int channels, side, kernel, dilation;
        const char *algorithm;
    } rows[] = {
        { 16, 16, 3, 2, "winograd f(4,3)" },
        { 16, 15, 3, 3, "winograd f(5,3)" }, // phases of 5
        { 16, 12, 3, 4, "winograd f(3,3)" },
        { 16, 9, 3, 5, "winograd f(2,3)" }, // of 2 and 1
        { 16, 9, 3, 9, "own product" },     // of 1
        { 16, 46, 5, 2, "winograd f(3,5)" },
        { 24, 46, 5, 2, "winograd f(3,5)" },
        { 17, 46, 5, 3, "winograd f(3,5)" }, // blocks are filled up by every algorithm
        { 3, 46, 5, 3, "own direct" },
        { 16, 76, 3, 19, "own direct" },
    };
    ls_device *device;
    succeed(ls_device_open("cpu", &(ls_device_options){ .threads = 1, .vector_width = 8 }, &device, NULL));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_op_desc desc = conv(LS_OP_CONV_FORWARD, rows[i].channels, rows[i].kernel, 1);
        ls_conv_attr *a = &desc.attr.conv;
        a->src.h = a->src.w = a->dst.h = a->dst.w = rows[i].side;
        a->dilation = rows[i].dilation;
        a->pad_h = a->pad_w = rows[i].dilation * (rows[i].kernel / 2);
        ls_plan *plan;
        succeed(device->api->plan_new(device, &desc, &plan));
        if (strncmp(plan->algorithm, rows[i].algorithm, strlen(rows[i].algorithm)) != 0)
            fail_msg("row %zu: %s, expected %s", i, plan->algorithm, rows[i].algorithm);
        device->api->plan_free(plan);
    }
    ls_device_close(device);
}

// Of one 4x4 map after another: the transformed filters of 512 channels do not stay in the cache, those of 128 do. Sums over few
// outputs are products.
static void few_outputs_of_large_filters(void **state) {
    (void)state;
    static const struct {
        int samples, channels;
        const char *algorithm, *sums;
    } rows[] = { { 1, 512, "onednn", "own product" }, { 7, 512, "onednn", "own product" },
        { 8, 512, "winograd f(4,3)", "winograd f(4,3)" }, { 1, 128, "winograd f(4,3)", "winograd f(4,3)" } };
    static const ls_op passes[] = { LS_OP_CONV_FORWARD, LS_OP_CONV_BACKWARD_DATA, LS_OP_CONV_BACKWARD_WEIGHT };
    ls_device *device;
    succeed(ls_device_open("cpu", &(ls_device_options){ .threads = 1, .vector_width = 8 }, &device, NULL));
    for (size_t i = 0; i < 3 * sizeof rows / sizeof *rows; i++) {
        ls_op_desc desc = conv(passes[i % 3], rows[i / 3].channels, 3, 1);
        desc.attr.conv.src = desc.attr.conv.dst = (ls_nchw){ rows[i / 3].samples, rows[i / 3].channels, 4, 4 };
        ls_plan *plan;
        succeed(device->api->plan_new(device, &desc, &plan));
        const char *expected = passes[i % 3] == LS_OP_CONV_BACKWARD_WEIGHT ? rows[i / 3].sums : rows[i / 3].algorithm;
        if (strncmp(plan->algorithm, expected, strlen(expected)) != 0)
            fail_msg("%d samples of %d channels, pass %d: %s, expected %s", rows[i / 3].samples, rows[i / 3].channels,
                (int)(i % 3), plan->algorithm, expected);
        device->api->plan_free(plan);
    }
    ls_device_close(device);
}

// Weights of 1x1 for few outputs and for many.
static void sums_over_few_outputs(void **state) {
    (void)state;
    static const struct {
        int samples, stride;
        const char *algorithm;
    } rows[] = { { 16, 2, "own product" }, { 17, 2, "onednn" }, { 17, 1, "own product" } }; // of 64 outputs each
    ls_device *device;
    succeed(ls_device_open("cpu", &(ls_device_options){ .threads = 1, .vector_width = 8 }, &device, NULL));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_op_desc desc = conv(LS_OP_CONV_BACKWARD_WEIGHT, 32, 1, rows[i].stride);
        desc.attr.conv.src = (ls_nchw){ rows[i].samples, 32, 8 * rows[i].stride, 8 * rows[i].stride };
        desc.attr.conv.dst = (ls_nchw){ rows[i].samples, 32, 8, 8 };
        ls_plan *plan;
        succeed(device->api->plan_new(device, &desc, &plan));
        if (strncmp(plan->algorithm, rows[i].algorithm, strlen(rows[i].algorithm)) != 0)
            fail_msg("%d samples, stride %d: %s, expected %s", rows[i].samples, rows[i].stride, plan->algorithm,
                rows[i].algorithm);
        device->api->plan_free(plan);
    }
    ls_device_close(device);
}

// Data gradients of 1x1, by the number of weights and the width of vectors.
static void data_gradients_of_many_weights(void **state) {
    (void)state;
    static const struct {
        int src, dst, width, product;
    } rows[] = { { 128, 512, 16, 1 }, { 112, 512, 16, 0 }, { 128, 512, 8, 0 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const ls_device_options options = { .threads = 1, .vector_width = rows[i].width };
        ls_op_desc desc = conv(LS_OP_CONV_BACKWARD_DATA, rows[i].src, 1, 1);
        desc.attr.conv.dst.c = rows[i].dst;
        ls_device *device;
        ls_plan *plan;
        succeed(ls_device_open("cpu", &options, &device, NULL));
        succeed(device->api->plan_new(device, &desc, &plan));
        if ((strncmp(plan->algorithm, "own product", 11) == 0) != rows[i].product)
            fail_msg("row %zu: %s", i, plan->algorithm);
        device->api->plan_free(plan);
        ls_device_close(device);
    }
}

// Of a last block of outputs own kernels leave out half, where no more than half of it is there.
static void half_blocks(void **state) {
    (void)state;
    static const struct {
        int outputs;
        const char *algorithm;
    } rows[] = { { 12, "own direct" }, { 13, "onednn" } };
    ls_device *device;
    succeed(ls_device_open("cpu", &(ls_device_options){ .threads = 1, .vector_width = 8 }, &device, NULL));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_op_desc desc = conv(LS_OP_CONV_BACKWARD_DATA, rows[i].outputs, 1, 1);
        ls_plan *plan;
        succeed(device->api->plan_new(device, &desc, &plan));
        if (strncmp(plan->algorithm, rows[i].algorithm, strlen(rows[i].algorithm)) != 0)
            fail_msg("%d outputs: %s, expected %s", rows[i].outputs, plan->algorithm, rows[i].algorithm);
        device->api->plan_free(plan);
    }
    ls_device_close(device);
}

// Activations of bf16: where the processor multiplies them as such (of 16 floats wide vectors) only what saves enough is taken
// instead; elsewhere oneDNN has no part in it.
static void products_of_bf16(void **state) {
    (void)state;
    static const struct {
        ls_op op;
        int channels, samples, side, kernel;
        const char *multiplied, *computed; // in bf16, in fp32
    } rows[] = {
        { LS_OP_CONV_FORWARD, 64, 4, 8, 3, "winograd f(4,3)", "winograd f(4,3)" },
        { LS_OP_CONV_FORWARD, 16, 4, 8, 3, "onednn", "winograd f(4,3)" },          // few channels for the transforms
        { LS_OP_CONV_FORWARD, 40, 4, 8, 3, "winograd f(4,3)", "winograd f(4,3)" }, // of which oneDNN makes 48
        { LS_OP_CONV_BACKWARD_WEIGHT, 32, 17, 8, 3, "winograd f(4,3)", "winograd f(4,3)" },
        { LS_OP_CONV_FORWARD, 64, 4, 16, 5, "winograd f(3,5)", "winograd f(2,5)" },
        { LS_OP_CONV_FORWARD, 16, 4, 8, 1, "onednn", "own direct" },
        { LS_OP_CONV_FORWARD, 24, 4, 8, 1, "onednn", "own direct" }, // with half a block
        { LS_OP_CONV_FORWARD, 3, 4, 8, 3, "own direct", "own direct" },
        { LS_OP_CONV_BACKWARD_WEIGHT, 16, 17, 8, 1, "onednn", "own product" },
        { LS_OP_CONV_BACKWARD_WEIGHT, 16, 16, 8, 1, "own product", "own product" },
    };
    for (int width = 8; width <= 16; width += 8) {
        ls_device *device;
        succeed(ls_device_open("cpu", &(ls_device_options){ .threads = 1, .vector_width = width }, &device, NULL));
        ls_cpus cpus;
        ls_cpus_detect(&cpus);
        const int multiplies = width == 16 && cpus.has_avx512_bf16;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            ls_op_desc desc = conv(rows[i].op, rows[i].channels, rows[i].kernel, 1);
            ls_conv_attr *a = &desc.attr.conv;
            a->src = (ls_nchw){ rows[i].samples, rows[i].channels, rows[i].side, rows[i].side };
            a->dst =
                (ls_nchw){ rows[i].samples, rows[i].channels > 3 ? rows[i].channels : 16, rows[i].side, rows[i].side };
            a->storage = LS_BF16;
            const char *expected = multiplies ? rows[i].multiplied : rows[i].computed;
            ls_plan *plan;
            succeed(device->api->plan_new(device, &desc, &plan));
            if (strncmp(plan->algorithm, expected, strlen(expected)) != 0)
                fail_msg("width %d, row %zu: %s, expected %s", width, i, plan->algorithm, expected);
            device->api->plan_free(plan);
        }
        ls_device_close(device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rule),
        cmocka_unit_test(products),
        cmocka_unit_test(dilation),
        cmocka_unit_test(few_outputs_of_large_filters),
        cmocka_unit_test(sums_over_few_outputs),
        cmocka_unit_test(data_gradients_of_many_weights),
        cmocka_unit_test(half_blocks),
        cmocka_unit_test(products_of_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
