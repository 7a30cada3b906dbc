// What is decided without running anything: an impossible descriptor aborts the program with a line that names layer,
// operator and tensor; devices are opened by name; costs.
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/device.h"
#include "support/cmocka.h"

static const ls_step_segment five[1] = { { 5, 1, 0, 0, 0, NULL, 0, 1 } },
                             eighth[1] = { { .count = 5, .rate = LS_RATES_MAX } };

// Descriptors that only a bug can make, and what is said of them.
static const struct {
    ls_op_desc desc;
    const char *message;
} bugs[] = {
    { { LS_OP_CONV_FORWARD, "conv1",
          .attr.conv = { { 8, 3, 32, 32 }, { 8, 16, 30, 30 }, 3, 3, 1, 1, 1, 1, 1, 1, 0, 0, 0, LS_F32 } },
        "layer conv1: conv forward: dst is 8x16x30x30, which breaks the rule slides(a->src.h, a->dst.h, " },
    { { LS_OP_CONV_BACKWARD_DATA, "conv3",
          .attr.conv = { { 8, 6, 4, 4 }, { 8, 16, 4, 4 }, 3, 3, 1, 1, 1, 1, 1, 4, 0, 0, 0, LS_F32 } },
        "layer conv3: conv backward data: src is 8x6x4x4, which breaks the rule a->groups >= 1 && " },
    { { LS_OP_CONV_BACKWARD_WEIGHT, "conv4",
          .attr.conv = { { 8, 6, 4, 4 }, { 8, 16, 4, 4 }, 3, 3, 0, 0, 1, 1, 1, 1, 0, 0, 0, LS_F32 } },
        "layer conv4: conv backward weight: dst is 8x16x4x4, which breaks the rule slides(" },
    { { LS_OP_CONV_FORWARD, "conv6",
          .attr.conv = { { 1, 6, 4, 4 }, { 1, 16, 4, 4 }, 3, 3, 1, 1, 1, 1, 1, 1, 0, 0, 0, LS_I64 } },
        "layer conv6: conv forward: storage, which breaks the rule is_float(" },
    { { LS_OP_LINEAR_FORWARD, "fc1", .attr.linear = { { 8, 6, 4, 4 }, 0, 1, 0, LS_F32 } },
        "layer fc1: linear forward: dst, which breaks the rule a->out_features >= 1" },
    { { LS_OP_NORM_FORWARD, "bn1", .attr.norm = { .shape = { 1, 64, 1, 1 }, .eps = 1e-5F } },
        "layer bn1: batch norm forward: shape is 1x64x1x1, which breaks the rule " },
    { { LS_OP_POOL_FORWARD, "pool1",
          .attr.pool = { LS_POOL_MAX, { 2, 3, 7, 7 }, { 2, 3, 4, 5 }, 2, 2, 2, 2, 0, 0, 0, 0, 1, LS_F32 } },
        "layer pool1: pool forward: dst is 2x3x4x5, which breaks the rule (is_max" },
    { { LS_OP_POOL_BACKWARD, "pool5",
          .attr.pool = { LS_POOL_MAX, { 2, 3, 4, 4 }, { 2, 3, 2, 2 }, 2, 2, 2, 2, 0, 0, 1, 0, 0, LS_F32 } },
        "layer pool5: pool backward: index, which breaks the rule " },
    { { LS_OP_POOL_FORWARD, "pool6",
          .attr.pool = { LS_POOL_AVERAGE, { 2, 3, 7, 7 }, { 2, 3, 3, 3 }, 3, 2, 0, 0, 0, 0, 0, 0, 0, LS_F32 } },
        "layer pool6: pool forward: window, which breaks the rule a->kernel_w ==" },
    { { LS_OP_COPY_CHANNELS, "cat", .attr.channels = { { 2, 8, 4, 4 }, { 2, 20, 4, 4 }, 0, 13, 8, 1, 0, 0, LS_F32 } },
        "layer cat: copy channels: dst is 2x20x4x4, which breaks the rule " },
    { { LS_OP_FAKE_QUANTISE, "relu1.int8", .attr.quantise = { .shape = { 2, 8, 0, 4 } } },
        "layer relu1.int8: fake quantise: shape is 2x8x0x4, which breaks the rule is_shape(a->shape)" },
    { { LS_OP_GATE, "se", .attr.gate = { { 2, 0, 5, 4 }, LS_F32 } },
        "layer se: gate: shape is 2x0x5x4, which breaks the rule is_shape(a->shape)" },
    { { LS_OP_GROUP_NORM_BACKWARD, "gn",
          .attr.group_norm = { .shape = { 2, 8, 1, 1 }, .groups = 8, .eps = 1e-5F, .affine = 1, .storage = LS_F32 } },
        "layer gn: group norm backward: shape is 2x8x1x1, which breaks the rule " },
    { { LS_OP_GROUP_NORM_FORWARD, "ln",
          .attr.group_norm = { .shape = { 2, 8, 4, 4 }, .groups = 2, .eps = 1e-5F, .over = LS_NORM_OVER_PIXELS } },
        "layer ln: group norm forward: over, which breaks the rule " },
    { { LS_OP_DROPOUT, "drop", .attr.elementwise = { .shape = { 2, 3, 4, 4 }, .p = 1 } },
        "layer drop: dropout: p, which breaks the rule " },
    { { LS_OP_DROPOUT, "drop", .attr.elementwise = { .shape = { 2, 3, 4, 4 }, .p = 0.5F, .unit = 4 } },
        "layer drop: dropout: unit, which breaks the rule " },
    { { LS_OP_RESIZE, "input", .attr.resize = { { 1, 1, 1, 32769 }, { 1, 1, 1, 8 }, LS_F32 } },
        "layer input: resize: src is 1x1x1x32769, which breaks the rule " },
    { { LS_OP_DISTILL, "loss", .attr.distill = { { 2, 10, 1, 1 }, 0, 0.5F, LS_F32, 0 } },
        "layer loss: teacher's loss: temperature, which breaks the rule " },
    { { LS_OP_LOSS, "loss", .attr.loss = { { 2, 10, 2, 1 }, 0, 1, LS_F32, 0 } },
        "layer loss: loss: logits is 2x10x2x1, which breaks the rule " },
    { { LS_OP_TO_FIXED_POINT, "reduce", .attr.flat = { .count = 5, .fraction_bits = 60 } },
        "layer reduce: gradient to fixed point: fraction, which breaks the rule " },
    { { LS_OP_STEP_CONTROL, NULL, .attr.step_control = { .count = 0 } },
        "layer (unnamed): update control: elements, which breaks the rule a->count >= 1" },
    { { LS_OP_SGD, "sgd", .attr.optimizer = { .count = 5, .segments = eighth, .segment_count = 1 } },
        "layer sgd: sgd: segment, which breaks the rule " },
    { { LS_OP_SGD, "sgd", .attr.optimizer = { .count = 6, .segments = five, .segment_count = 1 } },
        "layer sgd: sgd: segments, which breaks the rule covered == a->count" },
};

// What a process that makes this plan writes to stderr before it is aborted.
static void abort_text(ls_device *device, const ls_op_desc *desc, char *text, size_t bytes) {
    int ends[2], ended;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        ls_plan *plan;
        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        _exit(ls_failed(device->api->plan_new(device, desc, &plan)));
    }
    close(ends[1]);
    FILE *file = fdopen(ends[0], "r");
    if (!fgets(text, (int)bytes, file)) text[0] = '\0';
    fclose(file);
    assert_int_equal(waitpid(child, &ended, 0), child);
    if (!WIFSIGNALED(ended) || WTERMSIG(ended) != SIGABRT) fail_msg("\"%s\": not aborted", desc->layer);
}

static void impossible_operators_are_bugs(void **unused) {
    (void)unused;
    const char *devices[] = { "ref", "cpu" };
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
        ls_device *device;
        assert_int_equal(ls_device_open(devices[d], &(ls_device_options){ .threads = 1 }, &device, NULL).code, LS_OK);
        for (size_t i = 0; i < sizeof bugs / sizeof *bugs; i++) {
            char text[512];
            abort_text(device, &bugs[i].desc, text, sizeof text);
            if (!strstr(text, "error: a bug in this program: ") || !strstr(text, bugs[i].message))
                fail_msg("row %zu: \"%s\" lacks \"%s\"", i, text, bugs[i].message);
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
    ls_op_check(&conv);
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
#include "config/plugins.def"
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
        cmocka_unit_test(impossible_operators_are_bugs),
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
