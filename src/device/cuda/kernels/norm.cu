// norm.cu - batch norm in two launches. Memory bandwidth limits the passes. In tensors of src's size (p: of the pooled
// size):
//   statistics      reads src
//   apply           reads src, residual; writes dst (p) and index (p)
//   backward sums   reads src, grad_dst, grad_dst2 and, with relu after a residual, dst. With relu alone and with other
//                   activations y is computed again. With pooling it reads p-sized tensors: grad_dst, grad_dst2, index.
//   backward apply  reads the same; writes grad_src, grad_residual
//   finish          over several ranks, forward and backward: one thread for each channel, between the two passes
// The first pass goes through the tensors from front to back, with all blocks next to each other. The second pass goes
// from back to front, because the end of the tensors is still in the cache.
//
// Estimates for 16-bit storage on an H200 (sm_90): 4.8 TB/s and 132 multiprocessors, each needing 24 KiB of
// loads in flight. "blocks" are blocks of 256 threads on a multiprocessor: 2 for sums (264 in all), as many as fit for
// apply.
//                    bytes/element      registers      blocks   in flight   least time for a map of 64 MiB
//   statistics       2                  76             2        32 KiB      14 us
//   apply            4, residual: 6     60, 71, 80     4, 3, 3  48 KiB up   28 us, 42 us (71: curves; 80: residual)
//   apply, pooling   2.75               64 to 72       4, 3     16 KiB up   19 us
//   backward sums    4                  79, 93, 112    2        32 KiB      28 us (93: relu, 112: curves)
//   backward apply   6                  91, 102, 122   2        32 KiB      42 us
// grad_dst2, dst and grad_residual each add 2 bytes/element and 14 us; both passes read the first two. At most the last
// 50 MB that apply reads may come from the cache.
//
// Sums: each block adds up rows of pixels at regular distances. The last block that finishes for a column of channels
// adds up the sums of the blocks in double, in one order. So the result depends on shapes only.
#include "device/cuda/kernels/norm.cuh"
#include "device/cuda/kernels/pool.cuh"

namespace {

constexpr int SUM_THREADS = LS_CUDA_NORM_SUM_THREADS, APPLY_THREADS = LS_CUDA_NORM_APPLY_THREADS;

// Adds up the sums of a column's blocks. The last block that finishes calls `finish`, as ls_norm_add_blocks says.
template <typename T, typename F>
__device__ inline void reduce(const ls_cuda_norm_args &a, const ls_norm_sums<T> &s, F finish) {
    LS_SHARED(float, room, ls_norm_room<T>(SUM_THREADS));
    LS_SHARED(int, last, 1);
    int t = static_cast<int>(threadIdx.x);
    ls_norm_put<T, SUM_THREADS>(room, s);
    ls_norm_sum_block<T, SUM_THREADS>(a, room);
    __threadfence();
    __syncthreads();
    if (t == 0) last[0] = atomicAdd(a.done + blockIdx.x, 1u) == static_cast<unsigned>(a.grid.slices - 1);
    __syncthreads();
    if (!last[0]) return;
    if (t == 0) a.done[blockIdx.x] = 0; // for the next launch
    __threadfence();
    ls_norm_add_blocks<T, SUM_THREADS>(a, finish);
}

// Stores this rank's part of the sums over ranks.
__device__ inline void hand_on(const ls_cuda_norm_args &a, int channel, double first, double second) {
    a.whole[channel] = first;
    a.whole[a.grid.channels + channel] = second;
    if (channel == 0) a.whole[2 * a.grid.channels] = a.grid.pixels;
}

template <typename T> __global__ void __launch_bounds__(SUM_THREADS, 2) norm_statistics(ls_cuda_norm_args a) {
    constexpr int size = ls_pack<T>::size, AHEAD = 4;
    ls_norm_place at = ls_norm_place_of(a.grid, SUM_THREADS);
    ls_norm_sums<T> s = {};
    const T *src = static_cast<const T *>(a.src) + at.pack * size;
    if (at.inside) {
        // sums are taken about the first pixel's value, so the squares stay small whatever the mean is
        ls_pack<T> about = ls_pack_load(src);
        for (int64_t pixel = at.first; pixel < a.grid.pixels; pixel += AHEAD * at.step) {
            uint4 raw[AHEAD];
            LS_UNROLL
            for (int u = 0; u < AHEAD; u++) {
                int64_t from = pixel + u * at.step;
                if (from < a.grid.pixels) raw[u] = ls_pack_raw(src + from * a.grid.channels);
            }
            LS_UNROLL
            for (int u = 0; u < AHEAD; u++) {
                if (pixel + u * at.step >= a.grid.pixels) break;
                ls_norm_add_forward(s, ls_pack_unpack<T>(raw[u]), about);
            }
        }
    }
    reduce<T>(a, s, [&a](int channel, double sum, double squares, int) {
        double count = a.grid.pixels, about = static_cast<double>(ls_float(static_cast<const T *>(a.src)[channel]));
        if (a.whole) {
            hand_on(a, channel, about * count + sum, squares + about * (2 * sum + about * count));
        } else {
            double shift = sum / count;
            ls_norm_keep(a, channel, about + shift, squares / count - shift * shift, count);
        }
    });
}

__global__ void norm_finish(ls_cuda_norm_args a) {
    int channel = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), channels = a.grid.channels;
    if (channel >= channels) return;
    double count = a.whole[2 * channels], mean = a.whole[channel] / count;
    ls_norm_keep(a, channel, mean, a.whole[channels + channel] / count - mean * mean, count);
}

template <typename T, bool RESIDUAL, bool CURVE>
__global__ void __launch_bounds__(APPLY_THREADS) norm_apply(ls_cuda_norm_args a) {
    constexpr int size = ls_pack<T>::size, AHEAD = 4;
    ls_norm_place at = ls_norm_place_of(a.grid, APPLY_THREADS);
    if (!at.inside) return;
    ls_norm_affine<T> f = ls_norm_affine_of<T>(a, at.pack * size);
    const T *src = static_cast<const T *>(a.src) + at.pack * size;
    const T *residual = static_cast<const T *>(a.residual) + (RESIDUAL ? at.pack * size : 0);
    T *dst = static_cast<T *>(a.out) + at.pack * size;
    for (int64_t pixel = a.grid.pixels - 1 - at.first; pixel >= 0; pixel -= AHEAD * at.step) {
        uint4 raw[AHEAD], more[AHEAD];
        LS_UNROLL
        for (int u = 0; u < AHEAD; u++) {
            int64_t offset = (pixel - u * at.step) * a.grid.channels;
            if (offset < 0) break;
            raw[u] = ls_pack_raw(src + offset);
            if (RESIDUAL) more[u] = ls_pack_raw(residual + offset);
        }
        LS_UNROLL
        for (int u = 0; u < AHEAD; u++) {
            if (pixel - u * at.step < 0) break;
            ls_pack<T> y = ls_norm_y(f, ls_pack_unpack<T>(raw[u]));
            ls_norm_follow<RESIDUAL, CURVE>(a, y, more[u]);
            ls_pack_store(dst + (pixel - u * at.step) * a.grid.channels, y);
        }
    }
}

// Finds the largest element of a window, as pool.cu does, and computes the elements on the way.
template <typename T, bool RESIDUAL, bool HALVES>
__device__ inline void pool_one(
    const ls_cuda_norm_args &a, const ls_windows &g, const ls_norm_affine<T> &f, int64_t pixel, int channel) {
    constexpr int size = ls_pack<T>::size;
    ls_pixel at = ls_pixel_at(static_cast<uint32_t>(pixel), g.by_q, g.by_p);
    int y0 = at.y * g.stride_h - g.pad_h, x0 = at.x * g.stride_w - g.pad_w;
    int64_t corner = ls_pixel_offset(at.n, 0, 0, g.h, g.w, g.channels) + channel;
    const T *src = static_cast<const T *>(a.src) + corner;
    const T *residual = static_cast<const T *>(a.residual) + (RESIDUAL ? corner : 0);
    ls_pack<T> best;
    int winners[size];
    LS_UNROLL
    for (int k = 0; k < size; k++) best.v[k] = 0, winners[k] = LS_POOL_NONE_U8; // only elements above 0 can win
    int rows = HALVES ? 2 : g.kernel_h, columns = HALVES ? 2 : g.kernel_w;
    LS_UNROLL_BY(HALVES ? 2 : 1)
    for (int r = 0; r < rows; r++) {
        LS_UNROLL_BY(HALVES ? 2 : 1)
        for (int s = 0; s < columns; s++) {
            int y = y0 + r, x = x0 + s;
            if (!HALVES && (y < 0 || y >= g.h || x < 0 || x >= g.w)) continue;
            int64_t offset = static_cast<int64_t>(y * g.w + x) * g.channels;
            ls_pack<T> value = ls_norm_y(f, ls_pack_load(src + offset));
            if (RESIDUAL) ls_pack_add(value, ls_pack_load(residual + offset));
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
    ls_norm_place at = ls_norm_place_of(a.grid, APPLY_THREADS);
    if (!at.inside) return;
    int channel = at.pack * ls_pack<T>::size;
    ls_norm_affine<T> f = ls_norm_affine_of<T>(a, channel);
    for (int64_t pixel = pooled - 1 - at.first; pixel >= 0; pixel -= at.step) {
        pool_one<T, RESIDUAL, HALVES>(a, g, f, pixel, channel);
    }
}

// Number of a thread's pixels that are read before the first of them is used.
__host__ __device__ constexpr int ahead(ls_norm_follower after) {
    return after == LS_NORM_WINDOWS ? 1 : 2;
}

// What the backward pass reads for one pixel: src, and the gradient before ls_norm_through.
template <typename T> struct gradient_read {
    uint4 x;
    ls_pack<T> grad;
};

template <typename T, ls_norm_follower AFTER>
__device__ inline gradient_read<T> read_gradient(
    const ls_cuda_norm_args &a, const ls_windows &g, int64_t pixel, int channel) {
    constexpr bool HALVES = AFTER == LS_NORM_HALVES;
    const T *grad_dst = static_cast<const T *>(a.grad_dst), *grad_dst2 = static_cast<const T *>(a.grad_dst2);
    int64_t offset = pixel * a.grid.channels + channel;
    gradient_read<T> read = { ls_pack_raw(static_cast<const T *>(a.src) + offset), {} };
    if constexpr (HALVES || AFTER == LS_NORM_WINDOWS) {
        ls_pixel at = ls_pixel_at(static_cast<uint32_t>(pixel), g.by_w, g.by_h);
        read.grad = ls_window_gather<T, uint8_t, HALVES>(g, at, channel, grad_dst, grad_dst2, a.index);
    } else {
        read.grad = ls_pack_load(grad_dst + offset);
        if (grad_dst2) ls_pack_add(read.grad, ls_pack_load(grad_dst2 + offset));
        if constexpr (AFTER == LS_NORM_ADDED)
            ls_norm_mask(read.grad, ls_pack_load(static_cast<const T *>(a.dst) + offset));
    }
    return read;
}

template <typename T, ls_norm_follower AFTER>
__global__ void __launch_bounds__(SUM_THREADS, 2) norm_backward_sums(ls_cuda_norm_args a, ls_windows g) {
    constexpr int size = ls_pack<T>::size, AHEAD = ahead(AFTER);
    ls_norm_place at = ls_norm_place_of(a.grid, SUM_THREADS);
    ls_norm_sums<T> s = {};
    if (at.inside) {
        int channel = at.pack * size;
        ls_norm_affine<T> f = ls_norm_backward_affine<T, AFTER>(a, channel);
        for (int64_t pixel = at.first; pixel < a.grid.pixels; pixel += AHEAD * at.step) {
            gradient_read<T> read[AHEAD] = {};
            LS_UNROLL
            for (int u = 0; u < AHEAD; u++) {
                if (pixel + u * at.step >= a.grid.pixels) break;
                read[u] = read_gradient<T, AFTER>(a, g, pixel + u * at.step, channel);
            }
            LS_UNROLL
            for (int u = 0; u < AHEAD; u++) {
                if (pixel + u * at.step >= a.grid.pixels) break;
                ls_pack<T> x = ls_pack_unpack<T>(read[u].x), grad = read[u].grad;
                ls_norm_through<AFTER>(a, f, x, grad);
                ls_norm_add_backward(s, x, grad, f);
            }
        }
    }
    reduce<T>(a, s, [&a](int channel, double sum, double product, int) {
        ls_norm_add_gradients(a, channel, sum, product);
        if (a.whole) {
            hand_on(a, channel, sum, product);
        } else {
            ls_norm_factors(a, channel, sum, product, a.grid.pixels, a.factors + channel, a.grid.channels);
        }
    });
}

__global__ void norm_backward_finish(ls_cuda_norm_args a) {
    int channel = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), channels = a.grid.channels;
    if (channel >= channels) return;
    ls_norm_factors(a, channel, a.whole[channel], a.whole[channels + channel], a.whole[2 * channels],
        a.factors + channel, channels);
}

template <typename T, ls_norm_follower AFTER>
__global__ void __launch_bounds__(APPLY_THREADS, 2) norm_backward_apply(ls_cuda_norm_args a, ls_windows g) {
    constexpr int size = ls_pack<T>::size, AHEAD = ahead(AFTER);
    ls_norm_place at = ls_norm_place_of(a.grid, APPLY_THREADS);
    if (!at.inside) return;
    int channel = at.pack * size;
    ls_norm_affine<T> f = ls_norm_backward_affine<T, AFTER>(a, channel);
    ls_norm_slope<T> to;
    ls_load_floats<size>(a.factors + channel, to.of_grad);
    ls_load_floats<size>(a.factors + a.grid.channels + channel, to.of_src);
    ls_load_floats<size>(a.factors + 2 * a.grid.channels + channel, to.constant);
    for (int64_t pixel = a.grid.pixels - 1 - at.first; pixel >= 0; pixel -= AHEAD * at.step) {
        gradient_read<T> read[AHEAD] = {};
        LS_UNROLL
        for (int u = 0; u < AHEAD; u++) {
            if (pixel - u * at.step < 0) break;
            read[u] = read_gradient<T, AFTER>(a, g, pixel - u * at.step, channel);
        }
        LS_UNROLL
        for (int u = 0; u < AHEAD; u++) {
            int64_t offset = (pixel - u * at.step) * a.grid.channels + channel;
            if (offset < 0) break;
            ls_pack<T> x = ls_pack_unpack<T>(read[u].x), grad = read[u].grad;
            ls_norm_through<AFTER>(a, f, x, grad);
            if (a.grad_residual) ls_pack_store(static_cast<T *>(a.grad_residual) + offset, grad);
            ls_norm_grad_src(grad, to, x, f);
            ls_pack_store(static_cast<T *>(a.out) + offset, grad);
        }
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

ls_norm_follower follower_of(const ls_cuda_norm_args *a) {
    const ls_norm_attr *n = &a->attr;
    if (n->pool_kernel)
        return n->pool_kernel == 2 && n->pool_stride == 2 && n->pool_pad == 0 ? LS_NORM_HALVES : LS_NORM_WINDOWS;
    if (n->activation == LS_ACTIVATION_RELU) return a->dst ? LS_NORM_ADDED : LS_NORM_RELU;
    return n->activation > LS_ACTIVATION_RELU ? LS_NORM_CURVE : LS_NORM_NOTHING;
}

unsigned channel_blocks(const ls_cuda_norm_grid &g) {
    return static_cast<unsigned>((g.channels + LS_BLOCK - 1) / LS_BLOCK);
}

template <typename T, bool RESIDUAL> void apply(const ls_cuda_norm_args *a, cudaStream_t stream) {
    dim3 blocks = ls_norm_blocks(a->grid, a->grid.apply_blocks);
    int pooled = a->attr.pooled.n * a->attr.pooled.h * a->attr.pooled.w;
    if (follower_of(a) == LS_NORM_HALVES) {
        LS_LAUNCH((norm_apply_pool<T, RESIDUAL, true>), blocks, APPLY_THREADS, stream, *a, windows_of(a), pooled);
    } else if (a->attr.pool_kernel) {
        LS_LAUNCH((norm_apply_pool<T, RESIDUAL, false>), blocks, APPLY_THREADS, stream, *a, windows_of(a), pooled);
    } else if (a->attr.activation > LS_ACTIVATION_RELU) {
        LS_LAUNCH((norm_apply<T, false, true>), blocks, APPLY_THREADS, stream, *a);
    } else {
        LS_LAUNCH((norm_apply<T, RESIDUAL, false>), blocks, APPLY_THREADS, stream, *a);
    }
}

template <typename T, ls_norm_follower AFTER> void backward_sums(const ls_cuda_norm_args *a, cudaStream_t stream) {
    dim3 blocks = ls_norm_blocks(a->grid, a->grid.slices);
    LS_LAUNCH_BLOCK((norm_backward_sums<T, AFTER>), blocks, SUM_THREADS, stream, *a, windows_of(a));
}

template <typename T, ls_norm_follower AFTER> void backward_apply(const ls_cuda_norm_args *a, cudaStream_t stream) {
    dim3 blocks = ls_norm_blocks(a->grid, a->grid.apply_blocks);
    LS_LAUNCH((norm_backward_apply<T, AFTER>), blocks, APPLY_THREADS, stream, *a, windows_of(a));
}

} // namespace

// Runs function<T, AFTER>(args, stream) with AFTER = the operators after the norm.
#define BY_FOLLOWER(function) \
    do { \
        ls_norm_follower after = follower_of(args); \
        if (after == LS_NORM_NOTHING) { \
            LS_BY_STORAGE(args->attr.storage, function<T, LS_NORM_NOTHING>(args, stream)); \
        } else if (after == LS_NORM_RELU) { \
            LS_BY_STORAGE(args->attr.storage, function<T, LS_NORM_RELU>(args, stream)); \
        } else if (after == LS_NORM_ADDED) { \
            LS_BY_STORAGE(args->attr.storage, function<T, LS_NORM_ADDED>(args, stream)); \
        } else if (after == LS_NORM_CURVE) { \
            LS_BY_STORAGE(args->attr.storage, function<T, LS_NORM_CURVE>(args, stream)); \
        } else if (after == LS_NORM_HALVES) { \
            LS_BY_STORAGE(args->attr.storage, function<T, LS_NORM_HALVES>(args, stream)); \
        } else { \
            LS_BY_STORAGE(args->attr.storage, function<T, LS_NORM_WINDOWS>(args, stream)); \
        } \
    } while (0)

extern "C" void ls_cuda_norm_statistics(const ls_cuda_norm_args *args, cudaStream_t stream) {
    dim3 blocks = ls_norm_blocks(args->grid, args->grid.slices);
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
