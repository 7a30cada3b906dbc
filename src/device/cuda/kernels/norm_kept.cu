// norm_kept.cu - batch norm in one launch. The shared memory of a cluster of blocks, or of all blocks of the grid,
// keeps the data that they read, so that memory is read and written once. device/gpu/norm_rule.h decides for which
// shapes.
//   forward    reads src, residual; writes dst
//   backward   reads src, grad_dst, grad_dst2, and dst with a relu after a residual; writes grad_src, grad_residual
// Sums are taken over a thread, then over its block, then over the blocks of a column in double. The last step has one
// order; each block of the column computes it, with the same result.
//
// Estimates for 16-bit storage on an H200 (sm_90): 4.8 TB/s and 132 multiprocessors, each needing 24 KiB of
// loads in flight. One block of 512 threads on a multiprocessor, because of its shared memory.
//                          bytes/element   registers   in flight   least time for a map of 8 MiB
//   forward (+ residual)   4 (6)           64 to 71    32 KiB      3.5 us (5.2)
//   backward               6               89 to 115   32 KiB      5.2 us (103 up: an activation, computed again)
//   + two gradients        8               the same    48 KiB      7.0 us
//   + dst, grad_residual   + 2 each                    + 16 KiB    + 1.7 us each
// Clusters: few channels make few clusters. Then the bandwidth of a multiprocessor is the limit, about 110 GB/s (64
// bytes in each cycle). With lanes = 1 it is half of that, because another block uses the other half of each sector:
// 2.3 us forward for 2 MiB in 32 blocks (resnet20's second stage at batch 128).
// Grid: it has a block on each multiprocessor and reads whole sectors. Its barrier (an atomic addition and a check of
// it) and reading the other blocks' sums (17 KB for each of 132 blocks, from the L2) take three round trips, about 2
// us; the double additions take as long again on an RTX 4090. With its launch that gives 5 us for 4 MiB forward
// (resnet20's first stage). Two launches take 6 us, not counting one or two round trips at the end of each. Measured on
// an H100: 8.1 us and 11.6 us.
#include "device/cuda/kernels/cluster.cuh"
#include "device/cuda/kernels/norm.cuh"

namespace {

constexpr int THREADS = LS_CUDA_NORM_KEPT_THREADS;

// A thread's pixels: pack u of a tensor is at offset + u * step, in elements. Its copy in shared memory is at u *
// THREADS.
struct kept_place {
    int64_t offset, step;
    int count;
};

__device__ inline kept_place kept_of(const ls_cuda_norm_grid &g, const ls_norm_place &at, int channel) {
    int behind = g.pixels - at.first, count = at.inside && behind > 0 ? (behind + at.step - 1) / at.step : 0;
    return { static_cast<int64_t>(at.first) * g.channels + channel, static_cast<int64_t>(at.step) * g.channels, count };
}

// Adds up every thread's sums. Each block calls finish(channel, first, second, constants) for each of its channels,
// padding included. Afterwards the constants of the block's channel c are in room[c], room[width + c], ...
template <typename T, typename F>
__device__ inline void reduce(const ls_cuda_norm_args &a, const ls_norm_sums<T> &s, float *room, F finish) {
    ls_norm_put<T, THREADS>(room, s);
    ls_norm_sum_block<T, THREADS>(a, room);
    if (a.grid.form == LS_CUDA_NORM_IN_ONE_GRID)
        ls_grid_sync();
    else
        ls_cluster_sync();
    ls_norm_add_blocks<T, THREADS>(a, [room, finish](int channel, double first, double second, int number) {
        finish(channel, first, second, room + number);
    });
    __syncthreads();
}

template <typename T, bool RESIDUAL, bool CURVE>
__global__ void __launch_bounds__(THREADS, 1) norm_forward_kept(ls_cuda_norm_args a) {
    constexpr int size = ls_pack<T>::size, AHEAD = 4;
    LS_SHARED(float, room, ls_norm_room<T>(THREADS));
    LS_SHARED_DYNAMIC(kept);
    kept += threadIdx.x;
    ls_norm_place at = ls_norm_place_of(a.grid, THREADS);
    int width = a.grid.lanes * size, channel = at.inside ? at.pack * size : 0;
    kept_place p = kept_of(a.grid, at, channel);
    const T *src = static_cast<const T *>(a.src) + p.offset;
    // sums are taken about the first pixel's value, so the squares stay small whatever the mean is
    ls_pack<T> about = ls_pack_load(static_cast<const T *>(a.src) + channel);
    ls_norm_sums<T> s = {};
    for (int u = 0; u < p.count; u += AHEAD) {
        uint4 raw[AHEAD] = {};
        LS_UNROLL
        for (int i = 0; i < AHEAD; i++) {
            if (u + i < p.count) raw[i] = ls_pack_raw(src + (u + i) * p.step);
        }
        LS_UNROLL
        for (int i = 0; i < AHEAD; i++) {
            if (u + i >= p.count) break;
            kept[(u + i) * THREADS] = raw[i];
            ls_norm_add_forward(s, ls_pack_unpack<T>(raw[i]), about);
        }
    }
    reduce<T>(a, s, room, [&a, width](int c, double sum, double squares, float *to) {
        double count = a.grid.pixels, origin = static_cast<double>(ls_float(static_cast<const T *>(a.src)[c]));
        double shift = sum / count, var = squares / count - shift * shift;
        to[0] = static_cast<float>(origin + shift);
        to[width] = ls_norm_inverse_deviation(a, var);
        if (blockIdx.y == 0) ls_norm_keep(a, c, origin + shift, var, count);
    });
    ls_norm_affine<T> f;
    LS_UNROLL
    for (int k = 0; k < size; k++) {
        const float *of = room + at.lane * size + k;
        f.mean[k] = of[0], f.factor[k] = a.gamma[channel + k] * of[width], f.beta[k] = a.beta[channel + k];
    }
    for (int u = 0; u < p.count; u += AHEAD) {
        uint4 more[AHEAD] = {};
        LS_UNROLL
        for (int i = 0; RESIDUAL && i < AHEAD; i++) {
            if (u + i < p.count)
                more[i] = ls_pack_raw(static_cast<const T *>(a.residual) + p.offset + (u + i) * p.step);
        }
        LS_UNROLL
        for (int i = 0; i < AHEAD; i++) {
            if (u + i >= p.count) break;
            ls_pack<T> y = ls_norm_y(f, ls_pack_unpack<T>(kept[(u + i) * THREADS]));
            ls_norm_follow<RESIDUAL, CURVE>(a, y, more[i]);
            ls_pack_store(static_cast<T *>(a.out) + p.offset + (u + i) * p.step, y);
        }
    }
}

// The backward pass in one launch. Shared memory keeps src and, after it, grad_dst and grad_dst2. With ADDED (a relu
// after a residual) the gradients are kept already set to 0 where dst, the relu's result, is not above 0. Other
// activations are applied at each use of the kept gradients.
template <typename T, ls_norm_follower AFTER>
__global__ void __launch_bounds__(THREADS, 1) norm_backward_kept(ls_cuda_norm_args a) {
    constexpr int size = ls_pack<T>::size, AHEAD = 2;
    LS_SHARED(float, room, ls_norm_room<T>(THREADS));
    LS_SHARED_DYNAMIC(kept);
    uint4 *kept_src = kept + threadIdx.x, *kept_grad = kept_src + a.grid.kept * THREADS;
    uint4 *kept_grad2 = kept_grad + a.grid.kept * THREADS; // only with grad_dst2
    ls_norm_place at = ls_norm_place_of(a.grid, THREADS);
    int width = a.grid.lanes * size, channel = at.inside ? at.pack * size : 0;
    kept_place p = kept_of(a.grid, at, channel);
    ls_norm_affine<T> f = ls_norm_backward_affine<T, AFTER>(a, channel);
    ls_norm_sums<T> s = {};
    for (int u = 0; u < p.count; u += AHEAD) {
        uint4 x[AHEAD] = {}, grad[AHEAD] = {}, grad2[AHEAD] = {}, dst[AHEAD] = {};
        LS_UNROLL
        for (int i = 0; i < AHEAD; i++) {
            int64_t offset = p.offset + (u + i) * p.step;
            if (u + i >= p.count) break;
            x[i] = ls_pack_raw(static_cast<const T *>(a.src) + offset);
            grad[i] = ls_pack_raw(static_cast<const T *>(a.grad_dst) + offset);
            if (a.grad_dst2) grad2[i] = ls_pack_raw(static_cast<const T *>(a.grad_dst2) + offset);
            if (AFTER == LS_NORM_ADDED) dst[i] = ls_pack_raw(static_cast<const T *>(a.dst) + offset);
        }
        LS_UNROLL
        for (int i = 0; i < AHEAD; i++) {
            if (u + i >= p.count) break;
            ls_pack<T> value = ls_pack_unpack<T>(x[i]), g = ls_pack_unpack<T>(grad[i]);
            if (AFTER == LS_NORM_ADDED) ls_norm_mask(g, ls_pack_unpack<T>(dst[i]));
            kept_src[(u + i) * THREADS] = x[i];
            ls_pack_store(reinterpret_cast<T *>(kept_grad + (u + i) * THREADS), g);
            if (a.grad_dst2) {
                ls_pack<T> g2 = ls_pack_unpack<T>(grad2[i]);
                if (AFTER == LS_NORM_ADDED) ls_norm_mask(g2, ls_pack_unpack<T>(dst[i]));
                ls_pack_store(reinterpret_cast<T *>(kept_grad2 + (u + i) * THREADS), g2);
                ls_pack_add(g, g2);
            }
            ls_norm_through<AFTER>(a, f, value, g);
            ls_norm_add_backward(s, value, g, f);
        }
    }
    reduce<T>(a, s, room, [&a, width](int c, double sum, double product, float *to) {
        ls_norm_factors(a, c, sum, product, a.grid.pixels, to, width);
        if (blockIdx.y == 0) ls_norm_add_gradients(a, c, sum, product);
    });
    ls_norm_slope<T> to;
    LS_UNROLL
    for (int k = 0; k < size; k++) {
        const float *of = room + at.lane * size + k;
        to.of_grad[k] = of[0], to.of_src[k] = of[width], to.constant[k] = of[2 * width];
    }
    LS_UNROLL_BY(AFTER == LS_NORM_CURVE ? 1 : 2)
    for (int u = 0; u < p.count; u++) {
        ls_pack<T> value = ls_pack_unpack<T>(kept_src[u * THREADS]), g = ls_pack_unpack<T>(kept_grad[u * THREADS]);
        if (a.grad_dst2) ls_pack_add(g, ls_pack_unpack<T>(kept_grad2[u * THREADS]));
        ls_norm_through<AFTER>(a, f, value, g);
        if (a.grad_residual) ls_pack_store(static_cast<T *>(a.grad_residual) + p.offset + u * p.step, g);
        ls_norm_grad_src(g, to, value, f);
        ls_pack_store(static_cast<T *>(a.out) + p.offset + u * p.step, g);
    }
}

#define LAUNCH(...) \
    do { \
        dim3 blocks = ls_norm_blocks(a->grid, a->grid.slices); \
        if (a->grid.form == LS_CUDA_NORM_IN_ONE_GRID) \
            LS_LAUNCH_GRID((__VA_ARGS__), blocks, THREADS, a->grid.kept_bytes, stream, *a); \
        else \
            LS_LAUNCH_CLUSTER((__VA_ARGS__), blocks, THREADS, a->grid.kept_bytes, stream, *a); \
    } while (0)

template <typename T> void forward(const ls_cuda_norm_args *a, cudaStream_t stream) {
    if (a->attr.residual) {
        LAUNCH(norm_forward_kept<T, true, false>);
    } else if (a->attr.activation > LS_ACTIVATION_RELU) {
        LAUNCH(norm_forward_kept<T, false, true>);
    } else {
        LAUNCH(norm_forward_kept<T, false, false>);
    }
}

template <typename T, ls_norm_follower AFTER> void backward(const ls_cuda_norm_args *a, cudaStream_t stream) {
    LAUNCH(norm_backward_kept<T, AFTER>);
}

template <typename T> void backward(const ls_cuda_norm_args *a, cudaStream_t stream) {
    if (a->attr.activation > LS_ACTIVATION_RELU) {
        backward<T, LS_NORM_CURVE>(a, stream);
    } else if (a->attr.activation == LS_ACTIVATION_NONE) {
        backward<T, LS_NORM_NOTHING>(a, stream);
    } else if (a->dst) {
        backward<T, LS_NORM_ADDED>(a, stream);
    } else {
        backward<T, LS_NORM_RELU>(a, stream);
    }
}

} // namespace

extern "C" void ls_cuda_norm_forward_kept(const ls_cuda_norm_args *args, cudaStream_t stream) {
    LS_BY_STORAGE(args->attr.storage, forward<T>(args, stream));
}

extern "C" void ls_cuda_norm_backward_kept(const ls_cuda_norm_args *args, cudaStream_t stream) {
    LS_BY_STORAGE(args->attr.storage, backward<T>(args, stream));
}
