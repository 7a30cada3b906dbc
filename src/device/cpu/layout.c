// layout.c - converts between the canonical layouts (NCHW, OIHW, rows) and the device's own.
#include <string.h>
#include "base/half.h"
#include "device/cpu/cpu.h"

// Both layouts of a tensor consist of pieces of `count` x `lanes` elements:
//   canonical[first + lane * stride + j] = device[at + j * step + lane]
// lane runs over neighbours in the device's layout, j over neighbours in the canonical layout.
typedef struct {
    size_t first, stride, at, step;
    int count, lanes;
} piece;

typedef struct copy copy;
struct copy {
    void (*move)(const copy *copy, const piece *p);
    const void *from;
    void *to;
};

static void to_device(const copy *c, const piece *p) {
    for (int j = 0; j < p->count; j++) {
        const float *from = (const float *)c->from + p->first + (size_t)j;
        float *to = (float *)c->to + p->at + (size_t)j * p->step;
        for (int lane = 0; lane < p->lanes; lane++) to[lane] = from[(size_t)lane * p->stride];
    }
}

static void from_device(const copy *c, const piece *p) {
    for (int j = 0; j < p->count; j++) {
        const float *from = (const float *)c->from + p->at + (size_t)j * p->step;
        float *to = (float *)c->to + p->first + (size_t)j;
        for (int lane = 0; lane < p->lanes; lane++) to[(size_t)lane * p->stride] = from[lane];
    }
}

// Like to_device and from_device, for activations that the device stores as bf16.
static void to_bf16(const copy *c, const piece *p) {
    for (int j = 0; j < p->count; j++) {
        const float *from = (const float *)c->from + p->first + (size_t)j;
        uint16_t *to = (uint16_t *)c->to + p->at + (size_t)j * p->step;
        for (int lane = 0; lane < p->lanes; lane++) to[lane] = ls_bf16_from_float(from[(size_t)lane * p->stride]);
    }
}

static void from_bf16(const copy *c, const piece *p) {
    for (int j = 0; j < p->count; j++) {
        const uint16_t *from = (const uint16_t *)c->from + p->at + (size_t)j * p->step;
        float *to = (float *)c->to + p->first + (size_t)j;
        for (int lane = 0; lane < p->lanes; lane++) to[(size_t)lane * p->stride] = ls_float_from_bf16(from[lane]);
    }
}

static void copy_plain(const copy *c, size_t elements) {
    memcpy(c->to, c->from, elements * sizeof(float));
}

static int lanes_of(int all, int first, int block) {
    return all - first < block ? all - first : block;
}

static void copy_activation(const ls_cpu *cpu, ls_nchw s, const copy *c) {
    int block = ls_cpu_block(cpu, s.c);
    size_t pixels = (size_t)s.h * (size_t)s.w;
    piece p = { .stride = pixels, .step = (size_t)block, .count = s.h * s.w };
    for (int n = 0; n < s.n; n++) {
        for (int channel = 0; channel < s.c; channel += block) {
            p.lanes = lanes_of(s.c, channel, block);
            c->move(c, &p);
            p.first += (size_t)p.lanes * pixels;
            p.at += (size_t)block * pixels;
        }
    }
}

static void copy_conv(const ls_cpu *cpu, const ls_param_shape *s, const copy *c) {
    const int b = cpu->block, outs = s->dim[0], ins = s->dim[1], taps = s->dim[2] * s->dim[3];
    const int few = ins <= ls_cpu_few(cpu), depth = few ? ins : b, blocks = few ? 1 : ls_cpu_blocks(cpu, ins);
    piece p = { .stride = (size_t)ins * (size_t)taps, .step = (size_t)depth * (size_t)b, .count = taps };
    for (int o = 0; o < outs; o += b) {
        p.lanes = lanes_of(outs, o, b);
        for (int i = 0; i < ins; i++) {
            size_t row = ((size_t)(o / b) * (size_t)blocks + (size_t)(i / depth)) * (size_t)taps;
            p.first = (size_t)o * p.stride + (size_t)i * (size_t)taps;
            p.at = (row * (size_t)depth + (size_t)(i % depth)) * (size_t)b;
            c->move(c, &p);
        }
    }
}

static void copy_param(const ls_cpu *cpu, const ls_param_shape *s, const copy *c) {
    if (s->kind == LS_PARAM_LINEAR)
        copy_activation(cpu, (ls_nchw){ s->dim[0], s->dim[1], s->dim[2], s->dim[3] }, c);
    else if (s->kind == LS_PARAM_VECTOR || s->groups > 1)
        copy_plain(c, (size_t)ls_param_count(s));
    else
        copy_conv(cpu, s, c);
}

// --- the device's table --------------------------------------------------------------------------

size_t ls_cpu_activation_bytes(const ls_device *device, ls_nchw shape, ls_dtype storage) {
    return ls_cpu_elements((const ls_cpu *)device, shape) * ls_dtype_bytes(storage);
}

void ls_cpu_activation_import(ls_device *device, ls_nchw shape, ls_dtype storage, const float *host, ls_buffer dst) {
    void *to = ls_buffer_host(dst);
    memset(to, 0, ls_cpu_activation_bytes(device, shape, storage)); // zeroes the padding
    copy_activation((const ls_cpu *)device, shape, &(copy){ storage == LS_F32 ? to_device : to_bf16, host, to });
}

void ls_cpu_activation_export(ls_device *device, ls_nchw shape, ls_dtype storage, ls_buffer src, float *host) {
    copy_activation((const ls_cpu *)device, shape,
        &(copy){ storage == LS_F32 ? from_device : from_bf16, ls_buffer_host(src), host });
}

static size_t conv_elements(const ls_cpu *cpu, const ls_param_shape *s) {
    if (s->groups > 1) return (size_t)ls_param_count(s);
    int in = s->dim[1] <= ls_cpu_few(cpu) ? s->dim[1] : ls_cpu_vector(cpu, s->dim[1]);
    return (size_t)ls_cpu_vector(cpu, s->dim[0]) * (size_t)in * (size_t)s->dim[2] * (size_t)s->dim[3];
}

size_t ls_cpu_param_elements(const ls_device *device, const ls_param_shape *s) {
    const ls_cpu *cpu = (const ls_cpu *)device;
    if (s->kind == LS_PARAM_VECTOR) return (size_t)ls_cpu_vector(cpu, s->dim[0]);
    if (s->kind == LS_PARAM_LINEAR)
        return ls_cpu_elements(cpu, (ls_nchw){ s->dim[0], s->dim[1], s->dim[2], s->dim[3] });
    return conv_elements(cpu, s);
}

void ls_cpu_param_import(ls_device *device, const ls_param_shape *s, const float *host, ls_buffer dst) {
    float *to = ls_cpu_floats_at(dst);
    memset(to, 0, ls_cpu_param_elements(device, s) * sizeof(float)); // zeroes the padding
    copy_param((const ls_cpu *)device, s, &(copy){ to_device, host, to });
}

void ls_cpu_param_export(ls_device *device, const ls_param_shape *s, ls_buffer src, float *host) {
    copy_param((const ls_cpu *)device, s, &(copy){ from_device, ls_cpu_floats_at(src), host });
}
