// main.c - how long operators take on this machine's GPU, by each of the ways in which they can be computed.
//
//   bench_gpu [convolutions] [norms]       (build with cmake --build build --target bench_gpu)
//
// Microseconds of one run out of a captured graph of 20, the shortest of five launches: with the gap in front of a launch, and with
// what the run before left in the L2. Convolutions by cuDNN in its own order ("library") and by own kernels ("implicit gemm");
// batch norm in one grid where one rank has the GPU alone ("alone"), or as several ranks have it ("shared").
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"

enum { RUNS = 20, LAUNCHES = 5, PATTERN_BYTES = 1 << 20 };
static const size_t ARGUMENT_BYTES = (size_t)160 << 20, WORKSPACE_BYTES = (size_t)1 << 30;

static void need(ls_status status) {
    if (!ls_failed(status)) return;
    fprintf(stderr, "bench_gpu: %s\n", status.text);
    exit(1);
}

// A device with memory for every argument of an operator.
typedef struct {
    ls_device *device;
    ls_queue *queue;
    ls_slab *memory, *pattern;
} bench;

// Numbers in [-1, 1) in every type: as bf16, and two of them as one float.
static void fill(bench *b) {
    const size_t all = ARGUMENT_BYTES * LS_OP_ARGS_MAX;
    uint16_t *words = (uint16_t *)(void *)b->pattern->address;
    uint32_t random = 1;
    for (size_t i = 0; i < PATTERN_BYTES / sizeof *words; i++) {
        random = random * 1664525U + 1013904223U;
        words[i] = (uint16_t)((random >> 16 & 0x807F) | 0x3F00);
    }
    for (size_t at = 0; at < all; at += PATTERN_BYTES)
        b->device->api->copy(ls_buffer_at(b->memory, at, PATTERN_BYTES), ls_buffer_at(b->pattern, 0, PATTERN_BYTES),
            PATTERN_BYTES, b->queue);
    need(b->device->api->queue_sync(b->queue));
}

static bench bench_open(const ls_device_options *options) {
    bench b;
    need(ls_device_open("cuda", options, &b.device, NULL));
    const ls_device_api *api = b.device->api;
    need(api->queue_new(b.device, "bench", &b.queue));
    need(api->slab_new(
        b.device, LS_MEMORY_DEVICE, ARGUMENT_BYTES * LS_OP_ARGS_MAX + WORKSPACE_BYTES, "bench", &b.memory));
    need(api->slab_new(b.device, LS_MEMORY_PINNED, PATTERN_BYTES, "bench", &b.pattern));
    fill(&b);
    return b;
}

static void bench_close(bench *b) {
    b->device->api->slab_free(b->pattern);
    b->device->api->slab_free(b->memory);
    b->device->api->queue_free(b->queue);
    ls_device_close(b->device);
}

static double shortest(bench *b, ls_captured_graph *graph) {
    const ls_device_api *api = b->device->api;
    ls_event *begin, *end;
    double least = 1e9;
    need(api->event_new(b->device, 1, &begin));
    need(api->event_new(b->device, 1, &end));
    for (int i = 0; i <= LAUNCHES; i++) {
        api->event_record(begin, b->queue);
        api->graph_launch(graph, b->queue);
        api->event_record(end, b->queue);
        need(api->event_sync(end));
        const double seconds = api->event_seconds(begin, end);
        if (i > 0 && seconds < least) least = seconds; // the first one warms up
    }
    api->event_free(begin);
    api->event_free(end);
    return least / RUNS;
}

static void time_operator(bench *b, const ls_op_desc *desc) {
    const ls_device_api *api = b->device->api;
    ls_buffer args[LS_OP_ARGS_MAX],
        workspace = ls_buffer_at(b->memory, ARGUMENT_BYTES * LS_OP_ARGS_MAX, WORKSPACE_BYTES);
    ls_plan *plan;
    ls_captured_graph *graph;
    for (size_t i = 0; i < LS_OP_ARGS_MAX; i++) args[i] = ls_buffer_at(b->memory, i * ARGUMENT_BYTES, ARGUMENT_BYTES);
    need(api->plan_new(b->device, desc, &plan));
    ls_plan_run(plan, args, workspace, b->queue);
    need(api->queue_sync(b->queue));
    need(api->capture_begin(b->queue));
    for (int i = 0; i < RUNS; i++) ls_plan_run(plan, args, workspace, b->queue);
    need(api->capture_end(b->queue, &graph));
    printf("  %7.1f (%s)", 1e6 * shortest(b, graph), plan->algorithm);
    api->graph_free(graph);
    api->plan_free(plan);
}

static const struct {
    const char *of;
    int n, c, size, k, kernel, stride, pad;
} convolutions[] = { { "resnet20 stem", 128, 3, 32, 16, 3, 1, 1 }, { "resnet20 stage 1", 128, 16, 32, 16, 3, 1, 1 },
    { "resnet20 1 to 2", 128, 16, 32, 32, 3, 2, 1 }, { "resnet20 1 to 2", 128, 16, 32, 32, 1, 2, 0 },
    { "resnet20 stage 2", 128, 32, 16, 32, 3, 1, 1 }, { "resnet20 2 to 3", 128, 32, 16, 64, 3, 2, 1 },
    { "resnet20 2 to 3", 128, 32, 16, 64, 1, 2, 0 }, { "resnet20 stage 3", 128, 64, 8, 64, 3, 1, 1 },
    { "lenet conv1", 128, 1, 28, 32, 5, 1, 2 }, { "lenet conv2", 128, 32, 14, 64, 5, 1, 2 },
    { "airbench94 whiten", 1024, 3, 32, 24, 2, 1, 0 }, { "airbench94 group 1", 1024, 24, 31, 64, 3, 1, 1 },
    { "airbench94 group 1", 1024, 64, 15, 64, 3, 1, 1 }, { "resnet9 prep", 512, 3, 32, 64, 3, 1, 1 },
    { "stage 1 at 512", 512, 16, 32, 16, 3, 1, 1 }, { "stage 2 at 512", 512, 32, 16, 32, 3, 1, 1 },
    { "24 channels", 32, 24, 32, 24, 3, 1, 1 }, { "pictures of 64", 32, 32, 64, 32, 3, 1, 1 },
    { "1x1", 128, 48, 16, 48, 1, 1, 0 }, { "64 to 128", 128, 64, 16, 128, 3, 1, 1 },
    { "128", 128, 128, 16, 128, 3, 1, 1 } };

static void time_convolutions(void) {
    bench b[] = { bench_open(&(ls_device_options){ .tf32 = 1, .convolution = "library" }),
        bench_open(&(ls_device_options){ .tf32 = 1, .convolution = "implicit gemm" }) };
    static const ls_dtype types[] = { LS_BF16, LS_F32 };
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        for (size_t i = 0; i < sizeof convolutions / sizeof *convolutions; i++) {
            const int n = convolutions[i].n, c = convolutions[i].c, size = convolutions[i].size, k = convolutions[i].k;
            const int kernel = convolutions[i].kernel, stride = convolutions[i].stride, pad = convolutions[i].pad;
            const int written = (size + 2 * pad - kernel) / stride + 1;
            for (ls_op op = LS_OP_CONV_FORWARD; op <= LS_OP_CONV_BACKWARD_WEIGHT; op++) {
                if (op == LS_OP_CONV_BACKWARD_DATA && c <= 3) continue; // of pictures
                ls_op_desc desc = { .op = op, .layer = convolutions[i].of };
                desc.attr.conv = (ls_conv_attr){ .src = { n, c, size, size },
                    .dst = { n, k, written, written },
                    .kernel_h = kernel,
                    .kernel_w = kernel,
                    .stride_h = stride,
                    .stride_w = stride,
                    .pad_h = pad,
                    .pad_w = pad,
                    .dilation = 1,
                    .groups = 1,
                    .storage = types[t],
                    .rounds = types[t] != LS_F32 && op == LS_OP_CONV_BACKWARD_WEIGHT };
                printf("%-20s %s %4dx%dx%dx%d to %d, %dx%d, stride %d, %-20s", desc.layer, ls_dtype_name(types[t]), n,
                    c, size, size, k, kernel, kernel, stride, ls_op_name(op));
                for (int way = 0; way < 2; way++) time_operator(&b[way], &desc);
                printf("\n");
            }
        }
    }
    for (int way = 0; way < 2; way++) bench_close(&b[way]);
}

static const int norms[][3] = { { 128, 16, 32 }, { 128, 32, 16 }, { 128, 64, 8 }, { 32, 16, 32 }, { 512, 16, 32 },
    { 128, 64, 32 }, { 128, 64, 16 }, { 128, 128, 16 }, { 128, 256, 8 }, { 128, 512, 4 }, { 512, 64, 32 },
    { 512, 128, 16 }, { 512, 256, 8 }, { 512, 512, 4 }, { 1024, 64, 15 }, { 1024, 256, 7 }, { 1024, 256, 3 },
    { 32, 64, 8 }, { 32, 512, 4 } };

static void time_norms(void) {
    bench b[] = { bench_open(&(ls_device_options){ .alone = 1 }), bench_open(&(ls_device_options){ .alone = 0 }) };
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++) {
        for (int kind = 0; kind < 4; kind++) {
            const int backward = kind / 2, residual = kind % 2;
            ls_op_desc desc = { .op = backward ? LS_OP_NORM_BACKWARD : LS_OP_NORM_FORWARD, .layer = "norm" };
            ls_nchw shape = { norms[i][0], norms[i][1], norms[i][2], norms[i][2] };
            desc.attr.norm = (ls_norm_attr){ .shape = shape,
                .storage = LS_BF16,
                .activation = LS_ACTIVATION_RELU,
                .residual = residual,
                .two_grads = backward && residual,
                .eps = 1e-5F };
            printf("%4dx%dx%dx%d bf16 %-19s %-10s", shape.n, shape.c, shape.h, shape.w, ls_op_name(desc.op),
                residual ? "residual" : "");
            for (int way = 0; way < 2; way++) time_operator(&b[way], &desc);
            printf("\n");
        }
    }
    for (int way = 0; way < 2; way++) bench_close(&b[way]);
}

int main(int argc, char **argv) {
    int wants_convolutions = argc == 1, wants_norms = argc == 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "convolutions") == 0) {
            wants_convolutions = 1;
        } else if (strcmp(argv[i], "norms") == 0) {
            wants_norms = 1;
        } else {
            fprintf(stderr, "bench_gpu: unknown word '%s'; expected is convolutions or norms\n", argv[i]);
            return 2;
        }
    }
    if (wants_convolutions) time_convolutions();
    if (wants_norms) time_norms();
    return 0;
}
