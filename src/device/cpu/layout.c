// layout.c - between the canonical layouts (NCHW, OIHW, rows) and the device's own.
#include <string.h>
#include "device/cpu/cpu.h"

// Every canonical element has one place; `place` gives it. Import clears the rest.
static size_t activation_place(const ls_cpu *cpu, ls_nchw shape, int n, int c, int pixel) {
    int block = ls_cpu_block(cpu, shape.c);
    size_t pixels = (size_t)shape.h * (size_t)shape.w;
    size_t plane = (size_t)n * (size_t)ls_cpu_blocks(cpu, shape.c) + (size_t)(c / block);
    return (plane * pixels + (size_t)pixel) * (size_t)block + (size_t)(c % block);
}

size_t ls_cpu_activation_bytes(const ls_device *device, ls_nchw shape, ls_dtype storage) {
    return ls_cpu_floats((const ls_cpu *)device, shape) * ls_dtype_bytes(storage);
}

void ls_cpu_activation_import(ls_device *device, ls_nchw shape, ls_dtype storage, const float *host, ls_buffer dst) {
    const ls_cpu *cpu = (const ls_cpu *)device;
    float *to = ls_cpu_floats_at(dst);
    memset(to, 0, ls_cpu_activation_bytes(device, shape, storage));
    for (int n = 0; n < shape.n; n++)
        for (int c = 0; c < shape.c; c++)
            for (int i = 0; i < shape.h * shape.w; i++) to[activation_place(cpu, shape, n, c, i)] = *host++;
}

void ls_cpu_activation_export(ls_device *device, ls_nchw shape, ls_dtype storage, ls_buffer src, float *host) {
    const ls_cpu *cpu = (const ls_cpu *)device;
    const float *from = ls_cpu_floats_at(src);
    (void)storage;
    for (int n = 0; n < shape.n; n++)
        for (int c = 0; c < shape.c; c++)
            for (int i = 0; i < shape.h * shape.w; i++) *host++ = from[activation_place(cpu, shape, n, c, i)];
}

static size_t conv_elements(const ls_cpu *cpu, const ls_param_shape *s) {
    if (s->groups > 1) return (size_t)ls_param_count(s);
    int in = s->dim[1] <= LS_CPU_FEW ? s->dim[1] : ls_cpu_vector(cpu, s->dim[1]);
    return (size_t)ls_cpu_vector(cpu, s->dim[0]) * (size_t)in * (size_t)s->dim[2] * (size_t)s->dim[3];
}

size_t ls_cpu_param_elements(const ls_device *device, const ls_param_shape *s) {
    const ls_cpu *cpu = (const ls_cpu *)device;
    if (s->kind == LS_PARAM_VECTOR) return (size_t)ls_cpu_vector(cpu, s->dim[0]);
    if (s->kind == LS_PARAM_LINEAR) return ls_cpu_floats(cpu, (ls_nchw){ s->dim[0], s->dim[1], s->dim[2], s->dim[3] });
    return conv_elements(cpu, s);
}

static size_t conv_place(const ls_cpu *cpu, const ls_param_shape *s, int o, int i, int tap) {
    size_t taps = (size_t)s->dim[2] * (size_t)s->dim[3];
    if (s->groups > 1) return ((size_t)o * (size_t)s->dim[1] + (size_t)i) * taps + (size_t)tap;
    int b = cpu->block, few = s->dim[1] <= LS_CPU_FEW;
    int depth = few ? s->dim[1] : b, blocks = few ? 1 : ls_cpu_blocks(cpu, s->dim[1]);
    size_t row = ((size_t)(o / b) * (size_t)blocks + (size_t)(i / depth)) * taps + (size_t)tap;
    return (row * (size_t)depth + (size_t)(i % depth)) * (size_t)b + (size_t)(o % b);
}

static size_t param_place(const ls_cpu *cpu, const ls_param_shape *s, int o, int i, int tap) {
    if (s->kind == LS_PARAM_VECTOR) return (size_t)o;
    if (s->kind == LS_PARAM_LINEAR)
        return activation_place(cpu, (ls_nchw){ s->dim[0], s->dim[1], s->dim[2], s->dim[3] }, o, i, tap);
    return conv_place(cpu, s, o, i, tap);
}

void ls_cpu_param_import(ls_device *device, const ls_param_shape *s, const float *host, ls_buffer dst) {
    const ls_cpu *cpu = (const ls_cpu *)device;
    float *to = ls_cpu_floats_at(dst);
    memset(to, 0, ls_cpu_param_elements(device, s) * sizeof(float));
    for (int o = 0; o < s->dim[0]; o++)
        for (int i = 0; i < s->dim[1]; i++)
            for (int tap = 0; tap < s->dim[2] * s->dim[3]; tap++) to[param_place(cpu, s, o, i, tap)] = *host++;
}

void ls_cpu_param_export(ls_device *device, const ls_param_shape *s, ls_buffer src, float *host) {
    const ls_cpu *cpu = (const ls_cpu *)device;
    const float *from = ls_cpu_floats_at(src);
    for (int o = 0; o < s->dim[0]; o++)
        for (int i = 0; i < s->dim[1]; i++)
            for (int tap = 0; tap < s->dim[2] * s->dim[3]; tap++) *host++ = from[param_place(cpu, s, o, i, tap)];
}
