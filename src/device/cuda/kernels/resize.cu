// resize.cu - one thread writes all channels of one pixel of dst, one pack at a time. It reads four neighbouring packs,
// which the threads of neighbouring pixels share in the first-level cache. The arithmetic uses explicit rounding,
// because the compiler must not fuse it (op_resize.h).
//
// Estimates for 16-bit storage on an H200 (sm_90): 4.8 TB/s and 132 multiprocessors, each needing 24 KiB of
// loads in flight. 40 registers, 12 blocks of 128 threads on a multiprocessor, 64 bytes of each thread in flight: 96
// KiB. For each element of dst 2 bytes are written, for each element of src 2 bytes are read. Least time for a map of
// 64 MiB at about the same resolution: 28 us.
#include "device/cuda/kernels/kernels.cuh"
#include "device/cuda/kernels/resize.h"

namespace {

enum { THREADS = 128 };

// The two source indices that an output position of one axis reads, and their weights.
struct axis_tap {
    int first, second;
    float of_first, of_second;
};

__device__ inline axis_tap tap_of(int at, int size, int out_size) {
    unsigned reach = (2u * static_cast<unsigned>(at) + 1) * static_cast<unsigned>(size);
    unsigned out = static_cast<unsigned>(out_size), t = reach > out ? reach - out : 0, first = t / (2 * out);
    float share = __fdiv_rn(static_cast<float>(t - first * 2 * out), static_cast<float>(2 * out));
    int at_first = static_cast<int>(first);
    return { at_first, min(at_first + 1, size - 1), __fsub_rn(1, share), share };
}

__device__ inline float between(float a, float b, const axis_tap &tap) {
    return __fadd_rn(__fmul_rn(tap.of_first, a), __fmul_rn(tap.of_second, b));
}

// Computes the pictures in dst; each has `blocks` blocks of threads.
template <typename T> __global__ void __launch_bounds__(THREADS) resize(ls_cuda_resize_args a, int blocks) {
    ls_nchw s = a.attr.src, d = a.attr.dst;
    int n = static_cast<int>(blockIdx.x) / blocks;
    int pixel = (static_cast<int>(blockIdx.x) - n * blocks) * THREADS + static_cast<int>(threadIdx.x);
    if (pixel >= d.h * d.w) return;
    int y = pixel / d.w;
    axis_tap row = tap_of(y, s.h, d.h), column = tap_of(pixel - y * d.w, s.w, d.w);
    const T *src = static_cast<const T *>(a.src) + static_cast<int64_t>(n) * s.h * s.w * a.channels;
    const T *top = src + static_cast<int64_t>(row.first) * s.w * a.channels;
    const T *bottom = src + static_cast<int64_t>(row.second) * s.w * a.channels;
    T *to = static_cast<T *>(a.dst) + (static_cast<int64_t>(n) * d.h * d.w + pixel) * a.channels;
    int left = column.first * a.channels, right = column.second * a.channels;
    for (int first = 0; first < a.channels; first += ls_pack<T>::size) {
        ls_pack<T> top_left = ls_pack_load(top + left + first), top_right = ls_pack_load(top + right + first);
        ls_pack<T> bottom_left = ls_pack_load(bottom + left + first),
                   bottom_right = ls_pack_load(bottom + right + first);
        ls_pack<T> out;
        LS_UNROLL
        for (int k = 0; k < out.size; k++)
            out.v[k] = between(between(top_left.v[k], top_right.v[k], column),
                between(bottom_left.v[k], bottom_right.v[k], column), row);
        ls_pack_store(to + first, out);
    }
}

} // namespace

extern "C" void ls_cuda_resize(const ls_cuda_resize_args *args, cudaStream_t stream) {
    ls_nchw d = args->attr.dst;
    int blocks = ls_blocks(static_cast<int64_t>(d.h) * d.w, THREADS);
    LS_BY_STORAGE(args->attr.storage, LS_LAUNCH((resize<T>), d.n * blocks, THREADS, stream, *args, blocks));
}
