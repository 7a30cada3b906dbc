#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "bench.h"

static ls_status take(bench_operands *o, int at, size_t bytes, ls_buffer *out) {
    LS_TRY(o->device->api->slab_new(o->device, LS_MEMORY_DEVICE, bytes ? bytes : 64, "bench operand", &o->slabs[at]));
    *out = ls_buffer_at(o->slabs[at], 0, bytes);
    return LS_SUCCESS;
}

ls_status bench_operand_bytes(bench_operands *o, int arg, size_t bytes) {
    return take(o, arg, bytes, &o->args[arg]);
}

ls_status bench_operand_activation(bench_operands *o, int arg, ls_nchw shape, const float *host) {
    const ls_device_api *api = o->device->api;
    LS_TRY(take(o, arg, api->activation_bytes(o->device, shape, LS_F32), &o->args[arg]));
    if (host) api->activation_import(o->device, shape, LS_F32, host, o->args[arg]);
    return LS_SUCCESS;
}

ls_status bench_operand_param(bench_operands *o, int arg, ls_param_shape shape, const float *host) {
    const ls_device_api *api = o->device->api;
    LS_TRY(take(o, arg, api->param_elements(o->device, &shape) * sizeof(float), &o->args[arg]));
    if (host) api->param_import(o->device, &shape, host, o->args[arg]);
    return LS_SUCCESS;
}

ls_status bench_operand_workspace(bench_operands *o, size_t bytes) {
    if (bytes <= o->workspace.bytes) return LS_SUCCESS;
    if (o->slabs[LS_OP_ARGS_MAX]) o->device->api->slab_free(o->slabs[LS_OP_ARGS_MAX]);
    o->slabs[LS_OP_ARGS_MAX] = NULL;
    return take(o, LS_OP_ARGS_MAX, bytes, &o->workspace);
}

void bench_operands_free(bench_operands *o) {
    for (int i = 0; i <= LS_OP_ARGS_MAX; i++)
        if (o->slabs[i]) o->device->api->slab_free(o->slabs[i]);
    *o = (bench_operands){ .device = o->device };
}

ls_status bench_parts_add(bench_parts *parts, const ls_op_desc *desc, bench_operands *operands) {
    ls_device *device = operands->device;
    LS_TRY(device->api->plan_new(device, desc, &parts->plan[parts->count]));
    parts->operands[parts->count] = operands;
    parts->count++;
    return bench_operand_workspace(operands, parts->plan[parts->count - 1]->workspace_bytes);
}

void bench_parts_run(void *context) {
    const bench_parts *parts = context;
    for (int i = 0; i < parts->count; i++)
        ls_plan_run(parts->plan[i], parts->operands[i]->args, parts->operands[i]->workspace, parts->queue);
}

void bench_parts_free(bench_parts *parts) {
    for (int i = 0; i < parts->count; i++) parts->operands[i]->device->api->plan_free(parts->plan[i]);
    parts->count = 0;
}

ls_status bench_floats(size_t count, float **out) {
    *out = malloc(count * sizeof **out);
    return *out ? LS_SUCCESS : ls_fail(LS_DEVICE, "out of memory for %zu floats", count);
}

void bench_fill_normal(float *values, size_t count, uint64_t seed) {
    const float deviation = 37837.2F; // of a sum of four uniform 16-bit numbers: 65536 * sqrt(4 / 12)
    for (size_t i = 0; i < count; i++) {
        uint64_t x = (seed + i) * 0x9E3779B97F4A7C15U; // splitmix64
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9U;
        x = (x ^ x >> 27) * 0x94D049BB133111EBU;
        x ^= x >> 31;
        const int32_t sum = (int32_t)(x & 65535) + (int32_t)(x >> 16 & 65535) + (int32_t)(x >> 32 & 65535) +
                            (int32_t)(x >> 48) - 131070;
        values[i] = (float)sum / deviation;
    }
}

void bench_error_add(bench_error *e, double got, double expected) {
    const double error = isfinite(got) ? fabs(got - expected) : INFINITY;
    e->error += error * error;
    e->norm += expected * expected;
    if (error > e->worst) e->worst = error;
    e->count++;
}

double bench_error_rms(const bench_error *e) {
    return sqrt(e->error / e->norm);
}

double bench_error_worst(const bench_error *e) {
    return e->worst / sqrt(e->norm / (double)e->count);
}
