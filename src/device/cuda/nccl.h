// nccl.h - the interface to NCCL, which sums over the GPUs of several ranks. Only nccl.c includes NCCL and opens it
// when needed. In the emulation, tests/emulation/peers.cc takes the place of nccl.c.
#ifndef LS_DEVICE_CUDA_NCCL_H
#define LS_DEVICE_CUDA_NCCL_H

#include "device/cuda/cuda.h"

typedef struct ls_nccl ls_nccl;

// Implement the functions of ls_collective_api (device/collective.h) that have the same names.
LS_CHECKED ls_status ls_nccl_probe(char *version, size_t bytes);
LS_CHECKED ls_status ls_nccl_make_id(uint8_t id[LS_COLLECTIVE_ID_BYTES]);
LS_CHECKED ls_status ls_nccl_open(ls_cuda_device *device, const uint8_t id[LS_COLLECTIVE_ID_BYTES], int rank,
    int world_size, double timeout_s, ls_nccl **out);
LS_CHECKED ls_status ls_nccl_register_memory(ls_nccl *peers, void *address, size_t bytes);
LS_CHECKED ls_status ls_nccl_all_reduce(
    ls_nccl *peers, void *data, int64_t count, ls_dtype dtype, ls_collect op, int32_t tag, cudaStream_t stream);
LS_CHECKED ls_status ls_nccl_health(ls_nccl *peers); // does not wait for a thread that is in another of these functions
// Ends with all peers, or aborts. Returns 0 if neither was done in time; the device may then wait for its work for
// ever.
int ls_nccl_close(ls_nccl *peers, double timeout_s);

// Allocates device memory with the library's own allocator. *address NULL with cudaSuccess: it gave none, and
// other memory works too. cudaErrorMemoryAllocation: the allocator failed, and sums need its memory (has_windows).
cudaError_t ls_nccl_malloc(size_t bytes, void **address);
cudaError_t ls_nccl_free(void *address);

#endif
