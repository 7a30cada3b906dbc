// kernels.h - the inner loops of the cpu device. They are written once for vectors of LS_VL floats and compiled for
// each of these widths:
//   1   plain tensors (few channels, NCHW), treated as blocked tensors with one channel in a block
//   4   any x86-64 (SSE2) and arm64 (NEON), by the compiler's vectors alone
//   8   AVX2
//   16  AVX-512; and again for AVX2 (LS_EMULATED), to test the 16-wide layouts on machines without AVX-512
// Width 1 is compiled for AVX2, and again (LS_BASELINE) beside width 4 for any processor. Width 4 is compiled once more
// with AVX2's fused multiply-add (LS_EMULATED), so that x86-64 can test the arithmetic of arm64.
//
// Each width is compiled for activations and their gradients stored as floats and, with LS_STORED_BF16, as bfloat16
// (with LS_NATIVE_BF16 the instruction of AVX512-BF16 does the rounding). Void pointers here, except `index`, point to
// stored activations; arithmetic on them is fp32. Strides count elements. There is a table of function pointers for
// each width and storage. Kernels do not use threads: callers give them independent pieces. Tensors are blocked:
// [n][channel block][h][w][LS_VL]; a plane is one [h][w][LS_VL].
#ifndef LS_DEVICE_CPU_KERNELS_H
#define LS_DEVICE_CPU_KERNELS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/half.h"
#include "device/op_elementwise.h"
#include "device/op_norm.h"
#include "device/op_quantise.h"
#include "device/op_update.h"

// A range of samples of one channel block: sample i is at pointer + i * stride elements.
typedef struct {
    size_t stride;
    int samples, pixels;
    int stream; // write around the cache, for tensors too large to stay in it
} ls_kernel_span;

typedef struct { // absent tensors are NULL
    const void *src, *grad_dst, *grad_dst2;
    const void *dst; // output of a relu; if NULL, the relu's input is computed again
    void *grad_src, *grad_residual;
    ls_activation activation;
    float parameter; // of the activation
    // with a 2x2 max pooling after the relu; grad_dst, grad_dst2 and index are then a quarter as large
    const uint8_t *index;
    int width; // width of the map; used with index only
} ls_kernel_norm_grad;

typedef struct { // output of a 2x2 max pooling after batch norm and relu: a quarter of the span
    void *dst;
    uint8_t *index; // may be NULL
    int width;      // width of the map
} ls_kernel_norm_pool;

// A norm over the channels of each pixel of a sample. All blocks of the sample are read.
typedef struct {
    const void *src, *grad_dst; // [blocks][pixels][width]
    void *out;                  // dst or grad_src
    const float *gamma, *beta;  // NULL unless affine
    float *mean, *r;            // for each pixel: mean, and 1/deviation; forward writes them, backward reads them
    double *sums; // backward adds to the sums: for each channel grad_dst, then grad_dst * (src - mean) * r
    size_t plane; // elements of a block
    int blocks, channels, pixels;
    float eps;
} ls_kernel_pixel_norm;

typedef struct {
    int h, w, p, q, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w; // stride 0: adaptive
    int relu;
    int wide_index; // uint16 instead of uint8
    int stream;     // write around the cache: only max pooling's backward pass, with 2x2 windows that do not overlap
} ls_kernel_pool;

// Copies channels from one or two neighbouring blocks of a tensor into one block of another tensor: p x q pixels. Rows
// and steps count pixels. Lane i of dst takes lane number lane[i] of the two source blocks, counted across both; with
// `add`, this value is added to lane i. If lane[i] is -1, lane i becomes 0; with `keep` it does not change.
typedef struct {
    int p, q;
    size_t src_row, src_step, dst_row, dst_step;
    int lane[16], keep, add;
} ls_kernel_channels;

// Dropout of the first `channels` channels of a block, [pixels][LS_VL]; the other channels become 0. Pixel i of channel
// c takes word number word + c * pixels + i of the random stream (base/philox.h) that key, a and b select.
typedef struct {
    uint64_t word;
    uint32_t key[2], a, b;
    int pixels, channels;
    float p; // probability that a value is dropped
} ls_kernel_dropout;

// C[m][n] = (or +=) sum_k A[m][k] * B[k][n], for one piece of C. A(m,k) is at a + m*a_m + k*a_k, and B(k,n) at b +
// k*b_k + n*b_n, where b_k or b_n is 1. Columns of B from `columns` on count as zero and are not read.
enum { LS_GEMM_DEPTH = 256 }; // depth of a panel
typedef struct {
    const float *a, *b;
    size_t a_m, a_k, b_k, b_n;
    float *panel; // memory for LS_GEMM_DEPTH * gemm_cols floats
    float *c;
    size_t c_m;
    const float *bias; // bias of column 0, or NULL
    int m, n, k, columns;
    int accumulate;
} ls_kernel_gemm;

// Direct convolution of one sample: dst block = bias + sum over source blocks. src is a padded copy
// [block][height][width][depth], with depth channels in each pixel. The weights of a tap are [depth][LS_VL].
typedef struct {
    const float *src;
    const float *weight;
    const float *bias; // may be NULL
    void *dst;
    int blocks, depth, height, width; // of the padded source
    int top, filled;                  // padding rows at the top; rows that are not padding
    int last;                         // channels of the last block; zeros follow
    int p, q, kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    size_t weight_block, weight_row, weight_tap; // distances in floats: between source blocks, rows of taps, taps
    // distances in elements: from an output pixel to the one below and to the one on its right
    size_t dst_row, dst_step;
    int half; // the dst block has at most LS_VL / 2 channels
    int pair; // compute two dst blocks at once
    // pair: distances from the first block to the second, in floats and in elements. The second bias follows the first.
    size_t weight_next, dst_next;
} ls_kernel_conv;

// Weight gradient of one sample, one source block, one destination block: grad_weight[r][s][depth][LS_VL] += ...
typedef struct {
    const float *src;     // padded copy of one block [height][width][depth]
    const void *grad_dst; // [p][q][LS_VL]
    float *grad_weight;
    int depth, width;
    int channels; // used channels of depth; zeros follow
    int half;     // grad_dst has at most LS_VL / 2 channels
    int p, q, kernel_h, kernel_w, stride_h, stride_w, dilation;
} ls_kernel_conv_grad;

// Grouped convolution of one sample, for one block of outputs. Lane l reads `depth` source channels, those of its
// group. The i-th of these channels is copied to lane l of padded copy i, so that every lane of a multiplication is
// useful. In a depthwise convolution (depth 1) each channel is in its lane already. Weights and sums:
// [kernel_h][depth][kernel_w][LS_VL].
enum { LS_GROUPED_ROWS = 32 }; // most rows of a kernel
typedef struct {
    const void *src; // [h][w][LS_VL]: the sample's first block; if `first` is NULL, the only block that is read
    // The first channel of each lane's group. Far below 0: the lane reads zeros. NULL: depth 1, channels are already in
    // their lanes.
    const int32_t *first;
    int last; // the largest element of `first`
    int depth, h, w;
    int top, left, spread_h, spread_w; // source pixel (y,x) lies at (top + y*spread_h, left + x*spread_w) of the copy
    int width;                         // columns outside 0..width-1 are dropped; missing rows are zero
    int kept;                          // source rows kept at a time, a power of two
    float *rows; // memory for the kept rows: [kept + 1][depth][width][LS_VL]; zero before the first call
    int p, q, kernel_h, kernel_w, stride_h, stride_w, dilation;
    const float *weight, *bias; // forward; bias may be NULL
    void *dst;                  // [p][q][LS_VL]
    int stream;                 // write around the cache
    const void *grad_dst;       // weight gradient: [p][q][LS_VL]
    float *sums;                // weight gradient: the kernel adds to the sums
} ls_kernel_grouped;

// The grid of fake quantisation: whole numbers from least to most, times scale.
typedef struct {
    float scale, least, most;
} ls_kernel_grid;

typedef struct {
    float multiplier, lr, decay, momentum, beta1, beta2, eps;
    float rest1, rest2;             // 1 - beta1, 1 - beta2, each rounded once from double
    float correction1, correction2; // 1/(1 - beta1^t), 1/sqrt(1 - beta2^t)
    int nesterov, first;
} ls_kernel_step;

// One step of an optimizer on n elements. kept: the tensors that the optimizer keeps from update to update; the step
// updates them. Their number depends on the optimizer.
typedef void ls_kernel_optimizer(
    const ls_kernel_step *step, const float *grad, float *const kept[], float *weight, size_t n);

// Computes n elements: dst[i] from a[i] and b[i]. b is NULL for an operator with one input. attr: the operator's
// constants.
typedef void ls_kernel_elementwise(const void *a, const void *b, void *dst, size_t n, const ls_elementwise_attr *attr);

typedef struct {
    int width;
    int gemm_rows, gemm_cols;                   // size of the register tile
    const struct ls_winograd_kernels *winograd; // winograd.h; NULL for tensors with few channels
    // elementwise.c: the element-wise operators
#define ELEMENTWISE(NAME, name, text, output, flops) ls_kernel_elementwise *name;
#include "device/ops.def"
    void (*dropout)(const ls_kernel_dropout *dropout, const void *src, void *dst); // dropout.c; dst may be src
    // norm.c. sums is double[2][width]: norm_stats sums x and x^2 (without cancellation, see norm.c), norm_grad_sums
    // sums g and g * (x - mean).
    void (*norm_stats)(const ls_kernel_span *span, const void *src, double *sums);
    void (*norm_apply)(const ls_kernel_span *span, const void *src, const void *residual, ls_activation activation,
        float parameter, const float *constants,
        void *dst); // constants: mean, factor, offset, each [width]
    void (*norm_apply_pool)(const ls_kernel_span *span, const void *src, const void *residual, const float *constants,
        const ls_kernel_norm_pool *pool);
    // constants, each [width]: mean, factor and offset of the forward pass; norm_grad_apply also reads level and slope.
    // norm_grad_sums ignores factor and offset if dst is enough.
    void (*norm_grad_sums)(
        const ls_kernel_span *span, const ls_kernel_norm_grad *grad, const float *constants, double *sums);
    void (*norm_grad_apply)(const ls_kernel_span *span, const ls_kernel_norm_grad *grad, const float *constants);
    // grad_src = grad_dst * factor - level - (src - mean) * slope. constants: mean, factor, level, slope, each [width]
    void (*group_norm_grad)(const void *src, const void *grad_dst, const float *constants, void *grad_src, int pixels);
    void (*pixel_norm)(const ls_kernel_pixel_norm *norm);
    void (*pixel_norm_grad)(const ls_kernel_pixel_norm *norm);
    // channels.c. low, high: the two source blocks; high: NULL if none of its lanes is taken
    void (*copy_channels)(const ls_kernel_channels *copy, const void *low, const void *high, void *dst);
    void (*gate)(const void *src, const void *gate, void *dst, int pixels);
    void (*gate_backward)(const void *src, const void *grad_dst, void *grad_gate, int pixels);
    // pool.c: whole planes, one after the other
    void (*pool_max_forward)(const ls_kernel_pool *pool, int planes, const void *src, void *dst, void *index);
    void (*pool_max_backward)(
        const ls_kernel_pool *pool, int planes, const void *grad_dst, const void *index, void *grad_src);
    void (*pool_average_forward)(const ls_kernel_pool *pool, int planes, const void *src, void *dst);
    void (*pool_average_backward)(const ls_kernel_pool *pool, int planes, const void *grad_dst, void *grad_src);
    // gemm.c
    void (*gemm)(const ls_kernel_gemm *gemm);
    // column_sums.c
    void (*column_sums)(const void *a, size_t stride, int rows, int columns, float *sums); // sums[j] += sum_i a[i][j]
    // floats.c: n elements. Activations stored as floats are copied bit for bit.
    void (*to_floats)(const void *src, float *dst, size_t n);
    void (*from_floats)(const float *src, void *dst, size_t n); // rounded to nearest, ties to even; NaN stays NaN
    // conv.c
    void (*conv)(const ls_kernel_conv *conv);
    void (*conv_grad)(const ls_kernel_conv_grad *conv);
    // conv_grouped.c
    void (*conv_grouped)(const ls_kernel_grouped *conv);
    void (*conv_grouped_grad)(const ls_kernel_grouped *conv);
    // quantise.c; in place is allowed. quantise_lanes: `each` vectors, in which a lane is an output channel
    void (*quantise)(const ls_kernel_grid *grid, const float *src, float *dst, size_t n);
    void (*quantise_backward)(
        const ls_kernel_grid *grid, const float *src, const float *grad_dst, float *grad_src, size_t n);
    void (*quantise_lanes)(const float *src, float *dst, size_t each);
    // update.c
    int (*to_fixed_point)(const float *grad, double factor, double divisor, int64_t *fixed,
        size_t n); // returns 1 if an element did not fit
    void (*from_fixed_point)(const int64_t *fixed, double share, double factor, float *grad, size_t n);
    void (*grad_stats)(const float *grad, size_t n, double partial[2]);
#define STEP(NAME, name, text, flops) ls_kernel_optimizer *name;
#include "device/ops.def"
} ls_kernels;

extern const ls_kernels ls_kernels_v1b, ls_kernels_v4, ls_kernels_v4e, ls_kernels_v1, ls_kernels_v8, ls_kernels_v16,
    ls_kernels_v16e;
extern const ls_kernels ls_kernels_v1b_bf16, ls_kernels_v4_bf16, ls_kernels_v4e_bf16, ls_kernels_v1_bf16,
    ls_kernels_v8_bf16, ls_kernels_v16_bf16, ls_kernels_v16n_bf16, ls_kernels_v16e_bf16;

#ifdef LS_VL // inside a kernel's file

#define LS_JOIN2(a, b) a##b
#define LS_JOIN(a, b) LS_JOIN2(a, b)
#if defined(LS_EMULATED)
#define LS_FLOAT_KERNEL(name) LS_JOIN(LS_JOIN(name##_v, LS_VL), e)
#elif defined(LS_BASELINE)
#define LS_FLOAT_KERNEL(name) LS_JOIN(LS_JOIN(name##_v, LS_VL), b)
#else
#define LS_FLOAT_KERNEL(name) LS_JOIN(name##_v, LS_VL)
#endif
#ifdef LS_STORED_BF16
#ifdef LS_NATIVE_BF16
#define LS_KERNEL(name) LS_JOIN(LS_FLOAT_KERNEL(name), n_bf16)
#else
#define LS_KERNEL(name) LS_JOIN(LS_FLOAT_KERNEL(name), _bf16)
#endif
typedef uint16_t stored;
#else
#define LS_KERNEL(name) LS_FLOAT_KERNEL(name)
typedef float stored;
#endif

#if (LS_VL == 8 || LS_VL == 16) && !defined(LS_EMULATED)
#include <immintrin.h>
#endif

// Rows of a register tile of products. AVX-512 and NEON have twice as many registers as AVX2 and SSE2.
#if (LS_VL == 16 && !defined(LS_EMULATED)) || defined(__aarch64__)
#define LS_GEMM_ROWS 12
#else
#define LS_GEMM_ROWS 6
#endif

enum { LS_SEGMENT = 256 }; // number of pixels that are summed alone before their sum is added to the total

typedef float vf __attribute__((vector_size(LS_VL * 4)));
typedef int32_t vi __attribute__((vector_size(LS_VL * 4)));
typedef uint8_t vb __attribute__((vector_size(LS_VL)));
typedef uint32_t vu __attribute__((vector_size(LS_VL * 4)));
typedef uint16_t vh __attribute__((vector_size(LS_VL * 2)));
// Types of vectors in memory that is aligned to single elements and may alias.
typedef float vfu __attribute__((vector_size(LS_VL * 4), aligned(4), may_alias));
typedef uint8_t vbu __attribute__((vector_size(LS_VL), aligned(1), may_alias));
typedef uint16_t vhu __attribute__((vector_size(LS_VL * 2), aligned(2), may_alias));

static inline vf load_floats(const float *p) {
    return *(const vfu *)p;
}
static inline void store_floats(float *p, vf v) {
    *(vfu *)p = v;
}
static inline vf broadcast(float x) {
    return x - (vf){ 0 };
}
static inline vi lanes(void) { // 0, 1, 2, ...
    vi lane;
    for (int i = 0; i < LS_VL; i++) lane[i] = i;
    return lane;
}
static inline vf pick(vi mask, vf yes, vf no) { // each lane of mask: all ones or zero
#if LS_VL == 8
    return _mm256_blendv_ps(no, yes, (__m256)mask);
#else
    return (vf)((mask & (vi)yes) | (~mask & (vi)no));
#endif
}
#if LS_VL > 1
static inline vf take_lanes(vf v, vi lane) { // lane numbers count modulo LS_VL
#if LS_VL == 8
    return _mm256_permutevar8x32_ps(v, (__m256i)lane);
#elif LS_VL == 16 && !defined(LS_EMULATED)
    return _mm512_permutexvar_ps((__m512i)lane, v);
#elif !defined(__clang__)
    return __builtin_shuffle(v, lane);
#else
    vf taken;
    for (int i = 0; i < LS_VL; i++) taken[i] = v[lane[i] & (LS_VL - 1)];
    return taken;
#endif
}
// Returns a vector whose lane i is lane number lane[i] of two vectors. Numbers count modulo 2 * LS_VL, across both
// vectors.
static inline vf take_lanes_of_two(vf low, vf high, vi lane) {
#if LS_VL == 16 && !defined(LS_EMULATED)
    return _mm512_permutex2var_ps(low, (__m512i)lane, high);
#else
    return pick((lane & LS_VL) != 0, take_lanes(high, lane), take_lanes(low, lane));
#endif
}
#endif
// For half a block of outputs, a vector multiplies two neighbouring channels at once: lanes 2k and 2k + 1 hold output
// k's products of the first and of the second channel. (Half vectors would take as long as whole vectors on processors
// that do not split vectors.)
#if LS_VL == 16
typedef double vf_pairs __attribute__((vector_size(64)));
#define LS_EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define LS_ODD 1, 3, 5, 7, 9, 11, 13, 15
#define LS_NONE 16, 16, 16, 16, 16, 16, 16, 16
#define LS_IN_TURN 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define LS_TWICE 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7
#elif LS_VL == 8
typedef double vf_pairs __attribute__((vector_size(32)));
#define LS_EVEN 0, 2, 4, 6
#define LS_ODD 1, 3, 5, 7
#define LS_NONE 8, 8, 8, 8
#define LS_IN_TURN 0, 8, 1, 9, 2, 10, 3, 11
#define LS_TWICE 0, 0, 1, 1, 2, 2, 3, 3
#elif LS_VL == 4
typedef double vf_pairs __attribute__((vector_size(16)));
#define LS_EVEN 0, 2
#define LS_ODD 1, 3
#define LS_NONE 4, 4
#define LS_IN_TURN 0, 4, 1, 5
#define LS_TWICE 0, 0, 1, 1
#endif
#if LS_VL > 1
#ifdef __clang__
#define LS_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define LS_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (vi){ __VA_ARGS__ })
#endif
static inline vf two_channels(const float *x) { // x[0], x[1], x[0], x[1], ...
    double two;
    memcpy(&two, x, sizeof two);
    return (vf)(two - (vf_pairs){ 0 });
}
static inline vf in_turn(vf even, vf odd) { // interleaves their first halves
    return LS_SHUFFLE(even, odd, LS_IN_TURN);
}
static inline vf twice(vf v) { // each element of the first half twice
    return LS_SHUFFLE(v, v, LS_TWICE);
}
static inline vf evens(vf v) { // the even lanes as a first half; the second half is zero
    return LS_SHUFFLE(v, (vf){ 0 }, LS_EVEN, LS_NONE);
}
static inline vf odds(vf v) {
    return LS_SHUFFLE(v, (vf){ 0 }, LS_ODD, LS_NONE);
}
#endif

// Loads numbers of one byte each. (gcc's own conversion works element by element.)
static inline vi load_bytes(const uint8_t *p) {
#if LS_VL == 8
    return (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i_u *)p));
#elif LS_VL == 16 && !defined(LS_EMULATED)
    return (vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i_u *)p));
#else
    return __builtin_convertvector((vb) * (const vbu *)p, vi);
#endif
}
static inline void store_bytes(uint8_t *p, vi v) { // 0 to 255
#if LS_VL == 8
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128((__m256i)v), _mm256_extracti128_si256((__m256i)v, 1));
    _mm_storel_epi64((__m128i_u *)p, _mm_packus_epi16(words, words));
#else
    *(vbu *)p = __builtin_convertvector(v, vb);
#endif
}

// Loads bfloat16 numbers as floats: each is the upper half of a float.
static inline vf load_bf16(const uint16_t *p) {
#if LS_VL == 8
    return (vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i_u *)p)), 16);
#elif LS_VL == 16 && !defined(LS_EMULATED)
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i_u *)p)), 16);
#else
    return (vf)(__builtin_convertvector((vh) * (const vhu *)p, vu) << 16);
#endif
}
// Rounds floats to bfloat16, to nearest, ties to even; NaN stays NaN. (The AVX512-BF16 instruction turns values below
// 2^-126 into zeros.)
#if LS_VL == 16 && !defined(LS_EMULATED)
static inline __m256i narrow_bf16(vf v) {
#ifdef LS_NATIVE_BF16
    return (__m256i)_mm512_cvtneps_pbh(v);
#else
    static const uint16_t upper[32] = { 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31 };
    const vu bits = (vu)v, rounded = bits + 0x7fff + (bits >> 16 & 1);
    const __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i whole = _mm512_mask_or_epi32((__m512i)rounded, is_nan, (__m512i)bits, _mm512_set1_epi32(0x400000));
    return _mm512_castsi512_si256(_mm512_permutexvar_epi16(_mm512_loadu_si512(upper), whole));
#endif
}
static inline void store_bf16(uint16_t *p, vf v) {
    _mm256_storeu_si256((__m256i_u *)p, narrow_bf16(v));
}
#else
static inline vu round_bf16(vf v) {
    const vu bits = (vu)v, rounded = bits + 0x7fff + (bits >> 16 & 1);
    return (vu)pick((vi)(v == v), (vf)rounded, (vf)(bits | 0x400000)) >> 16;
}
#if LS_VL == 8
static inline __m128i narrow_bf16(vf v) {
    const __m256i halves = (__m256i)round_bf16(v), packed = _mm256_packus_epi32(halves, halves);
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 8));
}
static inline void store_bf16(uint16_t *p, vf v) {
    _mm_storeu_si128((__m128i_u *)p, narrow_bf16(v));
}
#else
static inline void store_bf16(uint16_t *p, vf v) {
    *(vhu *)p = __builtin_convertvector(round_bf16(v), vh);
}
#endif
#endif

// load and store work on floats and on stored activations, depending on the pointer's type.
#define load(p) (_Generic((p), const uint16_t * : load_bf16, uint16_t * : load_bf16, default : load_floats)(p))
#define store(p, ...) _Generic((p), uint16_t * : store_bf16, default : store_floats)(p, __VA_ARGS__)
static inline float number(const stored *p) { // one stored element
#ifdef LS_STORED_BF16
    return ls_float_from_bf16(*p);
#else
    return *p;
#endif
}

static inline vf positive(vf v) { // max(v, 0); NaN stays NaN
#if LS_VL == 8
    return _mm256_max_ps(_mm256_setzero_ps(), v);
#elif LS_VL == 16 && !defined(LS_EMULATED)
    return _mm512_max_ps(_mm512_setzero_ps(), v);
#else
    return (vf)(~(vi)(v < (vf){ 0 }) & (vi)v);
#endif
}
// Writes around the cache. p must be aligned to the stored vector.
static inline void store_around(stored *p, vf v) {
#if LS_VL == 8 && defined(LS_STORED_BF16)
    _mm_stream_si128((__m128i *)p, narrow_bf16(v));
#elif LS_VL == 8
    _mm256_stream_ps(p, v);
#elif LS_VL == 16 && !defined(LS_EMULATED) && defined(LS_STORED_BF16)
    _mm256_stream_si256((__m256i *)p, narrow_bf16(v));
#elif LS_VL == 16 && !defined(LS_EMULATED)
    _mm512_stream_ps(p, v);
#else
    store(p, v);
#endif
}
static inline void store_fence(void) {
#if (LS_VL == 8 || LS_VL == 16) && !defined(LS_EMULATED)
    _mm_sfence();
#endif
}

// The kernels that are compiled for each storage type (fp32, bf16), except ops.def's element-wise ones and Winograd's.
#define LS_KERNEL_LIST(X) \
    X(dropout) \
    X(norm_stats) \
    X(norm_apply) \
    X(norm_apply_pool) \
    X(norm_grad_sums) \
    X(norm_grad_apply) \
    X(group_norm_grad) \
    X(pixel_norm) \
    X(pixel_norm_grad) \
    X(copy_channels) \
    X(gate) \
    X(gate_backward) \
    X(pool_max_forward) \
    X(pool_max_backward) \
    X(pool_average_forward) \
    X(pool_average_backward) \
    X(column_sums) \
    X(to_floats) \
    X(from_floats) \
    X(conv) \
    X(conv_grad) \
    X(conv_grouped) \
    X(conv_grouped_grad)
// The kernels that use only floats (gemm.c, quantise.c, update.c), except ops.def's optimizers and Winograd's.
#define LS_FLOAT_KERNEL_LIST(X) \
    X(gemm) \
    X(quantise) \
    X(quantise_backward) \
    X(quantise_lanes) \
    X(to_fixed_point) \
    X(from_fixed_point) \
    X(grad_stats)

extern const struct ls_winograd_kernels LS_KERNEL(ls_winograd);
#define LS_KERNEL_DECLARE(name) extern __typeof__(*((ls_kernels *)0)->name) LS_KERNEL(name);
#define LS_FLOAT_KERNEL_DECLARE(name) extern __typeof__(*((ls_kernels *)0)->name) LS_FLOAT_KERNEL(name);
LS_KERNEL_LIST(LS_KERNEL_DECLARE)
LS_FLOAT_KERNEL_LIST(LS_FLOAT_KERNEL_DECLARE)
#define ELEMENTWISE(NAME, name, text, output, flops) LS_KERNEL_DECLARE(name)
#define STEP(NAME, name, text, flops) LS_FLOAT_KERNEL_DECLARE(name)
#include "device/ops.def"
#undef LS_FLOAT_KERNEL_DECLARE
#undef LS_KERNEL_DECLARE

#endif
#endif
