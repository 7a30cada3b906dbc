// direct.cu - direct convolution by threads that never wait for each other. A thread owns a small tile of the result
// and keeps it in registers: a pack of channels times a few samples (which share every bound check), or for the weight
// gradient a pack times a pack. Reads are 16 bytes along the channels. Grouped convolutions, whose channels may start
// anywhere, have simple kernels of their own, which compute one value at a time.
//
// Estimates for 16-bit storage on an H200 (sm_90): 67 TFLOP/s without its tensor cores. A multiprocessor can do 128
// multiply-adds and read 128 bytes from the L1 in each cycle. Blocks of 256 threads; "blocks" are blocks on a
// multiprocessor. "L1 bytes" are read for each multiply-add. "least time" is for 64 to 64 channels, 3x3, 128 maps of
// 32x32.
//                     L1 bytes   registers   blocks   least time
//   forward           1.5        134         1        220 us (L1; with 8 warps, latency adds to it)
//   backward_data     0.75       128         2        145 us
//   backward_weight   0.5        114         2        145 us
//   weight_sum        4 for each slice, from memory; 32 registers, 8 blocks; the time of a launch
//   grouped kernels   4          46 to 66    5, 3     1.2 ms: two reads of single elements for each multiply-add
// Memory bandwidth is no limit: the maps are 16 MiB, 7 us to read and write.
#include "device/cuda/kernels/direct.h"

#include "device/cuda/kernels/kernels.cuh"

typedef ls_cuda_conv_geometry geometry;

enum {
    FORWARD_SAMPLES = 2,   // samples of a tile of the forward pass
    FORWARD_CHANNELS = 4,  // output channels of a tile of the forward pass
    DATA_SAMPLES = 4,      // samples of a tile of the data gradient
    WEIGHT_THREADS = 8192, // the weight gradient is split into slices of samples until it has this many threads
    WEIGHT_SLICES_MAX = 64 // most slices of the weight gradient
};

static __device__ inline int64_t thread_number() {
    return static_cast<int64_t>(blockIdx.x) * LS_BLOCK + threadIdx.x;
}

// Returns the next digit of a mixed-radix number, lowest first.
static __device__ inline int digit(int64_t *number, int radix) {
    int64_t rest = *number / radix;
    int value = static_cast<int>(*number - rest * radix);
    *number = rest;
    return value;
}

static __device__ inline int64_t pixel(int n, int height, int width, int y, int x, int channels) {
    return ((static_cast<int64_t>(n) * height + y) * width + x) * channels;
}
static __device__ inline int64_t src_at(const geometry &g, int n, int y, int x) {
    return pixel(n, g.h, g.w, y, x, g.padded_c);
}
static __device__ inline int64_t dst_at(const geometry &g, int n, int p, int q) {
    return pixel(n, g.p, g.q, p, q, g.padded_k);
}
static __host__ __device__ inline int weight_channels(const geometry &g) {
    return g.groups == 1 ? g.padded_c : g.c / g.groups;
}
// Elements of one filter: the distance from w[k] to w[k + 1].
static __host__ __device__ inline int64_t filter_size(const geometry &g) {
    return static_cast<int64_t>(g.kernel_h) * g.kernel_w * weight_channels(g);
}

// One dimension of the convolution: rows or columns.
struct axis {
    int stride, pad, dilation, size, outputs; // size: of the input
};
static __device__ inline axis rows_of(const geometry &g) {
    return { g.stride_h, g.pad_h, g.dilation, g.h, g.p };
}
static __device__ inline axis columns_of(const geometry &g) {
    return { g.stride_w, g.pad_w, g.dilation, g.w, g.q };
}

// Returns the output p whose tap r meets input y, or -1 if no output's does.
static __device__ inline int output_of(const axis &a, int y, int r) {
    int at = y + a.pad - r * a.dilation;
    if (at < 0 || at % a.stride) return -1;
    at /= a.stride;
    return at < a.outputs ? at : -1;
}

// Finds the outputs first..end-1, whose tap r lies inside 0..size-1.
static __device__ inline void outputs_inside(const axis &a, int r, int *first, int *end) {
    int offset = r * a.dilation - a.pad, last_tap = a.size - 1 - offset;
    *first = offset < 0 ? (-offset + a.stride - 1) / a.stride : 0;
    *end = last_tap < 0 ? 0 : last_tap / a.stride + 1;
    if (*end > a.outputs) *end = a.outputs;
}

template <typename T> static __device__ inline float sum_of(const float lanes[ls_pack<T>::size]) {
    float sum = 0;
    for (int i = 0; i < ls_pack<T>::size; i++) sum += lanes[i];
    return sum;
}

// --- forward -------------------------------------------------------------------------------------

// Adds one tap of FORWARD_CHANNELS filters over all channels. A lane of `sum` collects every pack-size-th channel.
template <typename T>
static __device__ inline void forward_tap(const T *const src[FORWARD_SAMPLES], const T *weight, int64_t filter,
    int channels, float sum[FORWARD_SAMPLES][FORWARD_CHANNELS][ls_pack<T>::size]) {
    for (int c = 0; c < channels; c += ls_pack<T>::size) {
        ls_pack<T> in[FORWARD_SAMPLES];
        for (int s = 0; s < FORWARD_SAMPLES; s++) in[s] = ls_pack_load(src[s] + c);
        for (int k = 0; k < FORWARD_CHANNELS; k++) {
            ls_pack<T> w = ls_pack_load(weight + k * filter + c);
            for (int s = 0; s < FORWARD_SAMPLES; s++) {
                for (int i = 0; i < ls_pack<T>::size; i++) sum[s][k][i] += in[s].v[i] * w.v[i];
            }
        }
    }
}

// The forward pass without groups. Grid: one thread for FORWARD_SAMPLES samples, one pixel and one pack of output
// channels.
template <typename T, typename B>
static __global__ void forward(geometry g, int64_t threads, const T *src, const T *weight, const B *bias, T *dst) {
    constexpr int size = ls_pack<T>::size;
    int64_t rest = thread_number();
    if (rest >= threads) return;
    int first_k = digit(&rest, g.padded_k / size) * size, q = digit(&rest, g.q), p = digit(&rest, g.p);
    int n = static_cast<int>(rest) * FORWARD_SAMPLES, channels = (g.c + size - 1) / size * size;
    ls_pack<T> out[FORWARD_SAMPLES];
    for (int part = 0; part < size; part += FORWARD_CHANNELS) {
        float sum[FORWARD_SAMPLES][FORWARD_CHANNELS][size] = {};
        for (int tap = 0; tap < g.kernel_h * g.kernel_w; tap++) {
            int y = p * g.stride_h - g.pad_h + tap / g.kernel_w * g.dilation;
            int x = q * g.stride_w - g.pad_w + tap % g.kernel_w * g.dilation;
            if (y < 0 || y >= g.h || x < 0 || x >= g.w) continue;
            const T *in[FORWARD_SAMPLES];
            for (int s = 0; s < FORWARD_SAMPLES; s++) in[s] = src + src_at(g, n + s < g.n ? n + s : n, y, x);
            const T *filters = weight + (first_k + part) * filter_size(g) + tap * static_cast<int64_t>(g.padded_c);
            forward_tap(in, filters, filter_size(g), channels, sum);
        }
        for (int k = 0; k < FORWARD_CHANNELS; k++) {
            float start = bias ? ls_float(bias[first_k + part + k]) : 0;
            bool real = first_k + part + k < g.k;
            for (int s = 0; s < FORWARD_SAMPLES; s++) out[s].v[part + k] = real ? start + sum_of<T>(sum[s][k]) : 0;
        }
    }
    for (int s = 0; s < FORWARD_SAMPLES; s++) {
        if (n + s < g.n) ls_pack_store(dst + dst_at(g, n + s, p, q) + first_k, out[s]);
    }
}

template <typename T>
static __device__ inline float forward_grouped_value(
    const geometry &g, const T *src, const T *weight, int n, int p, int q, int k) {
    int inputs = g.c / g.groups, first_c = k / (g.k / g.groups) * inputs;
    float sum = 0;
    for (int tap = 0; tap < g.kernel_h * g.kernel_w; tap++) {
        int y = p * g.stride_h - g.pad_h + tap / g.kernel_w * g.dilation;
        int x = q * g.stride_w - g.pad_w + tap % g.kernel_w * g.dilation;
        if (y < 0 || y >= g.h || x < 0 || x >= g.w) continue;
        const T *in = src + src_at(g, n, y, x) + first_c;
        const T *w = weight + k * filter_size(g) + static_cast<int64_t>(tap) * inputs;
        for (int c = 0; c < inputs; c++) sum += ls_float(in[c]) * ls_float(w[c]);
    }
    return sum;
}

// The forward pass with groups. Grid: one thread for one pixel and one pack of output channels.
template <typename T, typename B>
static __global__ void forward_grouped(
    geometry g, int64_t threads, const T *src, const T *weight, const B *bias, T *dst) {
    int64_t rest = thread_number();
    if (rest >= threads) return;
    int first_k = digit(&rest, g.padded_k / ls_pack<T>::size) * ls_pack<T>::size;
    int q = digit(&rest, g.q), p = digit(&rest, g.p), n = static_cast<int>(rest);
    ls_pack<T> out;
    for (int i = 0; i < ls_pack<T>::size; i++) {
        int k = first_k + i;
        out.v[i] = k < g.k ? forward_grouped_value(g, src, weight, n, p, q, k) + (bias ? ls_float(bias[k]) : 0) : 0;
    }
    ls_pack_store(dst + dst_at(g, n, p, q) + first_k, out);
}

template <typename T, typename B>
static void forward_launch(
    const geometry &g, const T *src, const T *weight, const B *bias, T *dst, cudaStream_t stream) {
    int64_t pixels = static_cast<int64_t>(g.p) * g.q * (g.padded_k / ls_pack<T>::size);
    if (g.groups == 1) {
        int64_t threads = (g.n + FORWARD_SAMPLES - 1) / FORWARD_SAMPLES * pixels;
        LS_LAUNCH((forward<T, B>), ls_blocks(threads, LS_BLOCK), LS_BLOCK, stream, g, threads, src, weight, bias, dst);
    } else {
        int64_t threads = g.n * pixels;
        LS_LAUNCH((forward_grouped<T, B>), ls_blocks(threads, LS_BLOCK), LS_BLOCK, stream, g, threads, src, weight,
            bias, dst);
    }
}

void ls_cuda_direct_forward(const ls_cuda_conv_geometry *g, const void *src, const void *weight, const void *bias,
    ls_dtype bias_type, void *dst, cudaStream_t stream) {
    if (bias_type == LS_F32) {
        LS_BY_STORAGE(g->storage, forward_launch(*g, static_cast<const T *>(src), static_cast<const T *>(weight),
                                      static_cast<const float *>(bias), static_cast<T *>(dst), stream));
    } else {
        LS_BY_STORAGE(g->storage, forward_launch(*g, static_cast<const T *>(src), static_cast<const T *>(weight),
                                      static_cast<const T *>(bias), static_cast<T *>(dst), stream));
    }
}

// --- backward data: a gather, so that every element of grad_src is written once ------------------

// Adds one tap of all filters. The lanes of `sum` are the input channels of the tile.
template <typename T>
static __device__ inline void data_tap(const T *const grad[DATA_SAMPLES], const T *weight, int64_t filter, int outputs,
    float sum[DATA_SAMPLES][ls_pack<T>::size]) {
    constexpr int size = ls_pack<T>::size;
    for (int k = 0; k < outputs; k += size) {
        ls_pack<T> in[DATA_SAMPLES];
        for (int s = 0; s < DATA_SAMPLES; s++) in[s] = ls_pack_load(grad[s] + k);
        for (int j = 0; j < size; j++) {
            ls_pack<T> w = ls_pack_load(weight + (k + j) * filter);
            for (int s = 0; s < DATA_SAMPLES; s++) {
                for (int i = 0; i < size; i++) sum[s][i] += in[s].v[j] * w.v[i];
            }
        }
    }
}

// The data gradient without groups. Grid: one thread for DATA_SAMPLES samples, one pixel and one pack of input
// channels.
template <typename T>
static __global__ void backward_data(geometry g, int64_t threads, const T *grad_dst, const T *weight, T *grad_src) {
    constexpr int size = ls_pack<T>::size;
    int64_t rest = thread_number();
    if (rest >= threads) return;
    int first_c = digit(&rest, g.padded_c / size) * size, x = digit(&rest, g.w), y = digit(&rest, g.h);
    int n = static_cast<int>(rest) * DATA_SAMPLES, outputs = (g.k + size - 1) / size * size;
    float sum[DATA_SAMPLES][size] = {};
    for (int r = 0; r < g.kernel_h; r++) {
        int p = output_of(rows_of(g), y, r);
        for (int s = 0; p >= 0 && s < g.kernel_w; s++) {
            int q = output_of(columns_of(g), x, s);
            if (q < 0) continue;
            const T *in[DATA_SAMPLES];
            for (int i = 0; i < DATA_SAMPLES; i++) in[i] = grad_dst + dst_at(g, n + i < g.n ? n + i : n, p, q);
            const T *tap = weight + (static_cast<int64_t>(r) * g.kernel_w + s) * g.padded_c + first_c;
            data_tap(in, tap, filter_size(g), outputs, sum);
        }
    }
    for (int s = 0; s < DATA_SAMPLES; s++) {
        ls_pack<T> out;
        for (int i = 0; i < size; i++) out.v[i] = first_c + i < g.c ? sum[s][i] : 0;
        if (n + s < g.n) ls_pack_store(grad_src + src_at(g, n + s, y, x) + first_c, out);
    }
}

template <typename T>
static __device__ inline float data_grouped_value(
    const geometry &g, const T *grad_dst, const T *weight, int n, int y, int x, int c) {
    int inputs = g.c / g.groups, outputs = g.k / g.groups, first_k = c / inputs * outputs;
    float sum = 0;
    for (int r = 0; r < g.kernel_h; r++) {
        int p = output_of(rows_of(g), y, r);
        for (int s = 0; p >= 0 && s < g.kernel_w; s++) {
            int q = output_of(columns_of(g), x, s);
            if (q < 0) continue;
            const T *in = grad_dst + dst_at(g, n, p, q) + first_k;
            const T *w = weight + first_k * filter_size(g) + (r * g.kernel_w + s) * inputs + c % inputs;
            for (int k = 0; k < outputs; k++) sum += ls_float(in[k]) * ls_float(w[k * filter_size(g)]);
        }
    }
    return sum;
}

// The data gradient with groups. Grid: one thread for one pixel and one pack of input channels.
template <typename T>
static __global__ void backward_data_grouped(
    geometry g, int64_t threads, const T *grad_dst, const T *weight, T *grad_src) {
    int64_t rest = thread_number();
    if (rest >= threads) return;
    int first_c = digit(&rest, g.padded_c / ls_pack<T>::size) * ls_pack<T>::size;
    int x = digit(&rest, g.w), y = digit(&rest, g.h), n = static_cast<int>(rest);
    ls_pack<T> out;
    for (int i = 0; i < ls_pack<T>::size; i++) {
        out.v[i] = first_c + i < g.c ? data_grouped_value(g, grad_dst, weight, n, y, x, first_c + i) : 0;
    }
    ls_pack_store(grad_src + src_at(g, n, y, x) + first_c, out);
}

template <typename T>
static void backward_data_launch(
    const geometry &g, const T *grad_dst, const T *weight, T *grad_src, cudaStream_t stream) {
    int64_t pixels = static_cast<int64_t>(g.h) * g.w * (g.padded_c / ls_pack<T>::size);
    if (g.groups == 1) {
        int64_t threads = (g.n + DATA_SAMPLES - 1) / DATA_SAMPLES * pixels;
        LS_LAUNCH(
            (backward_data<T>), ls_blocks(threads, LS_BLOCK), LS_BLOCK, stream, g, threads, grad_dst, weight, grad_src);
    } else {
        int64_t threads = g.n * pixels;
        LS_LAUNCH((backward_data_grouped<T>), ls_blocks(threads, LS_BLOCK), LS_BLOCK, stream, g, threads, grad_dst,
            weight, grad_src);
    }
}

void ls_cuda_direct_backward_data(
    const ls_cuda_conv_geometry *g, const void *grad_dst, const void *weight, void *grad_src, cudaStream_t stream) {
    LS_BY_STORAGE(g->storage, backward_data_launch(*g, static_cast<const T *>(grad_dst), static_cast<const T *>(weight),
                                  static_cast<T *>(grad_src), stream));
}

// --- backward weight -----------------------------------------------------------------------------
// The samples are split into slices, and each slice is summed alone. With more than one slice, the sums go to the
// workspace, [slices][weight], and are then added up in order.

static int64_t weight_tiles(const geometry &g) { // threads of one slice
    int pack = g.storage == LS_F32 ? ls_pack<float>::size : ls_pack<__half>::size;
    if (g.groups > 1) return g.padded_k * filter_size(g);
    return static_cast<int64_t>(g.padded_k / pack) * (g.padded_c / pack) * g.kernel_h * g.kernel_w;
}

static int weight_slices(const geometry &g) {
    int64_t slices = (WEIGHT_THREADS + weight_tiles(g) - 1) / weight_tiles(g);
    if (slices > WEIGHT_SLICES_MAX) slices = WEIGHT_SLICES_MAX;
    return slices < g.n ? static_cast<int>(slices) : g.n;
}

size_t ls_cuda_direct_workspace(const ls_cuda_conv_geometry *g) {
    int slices = weight_slices(*g);
    return slices == 1 ? 0 : static_cast<size_t>(g->padded_k * filter_size(*g)) * slices * sizeof(float);
}

// First sample of a slice; for slice = `slices`: g.n.
static __device__ inline int slice_start(const geometry &g, int slice, int slices) {
    return static_cast<int>(static_cast<int64_t>(g.n) * slice / slices);
}

// The weight gradient without groups, summed over one slice of the samples. Grid: one thread for one slice, one tap,
// and one pack of output channels by one pack of input channels. add: `out` is the gradient itself and is added to;
// otherwise `out` is the workspace.
template <typename T>
static __global__ void backward_weight(
    geometry g, int64_t threads, int slices, const T *src, const T *grad_dst, bool add, float *out) {
    constexpr int size = ls_pack<T>::size;
    int64_t rest = thread_number();
    if (rest >= threads) return;
    int first_c = digit(&rest, g.padded_c / size) * size, tap = digit(&rest, g.kernel_h * g.kernel_w);
    int first_k = digit(&rest, g.padded_k / size) * size, slice = static_cast<int>(rest);
    int r = tap / g.kernel_w, s = tap % g.kernel_w, p_first, p_end, q_first, q_end;
    outputs_inside(rows_of(g), r, &p_first, &p_end);
    outputs_inside(columns_of(g), s, &q_first, &q_end);
    float sum[size][size] = {};
    for (int n = slice_start(g, slice, slices); n < slice_start(g, slice + 1, slices); n++) {
        for (int p = p_first; p < p_end; p++) {
            int y = p * g.stride_h - g.pad_h + r * g.dilation, x = q_first * g.stride_w - g.pad_w + s * g.dilation;
            const T *in = src + src_at(g, n, y, x) + first_c, *grad = grad_dst + dst_at(g, n, p, q_first) + first_k;
            for (int q = q_first; q < q_end; q++, in += g.stride_w * g.padded_c, grad += g.padded_k) {
                ls_pack<T> a = ls_pack_load(in), b = ls_pack_load(grad);
                for (int k = 0; k < size; k++) {
                    for (int c = 0; c < size; c++) sum[k][c] += b.v[k] * a.v[c];
                }
            }
        }
    }
    out += slice * (g.padded_k * filter_size(g)) + first_k * filter_size(g) + tap * static_cast<int64_t>(g.padded_c) +
           first_c;
    for (int k = 0; k < size; k++) {
        for (int c = 0; c < size; c += ls_pack<float>::size) {
            ls_pack<float> all = {};
            if (add) all = ls_pack_load(out + k * filter_size(g) + c);
            for (int i = 0; i < ls_pack<float>::size; i++) {
                if (first_k + k < g.k && first_c + c + i < g.c) all.v[i] += sum[k][c + i];
            }
            ls_pack_store(out + k * filter_size(g) + c, all);
        }
    }
}

// The weight gradient with groups, summed over one slice of the samples. Grid: one thread for one slice and one element
// of the weight.
template <typename T>
static __global__ void backward_weight_grouped(
    geometry g, int64_t threads, int slices, const T *src, const T *grad_dst, bool add, float *out) {
    int64_t rest = thread_number();
    if (rest >= threads) return;
    out += rest;
    int inputs = g.c / g.groups, c = digit(&rest, inputs), s = digit(&rest, g.kernel_w), r = digit(&rest, g.kernel_h);
    int k = digit(&rest, g.padded_k), slice = static_cast<int>(rest), p_first, p_end, q_first, q_end;
    outputs_inside(rows_of(g), r, &p_first, &p_end);
    outputs_inside(columns_of(g), s, &q_first, &q_end);
    if (k >= g.k) p_end = p_first; // a padding row
    c += k / (g.k / g.groups) * inputs;
    float sum = 0;
    for (int n = slice_start(g, slice, slices); n < slice_start(g, slice + 1, slices); n++) {
        for (int p = p_first; p < p_end; p++) {
            for (int q = q_first; q < q_end; q++) {
                int y = p * g.stride_h - g.pad_h + r * g.dilation, x = q * g.stride_w - g.pad_w + s * g.dilation;
                sum += ls_float(grad_dst[dst_at(g, n, p, q) + k]) * ls_float(src[src_at(g, n, y, x) + c]);
            }
        }
    }
    *out = add ? *out + sum : sum;
}

// Adds the sums of all slices to grad_weight. Grid: one thread for four elements (the size of a weight is a multiple of
// eight).
static __global__ void weight_sum(int64_t count, int slices, const float *parts, float *grad_weight) {
    int64_t at = thread_number() * ls_pack<float>::size;
    if (at >= count) return;
    ls_pack<float> sum = ls_pack_load(parts + at);
    for (int slice = 1; slice < slices; slice++) {
        ls_pack<float> part = ls_pack_load(parts + slice * count + at);
        for (int i = 0; i < ls_pack<float>::size; i++) sum.v[i] += part.v[i];
    }
    ls_pack<float> all = ls_pack_load(grad_weight + at);
    for (int i = 0; i < ls_pack<float>::size; i++) all.v[i] += sum.v[i];
    ls_pack_store(grad_weight + at, all);
}

template <typename T>
static void backward_weight_launch(
    const geometry &g, const T *src, const T *grad_dst, float *grad_weight, float *parts, cudaStream_t stream) {
    int slices = weight_slices(g);
    int64_t threads = weight_tiles(g) * slices, count = g.padded_k * filter_size(g);
    bool add = slices == 1;
    float *out = add ? grad_weight : parts;
    if (g.groups == 1) {
        LS_LAUNCH((backward_weight<T>), ls_blocks(threads, LS_BLOCK), LS_BLOCK, stream, g, threads, slices, src,
            grad_dst, add, out);
    } else {
        LS_LAUNCH((backward_weight_grouped<T>), ls_blocks(threads, LS_BLOCK), LS_BLOCK, stream, g, threads, slices, src,
            grad_dst, add, out);
    }
    if (add) return;
    int blocks = ls_blocks(count / ls_pack<float>::size, LS_BLOCK);
    LS_LAUNCH(weight_sum, blocks, LS_BLOCK, stream, count, slices, parts, grad_weight);
}

void ls_cuda_direct_backward_weight(const ls_cuda_conv_geometry *g, const void *src, const void *grad_dst,
    float *grad_weight, void *workspace, cudaStream_t stream) {
    LS_BY_STORAGE(g->storage, backward_weight_launch(*g, static_cast<const T *>(src), static_cast<const T *>(grad_dst),
                                  grad_weight, static_cast<float *>(workspace), stream));
}
