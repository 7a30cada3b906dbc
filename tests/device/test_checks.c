// What is decided without running anything: impossible descriptors are refused with a message that names the layer and
// the shapes; devices are opened by name; costs.
#include <math.h>
#include <stdlib.h>

#include <string.h>

#include "device/device.h"
#include "support/cmocka.h"

static const ls_step_segment five[2] = { { 5, 1, 0, 0, 0, NULL, 0, 1 }, { 5, 1, 0, 0, 0, NULL, 0, 1 } },
                             fast[1] = { { .count = 5, .momentum = 1 } },
                             eighth[1] = { { .count = 5, .rate = LS_RATES_MAX } },
                             moved[1] = { { .count = 5, .momentum = 1.5F, .rate = LS_SEGMENT_STATISTICS } };

static const struct {
    ls_op_desc desc;
    const char *expected[3]; // parts of the message
} refusals[] = {
    { { LS_OP_CONV_FORWARD, "conv1",
          .attr.conv = { { 8, 3, 32, 32 }, { 8, 16, 30, 30 }, 3, 3, 1, 1, 1, 1, 1, 1, 0, 0, 0, LS_F32 } },
        { "layer conv1: conv forward",
            "src 8x3x32x32 with kernel 3x3, stride 1x1, padding 1x1, dilation 1 makes 8x16x32x32",
            "dst is 8x16x30x30" } },
    { { LS_OP_CONV_FORWARD, "conv2",
          .attr.conv = { { 8, 3, 4, 4 }, { 8, 16, 1, 1 }, 7, 7, 1, 1, 1, 1, 1, 1, 0, 0, 0, LS_F32 } },
        { "layer conv2", "src 8x3x4x4 is smaller than the kernel", "7" } },
    { { LS_OP_CONV_BACKWARD_DATA, "conv3",
          .attr.conv = { { 8, 6, 4, 4 }, { 8, 16, 4, 4 }, 3, 3, 1, 1, 1, 1, 1, 4, 0, 0, 0, LS_F32 } },
        { "conv backward data", "4 groups do not divide 6 input channels and 16 output channels" } },
    { { LS_OP_CONV_BACKWARD_WEIGHT, "conv4",
          .attr.conv = { { 8, 6, 4, 4 }, { 8, 16, 4, 4 }, 3, 3, 0, 0, 1, 1, 1, 1, 0, 0, 0, LS_F32 } },
        { "conv backward weight", "stride 0x0" } },
    { { LS_OP_CONV_FORWARD, "conv7",
          .attr.conv = { { 8, 6, 4, 4 }, { 8, 16, 4, 4 }, 3, 3, 1, 1, 1, 1, 0, 1, 0, 0, 0, LS_F32 } },
        { "layer conv7", "dilation 0", "at least 1, 1, 0, 1" } },
    { { LS_OP_CONV_FORWARD, "conv8",
          .attr.conv = { { 8, 6, 4, 4 }, { 8, 16, 4, 4 }, 3, 3, 1, 1, -1, -1, 1, 1, 0, 0, 0, LS_F32 } },
        { "layer conv8", "padding -1x-1" } },
    { { LS_OP_CONV_BACKWARD_WEIGHT, "conv9",
          .attr.conv = { { 8, 6, 4, 4 }, { 8, 16, 4, 4 }, 3, 3, 1, 1, 1, 1, 1, 0, 0, 0, 0, LS_F32 } },
        { "layer conv9", "0 groups do not divide" } },
    { { LS_OP_CONV_BACKWARD_DATA, "conv10",
          .attr.conv = { { 8, 6, 4, 4 }, { 8, 16, 4, 4 }, 3, 3, 1, 1, 1, 1, 2, 1, 0, 0, 0, LS_F32 } },
        { "layer conv10", "8x16x2x2, but dst is 8x16x4x4" } },
    { { LS_OP_CONV_FORWARD, "conv11",
          .attr.conv = { { 8, 6, 4, 4 }, { 8, 16, 2, 2 }, 3, 3, 1, 1, 0, 0, 2, 1, 0, 0, 0, LS_F32 } },
        { "layer conv11", "smaller than the kernel: 3x3 with dilation 2 covers 5x5, and padding is 0x0" } },
    { { LS_OP_CONV_FORWARD, "conv5",
          .attr.conv = { { 0, 6, 4, 4 }, { 0, 16, 4, 4 }, 3, 3, 1, 1, 1, 1, 1, 1, 0, 0, 0, LS_F32 } },
        { "conv5", "src is 0x6x4x4" } },
    { { LS_OP_CONV_FORWARD, "conv6",
          .attr.conv = { { 1, 6, 4, 4 }, { 1, 16, 4, 4 }, 3, 3, 1, 1, 1, 1, 1, 1, 0, 0, 0, LS_I64 } },
        { "storage type int64", "fp32, bf16 or fp16" } },
    { { LS_OP_LINEAR_FORWARD, "fc1", .attr.linear = { { 8, 6, 4, 4 }, 0, 1, 0, LS_F32 } },
        { "layer fc1", "out_features is 0" } },
    { { LS_OP_NORM_FORWARD, "bn1", .attr.norm = { .shape = { 1, 64, 1, 1 }, .eps = 1e-5F } },
        { "layer bn1", "1x64x1x1", "one value per channel" } },
    { { LS_OP_NORM_SUMS, "bn1", .attr.norm = { .shape = { 1, 64, 1, 1 }, .eps = 1e-5F } },
        { "layer bn1: batch norm sums", "1x64x1x1", "one value per channel" } },
    { { LS_OP_NORM_FORWARD, "bn3",
          .attr.norm = { .shape = { 2, 64, 4, 4 }, .eps = 1e-5F, .activation = LS_ACTIVATION_GELU, .residual = 1 } },
        { "layer bn3", "gelu goes without residual" } },
    { { LS_OP_NORM_INFERENCE, "bn2", .attr.norm = { .shape = { 1, 64, 1, 1 }, .eps = 0 } }, { "bn2", "eps is 0" } },
    { { LS_OP_POOL_FORWARD, "pool1",
          .attr.pool = { LS_POOL_MAX, { 2, 3, 7, 7 }, { 2, 3, 4, 4 }, 2, 2, 2, 2, 0, 0, 0, 0, 1, LS_F32 } },
        { "layer pool1", "makes 2x3x3x3", "dst is 2x3x4x4" } },
    { { LS_OP_POOL_FORWARD, "pool2",
          .attr.pool = { LS_POOL_MAX, { 2, 3, 7, 7 }, { 2, 3, 5, 5 }, 3, 3, 2, 2, 2, 2, 0, 0, 1, LS_F32 } },
        { "pool2", "padding 2x2 is more than half of the 3x3 kernel" } },
    { { LS_OP_POOL_FORWARD, "pool3",
          .attr.pool = { LS_POOL_AVERAGE, { 2, 3, 2, 7 }, { 2, 3, 1, 5 }, 3, 3, 2, 2, 0, 0, 0, 0, 1, LS_F32 } },
        { "pool3", "src 2x3x2x7 is smaller than the 3x3 window" } },
    { { LS_OP_POOL_FORWARD, "pool4",
          .attr.pool = { LS_POOL_AVERAGE, { 2, 3, 4, 4 }, { 2, 3, 2, 2 }, 2, 2, 2, 2, 0, 0, 1, 0, 1, LS_F32 } },
        { "pool4", "relu or bias goes with max pooling only" } },
    { { LS_OP_POOL_BACKWARD, "pool5",
          .attr.pool = { LS_POOL_MAX, { 2, 3, 4, 4 }, { 2, 3, 2, 2 }, 2, 2, 2, 2, 0, 0, 1, 0, 0, LS_F32 } },
        { "pool5", "training = 1" } },
    { { LS_OP_POOL_FORWARD, "pool6",
          .attr.pool = { LS_POOL_MAX, { 1, 1, 300, 300 }, { 1, 1, 1, 1 }, 300, 300, 1, 1, 0, 0, 0, 0, 1, LS_F32 } },
        { "pool6", "300x300 window has more than 65534 elements" } },
    { { LS_OP_COPY_CHANNELS, "cat", .attr.channels = { { 2, 8, 4, 4 }, { 2, 20, 4, 4 }, 0, 13, 8, 1, 0, 0, LS_F32 } },
        { "layer cat: copy channels", "8 channels from 0 of src 2x8x4x4 to 13 of dst 2x20x4x4", "not so many" } },
    { { LS_OP_COPY_CHANNELS, "cat", .attr.channels = { { 2, 8, 5, 4 }, { 2, 20, 2, 2 }, 0, 3, 8, 2, 0, 0, LS_F32 } },
        { "src 2x8x5x4 and dst 2x20x2x2 do not go together with stride 2" } },
    { { LS_OP_COPY_CHANNELS, "cat", .attr.channels = { { 2, 8, 3, 2 }, { 2, 20, 5, 4 }, 0, 3, 8, 2, 1, 1, LS_F32 } },
        { "keep goes without spread" } },
    { { LS_OP_GATE, "se", .attr.gate = { { 2, 0, 5, 4 }, LS_F32 } }, { "layer se: gate", "src is 2x0x5x4" } },
    { { LS_OP_GROUP_NORM_FORWARD, "gn", .attr.group_norm = { { 2, 8, 5, 4 }, 3, 1e-5F, 1, LS_F32 } },
        { "layer gn", "3 groups of src 2x8x5x4" } },
    { { LS_OP_GROUP_NORM_BACKWARD, "gn", .attr.group_norm = { { 2, 8, 1, 1 }, 8, 1e-5F, 1, LS_F32 } },
        { "8 groups of src 2x8x1x1", "two elements" } },
    { { LS_OP_GROUP_NORM_FORWARD, "gn", .attr.group_norm = { { 2, 8, 5, 4 }, 2, 0, 1, LS_F32 } }, { "eps is 0" } },
    { { LS_OP_DROPOUT, "drop", .attr.elementwise = { .shape = { 2, 3, 4, 4 }, .p = 1 } },
        { "layer drop", "p is 1", "below 1" } },
    { { LS_OP_AUGMENT, "input", .attr.augment = { { 2, 3, 4, 32 }, LS_F32, { .pad = 4, .pad_mode = LS_PAD_REFLECT } } },
        { "layer input", "pad is 4: pictures of 4 x 32 reflect at most 3" } },
    { { LS_OP_AUGMENT, "input", .attr.augment = { { 2, 3, 4, 32 }, LS_F32, { .pad = 128 } } },
        { "layer input", "pad is 128; 0 to 127" } },
    { { LS_OP_AUGMENT, "input", .attr.augment = { { 2, 3, 4, 32 }, LS_F32, { .cutout = 5 } } },
        { "layer input", "cutout is 5: pictures of 4 x 32 hold a square of at most 4" } },
    { { LS_OP_AUGMENT, "input", .attr.augment = { { 2, 3, 4, 32 }, LS_F32, { .cutout = -1 } } },
        { "layer input", "cutout is -1; 0 to 65535" } },
    { { LS_OP_RESIZE, "input", .attr.resize = { { 2, 3, 8, 8 }, { 2, 4, 6, 6 }, LS_F32 } },
        { "layer input", "src 2x3x8x8 and dst 2x4x6x6 may differ in height and width alone" } },
    { { LS_OP_RESIZE, "input", .attr.resize = { { 2, 3, 8, 8 }, { 2, 3, 6, 0 }, LS_F32 } },
        { "dst is 2x3x6x0; every dimension must be at least 1" } },
    { { LS_OP_RESIZE, "input", .attr.resize = { { 1, 1, 1, 32769 }, { 1, 1, 1, 8 }, LS_F32 } },
        { "src is 1x1x1x32769; sides of at most 32768" } },
    { { LS_OP_NORM_FORWARD, "bn", .attr.norm = { .shape = { 2, 3, 4, 4 }, .eps = 1, .residual = 1, .adds_last = 1 } },
        { "layer bn", "what is added last is a residual, behind a relu and without pooling" } },
    { { LS_OP_LOSS, "loss", .attr.loss = { { 2, 10, 2, 1 }, 0, 1, LS_F32, 0 } }, { "layer loss", "2x10x2x1" } },
    { { LS_OP_LOSS, "loss", .attr.loss = { { 2, 10, 1, 1 }, 1.5F, 1, LS_F32, 0 } }, { "label smoothing is 1.5" } },
    { { LS_OP_LOSS, "loss", .attr.loss = { .logits = { 2, 10, 1, 1 }, .storage = LS_F32, .scale = INFINITY } },
        { "layer loss", "scale is inf" } },
    { { LS_OP_HEAD, "fc",
          .attr.loss = { .logits = { 2, 33, 1, 1 }, .training = 1, .storage = LS_F32, .src = { 2, 8, 3, 3 } } },
        { "layer fc", "2x8x3x3 for 33 logits of 2 samples", "at most 32 classes" } },
    { { LS_OP_HEAD, "fc",
          .attr.loss = { .logits = { 2, 10, 1, 1 }, .training = 1, .storage = LS_F32, .src = { 3, 8, 3, 3 } } },
        { "3x8x3x3 for 10 logits of 2 samples" } },
    { { LS_OP_HEAD, "fc", .attr.loss = { .logits = { 2, 10, 1, 1 }, .storage = LS_F32, .src = { 2, 8, 3, 3 } } },
        { "in evaluation" } },
    { { LS_OP_TO_FIXED_POINT, "reduce", .attr.flat = { .count = 5, .fraction_bits = 60 } }, { "60 fraction bits" } },
    { { LS_OP_STEP_CONTROL, "control", .attr.step_control = { .count = 0 } }, { "0 elements" } },
    { { LS_OP_STEP_CONTROL, "control",
          .attr.step_control = { .count = 1,
              .dynamic = 1,
              .growth = 2,
              .backoff = 2,
              .minimum = 1,
              .maximum = 2,
              .growth_interval = 1 } },
        { "backoff 2" } },
    { { LS_OP_STEP_CONTROL, "control",
          .attr.step_control = { .count = 1,
              .dynamic = 1,
              .growth = 2,
              .backoff = 0.5F,
              .minimum = 4,
              .maximum = 2,
              .growth_interval = 1 } },
        { "loss scale from 4 to 2" } },
    { { LS_OP_SGD, "sgd", .attr.optimizer = { .count = 5, .segments = fast, .segment_count = 1 } },
        { "momentum is 1" } },
    { { LS_OP_SGD, "sgd", .attr.optimizer = { .count = 5, .segments = eighth, .segment_count = 1 } },
        { "segment 0 has rate 8; -2 to 7" } },
    { { LS_OP_SGD, "sgd", .attr.optimizer = { .count = 5, .segments = moved, .segment_count = 1 } },
        { "momentum of statistics is 1.5; 0 to 1" } },
    { { LS_OP_MUON, "muon", .attr.optimizer = { .count = 5, .segments = moved, .segment_count = 1 } },
        { "segment 0 is of statistics" } },
    { { LS_OP_SGD, "sgd", .attr.optimizer = { .count = 6, .segments = five, .segment_count = 1 } },
        { "cover 5 of 6 elements" } },
    { { LS_OP_SGD, "sgd", .attr.optimizer = { .count = 10, .segments = five, .segment_count = 2 } },
        { "segment 0 has 5 elements", "multiple of 16" } },
    { { LS_OP_ADAMW, "adamw",
          .attr.optimizer = { .count = 5,
              .segments = five,
              .segment_count = 1,
              .beta1 = 0.9F,
              .beta2 = 1,
              .eps = 1e-8F } },
        { "beta2 1" } },
    { { LS_OP_LION, "lion",
          .attr.optimizer = { .count = 5, .segments = five, .segment_count = 1, .beta1 = -0.5F, .beta2 = 0.9F } },
        { "beta1 -0.5" } },
};

static void impossible_operators_are_refused(void **unused) {
    (void)unused;
    const char *devices[] = { "ref", "cpu" };
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
        ls_device *device;
        assert_int_equal(ls_device_open(devices[d], &(ls_device_options){ .threads = 1 }, &device, NULL).code, LS_OK);
        for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
            ls_plan *plan;
            ls_status status = device->api->plan_new(device, &refusals[i].desc, &plan);
            if (status.code != LS_USAGE) fail_msg("row %zu: code %d", i, status.code);
            for (int k = 0; k < 3 && refusals[i].expected[k]; k++) {
                if (!strstr(status.text, refusals[i].expected[k])) {
                    fail_msg("row %zu: \"%s\" lacks \"%s\"", i, status.text, refusals[i].expected[k]);
                }
            }
            assert_null(strchr(status.text, '\n'));
        }
        ls_device_close(device);
    }
}

static void every_operator_has_a_name(void **unused) {
    (void)unused;
    for (int op = 0; op < LS_OP_COUNT; op++) {
        assert_true(strlen(ls_op_name((ls_op)op)) > 2);
        assert_in_range(ls_op_args((ls_op)op), 2, LS_OP_ARGS_MAX);
    }
    assert_string_equal(ls_op_name(LS_OP_CONV_BACKWARD_DATA), "conv backward data");
    assert_int_equal(ls_op_args(LS_OP_NORM_BACKWARD), LS_NORM_BACKWARD_ARGS);
}

static void costs(void **unused) {
    (void)unused;
    ls_op_desc conv = { LS_OP_CONV_FORWARD, "c",
        .attr.conv = { { 2, 8, 9, 9 }, { 2, 16, 5, 5 }, 3, 3, 2, 2, 1, 1, 1, 2, 1, LS_F32 } };
    assert_int_equal(ls_op_check(&conv).code, LS_OK);
    assert_true(ls_op_flops(&conv) == 2.0 * 2 * 16 * 5 * 5 * 4 * 9);
    conv.op = LS_OP_CONV_BACKWARD_WEIGHT;
    assert_true(ls_op_flops(&conv) == 2.0 * 2 * 16 * 5 * 5 * 4 * 9);
    ls_op_desc linear = { LS_OP_LINEAR_BACKWARD_DATA, "l", .attr.linear = { { 4, 3, 5, 2 }, 7, 1, LS_F32 } };
    assert_true(ls_op_flops(&linear) == 2.0 * 4 * 30 * 7);
}

static void pool_index_is_as_wide_as_the_window_needs(void **unused) {
    (void)unused;
    ls_pool_attr a = { .kind = LS_POOL_MAX, .kernel_h = 2, .kernel_w = 127, .training = 1 };
    assert_int_equal(ls_pool_index_bytes(&a, 100), 100); // 254 elements
    a.kernel_h = 3;
    a.kernel_w = 85;
    assert_int_equal(ls_pool_index_bytes(&a, 100), 200); // 255
    a.training = 0;
    assert_int_equal(ls_pool_index_bytes(&a, 100), 0);
    a = (ls_pool_attr){ .kind = LS_POOL_AVERAGE, .kernel_h = 2, .kernel_w = 2, .training = 1 };
    assert_int_equal(ls_pool_index_bytes(&a, 100), 0);
}

static void devices_open_by_name(void **unused) {
    (void)unused;
    const char *why = "unset";
    ls_device *device = NULL;
    ls_device_options options = { .threads = 1 };
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "cpu" : "ref";
        assert_int_equal(ls_device_open(name, &options, &device, &why).code, LS_OK);
        assert_string_equal(device->api->name, name);
        assert_int_equal(device->api->abi, LS_DEVICE_ABI);
        assert_int_equal(device->api->size, sizeof(ls_device_api));
        assert_null(why);
        ls_device_info facts;
        device->api->info(device, &facts);
        assert_true(strlen(facts.name) > 0);
        assert_int_equal(device->api->check_precision(device, LS_F32).code, LS_OK);
        ls_device_close(device);
    }
    ls_status status = ls_device_open("gpu", &options, &device, &why);
    assert_int_equal(status.code, LS_USAGE);
    assert_string_equal(status.text, "device.type = gpu: no such device; there are auto, cpu, ref, cuda");
    ls_device_close(NULL);
}

static void plugins_and_their_collectives(void **unused) {
    (void)unused;
    static const char *const collectives[] = {
#define COLLECTIVE(NAME, name, plugin, network_sums) #name,
#include "base/plugins.def"
    };
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++) {
        const ls_collective_row *row = ls_collective_find(collectives[i]);
        assert_non_null(row);
        assert_true(ls_device_is_gpu(row->device));
    }
    assert_string_equal(ls_collective_find("nccl")->title, "NCCL");
    static const char *const none[] = { "auto", "mpi", "self" }, *const host[] = { "auto", "cpu", "ref" };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) assert_null(ls_collective_find(none[i]));
    for (size_t i = 0; i < sizeof host / sizeof *host; i++) assert_false(ls_device_is_gpu(host[i]));
}

static void without_a_plugin_auto_is_the_cpu_and_says_why(void **unused) {
    (void)unused;
    const char *why = NULL;
    ls_device *device = NULL;
    setenv("LOCKSTEP_CUDA_PLUGIN", "no-such-folder/lockstep_cuda.so", 1); // this machine may have a GPU
    ls_status status = ls_device_open("cuda", &(ls_device_options){ .threads = 1 }, &device, &why);
    assert_int_equal(status.code, LS_DEVICE);
    assert_non_null(strstr(status.text, "device.type = cuda: "));
    assert_non_null(strstr(status.text, "no-such-folder/lockstep_cuda.so"));
    assert_null(strchr(status.text, '\n'));
    assert_null(why);
    assert_int_equal(ls_device_open("auto", &(ls_device_options){ .threads = 1 }, &device, &why).code, LS_OK);
    assert_string_equal(device->api->name, "cpu");
    assert_non_null(strstr(why, "no GPU is used: "));
    assert_non_null(strstr(why, "no-such-folder/lockstep_cuda.so"));
    assert_null(strchr(why, '\n'));
    unsetenv("LOCKSTEP_CUDA_PLUGIN");
    ls_device_close(device);
}

// Memory, queues, events and copies of the host (device/host.h), by the device ref.
static void host_memory_queues_and_events(void **unused) {
    (void)unused;
    ls_device *device;
    ls_slab *slab;
    ls_queue *queue;
    ls_event *event;
    ls_plan *plan;
    assert_int_equal(ls_device_open("ref", &(ls_device_options){ 0 }, &device, NULL).code, LS_OK);
    const ls_device_api *api = device->api;
    assert_int_equal(api->slab_new(device, LS_MEMORY_DEVICE, 64, "test", &slab).code, LS_OK);
    assert_int_equal(api->queue_new(device, "test", &queue).code, LS_OK);
    assert_int_equal(api->event_new(device, 0, &event).code, LS_OK);
    float *values = ls_buffer_host(ls_buffer_at(slab, 0, 64)), got[4];
    for (int i = 0; i < 16; i++) assert_true(values[i] == 0);
    ls_nchw shape = { 1, 1, 2, 2 };
    assert_int_equal(api->activation_bytes(device, shape, LS_F32), 16);
    api->activation_import(device, shape, LS_F32, (float[]){ -1, 2, -3, 4 }, ls_buffer_at(slab, 0, 16));
    ls_op_desc relu = { LS_OP_RELU_FORWARD, "relu", .attr.elementwise = { .shape = shape } };
    assert_int_equal(api->plan_new(device, &relu, &plan).code, LS_OK);
    ls_plan_run(plan, (ls_buffer[]){ ls_buffer_at(slab, 0, 16), ls_buffer_at(slab, 32, 16) }, (ls_buffer){ 0 }, queue);
    api->event_record(event, queue);
    api->event_wait(event, queue);
    assert_int_equal(api->event_sync(event).code, LS_OK);
    assert_true(values[8] == 0 && values[9] == 2 && values[10] == 0 && values[11] == 4);
    api->copy(ls_buffer_at(slab, 32, 16), ls_buffer_at(slab, 0, 16), 16, queue);
    api->zero(ls_buffer_at(slab, 0, 16), 16, queue);
    assert_int_equal(api->queue_sync(queue).code, LS_OK);
    api->activation_export(device, shape, LS_F32, ls_buffer_at(slab, 32, 16), got);
    assert_true(got[0] == -1 && got[3] == 4 && values[0] == 0);
    assert_null(ls_buffer_host((ls_buffer){ 0 }));
    api->plan_free(plan);
    api->event_free(event);
    api->queue_free(queue);
    api->slab_free(slab);
    ls_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(impossible_operators_are_refused),
        cmocka_unit_test(every_operator_has_a_name),
        cmocka_unit_test(costs),
        cmocka_unit_test(pool_index_is_as_wide_as_the_window_needs),
        cmocka_unit_test(devices_open_by_name),
        cmocka_unit_test(plugins_and_their_collectives),
        cmocka_unit_test(without_a_plugin_auto_is_the_cpu_and_says_why),
        cmocka_unit_test(host_memory_queues_and_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
