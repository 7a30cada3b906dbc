// collective.cu - kernels with one thread that accompany collectives. They use at most 12 registers, write one word to
// the device or over PCIe, and do not wait. The launch dominates their time: about 2 us on an H200.
#include "device/cuda/kernels/collective.h"
#include "device/cuda/kernels/kernels.cuh"

#ifdef LS_EMULATED_CUDA
#include <time.h>
#endif

namespace {

__device__ inline int64_t clock_ns() {
#ifdef LS_EMULATED_CUDA
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
#else
    unsigned long long ns; // one clock for the whole GPU, in steps of about a microsecond (PTX ISA, %globaltimer)
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return static_cast<int64_t>(ns);
#endif
}

// Writes to host memory that a host thread may read at any time.
__device__ inline void store_whole(unsigned long long *to, unsigned long long value) {
#ifdef LS_EMULATED_CUDA
    __atomic_store_n(to, value, __ATOMIC_RELEASE);
#else
    *static_cast<volatile unsigned long long *>(to) = value; // 8 bytes, aligned: written as a whole
#endif
}

__global__ void __launch_bounds__(1)
    count_collective(unsigned long long *count, unsigned long long *progress, unsigned long long tag) {
    store_whole(progress, ++*count << LS_CUDA_PROGRESS_TAG_BITS | tag);
}

__global__ void __launch_bounds__(1) stamp(int64_t *ns) {
    *ns = clock_ns();
}

} // namespace

extern "C" void ls_cuda_count_collective(uint64_t *count, uint64_t *progress, int32_t tag, cudaStream_t stream) {
    const unsigned long long most = (1ull << LS_CUDA_PROGRESS_TAG_BITS) - 1;
    unsigned long long kept = static_cast<unsigned long long>(static_cast<int64_t>(tag) + 1) & most;
    LS_LAUNCH(count_collective, 1, 1, stream, reinterpret_cast<unsigned long long *>(count),
        reinterpret_cast<unsigned long long *>(progress), kept);
}

extern "C" void ls_cuda_stamp(int64_t *ns, cudaStream_t stream) {
    LS_LAUNCH(stamp, 1, 1, stream, ns);
}
