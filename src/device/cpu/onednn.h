// onednn.h - what the cpu device uses of oneDNN: convolutions on blocked layouts, run by one thread each. The only file
// that includes the library is onednn.c, which is written for its versions 2.6 and 3.x.
//
// A primitive is made for one thread and a fixed number of samples;
// the device's own tasks run it on different samples at once.
#ifndef LS_DEVICE_CPU_ONEDNN_H
#define LS_DEVICE_CPU_ONEDNN_H

#include <stddef.h>
#include "base/shape.h"
#include "base/status.h"

typedef struct ls_onednn ls_onednn;
typedef struct ls_onednn_conv ls_onednn_conv;

typedef enum { LS_ONEDNN_FORWARD, LS_ONEDNN_BACKWARD_DATA, LS_ONEDNN_BACKWARD_WEIGHT } ls_onednn_pass;

// src_channels, dst_channels: with padding, whole blocks for each group; src and dst blocked, of storage; weights [K/B][C/groups/B][R][S]
// [B of C][B of K], or for backward data with the last two exchanged, see ls_onednn_conv_exchanged. With bf16, which is for processors
// that multiply it (AVX512-BF16) and one group: as ls_onednn_conv_arrange makes them; their gradient is fp32, laid out as without.
typedef struct {
    ls_onednn_pass pass;
    int samples, src_channels, dst_channels, groups, h, w, p, q;
    int kernel[2], stride[2], pad[2], dilation; // rows, columns
    int block, has_bias;
    ls_dtype storage;
} ls_onednn_conv_attr;

// Which tensors a run touches: forward reads src, weight, bias and writes dst; backward data reads dst, weight and
// writes src; backward weight reads src, dst and overwrites weight and bias.
typedef struct {
    void *src, *weight, *dst;
    float *bias;
    void *scratch; // ls_onednn_conv_scratch_bytes, 64-byte aligned
} ls_onednn_conv_args;

LS_CHECKED ls_status ls_onednn_new(int threads, ls_onednn **out);
void ls_onednn_free(ls_onednn *onednn); // NULL is allowed
void ls_onednn_describe(char *text, size_t bytes);

// *out is NULL when the library has only slow (not generated) code for these layouts.
LS_CHECKED ls_status ls_onednn_conv_new(ls_onednn *onednn, const ls_onednn_conv_attr *attr, ls_onednn_conv **out);
void ls_onednn_conv_free(ls_onednn_conv *conv);              // NULL is allowed
const char *ls_onednn_conv_name(const ls_onednn_conv *conv); // "onednn jit:avx2"; lives as long as conv
int ls_onednn_conv_exchanged(const ls_onednn_conv *conv);
size_t ls_onednn_conv_scratch_bytes(const ls_onednn_conv *conv);
// bf16, forward and backward data: weights [K/B][C/B][R][S][B of C][B of K], 64-byte aligned, as the library multiplies them. 0: needs none.
size_t ls_onednn_conv_arranged_bytes(const ls_onednn_conv *conv);
LS_CHECKED ls_status ls_onednn_conv_arrange(const ls_onednn_conv *conv, const void *weight, void *arranged);
// Whether both read the same weights.
int ls_onednn_conv_alike(const ls_onednn_conv *a, const ls_onednn_conv *b);
// Concurrent runs must have different thread numbers, 0..threads-1.
LS_CHECKED ls_status ls_onednn_conv_run(const ls_onednn_conv *conv, int thread, const ls_onednn_conv_args *args);

#endif
