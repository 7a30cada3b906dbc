// nccl.h - the seam to NCCL: the same GPU's work on other ranks. Only nccl.c includes NCCL, which it opens
// when it is needed; tests/emulation/peers.cc stands in for it where there is no GPU.
#ifndef LS_DEVICE_CUDA_NCCL_H
#define LS_DEVICE_CUDA_NCCL_H

#include "device/cuda/cuda.h"

typedef struct ls_nccl ls_nccl;

// As in collective.h.
LS_CHECKED ls_status ls_nccl_probe(char *version, size_t bytes);
LS_CHECKED ls_status ls_nccl_make_id(uint8_t id[LS_COLLECTIVE_ID_BYTES]);
LS_CHECKED ls_status ls_nccl_open(ls_cuda_device *device, const uint8_t id[LS_COLLECTIVE_ID_BYTES], int rank,
    int world_size, double timeout_s, ls_nccl **out);
LS_CHECKED ls_status ls_nccl_register_memory(ls_nccl *peers, void *address, size_t bytes);
LS_CHECKED ls_status ls_nccl_all_reduce(
    ls_nccl *peers, void *data, int64_t count, ls_dtype dtype, ls_collect op, int32_t tag, cudaStream_t stream);
LS_CHECKED ls_status ls_nccl_health(ls_nccl *peers); // does not wait for a thread that is in another of these
// 0: not all had ended when the time was over; the device may then wait for ever at any call that waits for its work.
int ls_nccl_close(ls_nccl *peers, double timeout_s);

// Device memory from the library's own allocator. *address NULL: there is none, and any other memory works, too.
// cudaErrorMemoryAllocation: there is, but no such memory is free.
cudaError_t ls_nccl_malloc(size_t bytes, void **address);
cudaError_t ls_nccl_free(void *address);

#endif
