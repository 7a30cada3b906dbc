// depthwise.cu - depthwise convolution. Memory bandwidth limits it. A thread owns a pack of channels. The weights of a
// block's channels are in shared memory.
//
// A block has `columns` neighbouring packs of channels and `lanes` threads for each pack, which take turns with the
// pixels.
//
// Estimates for 16-bit storage on an H200 (sm_90): 4.8 TB/s and 132 multiprocessors, each needing 24 KiB of
// loads in flight. Blocks of 256 threads; "blocks" are blocks on a multiprocessor; several values are for kernels of
// 3x3, 5x5, 7x7. In flight: a row of taps over a strip, or a row of taps.
//                         bytes/element      registers     blocks    in flight         least time for a map of 64 MiB
//   depthwise             4                  82, 96, 128   2         48, 64, 80 KiB    28 us, 28 us, 55 us
//   depthwise_data        2.5 (stride 2)     40            6         24 KiB            17 us
//   depthwise_weight      4 (reads both)     116, 77, 96   2, 3, 2   80, 72, 64 KiB    28 us; 28 us, 55 us
//   depthwise_weight_sum  4 for each part    32            8         128 KiB           time of a launch
// The 9, 25 or 49 multiply-adds for each element take 10, 28 or 55 us for such a map: from 5x5 on, arithmetic is a
// limit too. For 5x5 and 7x7 kernels, each row of the weight gradient has blocks of its own, which read both maps
// again, from the L2 if they fit.
#include "device/cuda/kernels/depthwise.h"

#include "device/cuda/kernels/kernels.cuh"

enum {
    CHANNELS = 128,        // channels of a block
    STRIP = 4,             // neighbouring pixels of a row that a thread computes at once; they share the inputs
    STRIPS_OF_THREAD = 4,  // strips for which a thread uses the block's weights
    PIXELS_OF_THREAD = 16, // gradients: pixels of a thread; of the weight: more if it has PARTS_MAX parts
    PARTS_MAX = 128,       // weight gradient: most parts of the pixels
    PACK_MAX = 8           // largest pack of all storage types
};

typedef struct {
    int channels, packs, columns, lanes, groups; // groups: groups of `columns` packs
    int n, h, w, p, q;                           // h, w: of the map that is read; p, q: of the result, or of grad_dst
    int stride_h, stride_w, pad_h, pad_w;
    int reverse; // take taps in reverse order: the convolution that is the backward pass
    int pixels, parts;
    ls_divider by_q, by_p; // by_q: divides by the strips or pixels of a row
} map;

static map map_of(const ls_cuda_conv_geometry &g, int pack) {
    map m = { g.c, g.padded_c / pack, 0, 0, 0, g.n, g.h, g.w, g.p, g.q, g.stride_h, g.stride_w, g.pad_h, g.pad_w, 0, 0,
        0, {}, {} };
    m.columns = m.packs < CHANNELS / pack ? m.packs : CHANNELS / pack;
    m.lanes = LS_BLOCK / m.columns;
    m.groups = (m.packs + m.columns - 1) / m.columns;
    return m;
}

// Splits rows of `row` pieces among blocks whose threads take `each` pieces.
static void cut(map *m, int row, int each) {
    m->pixels = m->n * m->p * row;
    m->by_q = ls_divider_of(row);
    m->by_p = ls_divider_of(m->p);
    m->parts = (m->pixels + m->lanes * each - 1) / (m->lanes * each);
}

static __device__ inline void pixel_of(const map &m, int at, int *n, int *p, int *q) {
    uint32_t row = ls_divide(static_cast<uint32_t>(at), m.by_q), sample = ls_divide(row, m.by_p);
    *q = at - static_cast<int>(row * m.by_q.divisor);
    *p = static_cast<int>(row - sample * m.by_p.divisor);
    *n = static_cast<int>(sample);
}

static __device__ inline int64_t pack_at(const map &m, int n, int height, int y, int width, int x, int column) {
    return ((static_cast<int64_t>(n) * height + y) * width + x) * m.packs + column;
}

// Copies the weights of the block's channels to shared memory, as [tap][CHANNELS]. Ends with a barrier of the block.
template <typename T>
static __device__ inline void bring_weights(const map &m, int first, int taps, const T *weight, float *to) {
    int count = (m.packs - first < m.columns ? m.packs - first : m.columns) * ls_pack<T>::size * taps;
    weight += static_cast<int64_t>(first) * ls_pack<T>::size * taps;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += LS_BLOCK) {
        int channel = i / taps, tap = i - channel * taps;
        to[(m.reverse ? taps - 1 - tap : tap) * CHANNELS + channel] = ls_float(weight[i]);
    }
    __syncthreads();
}

template <typename T>
static __device__ inline void store_pack(const map &m, int column, ls_pack<T> out, T *dst, int64_t at) {
    LS_UNROLL
    for (int i = 0; i < ls_pack<T>::size; i++) {
        if (column * ls_pack<T>::size + i >= m.channels) out.v[i] = 0;
    }
    ls_pack_store(dst + at * ls_pack<T>::size, out);
}

// --- forward, and backward data with stride 1 ----------------------------------------------------------

// Adds one row of the kernel: the sums of the strip += the taps times the source row from column `left` on.
template <typename T, int K, int STRIDE>
static __device__ inline void add_row(
    const map &m, const T *row, int left, const float *weights, ls_pack<T> sum[STRIP]) {
    constexpr int size = ls_pack<T>::size;
    ls_pack<float> w[K][size / ls_pack<float>::size];
    LS_UNROLL
    for (int s = 0; s < K; s++) {
        LS_UNROLL
        for (int i = 0; i < size / ls_pack<float>::size; i++)
            w[s][i] = ls_pack_load(weights + s * CHANNELS + i * ls_pack<float>::size);
    }
    LS_UNROLL
    for (int x = 0; x < (STRIP - 1) * STRIDE + K; x++) {
        if (left + x < 0 || left + x >= m.w) continue;
        ls_pack<T> in = ls_pack_load(row + static_cast<int64_t>(left + x) * m.packs * size);
        LS_UNROLL
        for (int j = 0; j < STRIP; j++) {
            int s = x - j * STRIDE; // known at compile time after unrolling
            if (s < 0 || s >= K) continue;
            LS_UNROLL
            for (int i = 0; i < size; i++)
                sum[j].v[i] += in.v[i] * w[s][i / ls_pack<float>::size].v[i % ls_pack<float>::size];
        }
    }
}

// The forward pass, and the data gradient with stride 1. Grid: m.groups * m.parts blocks. A thread computes
// STRIPS_OF_THREAD strips of a pack.
template <typename T, int K, int STRIDE>
static __global__ void depthwise(map m, const T *src, const T *weight, const float *bias, T *dst) {
    constexpr int size = ls_pack<T>::size;
    LS_SHARED(float, weights, K *K *CHANNELS);
    int t = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x), part = block / m.groups;
    int first = block % m.groups * m.columns, column = t % m.columns, lane = t / m.columns;
    bring_weights(m, first, K * K, weight, weights);
    if (lane >= m.lanes || first + column >= m.packs) return;
    for (int i = 0; i < STRIPS_OF_THREAD; i++) {
        int at = (part * STRIPS_OF_THREAD + i) * m.lanes + lane, n, p, q;
        if (at >= m.pixels) return;
        pixel_of(m, at, &n, &p, &q);
        q *= STRIP;
        ls_pack<T> sum[STRIP] = {};
        for (int r = 0; r < K; r++) {
            int y = p * STRIDE - m.pad_h + r;
            if (y < 0 || y >= m.h) continue;
            add_row<T, K, STRIDE>(m, src + pack_at(m, n, m.h, y, m.w, 0, first + column) * size, q * STRIDE - m.pad_w,
                weights + r * K * CHANNELS + column * size, sum);
        }
        LS_UNROLL
        for (int j = 0; j < STRIP; j++) {
            if (q + j >= m.q) break;
            LS_UNROLL
            for (int k = 0; k < size; k++) sum[j].v[k] += bias ? bias[(first + column) * size + k] : 0;
            store_pack(m, first + column, sum[j], dst, pack_at(m, n, m.p, p, m.q, q + j, first + column));
        }
    }
}

template <typename T, int STRIDE>
static void depthwise_launch(
    map m, int kernel, const T *src, const T *weight, const float *bias, T *dst, cudaStream_t stream) {
    cut(&m, (m.q + STRIP - 1) / STRIP, STRIPS_OF_THREAD);
    int blocks = m.groups * m.parts;
    if (kernel == 3)
        LS_LAUNCH_BLOCK((depthwise<T, 3, STRIDE>), blocks, LS_BLOCK, stream, m, src, weight, bias, dst);
    else if (kernel == 5)
        LS_LAUNCH_BLOCK((depthwise<T, 5, STRIDE>), blocks, LS_BLOCK, stream, m, src, weight, bias, dst);
    else
        LS_LAUNCH_BLOCK((depthwise<T, 7, STRIDE>), blocks, LS_BLOCK, stream, m, src, weight, bias, dst);
}

template <typename T>
static void forward_launch(
    const ls_cuda_conv_geometry &g, const T *src, const T *weight, const float *bias, T *dst, cudaStream_t stream) {
    map m = map_of(g, ls_pack<T>::size);
    if (g.stride_h == 1)
        depthwise_launch<T, 1>(m, g.kernel_h, src, weight, bias, dst, stream);
    else
        depthwise_launch<T, 2>(m, g.kernel_h, src, weight, bias, dst, stream);
}

void ls_cuda_depthwise_forward(const ls_cuda_conv_geometry *g, const void *src, const void *weight, const float *bias,
    void *dst, cudaStream_t stream) {
    LS_BY_STORAGE(g->storage, forward_launch(*g, static_cast<const T *>(src), static_cast<const T *>(weight), bias,
                                  static_cast<T *>(dst), stream));
}

// --- backward data with other strides: a gather, so that every element of grad_src is written once -------------

// Returns the output whose tap r meets input y, or -1 if no output's does.
static __device__ inline int output_of(int y, int pad, int r, int stride, int outputs) {
    int at = y + pad - r;
    if (at < 0 || at % stride) return -1;
    at /= stride;
    return at < outputs ? at : -1;
}

// The data gradient with strides. Grid: m.groups * m.parts blocks. A thread computes pixels of a pack. m.h and m.w:
// size of grad_dst; m.p and m.q: size of grad_src.
template <typename T, int K>
static __global__ void depthwise_data(map m, const T *grad_dst, const T *weight, T *grad_src) {
    constexpr int size = ls_pack<T>::size;
    LS_SHARED(float, weights, K *K *CHANNELS);
    int t = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x), part = block / m.groups;
    int first = block % m.groups * m.columns, column = t % m.columns, lane = t / m.columns;
    bring_weights(m, first, K * K, weight, weights);
    if (lane >= m.lanes || first + column >= m.packs) return;
    for (int i = 0; i < PIXELS_OF_THREAD; i++) {
        int at = (part * PIXELS_OF_THREAD + i) * m.lanes + lane, n, y, x;
        if (at >= m.pixels) return;
        pixel_of(m, at, &n, &y, &x);
        ls_pack<T> sum = {};
        for (int tap = 0; tap < K * K; tap++) {
            int p = output_of(y, m.pad_h, tap / K, m.stride_h, m.h),
                q = output_of(x, m.pad_w, tap % K, m.stride_w, m.w);
            if (p < 0 || q < 0) continue;
            ls_pack<T> in = ls_pack_load(grad_dst + pack_at(m, n, m.h, p, m.w, q, first + column) * size);
            LS_UNROLL
            for (int k = 0; k < size; k++) sum.v[k] += in.v[k] * weights[tap * CHANNELS + column * size + k];
        }
        store_pack(m, first + column, sum, grad_src, pack_at(m, n, m.p, y, m.q, x, first + column));
    }
}

template <typename T>
static void backward_data_launch(
    const ls_cuda_conv_geometry &g, const T *grad_dst, const T *weight, T *grad_src, cudaStream_t stream) {
    map m = map_of(g, ls_pack<T>::size);
    m.h = g.p, m.w = g.q, m.p = g.h, m.q = g.w;
    if (g.stride_h == 1) {
        m.pad_h = g.kernel_h - 1 - g.pad_h, m.pad_w = g.kernel_w - 1 - g.pad_w;
        m.reverse = 1;
        depthwise_launch<T, 1>(m, g.kernel_h, grad_dst, weight, nullptr, grad_src, stream);
        return;
    }
    cut(&m, m.q, PIXELS_OF_THREAD);
    int blocks = m.groups * m.parts;
    if (g.kernel_h == 3)
        LS_LAUNCH_BLOCK((depthwise_data<T, 3>), blocks, LS_BLOCK, stream, m, grad_dst, weight, grad_src);
    else if (g.kernel_h == 5)
        LS_LAUNCH_BLOCK((depthwise_data<T, 5>), blocks, LS_BLOCK, stream, m, grad_dst, weight, grad_src);
    else
        LS_LAUNCH_BLOCK((depthwise_data<T, 7>), blocks, LS_BLOCK, stream, m, grad_dst, weight, grad_src);
}

void ls_cuda_depthwise_backward_data(
    const ls_cuda_conv_geometry *g, const void *grad_dst, const void *weight, void *grad_src, cudaStream_t stream) {
    LS_BY_STORAGE(g->storage, backward_data_launch(*g, static_cast<const T *>(grad_dst), static_cast<const T *>(weight),
                                  static_cast<T *>(grad_src), stream));
}

// --- backward weight -----------------------------------------------------------------------------
// A block sums some rows of taps over its part of the pixels, first in each thread, then over its lanes. A second
// launch adds up the parts.

// Number of rows of the convolution's kernel whose sums a thread keeps in registers.
static constexpr int rows_of(int kernel) {
    return kernel == 3 ? 3 : 1;
}

// Sums the weight gradient of each part of the pixels. Grid: m.groups * (K / ROWS) * m.parts blocks. out:
// [parts][taps][packs][size]
template <typename T, int K, int ROWS>
static __global__ void depthwise_weight(map m, const T *src, const T *grad_dst, float *out) {
    constexpr int size = ls_pack<T>::size;
    LS_SHARED(float, room, LS_BLOCK *PACK_MAX);
    int t = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x), part = block / (m.groups * (K / ROWS));
    int first = block % m.groups * m.columns, column = t % m.columns, lane = t / m.columns;
    int first_row = block / m.groups % (K / ROWS) * ROWS;
    float sum[ROWS][K][size] = {};
    bool real = lane < m.lanes && first + column < m.packs;
    for (int at = part * m.lanes + lane; real && at < m.pixels; at += m.parts * m.lanes) {
        int n, p, q;
        pixel_of(m, at, &n, &p, &q);
        ls_pack<T> grad = ls_pack_load(grad_dst + pack_at(m, n, m.p, p, m.q, q, first + column) * size);
        LS_UNROLL
        for (int r = 0; r < ROWS; r++) {
            int y = p * m.stride_h - m.pad_h + first_row + r;
            if (y < 0 || y >= m.h) continue;
            LS_UNROLL
            for (int s = 0; s < K; s++) {
                int x = q * m.stride_w - m.pad_w + s;
                if (x < 0 || x >= m.w) continue;
                ls_pack<T> in = ls_pack_load(src + pack_at(m, n, m.h, y, m.w, x, first + column) * size);
                LS_UNROLL
                for (int i = 0; i < size; i++) sum[r][s][i] += in.v[i] * grad.v[i];
            }
        }
    }
    LS_UNROLL
    for (int tap = 0; tap < ROWS * K; tap++) {
        LS_UNROLL
        for (int i = 0; i < size; i++) room[t * size + i] = sum[tap / K][tap % K][i];
        __syncthreads();
        if (t < m.columns * size && first * size + t < m.packs * size) {
            float all = 0;
            for (int i = 0; i < m.lanes; i++) all += room[i * m.columns * size + t];
            out[(static_cast<int64_t>(part) * K * K + first_row * K + tap) * m.packs * size + first * size + t] = all;
        }
        __syncthreads();
    }
}

// Adds up the parts' sums, and adds the result to grad_weight. Grid: one thread for each tap of a channel.
static __global__ void depthwise_weight_sum(
    int channels, int padded, int taps, int parts, const float *from, float *grad_weight) {
    int64_t at = static_cast<int64_t>(blockIdx.x) * LS_BLOCK + threadIdx.x;
    if (at >= static_cast<int64_t>(channels) * taps) return;
    int channel = static_cast<int>(at / taps), tap = static_cast<int>(at - static_cast<int64_t>(channel) * taps);
    float sum = 0;
    LS_UNROLL_BY(16)
    for (int part = 0; part < parts; part++) sum += from[(static_cast<int64_t>(part) * taps + tap) * padded + channel];
    grad_weight[at] += sum;
}

static map weight_map(const ls_cuda_conv_geometry &g) {
    map m = map_of(g, g.storage == LS_F32 ? ls_pack<float>::size : ls_pack<__half>::size);
    cut(&m, m.q, PIXELS_OF_THREAD);
    if (m.parts > PARTS_MAX) m.parts = PARTS_MAX;
    return m;
}

size_t ls_cuda_depthwise_workspace(const ls_cuda_conv_geometry *g) {
    return static_cast<size_t>(weight_map(*g).parts) * g->kernel_h * g->kernel_w * g->padded_c * sizeof(float);
}

template <typename T, int K>
static void backward_weight_launch(const map &m, const T *src, const T *grad_dst, float *parts, cudaStream_t stream) {
    constexpr int rows = rows_of(K);
    int blocks = m.groups * (K / rows) * m.parts;
    LS_LAUNCH_BLOCK((depthwise_weight<T, K, rows>), blocks, LS_BLOCK, stream, m, src, grad_dst, parts);
}

template <typename T>
static void backward_weight_by_kernel(
    const ls_cuda_conv_geometry &g, const T *src, const T *grad_dst, float *parts, cudaStream_t stream) {
    if (g.kernel_h == 3)
        backward_weight_launch<T, 3>(weight_map(g), src, grad_dst, parts, stream);
    else if (g.kernel_h == 5)
        backward_weight_launch<T, 5>(weight_map(g), src, grad_dst, parts, stream);
    else
        backward_weight_launch<T, 7>(weight_map(g), src, grad_dst, parts, stream);
}

void ls_cuda_depthwise_backward_weight(const ls_cuda_conv_geometry *g, const void *src, const void *grad_dst,
    float *grad_weight, void *workspace, cudaStream_t stream) {
    float *parts = static_cast<float *>(workspace);
    LS_BY_STORAGE(g->storage,
        backward_weight_by_kernel(*g, static_cast<const T *>(src), static_cast<const T *>(grad_dst), parts, stream));
    int taps = g->kernel_h * g->kernel_w, blocks = ls_blocks(static_cast<int64_t>(g->c) * taps, LS_BLOCK);
    LS_LAUNCH(depthwise_weight_sum, blocks, LS_BLOCK, stream, g->c, g->padded_c, taps, weight_map(*g).parts, parts,
        grad_weight);
}

int ls_cuda_depthwise_can(const ls_cuda_conv_geometry *g) {
    int64_t src = static_cast<int64_t>(g->n) * g->h * g->w, dst = static_cast<int64_t>(g->n) * g->p * g->q;
    bool kernel = g->kernel_h == g->kernel_w && (g->kernel_h == 3 || g->kernel_h == 5 || g->kernel_h == 7);
    bool stride = g->stride_h == g->stride_w && (g->stride_h == 1 || g->stride_h == 2);
    return g->groups > 1 && g->groups == g->c && g->groups == g->k && kernel && stride && g->dilation == 1 &&
           src <= INT32_MAX / 2 && dst <= INT32_MAX / 2;
}
