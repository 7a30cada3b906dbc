// main.c - how long operators take on this machine's GPU, by each of the ways in which they can be computed.
//
//   bench_gpu [launches] [convolutions] [norms]       (build with cmake --build build --target bench_gpu)
//
// Prints microseconds of one run out of a captured graph of 20, the shortest of five launches, including the gap between two launches.
// "warm": all runs use the same memory, so small operands stay in the L2. "cold": each run has memory of its own; operands below
// 6 MB still stay in an L2 of 50 MB. Convolutions by cuDNN in its own order ("library") and by own kernels ("implicit gemm");
// batch norm in one grid where one rank has the GPU alone ("alone"), or as several ranks have it ("shared").
// "launches": a graph of 100 dependent kernels of one block, which shows what a launch costs by itself.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"

enum { RUNS = 20, LAUNCHES = 5, DEPENDENT = 100, PATTERN_BYTES = 1 << 20 };
static const size_t ARGUMENT_BYTES = (size_t)384 << 20, LARGEST_BYTES = (size_t)192 << 20,
                    WORKSPACE_BYTES = (size_t)1 << 30;

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

// Seconds of the fastest of some launches of the graph.
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
        if (i > 0 && seconds < least) least = seconds; // the first launch warms up
    }
    api->event_free(begin);
    api->event_free(end);
    return least;
}

// Run number `run` of the plan; apart: bytes from one run's operands to the next run's.
static void enqueue(bench *b, const ls_plan *plan, size_t run, size_t apart) {
    ls_buffer args[LS_OP_ARGS_MAX];
    for (size_t i = 0; i < LS_OP_ARGS_MAX; i++)
        args[i] = ls_buffer_at(b->memory, i * ARGUMENT_BYTES + run * apart, ARGUMENT_BYTES - run * apart);
    ls_plan_run(plan, args, ls_buffer_at(b->memory, ARGUMENT_BYTES * LS_OP_ARGS_MAX, WORKSPACE_BYTES), b->queue);
}

// Microseconds of one of `runs` runs in one graph.
static double captured_us(bench *b, const ls_plan *plan, int runs, size_t apart) {
    const ls_device_api *api = b->device->api;
    ls_captured_graph *graph;
    need(api->capture_begin(b->queue));
    for (int i = 0; i < runs; i++) enqueue(b, plan, (size_t)i, apart);
    need(api->capture_end(b->queue, &graph));
    const double seconds = shortest(b, graph);
    api->graph_free(graph);
    return 1e6 * seconds / runs;
}

static ls_plan *plan_of(bench *b, const ls_op_desc *desc) {
    ls_plan *plan;
    need(b->device->api->plan_new(b->device, desc, &plan));
    enqueue(b, plan, 0, 0);
    need(b->device->api->queue_sync(b->queue));
    return plan;
}

static void time_operator(bench *b, const ls_op_desc *desc) {
    enum { ALIGNMENT = 256 };
    const size_t apart = (ARGUMENT_BYTES - LARGEST_BYTES) / RUNS / ALIGNMENT * ALIGNMENT;
    ls_plan *plan = plan_of(b, desc);
    printf("  warm %7.1f cold %7.1f (%s)", captured_us(b, plan, RUNS, 0), captured_us(b, plan, RUNS, apart),
        plan->algorithm);
    b->device->api->plan_free(plan);
}

static void time_launches(void) {
    bench b = bench_open(&(ls_device_options){ .tf32 = 1 });
    ls_op_desc desc = { .op = LS_OP_RELU_FORWARD, .layer = "one block" };
    desc.attr.elementwise = (ls_elementwise_attr){ .shape = { 1, 1, 8, 8 }, .storage = LS_F32 };
    ls_plan *plan = plan_of(&b, &desc);
    printf("%d dependent launches in a graph: %.2f us each\n", DEPENDENT, captured_us(&b, plan, DEPENDENT, 0));
    b.device->api->plan_free(plan);
    bench_close(&b);
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
    { "128", 128, 128, 16, 128, 3, 1, 1 }, { "94 % whiten at 24", 1536, 3, 24, 24, 2, 1, 0 },
    { "94 % group 1 at 24", 1536, 24, 23, 64, 3, 1, 1 }, { "94 % group 1 at 24", 1536, 64, 11, 64, 3, 1, 1 },
    { "94 % group 2 at 24", 1536, 64, 11, 256, 3, 1, 1 }, { "94 % group 2 at 24", 1536, 256, 5, 256, 3, 1, 1 },
    { "94 % group 3 at 24", 1536, 256, 5, 256, 3, 1, 1 }, { "94 % group 3 at 24", 1536, 256, 2, 256, 3, 1, 1 },
    { "94 % group 1 at 28", 1536, 24, 27, 64, 3, 1, 1 }, { "94 % group 1 at 28", 1536, 64, 13, 64, 3, 1, 1 },
    { "94 % group 2 at 28", 1536, 64, 13, 256, 3, 1, 1 }, { "94 % group 2 at 28", 1536, 256, 6, 256, 3, 1, 1 },
    { "94 % group 3 at 28", 1536, 256, 3, 256, 3, 1, 1 }, { "94 % group 1 at 32", 1536, 24, 31, 64, 3, 1, 1 },
    { "94 % group 1 at 32", 1536, 64, 15, 64, 3, 1, 1 }, { "94 % group 2 at 32", 1536, 64, 15, 256, 3, 1, 1 },
    { "94 % group 2 at 32", 1536, 256, 7, 256, 3, 1, 1 } };

// Whether every operand of the convolution fits into what an argument has.
static int fits(int n, int c, int size, int k, int written, ls_dtype type) {
    const size_t wide = (size_t)n * (size_t)size * (size_t)size * (size_t)(c < 8 ? 8 : c);
    const size_t out = (size_t)n * (size_t)written * (size_t)written * (size_t)(k < 8 ? 8 : k);
    return (wide > out ? wide : out) * (type == LS_F32 ? 4 : 2) <= LARGEST_BYTES;
}

static void time_convolutions(void) {
    bench b[] = { bench_open(&(ls_device_options){ .tf32 = 1, .convolution = "library" }),
        bench_open(&(ls_device_options){ .tf32 = 1, .convolution = "implicit gemm" }) };
    static const ls_dtype types[] = { LS_BF16, LS_F32 };
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        for (size_t i = 0; i < sizeof convolutions / sizeof *convolutions; i++) {
            const int n = convolutions[i].n, c = convolutions[i].c, size = convolutions[i].size, k = convolutions[i].k;
            const int kernel = convolutions[i].kernel, stride = convolutions[i].stride, pad = convolutions[i].pad;
            const int written = (size + 2 * pad - kernel) / stride + 1;
            if (!fits(n, c, size, k, written, types[t])) continue;
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
    static const struct {
        const char *word;
        void (*run)(void);
    } parts[] = { { "launches", time_launches }, { "convolutions", time_convolutions }, { "norms", time_norms } };
    enum { PARTS = sizeof parts / sizeof *parts };
    int wanted[PARTS] = { 0 };
    for (int i = 1; i < argc; i++) {
        int part = 0;
        while (part < PARTS && strcmp(argv[i], parts[part].word) != 0) part++;
        if (part == PARTS) {
            fprintf(stderr, "bench_gpu: unknown word '%s'; expected is launches, convolutions or norms\n", argv[i]);
            return 2;
        }
        wanted[part] = 1;
    }
    for (int part = 0; part < PARTS; part++) {
        if (argc == 1 || wanted[part]) parts[part].run();
        fflush(stdout); // a call that is cut keeps what it has measured
    }
    return 0;
}
