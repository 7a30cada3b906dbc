// cpu.h - declarations shared by the files of the cpu device.
//
// Layouts. B is the block: the width of the processor's vectors, 4, 8 or 16 floats.
//   activation (N,C,H,W)  few channels (ls_cpu_few): plain [N][C][H][W]; else blocked [N][C/B][H][W][B], with C rounded
//                         up to a multiple of B
//   vector (C)            [C rounded up to a multiple of B]
//   linear weight         [O][K], K the elements of one sample of the source in the layout above
//   conv weight           few channels C: [K/B][R][S][C][B of K]; else [K/B][C/B][R][S][B of C][B of K];
//                         with groups: plain OIHW
// Elements that rounding up adds are zero. Activations, and the copies of weights that operators read, are fp32 or bf16
// in memory (storage). Own kernels compute in fp32. Operators without bf16 kernels work on fp32 copies
// (through_fp32.c).
//
// Threads: an operator is split into tasks; by its shape alone, where the split decides the order of additions. Each
// task writes its own part. So results do not depend on the number of threads.
#ifndef LS_DEVICE_CPU_CPU_H
#define LS_DEVICE_CPU_CPU_H

#include "system/cpus.h"
#include "base/pool.h"
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/onednn.h"
#include "device/device.h"

enum { LS_CPU_ALIGN = 128 };

typedef struct {
    ls_device base;
    const ls_kernels *kernels, *kernels_bf16; // for blocked tensors
    const ls_kernels *plain, *plain_bf16;     // for tensors with few channels
    const char *isa;                          // vector instructions of the kernels: "AVX2"
    int block;
    ls_pool *pool, *alone; // alone: a pool of the calling thread only
    int threads;
    ls_onednn *onednn; // NULL: no oneDNN, or it has no code for the device's layouts
    ls_cpus cpus;
    char winograd[8];       // "auto", "f2" or "off"
    int forced_convolution; // an ls_winograd_variant or ls_conv_algorithm, tried first for each convolution; -1: none
} ls_cpu;

typedef void ls_cpu_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue);
typedef struct ls_cpu_plan ls_cpu_plan;
struct ls_cpu_plan { // the common first part of every plan of this device
    ls_plan base;
    ls_cpu *cpu;
    // For an operator too small for several threads: the function that `run` calls with only the calling thread. Else
    // NULL.
    ls_cpu_run *by_caller;
    void (*release)(ls_cpu_plan *plan); // frees the plan's own resources; NULL: it has none
};

static inline int ls_cpu_few(const ls_cpu *cpu) { // most channels of a plain tensor; fewer than a block has
    return cpu->block > 4 ? 4 : 3;
}
static inline int ls_cpu_block(const ls_cpu *cpu, int channels) {
    return channels <= ls_cpu_few(cpu) ? 1 : cpu->block;
}
static inline int ls_cpu_blocks(const ls_cpu *cpu, int channels) {
    int block = ls_cpu_block(cpu, channels);
    return (channels + block - 1) / block;
}
static inline int ls_cpu_channels(const ls_cpu *cpu, int channels) { // rounded up to whole blocks
    return ls_cpu_blocks(cpu, channels) * ls_cpu_block(cpu, channels);
}
static inline int ls_cpu_vector(const ls_cpu *cpu, int channels) { // elements of a per-channel parameter
    return (channels + cpu->block - 1) / cpu->block * cpu->block;
}
static inline size_t ls_cpu_sample(const ls_cpu *cpu, ls_nchw shape) { // elements of one sample, with padding
    return (size_t)ls_cpu_channels(cpu, shape.c) * (size_t)shape.h * (size_t)shape.w;
}
static inline size_t ls_cpu_elements(const ls_cpu *cpu, ls_nchw shape) {
    return (size_t)shape.n * ls_cpu_sample(cpu, shape);
}
static inline const ls_kernels *ls_cpu_kernels(const ls_cpu *cpu, int channels, ls_dtype storage) {
    if (storage == LS_F32) return channels <= ls_cpu_few(cpu) ? cpu->plain : cpu->kernels;
    return channels <= ls_cpu_few(cpu) ? cpu->plain_bf16 : cpu->kernels_bf16;
}
// Returns the address `elements` after the start of an activation, or NULL if it is absent.
static inline void *ls_cpu_at(const void *activation, size_t elements, ls_dtype storage) {
    return activation ? (char *)(uintptr_t)activation + elements * ls_dtype_bytes(storage) : NULL;
}
static inline float *ls_cpu_floats_at(ls_buffer buffer) { // NULL for an absent buffer
    return buffer.slab ? (float *)(void *)(buffer.slab->address + buffer.offset) : NULL;
}
static inline size_t ls_cpu_round(size_t bytes) { // rounds up, so that the next item is aligned
    return (bytes + LS_CPU_ALIGN - 1) / LS_CPU_ALIGN * LS_CPU_ALIGN;
}
// Whether an address is aligned to a cache line, as stores that bypass the cache need. NULL counts as aligned.
static inline int ls_cpu_aligned(const void *address) {
    return ((uintptr_t)address & 63) == 0;
}
static inline int ls_cpu_share(int total, int part, int parts) { // first index of the part
    return (int)((int64_t)total * part / parts);
}

// layout.c: entries of the device's function table
size_t ls_cpu_activation_bytes(const ls_device *device, ls_nchw shape, ls_dtype storage);
void ls_cpu_activation_import(ls_device *device, ls_nchw shape, ls_dtype storage, const float *host, ls_buffer dst);
void ls_cpu_activation_export(ls_device *device, ls_nchw shape, ls_dtype storage, ls_buffer src, float *host);
size_t ls_cpu_param_elements(const ls_device *device, const ls_param_shape *shape);
void ls_cpu_param_import(ls_device *device, const ls_param_shape *shape, const float *host, ls_buffer dst);
void ls_cpu_param_export(ls_device *device, const ls_param_shape *shape, ls_buffer src, float *host);

// plan.c: makes a zeroed plan struct of `bytes` and fills in its ls_plan part and the device.
void *ls_cpu_plan_make(ls_cpu *cpu, const ls_op_desc *desc, size_t bytes, ls_cpu_run *run, const char *algorithm);
LS_CHECKED ls_status ls_cpu_plan_new(ls_device *device, const ls_op_desc *desc, ls_plan **out);
void ls_cpu_plan_free(ls_plan *plan);

// conv_choose.c: sets *algorithm to the number of a convolution algorithm, or to -1 if name is NULL. LS_USAGE: unknown
// name; the message lists the known ones.
LS_CHECKED ls_status ls_cpu_conv_find(const char *name, int *algorithm);

// product.c: C[m][n] = A * B, or with accumulate C += A * B, summed over k. Columns of B from `columns` on are not read
// and count as zero.
typedef struct {
    const ls_cpu *cpu;
    int m, n, k, columns, accumulate;
    size_t a_m, a_k, b_k, b_n, c_m; // a_m: floats from A(m,k) to A(m+1,k); the others likewise
    const float *a, *b, *bias;      // bias: one value for each column of C, only without accumulate; or NULL
    float *c, *panels;              // panels: memory of ls_cpu_product_bytes
} ls_cpu_product;
size_t ls_cpu_product_bytes(const ls_cpu *cpu);
void ls_cpu_product_run(const ls_cpu_product *product);

// Each family of operators has one function that makes its plans. desc->op is an operator of the family, and
// ls_op_check has passed.
typedef ls_status ls_cpu_maker(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out);
// through_fp32.c: makes a plan for a bf16 operator of the families augment, resize, linear and loss. The plan computes
// on fp32 copies.
LS_CHECKED ls_status ls_cpu_plan_through_fp32(
    ls_cpu *cpu, const ls_op_desc *desc, ls_cpu_maker *in_fp32, ls_plan **out);
ls_cpu_maker ls_cpu_muon_plan;
#define F(family, storage) ls_cpu_maker ls_cpu_##family##_plan;
#include "device/op_families.def"

#endif
