// collective.h - kernels with one thread that accompany collectives.
#ifndef LS_DEVICE_CUDA_KERNELS_COLLECTIVE_H
#define LS_DEVICE_CUDA_KERNELS_COLLECTIVE_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Progress of the queue in one word of host memory, which is read and written as a whole: collectives completed << 24 |
// tag + 1 of the last one. 0 at the start. The count itself is on the device, because the next collective waits for
// this kernel, and so does the work that needs the sums. So this kernel must not wait for an answer over PCIe.
enum { LS_CUDA_PROGRESS_TAG_BITS = 24 };
void ls_cuda_count_collective(uint64_t *count, uint64_t *progress, int32_t tag, cudaStream_t stream);
void ls_cuda_stamp(int64_t *ns, cudaStream_t stream); // stores the device's clock

#ifdef __cplusplus
}
#endif

#endif
