#include "tools/bench/peak.h"

#include <string.h>
#include "base/clock.h"
#include "base/memory.h"

enum { SIZE_FIRST = 128, SIZE = 1024, SIZE_GPU = 8192, BURST = 4 };
static const double LONGEST_SECONDS = 0.2; // longest time for one matrix product
// Shape of the arrays that the bandwidth test adds: 64 MiB of fp32 each.
static const ls_nchw array_shape = { 64, 64, 64, 64 };
enum { SRC, WEIGHT, DST, WORKSPACE, BUFFERS };

struct ls_bench_peak {
    ls_device *device;
    ls_queue *queue;
    ls_plan *plan;
    ls_slab *slab[BUFFERS];
    ls_buffer args[LS_LINEAR_FORWARD_ARGS], workspace;
};

static ls_status new_buffer(ls_bench_peak *peak, int which, size_t bytes, const char *what, ls_buffer *out) {
    if (bytes == 0) return LS_SUCCESS;
    LS_TRY(peak->device->api->slab_new(peak->device, LS_MEMORY_DEVICE, bytes, what, &peak->slab[which]));
    *out = ls_buffer_at(peak->slab[which], 0, bytes);
    return LS_SUCCESS;
}

// Fills source and weight of the matrix product with random numbers in [-1, 1): on a GPU, ones and zeros take less
// power and run faster than the numbers of real training. There is no import function for 16-bit weights. On a GPU a
// square weight has the layout of an activation, so the import of activations is used.
static ls_status fill(ls_bench_peak *peak, ls_nchw shape, const ls_param_shape *weight, ls_dtype storage) {
    const ls_device_api *api = peak->device->api;
    int64_t count = ls_nchw_count(shape);
    float *values;
    LS_TRY(LS_NEW(values, count, "matmul peak"));
    uint32_t random = 1;
    for (int64_t i = 0; i < count; i++) {
        random = random * 1664525U + 1013904223U;
        values[i] = (float)(random >> 8) * 0x1p-23F - 1.0F;
    }
    api->activation_import(peak->device, shape, storage, values, peak->args[LS_LINEAR_FORWARD_SRC]);
    if (storage == LS_F32)
        api->param_import(peak->device, weight, values, peak->args[LS_LINEAR_FORWARD_WEIGHT]);
    else if (api->memory)
        api->activation_import(peak->device, shape, storage, values, peak->args[LS_LINEAR_FORWARD_WEIGHT]);
    free(values);
    return LS_SUCCESS;
}

static ls_status plan(ls_bench_peak *peak, ls_dtype storage, int size) {
    const ls_device_api *api = peak->device->api;
    ls_nchw shape = { size, size, 1, 1 };
    ls_param_shape weight = { .kind = LS_PARAM_LINEAR, .dim = { size, size, 1, 1 }, .groups = 1 };
    ls_op_desc desc = { .op = LS_OP_LINEAR_FORWARD,
        .layer = "matmul peak",
        .attr.linear = { .src = shape, .out_features = size, .has_bias = 0, .storage = storage } };
    size_t activation = api->activation_bytes(peak->device, shape, storage);
    size_t weights = api->param_elements(peak->device, &weight) * ls_dtype_bytes(storage);
    LS_TRY(new_buffer(peak, SRC, activation, "matmul peak: source", &peak->args[LS_LINEAR_FORWARD_SRC]));
    LS_TRY(new_buffer(peak, WEIGHT, weights, "matmul peak: weight", &peak->args[LS_LINEAR_FORWARD_WEIGHT]));
    LS_TRY(new_buffer(peak, DST, activation, "matmul peak: result", &peak->args[LS_LINEAR_FORWARD_DST]));
    LS_TRY(api->plan_new(peak->device, &desc, &peak->plan));
    LS_TRY(new_buffer(peak, WORKSPACE, peak->plan->workspace_bytes, "matmul peak: workspace", &peak->workspace));
    return fill(peak, shape, &weight, storage);
}

// Runs a plan again and again for about `seconds`. *rate: runs per second.
static ls_status rate_of(ls_bench_peak *peak, const ls_plan *plan, const ls_buffer *args, ls_buffer workspace,
    double seconds, double *rate) {
    const ls_device_api *api = peak->device->api;
    ls_plan_run(plan, args, workspace, peak->queue); // wakes the threads, fills the caches
    LS_TRY(api->queue_sync(peak->queue));
    double start = ls_clock_seconds(), elapsed = 0;
    int64_t runs = 0;
    for (int64_t burst = BURST; elapsed < seconds; burst *= 2) { // longer bursts wait for the device less often
        for (int64_t i = 0; i < burst; i++) ls_plan_run(plan, args, workspace, peak->queue);
        LS_TRY(api->queue_sync(peak->queue));
        runs += burst;
        elapsed = ls_clock_seconds() - start;
    }
    *rate = (double)runs / elapsed;
    return LS_SUCCESS;
}

static void drop_plan(ls_bench_peak *peak) {
    const ls_device_api *api = peak->device->api;
    if (peak->plan) api->plan_free(peak->plan);
    peak->plan = NULL;
    for (int i = 0; i < BUFFERS; i++) {
        if (peak->slab[i]) api->slab_free(peak->slab[i]);
        peak->slab[i] = NULL;
    }
    peak->workspace = (ls_buffer){ 0 };
}

// Plans the largest matrix product that does not take too long. The plain loops of ref and an emulated GPU get a small
// one.
static ls_status choose_size(ls_bench_peak *peak, ls_dtype storage) {
    const ls_device_api *api = peak->device->api;
    const int largest = api->memory ? SIZE_GPU : SIZE;
    LS_TRY(api->queue_new(peak->device, "matmul peak", &peak->queue));
    for (int size = SIZE_FIRST;; size *= 2) {
        LS_TRY(plan(peak, storage, size));
        if (size == largest) return LS_SUCCESS;
        double start = ls_clock_seconds();
        for (int run = 0; run < 2; run++) { // the first run wakes the threads
            if (run == 1) start = ls_clock_seconds();
            ls_plan_run(peak->plan, peak->args, peak->workspace, peak->queue);
            LS_TRY(api->queue_sync(peak->queue));
        }
        if ((ls_clock_seconds() - start) * 8 > LONGEST_SECONDS) return LS_SUCCESS;
        drop_plan(peak);
    }
}

ls_status ls_bench_peak_new(ls_device *device, ls_dtype storage, ls_bench_peak **out) {
    ls_bench_peak *peak;
    LS_TRY(LS_NEW(peak, 1, "matmul peak"));
    peak->device = device;
    ls_status status = choose_size(peak, storage);
    return LS_GIVE_OR_FREE(status, peak, out, ls_bench_peak_free);
}

void ls_bench_peak_free(ls_bench_peak *peak) {
    if (!peak) return;
    drop_plan(peak);
    if (peak->queue) peak->device->api->queue_free(peak->queue);
    free(peak);
}

ls_status ls_bench_peak_measure(ls_bench_peak *peak, double seconds, double *gflops) {
    LS_TRY(rate_of(peak, peak->plan, peak->args, peak->workspace, seconds, gflops));
    *gflops *= ls_op_flops(&peak->plan->desc) * 1e-9;
    return LS_SUCCESS;
}

ls_status ls_bench_peak_bandwidth(ls_bench_peak *peak, double seconds, double *gbytes) {
    const ls_device_api *api = peak->device->api;
    ls_op_desc desc = {
        .op = LS_OP_ADD, .layer = "bandwidth", .attr.elementwise = { .shape = array_shape, .storage = LS_F32 }
    };
    size_t bytes = api->activation_bytes(peak->device, array_shape, LS_F32);
    ls_slab *slab;
    ls_plan *plan;
    LS_TRY(api->slab_new(peak->device, LS_MEMORY_DEVICE, LS_ADD_ARGS * bytes, "bandwidth", &slab));
    ls_status status = api->plan_new(peak->device, &desc, &plan);
    if (!ls_failed(status)) {
        ls_buffer args[LS_ADD_ARGS];
        for (size_t i = 0; i < LS_ADD_ARGS; i++) args[i] = ls_buffer_at(slab, i * bytes, bytes);
        status = rate_of(peak, plan, args, (ls_buffer){ 0 }, seconds, gbytes);
        *gbytes *= LS_ADD_ARGS * (double)bytes * 1e-9;
        api->plan_free(plan);
    }
    api->slab_free(slab);
    return status;
}

double ls_bench_floor_s(const ls_bench_limits *limits, double flops, double bytes) {
    const double arithmetic_s = flops / (limits->gflops * 1e9), memory_s = bytes / (limits->gbytes * 1e9);
    return arithmetic_s > memory_s ? arithmetic_s : memory_s;
}
