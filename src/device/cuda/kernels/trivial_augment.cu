// trivial_augment.cu - one block changes one picture. A change that depends on the whole picture first counts its
// values in shared memory, by atomic additions of integers. One thread for each histogram then sums it up.
//
// Estimates on an H200 (sm_90): 56 registers, 4 blocks of 256 threads on a multiprocessor, 528 pictures at a time
// in all. Latency limits the kernel: 128 pictures of 32x32 take 4 rounds of loads in each pass, and 256 steps in shared
// memory for the sums, 10 us in all. A picture of 224x224 takes 196 rounds in each pass, about 0.2 ms.
#include "device/cuda/kernels/augment.h"
#include "device/cuda/kernels/kernels.cuh"

#define LS_TRIVIAL_INLINE __device__ inline
#define LS_TRIVIAL_ADD(a, b) __fadd_rn(a, b)
#define LS_TRIVIAL_MULTIPLY(a, b) __fmul_rn(a, b)
#define LS_TRIVIAL_DIVIDE(a, b) __fdiv_rn(a, b)
#include "device/trivial_augment.h"

namespace {

// Makes the table of a change. All threads of the block must call it. counts, summary: room in shared memory.
__device__ void make_table(const ls_trivial_picture &p, uint32_t *counts, ls_trivial_summary *summary, uint8_t *table) {
    int t = static_cast<int>(threadIdx.x), histograms = ls_trivial_histograms(&p), plane = p.h * p.w;
    for (int i = t; i < histograms * LS_TRIVIAL_VALUES; i += LS_BLOCK) counts[i] = 0;
    __syncthreads();
    for (int i = 0; i < histograms; i++)
        for (int at = t; at < plane; at += LS_BLOCK)
            atomicAdd(&counts[i * LS_TRIVIAL_VALUES + ls_trivial_counted(&p, i, at)], 1u);
    __syncthreads();
    if (t < histograms) summary[t] = ls_trivial_sum_up(counts + t * LS_TRIVIAL_VALUES);
    __syncthreads();
    for (int c = 0; c < p.c; c++) {
        int of = histograms > 1 ? c : 0;
        table[c * LS_TRIVIAL_VALUES + t] = ls_trivial_entry(&p, &summary[of], counts + of * LS_TRIVIAL_VALUES, t);
    }
    __syncthreads();
}

__global__ void __launch_bounds__(LS_BLOCK, 4) trivial_augment(ls_cuda_trivial_augment_args a) {
    LS_SHARED(uint32_t, counts, LS_TRIVIAL_TABLE);
    LS_SHARED(ls_trivial_summary, summary, LS_TRIVIAL_CHANNELS_MAX);
    LS_SHARED(uint8_t, table, LS_TRIVIAL_TABLE);
    int n = static_cast<int>(blockIdx.x), plane = a.shape.h * a.shape.w;
    int64_t picture = static_cast<int64_t>(a.shape.c) * plane;
    ls_trivial_picture p =
        ls_trivial_picture_of(a.pixels + (a.index ? a.index[n] : n) * picture, a.shape, &a.samples[n]);
    uint8_t *to = a.dst + n * picture;
    if (ls_trivial_has_table(&p)) make_table(p, counts, summary, table);
    for (int at = static_cast<int>(threadIdx.x); at < plane; at += LS_BLOCK) {
        int y = at / p.w, x = at - y * p.w;
        for (int c = 0; c < p.c; c++) to[static_cast<int64_t>(c) * plane + at] = ls_trivial_pixel(&p, table, c, y, x);
    }
}

} // namespace

static_assert(static_cast<int>(LS_BLOCK) == static_cast<int>(LS_TRIVIAL_VALUES), "a thread makes an entry of a table");

extern "C" void ls_cuda_trivial_augment(const ls_cuda_trivial_augment_args *args, cudaStream_t stream) {
    LS_LAUNCH_BLOCK(trivial_augment, args->shape.n, LS_BLOCK, stream, *args);
}
