// shape.h - element types and tensor shapes.
#ifndef LS_BASE_SHAPE_H
#define LS_BASE_SHAPE_H

#include <stddef.h>
#include <stdint.h>

//    name  bytes  text
#define LS_DTYPES(X) \
    X(F32, 4, "fp32") \
    X(BF16, 2, "bf16") \
    X(F16, 2, "fp16") \
    X(F64, 8, "fp64") \
    X(U8, 1, "uint8") \
    X(I32, 4, "int32") \
    X(I64, 8, "int64")

typedef enum {
#define LS_DTYPE_ENUM(name, bytes, text) LS_##name,
    LS_DTYPES(LS_DTYPE_ENUM)
#undef LS_DTYPE_ENUM
        LS_DTYPE_COUNT
} ls_dtype;

size_t ls_dtype_bytes(ls_dtype dtype);
const char *ls_dtype_name(ls_dtype dtype); // "fp32", "bf16", ...

// Rows and columns of a window, a stride or a padding.
typedef struct {
    int h, w;
} ls_pair;

// One sample: channels, height, width. A vector of K features is (K, 1, 1).
typedef struct {
    int c, h, w;
} ls_chw;

// A batch of samples: number of samples, channels, height, width.
typedef struct {
    int n, c, h, w;
} ls_nchw;

static inline int64_t ls_chw_count(ls_chw s) {
    return (int64_t)s.c * s.h * s.w;
}
static inline int64_t ls_nchw_count(ls_nchw s) {
    return (int64_t)s.n * s.c * s.h * s.w;
}
static inline ls_nchw ls_batch_of(int n, ls_chw s) {
    ls_nchw batch = { n, s.c, s.h, s.w }; // not a compound literal: GPU kernels include this header as C++
    return batch;
}
static inline int ls_chw_equal(ls_chw a, ls_chw b) {
    return a.c == b.c && a.h == b.h && a.w == b.w;
}

// Shape of a parameter or statistic of the network, in PyTorch's layout: row-major over dim[0..3]. A vector has dim =
// {C, 1, 1, 1}. A linear weight has {O, C, H, W}, where (C,H,W) is the shape of its input (a flattened feature map), or
// {O, I, 1, 1}. A convolution weight has {K, C/groups, R, S}.
typedef enum { LS_PARAM_VECTOR, LS_PARAM_LINEAR, LS_PARAM_CONV } ls_param_kind;
typedef struct {
    ls_param_kind kind;
    int dim[4];
    int groups; // groups of a convolution; else 1
} ls_param_shape;

static inline int64_t ls_param_count(const ls_param_shape *p) {
    return (int64_t)p->dim[0] * p->dim[1] * p->dim[2] * p->dim[3];
}

#endif
