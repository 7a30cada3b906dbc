// norm.cuh - shared by batch norm's kernels for one launch (norm_kept.cu) and for two launches (norm.cu): the pixels of
// a thread, the sums of a block, and the results computed from the sums of all pixels.
#pragma once

#include "device/cuda/kernels/activations.cuh"
#include "device/cuda/kernels/norm.h"

struct ls_norm_place { // of a thread, whose pixels are first, first + step, ...
    int lane, rows, pack;
    bool inside; // pack is one of the existing packs
    int first, step;
};

__device__ inline ls_norm_place ls_norm_place_of(const ls_cuda_norm_grid &g, int threads) {
    int t = static_cast<int>(threadIdx.x), lane = t & (g.lanes - 1), rows = threads / g.lanes;
    int pack = static_cast<int>(blockIdx.x) * g.lanes + lane;
    return { lane, rows, pack, pack < g.packs, static_cast<int>(blockIdx.y) * rows + t / g.lanes,
        static_cast<int>(gridDim.y) * rows };
}

// The operators that a batch norm's gradient passes first. RELU, CURVE (any other activation): y is computed again.
// ADDED: a relu after a residual; its result is read from dst. HALVES: relu and 2x2 windows with stride 2. WINDOWS:
// relu and other windows.
enum ls_norm_follower { LS_NORM_NOTHING, LS_NORM_RELU, LS_NORM_ADDED, LS_NORM_CURVE, LS_NORM_HALVES, LS_NORM_WINDOWS };

template <int N> __device__ inline void ls_load_floats(const float *from, float *to) {
    LS_UNROLL
    for (int k = 0; k < N; k += 4) {
        float4 v = *reinterpret_cast<const float4 *>(from + k);
        to[k] = v.x, to[k + 1] = v.y, to[k + 2] = v.z, to[k + 3] = v.w;
    }
}

template <typename T> __device__ inline void ls_pack_add(ls_pack<T> &to, const ls_pack<T> &more) {
    LS_UNROLL
    for (int k = 0; k < to.size; k++) to.v[k] += more.v[k];
}

// y = (x - mean) * factor + beta, for a pack of channels
template <typename T> struct ls_norm_affine {
    float mean[ls_pack<T>::size], factor[ls_pack<T>::size], beta[ls_pack<T>::size];
};

template <typename T> __device__ inline ls_norm_affine<T> ls_norm_affine_of(const ls_cuda_norm_args &a, int channel) {
    constexpr int size = ls_pack<T>::size;
    ls_norm_affine<T> f;
    float gamma[size];
    ls_load_floats<size>(a.gamma + channel, gamma);
    ls_load_floats<size>(a.beta + channel, f.beta);
    ls_load_floats<size>((a.mean ? a.mean : a.saved) + channel, f.mean);
    ls_load_floats<size>((a.mean ? a.var : a.saved + a.grid.channels) + channel, f.factor);
    LS_UNROLL
    for (int k = 0; k < size; k++) {
        f.factor[k] = gamma[k] * (a.mean ? 1 / sqrtf(f.factor[k] + a.attr.eps) : f.factor[k]);
    }
    return f;
}

// Computes y = (x - mean) * factor + beta. Forward and backward must round y in the same way, because both use its
// sign.
template <typename T> __device__ inline ls_pack<T> ls_norm_y(const ls_norm_affine<T> &f, const ls_pack<T> &x) {
    ls_pack<T> y;
    LS_UNROLL
    for (int k = 0; k < y.size; k++) y.v[k] = fmaf(x.v[k] - f.mean[k], f.factor[k], f.beta[k]);
    return y;
}

// CURVE: an activation other than relu
template <bool CURVE, typename T> __device__ inline void ls_norm_activate(const ls_cuda_norm_args &a, ls_pack<T> &y) {
    if constexpr (CURVE) {
        ls_activate<false>(a.attr.activation, a.attr.parameter, y, y);
    } else {
        LS_UNROLL
        for (int k = 0; k < y.size; k++)
            y.v[k] = a.attr.activation == LS_ACTIVATION_RELU && y.v[k] < 0 ? 0 : y.v[k]; // NaN stays NaN
    }
}

// Applies the operators after y: the residual, then the activation, or in the reverse order.
template <bool RESIDUAL, bool CURVE, typename T>
__device__ inline void ls_norm_follow(const ls_cuda_norm_args &a, ls_pack<T> &y, uint4 residual) {
    if (RESIDUAL && !a.attr.adds_last) ls_pack_add(y, ls_pack_unpack<T>(residual));
    ls_norm_activate<CURVE>(a, y);
    if (RESIDUAL && a.attr.adds_last) ls_pack_add(y, ls_pack_unpack<T>(residual));
}

// Loads the constants of a pack's channels for the backward pass: the mean, and factor and beta only where y is
// computed again (RELU, CURVE).
template <typename T, ls_norm_follower AFTER>
__device__ inline ls_norm_affine<T> ls_norm_backward_affine(const ls_cuda_norm_args &a, int channel) {
    if constexpr (AFTER == LS_NORM_RELU || AFTER == LS_NORM_CURVE) return ls_norm_affine_of<T>(a, channel);
    ls_norm_affine<T> f = {};
    ls_load_floats<ls_pack<T>::size>((a.mean ? a.mean : a.saved) + channel, f.mean);
    return f;
}

// Passes the gradient through an activation whose input is computed again.
template <ls_norm_follower AFTER, typename T>
__device__ inline void ls_norm_through(
    const ls_cuda_norm_args &a, const ls_norm_affine<T> &f, const ls_pack<T> &x, ls_pack<T> &grad) {
    if constexpr (AFTER == LS_NORM_RELU || AFTER == LS_NORM_CURVE) {
        ls_pack<T> y = ls_norm_y(f, x);
        if constexpr (AFTER == LS_NORM_CURVE) ls_activate<true>(a.attr.activation, a.attr.parameter, y, y);
        LS_UNROLL
        for (int k = 0; k < y.size; k++) {
            if (AFTER == LS_NORM_RELU)
                grad.v[k] = y.v[k] > 0 ? grad.v[k] : 0;
            else
                grad.v[k] *= y.v[k];
        }
    }
}

// Passes the gradient through a relu whose result is read.
template <typename T> __device__ inline void ls_norm_mask(ls_pack<T> &grad, const ls_pack<T> &dst) {
    LS_UNROLL
    for (int k = 0; k < dst.size; k++) grad.v[k] = dst.v[k] > 0 ? grad.v[k] : 0;
}

// One thread's two sums for every channel of a pack.
template <typename T> struct ls_norm_sums { float v[2][ls_pack<T>::size]; };

template <typename T>
__device__ inline void ls_norm_add_forward(ls_norm_sums<T> &s, const ls_pack<T> &x, const ls_pack<T> &about) {
    LS_UNROLL
    for (int k = 0; k < x.size; k++) {
        float d = x.v[k] - about.v[k];
        s.v[0][k] += d;
        s.v[1][k] += d * d;
    }
}

template <typename T>
__device__ inline void ls_norm_add_backward(
    ls_norm_sums<T> &s, const ls_pack<T> &x, const ls_pack<T> &grad, const ls_norm_affine<T> &f) {
    LS_UNROLL
    for (int k = 0; k < x.size; k++) {
        s.v[0][k] += grad.v[k];
        s.v[1][k] += grad.v[k] * (x.v[k] - f.mean[k]);
    }
}

// Floats of shared memory for the sums of `threads` threads. Each row has one more float, so that the sums of
// neighbouring channels lie in different banks.
template <typename T> __host__ __device__ constexpr int ls_norm_room(int threads) {
    return 2 * ls_pack<T>::size * (threads + 1);
}

// Writes a thread's sums to shared memory, for ls_norm_sum_block.
template <typename T, int THREADS> __device__ inline void ls_norm_put(float *room, const ls_norm_sums<T> &s) {
    constexpr int size = ls_pack<T>::size;
    LS_UNROLL
    for (int k = 0; k < 2 * size; k++)
        room[k * (THREADS + 1) + static_cast<int>(threadIdx.x)] = s.v[k / size][k % size];
}

// Adds up the sums of all threads and writes them to the block's place in a.sums. `parts` threads of a warp share one
// sum.
template <typename T, int THREADS>
__device__ inline void ls_norm_sum_block(const ls_cuda_norm_args &a, const float *room) {
    constexpr int size = ls_pack<T>::size;
    int t = static_cast<int>(threadIdx.x), lanes = a.grid.lanes, width = lanes * size, rows = THREADS / lanes;
    int parts = THREADS / (2 * width) < 32 ? THREADS / (2 * width) : 32, part = t & (parts - 1), number = t / parts;
    int which = number >= width, at = number - which * width, channel = static_cast<int>(blockIdx.x) * width + at;
    float sum = 0;
    __syncthreads();
    if (number >= 2 * width) return; // whole warps return
    const float *from = room + (which * size + at % size) * (THREADS + 1) + at / size;
    for (int row = part; row < rows; row += parts) sum += from[row * lanes];
    for (int half = parts / 2; half > 0; half /= 2)
        sum += __shfl_down_sync(0xFFFFFFFFu, sum, static_cast<unsigned>(half), parts);
    if (part > 0 || channel >= a.grid.channels) return;
    a.sums[(static_cast<int64_t>(channel) * 2 + which) * a.grid.places + blockIdx.y] = sum;
}

// Adds up the sums of all blocks of the column, in double, and calls finish(channel, first, second, number of the
// channel in the block) once for each of the block's channels, padding included. `parts` threads of a warp share a
// channel's two sums. Each thread takes groups of four neighbouring slices, `parts` * 4 slices apart.
template <typename T, int THREADS, typename F>
__device__ inline void ls_norm_add_blocks(const ls_cuda_norm_args &a, F finish) {
    int t = static_cast<int>(threadIdx.x), width = a.grid.lanes * ls_pack<T>::size;
    int parts = THREADS / width < 8 ? THREADS / width : 8, part = t & (parts - 1), number = t / parts;
    int channel = static_cast<int>(blockIdx.x) * width + number;
    double first = 0, second = 0;
    if (number >= width) return; // whole warps return
    const float *from = a.sums + static_cast<int64_t>(channel) * 2 * a.grid.places;
    LS_UNROLL_BY(4)
    for (int slice = part * 4; channel < a.grid.channels && slice < a.grid.slices; slice += parts * 4) {
        float v[2][4];
        ls_load_floats<4>(from + slice, v[0]);
        ls_load_floats<4>(from + a.grid.places + slice, v[1]);
        LS_UNROLL
        for (int k = 0; k < 4; k++) {
            if (slice + k >= a.grid.slices) break;
            first += static_cast<double>(v[0][k]);
            second += static_cast<double>(v[1][k]);
        }
    }
    for (int half = parts / 2; half > 0; half /= 2) {
        first += __shfl_down_sync(0xFFFFFFFFu, first, static_cast<unsigned>(half), parts);
        second += __shfl_down_sync(0xFFFFFFFFu, second, static_cast<unsigned>(half), parts);
    }
    if (part == 0 && channel < a.grid.channels) finish(channel, first, second, number);
}

__device__ inline float ls_norm_inverse_deviation(const ls_cuda_norm_args &a, double var) {
    return static_cast<float>(1 / sqrt((var < 0 ? 0 : var) + static_cast<double>(a.attr.eps)));
}

// Stores the forward statistics of a channel. Adds its mean and unbiased variance to sum_mean and sum_var, if not NULL.
__device__ inline void ls_norm_keep(const ls_cuda_norm_args &a, int channel, double mean, double var, double count) {
    a.saved[channel] = static_cast<float>(mean);
    a.saved[a.grid.channels + channel] = ls_norm_inverse_deviation(a, var);
    if (!a.sum_mean) return;
    a.sum_mean[channel] += static_cast<float>(mean);
    a.sum_var[channel] += static_cast<float>((var < 0 ? 0 : var) * count / (count - 1));
}

// 1/deviation of the forward pass, for the backward pass.
__device__ inline double ls_norm_kept_inverse_deviation(const ls_cuda_norm_args &a, int channel) {
    return static_cast<double>(a.mean ? 1 / sqrtf(a.var[channel] + a.attr.eps) : a.saved[a.grid.channels + channel]);
}

// Computes the factors of the backward pass: grad_src = to[0] * g + to[stride] * (src - mean) + to[2 * stride]
__device__ inline void ls_norm_factors(
    const ls_cuda_norm_args &a, int channel, double sum, double product, double count, float *to, int stride) {
    double r = ls_norm_kept_inverse_deviation(a, channel);
    double factor = static_cast<double>(a.gamma[channel]) * r;
    if (a.attr.stored) sum = product = 0; // stored statistics do not depend on src
    to[0] = static_cast<float>(factor);
    to[stride] = static_cast<float>(-factor * r * r * product / count);
    to[2 * stride] = static_cast<float>(-factor * sum / count);
}

__device__ inline void ls_norm_add_gradients(const ls_cuda_norm_args &a, int channel, double sum, double product) {
    if (a.grad_beta) a.grad_beta[channel] += static_cast<float>(sum);
    if (a.grad_gamma) a.grad_gamma[channel] += static_cast<float>(product * ls_norm_kept_inverse_deviation(a, channel));
}

// Factors of the last backward step, for the channels of one pack.
template <typename T> struct ls_norm_slope {
    float of_grad[ls_pack<T>::size], of_src[ls_pack<T>::size], constant[ls_pack<T>::size];
};

template <typename T>
__device__ inline void ls_norm_grad_src(
    ls_pack<T> &grad, const ls_norm_slope<T> &to, const ls_pack<T> &x, const ls_norm_affine<T> &f) {
    LS_UNROLL
    for (int k = 0; k < x.size; k++)
        grad.v[k] = to.of_grad[k] * grad.v[k] + (to.of_src[k] * (x.v[k] - f.mean[k]) + to.constant[k]);
}

inline dim3 ls_norm_blocks(const ls_cuda_norm_grid &g, int below) {
    return dim3(static_cast<unsigned>(g.columns), static_cast<unsigned>(below));
}
