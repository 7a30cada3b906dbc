// onednn.h - the cpu device's interface to oneDNN: convolutions on blocked layouts, each run by one thread. Only
// onednn.c includes the library. It supports versions 2.6 and 3.x. In programs without the library, onednn_absent.c
// takes its place.
//
// A primitive is made for one thread and a fixed number of samples. The device's tasks run it at the same time, on
// different samples or output channels.
#ifndef LS_DEVICE_CPU_ONEDNN_H
#define LS_DEVICE_CPU_ONEDNN_H

#include <stddef.h>
#include "base/shape.h"
#include "base/status.h"

enum { LS_ONEDNN_BLOCK_MIN = 8 }; // the library has no layouts of narrower blocks

typedef struct ls_onednn ls_onednn;
typedef struct ls_onednn_conv ls_onednn_conv;

typedef enum { LS_ONEDNN_FORWARD, LS_ONEDNN_BACKWARD_DATA, LS_ONEDNN_BACKWARD_WEIGHT } ls_onednn_pass;

// src_channels, dst_channels: with padding, whole blocks for each group. src and dst: blocked, of type storage.
// weights: [K/B][C/groups/B][R][S][B of C][B of K]; backward data may need the last two exchanged, see
// ls_onednn_conv_exchanged. bf16 works only on processors that multiply it (AVX512-BF16) and with one group. The
// weights are then in the layout that ls_onednn_conv_arrange makes. Their gradient is fp32 in the same layout as
// without bf16.
typedef struct {
    ls_onednn_pass pass;
    int samples, src_channels, dst_channels, groups, h, w, p, q;
    int kernel[2], stride[2], pad[2], dilation; // rows, columns
    int block, has_bias;
    ls_dtype storage;
} ls_onednn_conv_attr;

// Forward reads src, weight and bias and writes dst. Backward data reads dst and weight and writes src. Backward weight
// reads src and dst and overwrites weight and bias.
typedef struct {
    void *src, *weight, *dst;
    float *bias;
    void *scratch; // ls_onednn_conv_scratch_bytes, 64-byte aligned
} ls_onednn_conv_args;

LS_CHECKED ls_status ls_onednn_new(int threads, ls_onednn **out); // *out is NULL without the library
void ls_onednn_free(ls_onednn *onednn);                           // NULL is allowed
void ls_onednn_describe(char *text, size_t bytes);                // "oneDNN 2.6.3"

// Makes a convolution. *out is NULL if the library has no code, or only slow (not generated) code, for these layouts.
LS_CHECKED ls_status ls_onednn_conv_new(ls_onednn *onednn, const ls_onednn_conv_attr *attr, ls_onednn_conv **out);
void ls_onednn_conv_free(ls_onednn_conv *conv);              // NULL is allowed
const char *ls_onednn_conv_name(const ls_onednn_conv *conv); // "onednn jit:avx2"; lives as long as conv
int ls_onednn_conv_exchanged(const ls_onednn_conv *conv);
size_t ls_onednn_conv_scratch_bytes(const ls_onednn_conv *conv);
// bf16, forward and backward data: size of the weights in the library's own layout, made from [K/B][C/B][R][S][B of
// C][B of K]; 64-byte aligned. 0: no rearranging needed.
size_t ls_onednn_conv_arranged_bytes(const ls_onednn_conv *conv);
LS_CHECKED ls_status ls_onednn_conv_arrange(const ls_onednn_conv *conv, const void *weight, void *arranged);
// Whether both primitives read the same layout of weights.
int ls_onednn_conv_alike(const ls_onednn_conv *a, const ls_onednn_conv *b);
// Runs the convolution. Concurrent runs must have different thread numbers, 0..threads-1.
LS_CHECKED ls_status ls_onednn_conv_run(const ls_onednn_conv *conv, int thread, const ls_onednn_conv_args *args);

#endif
