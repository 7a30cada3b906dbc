// norm.cu - batch norm, bound by memory. Passes, in tensors of src's size (p: of the pooled size):
//   statistics      reads src
//   apply           reads src, residual; writes dst (p) and index (p)
//   backward sums   reads src, grad_dst, grad_dst2 and, with relu, dst (with gelu y is computed again; with pooling
//                   p: grad_dst, grad_dst2, index)
//   backward apply  reads the same; writes grad_src, grad_residual
//   finish          over several ranks, forward and backward: a thread for each channel, between the two passes
// Sums: each block adds up a slice of the pixels; the block of a column of channels that finishes last adds up the
// slices in double, in their order, so the result depends on shapes only.
#include "device/cuda/kernels/norm.h"
#include "device/cuda/kernels/pool.cuh"

namespace {

constexpr int SUM_THREADS = LS_CUDA_NORM_SUM_THREADS, APPLY_THREADS = LS_CUDA_NORM_APPLY_THREADS;

struct place { // of a thread
    int lane, row, rows, pack;
    bool inside; // of the channels
};

__device__ inline place place_of(const ls_cuda_norm_grid &g, int threads) {
    int t = static_cast<int>(threadIdx.x), lane = t & (g.lanes - 1);
    int pack = static_cast<int>(blockIdx.x) * g.lanes + lane;
    return { lane, t / g.lanes, threads / g.lanes, pack, pack < g.packs };
}

template <int N> __device__ inline void load_floats(const float *from, float *to) {
    LS_UNROLL
    for (int k = 0; k < N; k += 4) {
        float4 v = *reinterpret_cast<const float4 *>(from + k);
        to[k] = v.x, to[k + 1] = v.y, to[k + 2] = v.z, to[k + 3] = v.w;
    }
}

template <int N> __device__ inline void store_floats(float *to, const float *from) {
    LS_UNROLL
    for (int k = 0; k < N; k += 4) {
        *reinterpret_cast<float4 *>(to + k) = { from[k], from[k + 1], from[k + 2], from[k + 3] };
    }
}

// Two sums of every channel of a pack, of one thread.
template <typename T> struct two_sums { float v[2][ls_pack<T>::size]; };

// The sums of all threads of the block that have the same channels, in the thread of row 0.
template <typename T> __device__ inline void add_rows(two_sums<T> &s, place at, int lanes, float *room) {
    constexpr int size = ls_pack<T>::size;
    int t = static_cast<int>(threadIdx.x);
    for (int half = at.rows / 2; half > 0; half /= 2) {
        if (at.row >= half && at.row < 2 * half) {
            LS_UNROLL
            for (int k = 0; k < 2 * size; k++) room[k * SUM_THREADS + t] = s.v[k / size][k % size];
        }
        __syncthreads();
        if (at.row < half) {
            LS_UNROLL
            for (int k = 0; k < 2 * size; k++) s.v[k / size][k % size] += room[k * SUM_THREADS + t + half * lanes];
        }
        __syncthreads();
    }
}

// The last block of its column: adds up the slices in double. A thread has four neighbouring channels of one of the two
// sums, and every so many slices. Afterwards the sums of the block's channel c stand in room[c] and room[width + c].
template <typename T> __device__ inline void add_slices(const ls_cuda_norm_args &a, double *room) {
    int t = static_cast<int>(threadIdx.x), width = a.grid.lanes * ls_pack<T>::size, quads = width / 2;
    int quad = t % quads, part = t / quads, parts = SUM_THREADS / quads;
    int which = quad >= quads / 2, channel = static_cast<int>(blockIdx.x) * width + (quad - which * (quads / 2)) * 4;
    double sum[4] = {};
    if (channel < a.grid.channels) {
        const float *from = a.sums + which * a.grid.channels + channel;
        LS_UNROLL_BY(4)
        for (int slice = part; slice < a.grid.slices; slice += parts) {
            float v[4];
            load_floats<4>(from + static_cast<int64_t>(slice) * 2 * a.grid.channels, v);
            LS_UNROLL
            for (int k = 0; k < 4; k++) sum[k] += static_cast<double>(v[k]);
        }
    }
    LS_UNROLL
    for (int k = 0; k < 4; k++) room[t * 4 + k] = sum[k];
    for (int half = parts / 2; half > 0; half /= 2) {
        __syncthreads();
        if (part >= half) continue;
        LS_UNROLL
        for (int k = 0; k < 4; k++) room[t * 4 + k] += room[(t + half * quads) * 4 + k];
    }
    __syncthreads();
}

// From every thread's sums to finish(channel, first, second), called once for every channel, padding included.
template <typename T, typename F>
__device__ inline void reduce(const ls_cuda_norm_args &a, place at, two_sums<T> &s, F finish) {
    constexpr int size = ls_pack<T>::size;
    LS_SHARED(double, room, SUM_THREADS *size);
    LS_SHARED(int, last, 1);
    int t = static_cast<int>(threadIdx.x), width = a.grid.lanes * size, slices = a.grid.slices;
    add_rows(s, at, a.grid.lanes, reinterpret_cast<float *>(room));
    if (at.row == 0 && at.inside) {
        float *to = a.sums + static_cast<int64_t>(blockIdx.y) * 2 * a.grid.channels + at.pack * size;
        store_floats<size>(to, s.v[0]);
        store_floats<size>(to + a.grid.channels, s.v[1]);
    }
    __threadfence();
    __syncthreads();
    if (t == 0) last[0] = atomicAdd(a.done + blockIdx.x, 1u) == static_cast<unsigned>(slices - 1);
    __syncthreads();
    if (!last[0]) return;
    if (t == 0) a.done[blockIdx.x] = 0; // for the next launch
    __threadfence();
    add_slices<T>(a, room);
    int channel = static_cast<int>(blockIdx.x) * width + t;
    if (t < width && channel < a.grid.channels) finish(channel, room[t], room[width + t]);
}

// What the sums of all values of a channel come to, forward.
__device__ inline void keep_statistics(const ls_cuda_norm_args &a, int channel, double mean, double var, double count) {
    if (var < 0) var = 0;
    a.saved[channel] = static_cast<float>(mean);
    a.saved[a.grid.channels + channel] = static_cast<float>(1 / sqrt(var + static_cast<double>(a.attr.eps)));
    if (!a.sum_mean) return;
    a.sum_mean[channel] += static_cast<float>(mean);
    a.sum_var[channel] += static_cast<float>(var * count / (count - 1));
}

// And backward: grad_src = factors[0] * g + factors[1] * (src - mean) + factors[2]
__device__ inline void keep_factors(const ls_cuda_norm_args &a, int channel, double sum, double product, double count) {
    double r = static_cast<double>(a.saved[a.grid.channels + channel]);
    double factor = static_cast<double>(a.gamma[channel]) * r;
    a.factors[channel] = static_cast<float>(factor);
    a.factors[a.grid.channels + channel] = static_cast<float>(-factor * r * r * product / count);
    a.factors[2 * a.grid.channels + channel] = static_cast<float>(-factor * sum / count);
}

// This rank's part of the sums over ranks.
__device__ inline void hand_on(const ls_cuda_norm_args &a, int channel, double first, double second) {
    a.whole[channel] = first;
    a.whole[a.grid.channels + channel] = second;
    if (channel == 0) a.whole[2 * a.grid.channels] = a.grid.pixels;
}

template <typename T> __global__ void __launch_bounds__(SUM_THREADS, 2) norm_statistics(ls_cuda_norm_args a) {
    constexpr int size = ls_pack<T>::size, AHEAD = 4;
    place at = place_of(a.grid, SUM_THREADS);
    two_sums<T> s = {};
    const T *src = static_cast<const T *>(a.src) + at.pack * size;
    int pixel = static_cast<int>(blockIdx.y) * a.grid.slice_pixels, end = pixel + a.grid.slice_pixels;
    if (end > a.grid.pixels) end = a.grid.pixels;
    if (at.inside) {
        // about the first pixel's value: the squares stay small, whatever the mean
        ls_pack<T> about = ls_pack_load(src);
        for (pixel += at.row; pixel < end; pixel += AHEAD * at.rows) {
            uint4 raw[AHEAD];
            LS_UNROLL
            for (int u = 0; u < AHEAD; u++) {
                int from = pixel + u * at.rows;
                if (from < end) raw[u] = ls_pack_raw(src + static_cast<int64_t>(from) * a.grid.channels);
            }
            LS_UNROLL
            for (int u = 0; u < AHEAD; u++) {
                if (pixel + u * at.rows >= end) break;
                ls_pack<T> x = ls_pack_unpack<T>(raw[u]);
                LS_UNROLL
                for (int k = 0; k < size; k++) {
                    float d = x.v[k] - about.v[k];
                    s.v[0][k] += d;
                    s.v[1][k] += d * d;
                }
            }
        }
    }
    reduce<T>(a, at, s, [&a](int channel, double sum, double squares) {
        double count = a.grid.pixels, about = static_cast<double>(ls_float(static_cast<const T *>(a.src)[channel]));
        if (a.whole) {
            hand_on(a, channel, about * count + sum, squares + about * (2 * sum + about * count));
        } else {
            double shift = sum / count;
            keep_statistics(a, channel, about + shift, squares / count - shift * shift, count);
        }
    });
}

__global__ void norm_finish(ls_cuda_norm_args a) {
    int channel = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), channels = a.grid.channels;
    if (channel >= channels) return;
    double count = a.whole[2 * channels], mean = a.whole[channel] / count;
    keep_statistics(a, channel, mean, a.whole[channels + channel] / count - mean * mean, count);
}

// y = (x - mean) * factor + beta, of a pack of channels
template <typename T> struct affine { float mean[ls_pack<T>::size], factor[ls_pack<T>::size], beta[ls_pack<T>::size]; };

template <typename T> __device__ inline affine<T> affine_of(const ls_cuda_norm_args &a, int channel) {
    constexpr int size = ls_pack<T>::size;
    affine<T> f;
    float gamma[size];
    load_floats<size>(a.gamma + channel, gamma);
    load_floats<size>(a.beta + channel, f.beta);
    load_floats<size>((a.mean ? a.mean : a.saved) + channel, f.mean);
    load_floats<size>((a.mean ? a.var : a.saved + a.grid.channels) + channel, f.factor);
    LS_UNROLL
    for (int k = 0; k < size; k++) {
        f.factor[k] = gamma[k] * (a.mean ? 1 / sqrtf(f.factor[k] + a.attr.eps) : f.factor[k]);
    }
    return f;
}

template <typename T> __device__ inline ls_pack<T> affine_apply(const affine<T> &f, const ls_pack<T> &x) {
    ls_pack<T> y;
    LS_UNROLL
    for (int k = 0; k < y.size; k++) y.v[k] = (x.v[k] - f.mean[k]) * f.factor[k] + f.beta[k];
    return y;
}

template <typename T> __device__ inline void pack_add(ls_pack<T> &to, const ls_pack<T> &more) {
    LS_UNROLL
    for (int k = 0; k < to.size; k++) to.v[k] += more.v[k];
}

template <typename T, bool RESIDUAL, bool GELU>
__global__ void __launch_bounds__(APPLY_THREADS) norm_apply(ls_cuda_norm_args a) {
    constexpr int size = ls_pack<T>::size, AHEAD = 4;
    place at = place_of(a.grid, APPLY_THREADS);
    if (!at.inside) return;
    affine<T> f = affine_of<T>(a, at.pack * size);
    const T *src = static_cast<const T *>(a.src) + at.pack * size;
    const T *residual = static_cast<const T *>(a.residual) + (RESIDUAL ? at.pack * size : 0);
    T *dst = static_cast<T *>(a.out) + at.pack * size;
    int64_t step = static_cast<int64_t>(at.rows) * gridDim.y;
    int64_t pixel = static_cast<int64_t>(blockIdx.y) * at.rows + at.row;
    for (; pixel < a.grid.pixels; pixel += AHEAD * step) {
        uint4 raw[AHEAD], more[AHEAD];
        LS_UNROLL
        for (int u = 0; u < AHEAD; u++) {
            int64_t offset = (pixel + u * step) * a.grid.channels;
            if (pixel + u * step >= a.grid.pixels) break;
            raw[u] = ls_pack_raw(src + offset);
            if (RESIDUAL) more[u] = ls_pack_raw(residual + offset);
        }
        LS_UNROLL
        for (int u = 0; u < AHEAD; u++) {
            if (pixel + u * step >= a.grid.pixels) break;
            ls_pack<T> y = affine_apply(f, ls_pack_unpack<T>(raw[u]));
            if (RESIDUAL) pack_add(y, ls_pack_unpack<T>(more[u]));
            LS_UNROLL
            for (int k = 0; k < size; k++) {
                if (GELU)
                    y.v[k] = ls_gelu(y.v[k]);
                else
                    y.v[k] = a.attr.activation == LS_ACTIVATION_RELU && y.v[k] < 0 ? 0 : y.v[k]; // NaN stays
            }
            ls_pack_store(dst + (pixel + u * step) * a.grid.channels, y);
        }
    }
}

// The largest of a window, as pool.cu has it; here the elements are made on the way.
template <typename T, bool RESIDUAL, bool HALVES>
__device__ inline void pool_one(
    const ls_cuda_norm_args &a, const ls_windows &g, const affine<T> &f, int64_t pixel, int channel) {
    constexpr int size = ls_pack<T>::size;
    ls_pixel at = ls_pixel_at(static_cast<uint32_t>(pixel), g.by_q, g.by_p);
    int y0 = at.y * g.stride_h - g.pad_h, x0 = at.x * g.stride_w - g.pad_w;
    int64_t corner = ls_pixel_offset(at.n, 0, 0, g.h, g.w, g.channels) + channel;
    const T *src = static_cast<const T *>(a.src) + corner;
    const T *residual = static_cast<const T *>(a.residual) + (RESIDUAL ? corner : 0);
    ls_pack<T> best;
    int winners[size];
    LS_UNROLL
    for (int k = 0; k < size; k++) best.v[k] = 0, winners[k] = LS_POOL_NONE_U8; // what is not above 0 does not win
    int rows = HALVES ? 2 : g.kernel_h, columns = HALVES ? 2 : g.kernel_w;
    LS_UNROLL_BY(HALVES ? 2 : 1)
    for (int r = 0; r < rows; r++) {
        LS_UNROLL_BY(HALVES ? 2 : 1)
        for (int s = 0; s < columns; s++) {
            int y = y0 + r, x = x0 + s;
            if (!HALVES && (y < 0 || y >= g.h || x < 0 || x >= g.w)) continue;
            int64_t offset = static_cast<int64_t>(y * g.w + x) * g.channels;
            ls_pack<T> value = affine_apply(f, ls_pack_load(src + offset));
            if (RESIDUAL) pack_add(value, ls_pack_load(residual + offset));
            LS_UNROLL
            for (int k = 0; k < size; k++) {
                winners[k] = value.v[k] > best.v[k] ? r * columns + s : winners[k];
                best.v[k] = value.v[k] > best.v[k] ? value.v[k] : best.v[k];
            }
        }
    }
    ls_pack_store(static_cast<T *>(a.out) + pixel * g.channels + channel, best);
    if (a.index) ls_winners_store<uint8_t, size>(a.index + pixel * g.channels + channel, winners);
}

template <typename T, bool RESIDUAL, bool HALVES>
__global__ void __launch_bounds__(APPLY_THREADS) norm_apply_pool(ls_cuda_norm_args a, ls_windows g, int pooled) {
    place at = place_of(a.grid, APPLY_THREADS);
    if (!at.inside) return;
    int channel = at.pack * ls_pack<T>::size;
    affine<T> f = affine_of<T>(a, channel);
    int64_t step = static_cast<int64_t>(at.rows) * gridDim.y;
    for (int64_t pixel = static_cast<int64_t>(blockIdx.y) * at.rows + at.row; pixel < pooled; pixel += step) {
        pool_one<T, RESIDUAL, HALVES>(a, g, f, pixel, channel);
    }
}

enum follower { NOTHING, RELU, GELU, HALVES, WINDOWS }; // what a batch norm's gradient comes back through

// The gradient of y, before the residual was added, at one pixel.
template <typename T, follower AFTER>
__device__ inline ls_pack<T> gradient_at(const ls_cuda_norm_args &a, const ls_windows &g, int64_t pixel, int channel) {
    const T *grad_dst = static_cast<const T *>(a.grad_dst), *grad_dst2 = static_cast<const T *>(a.grad_dst2);
    if constexpr (AFTER == HALVES || AFTER == WINDOWS) {
        ls_pixel at = ls_pixel_at(static_cast<uint32_t>(pixel), g.by_w, g.by_h);
        return ls_window_gather<T, uint8_t, AFTER == HALVES>(g, at, channel, grad_dst, grad_dst2, a.index);
    } else {
        int64_t offset = pixel * a.grid.channels + channel;
        ls_pack<T> grad = ls_pack_load(grad_dst + offset);
        if (grad_dst2) pack_add(grad, ls_pack_load(grad_dst2 + offset));
        if constexpr (AFTER == RELU) {
            ls_pack<T> y = ls_pack_load(static_cast<const T *>(a.dst) + offset);
            LS_UNROLL
            for (int k = 0; k < y.size; k++) grad.v[k] = y.v[k] > 0 ? grad.v[k] : 0;
        }
        return grad;
    }
}

// Through the gelu, whose input is computed again.
template <typename T> __device__ inline void through_gelu(const affine<T> &f, const ls_pack<T> &x, ls_pack<T> &grad) {
    ls_pack<T> y = affine_apply(f, x);
    LS_UNROLL
    for (int k = 0; k < y.size; k++) grad.v[k] *= ls_gelu_slope(y.v[k]);
}

// Overlapping windows and gelu need more than the 64 registers that two blocks leave to a thread.
template <typename T, follower AFTER>
__global__ void __launch_bounds__(SUM_THREADS, AFTER == WINDOWS || AFTER == GELU ? 1 : 2)
    norm_backward_sums(ls_cuda_norm_args a, ls_windows g) {
    constexpr int size = ls_pack<T>::size;
    place at = place_of(a.grid, SUM_THREADS);
    two_sums<T> s = {};
    int pixel = static_cast<int>(blockIdx.y) * a.grid.slice_pixels, end = pixel + a.grid.slice_pixels;
    if (end > a.grid.pixels) end = a.grid.pixels;
    if (at.inside) {
        int channel = at.pack * size;
        float mean[size];
        load_floats<size>(a.saved + channel, mean);
        affine<T> f = {};
        if constexpr (AFTER == GELU) f = affine_of<T>(a, channel);
        LS_UNROLL_BY(AFTER == NOTHING || AFTER == RELU ? 2 : 1)
        for (pixel += at.row; pixel < end; pixel += at.rows) {
            int64_t offset = static_cast<int64_t>(pixel) * a.grid.channels + channel;
            ls_pack<T> x = ls_pack_load(static_cast<const T *>(a.src) + offset);
            ls_pack<T> grad = gradient_at<T, AFTER>(a, g, pixel, channel);
            if constexpr (AFTER == GELU) through_gelu(f, x, grad);
            LS_UNROLL
            for (int k = 0; k < size; k++) {
                s.v[0][k] += grad.v[k];
                s.v[1][k] += grad.v[k] * (x.v[k] - mean[k]);
            }
        }
    }
    reduce<T>(a, at, s, [&a](int channel, double sum, double product) {
        if (a.grad_beta) a.grad_beta[channel] += static_cast<float>(sum);
        if (a.grad_gamma)
            a.grad_gamma[channel] +=
                static_cast<float>(product * static_cast<double>(a.saved[a.grid.channels + channel]));
        if (a.whole) {
            hand_on(a, channel, sum, product);
        } else {
            keep_factors(a, channel, sum, product, a.grid.pixels);
        }
    });
}

__global__ void norm_backward_finish(ls_cuda_norm_args a) {
    int channel = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), channels = a.grid.channels;
    if (channel >= channels) return;
    keep_factors(a, channel, a.whole[channel], a.whole[channels + channel], a.whole[2 * channels]);
}

template <typename T, follower AFTER>
__global__ void __launch_bounds__(APPLY_THREADS) norm_backward_apply(ls_cuda_norm_args a, ls_windows g) {
    constexpr int size = ls_pack<T>::size;
    place at = place_of(a.grid, APPLY_THREADS);
    if (!at.inside) return;
    int channel = at.pack * size;
    float mean[size], of_grad[size], of_src[size], constant[size];
    load_floats<size>(a.saved + channel, mean);
    load_floats<size>(a.factors + channel, of_grad);
    load_floats<size>(a.factors + a.grid.channels + channel, of_src);
    load_floats<size>(a.factors + 2 * a.grid.channels + channel, constant);
    affine<T> f = {};
    if constexpr (AFTER == GELU) f = affine_of<T>(a, channel);
    int64_t step = static_cast<int64_t>(at.rows) * gridDim.y;
    LS_UNROLL_BY(AFTER == GELU ? 1 : 2)
    for (int64_t pixel = static_cast<int64_t>(blockIdx.y) * at.rows + at.row; pixel < a.grid.pixels; pixel += step) {
        int64_t offset = pixel * a.grid.channels + channel;
        ls_pack<T> x = ls_pack_load(static_cast<const T *>(a.src) + offset);
        ls_pack<T> grad = gradient_at<T, AFTER>(a, g, pixel, channel);
        if constexpr (AFTER == GELU) through_gelu(f, x, grad);
        if (a.grad_residual) ls_pack_store(static_cast<T *>(a.grad_residual) + offset, grad);
        LS_UNROLL
        for (int k = 0; k < size; k++) {
            grad.v[k] = of_grad[k] * grad.v[k] + (of_src[k] * (x.v[k] - mean[k]) + constant[k]);
        }
        ls_pack_store(static_cast<T *>(a.out) + offset, grad);
    }
}

ls_windows windows_of(const ls_cuda_norm_args *a) {
    const ls_norm_attr *n = &a->attr;
    if (!n->pool_kernel) return {};
    ls_pool_attr pool = {};
    pool.src = n->shape;
    pool.dst = n->pooled;
    pool.kernel_h = pool.kernel_w = n->pool_kernel;
    pool.stride_h = pool.stride_w = n->pool_stride;
    pool.pad_h = pool.pad_w = n->pool_pad;
    return ls_windows_of(pool, a->grid.channels);
}

follower follower_of(const ls_norm_attr *a) {
    if (!a->pool_kernel)
        return a->activation == LS_ACTIVATION_RELU ? RELU : a->activation == LS_ACTIVATION_GELU ? GELU : NOTHING;
    return a->pool_kernel == 2 && a->pool_stride == 2 && a->pool_pad == 0 ? HALVES : WINDOWS;
}

dim3 blocks_of(const ls_cuda_norm_grid &g, int below) {
    return dim3(static_cast<unsigned>(g.columns), static_cast<unsigned>(below));
}

unsigned channel_blocks(const ls_cuda_norm_grid &g) {
    return static_cast<unsigned>((g.channels + LS_BLOCK - 1) / LS_BLOCK);
}

template <typename T, bool RESIDUAL> void apply(const ls_cuda_norm_args *a, cudaStream_t stream) {
    dim3 blocks = blocks_of(a->grid, a->grid.apply_blocks);
    int pooled = a->attr.pooled.n * a->attr.pooled.h * a->attr.pooled.w;
    if (follower_of(&a->attr) == HALVES) {
        LS_LAUNCH((norm_apply_pool<T, RESIDUAL, true>), blocks, APPLY_THREADS, stream, *a, windows_of(a), pooled);
    } else if (a->attr.pool_kernel) {
        LS_LAUNCH((norm_apply_pool<T, RESIDUAL, false>), blocks, APPLY_THREADS, stream, *a, windows_of(a), pooled);
    } else if (a->attr.activation == LS_ACTIVATION_GELU) {
        LS_LAUNCH((norm_apply<T, false, true>), blocks, APPLY_THREADS, stream, *a);
    } else {
        LS_LAUNCH((norm_apply<T, RESIDUAL, false>), blocks, APPLY_THREADS, stream, *a);
    }
}

template <typename T, follower AFTER> void backward_sums(const ls_cuda_norm_args *a, cudaStream_t stream) {
    dim3 blocks = blocks_of(a->grid, a->grid.slices);
    LS_LAUNCH_BLOCK((norm_backward_sums<T, AFTER>), blocks, SUM_THREADS, stream, *a, windows_of(a));
}

template <typename T, follower AFTER> void backward_apply(const ls_cuda_norm_args *a, cudaStream_t stream) {
    dim3 blocks = blocks_of(a->grid, a->grid.apply_blocks);
    LS_LAUNCH((norm_backward_apply<T, AFTER>), blocks, APPLY_THREADS, stream, *a, windows_of(a));
}

} // namespace

// Runs function<T, AFTER>(args, stream) for what follows.
#define BY_FOLLOWER(function) \
    do { \
        follower after = follower_of(&args->attr); \
        if (after == NOTHING) { \
            LS_BY_STORAGE(args->attr.storage, function<T, NOTHING>(args, stream)); \
        } else if (after == RELU) { \
            LS_BY_STORAGE(args->attr.storage, function<T, RELU>(args, stream)); \
        } else if (after == GELU) { \
            LS_BY_STORAGE(args->attr.storage, function<T, GELU>(args, stream)); \
        } else if (after == HALVES) { \
            LS_BY_STORAGE(args->attr.storage, function<T, HALVES>(args, stream)); \
        } else { \
            LS_BY_STORAGE(args->attr.storage, function<T, WINDOWS>(args, stream)); \
        } \
    } while (0)

extern "C" void ls_cuda_norm_statistics(const ls_cuda_norm_args *args, cudaStream_t stream) {
    dim3 blocks = blocks_of(args->grid, args->grid.slices);
    LS_BY_STORAGE(args->attr.storage, LS_LAUNCH_BLOCK((norm_statistics<T>), blocks, SUM_THREADS, stream, *args));
}

extern "C" void ls_cuda_norm_finish(const ls_cuda_norm_args *args, cudaStream_t stream) {
    LS_LAUNCH(norm_finish, channel_blocks(args->grid), LS_BLOCK, stream, *args);
}

extern "C" void ls_cuda_norm_apply(const ls_cuda_norm_args *args, cudaStream_t stream) {
    if (args->attr.residual) {
        LS_BY_STORAGE(args->attr.storage, apply<T, true>(args, stream));
    } else {
        LS_BY_STORAGE(args->attr.storage, apply<T, false>(args, stream));
    }
}

extern "C" void ls_cuda_norm_backward_sums(const ls_cuda_norm_args *args, cudaStream_t stream) {
    BY_FOLLOWER(backward_sums);
}

extern "C" void ls_cuda_norm_backward_finish(const ls_cuda_norm_args *args, cudaStream_t stream) {
    LS_LAUNCH(norm_backward_finish, channel_blocks(args->grid), LS_BLOCK, stream, *args);
}

extern "C" void ls_cuda_norm_backward_apply(const ls_cuda_norm_args *args, cudaStream_t stream) {
    BY_FOLLOWER(backward_apply);
}
