// peers.h - the seam to NCCL: the same GPU's work on other ranks. Only libraries_nccl.c includes NCCL, which it opens
// when it is needed; tests/emulation/peers.cc stands in for it where there is no GPU.
#ifndef LS_DEVICE_CUDA_PEERS_H
#define LS_DEVICE_CUDA_PEERS_H

#include "device/cuda/cuda.h"

typedef struct ls_cuda_peers ls_cuda_peers;

// As in collective.h.
LS_CHECKED ls_status ls_cuda_peers_probe(char *version, size_t bytes);
LS_CHECKED ls_status ls_cuda_peers_make_id(uint8_t id[LS_COLLECTIVE_ID_BYTES]);
LS_CHECKED ls_status ls_cuda_peers_open(ls_cuda_device *device, const uint8_t id[LS_COLLECTIVE_ID_BYTES], int rank,
    int world_size, double timeout_s, ls_cuda_peers **out);
LS_CHECKED ls_status ls_cuda_peers_adopt(ls_cuda_peers *peers, void *address, size_t bytes);
LS_CHECKED ls_status ls_cuda_peers_all_reduce(
    ls_cuda_peers *peers, void *data, int64_t count, ls_dtype dtype, ls_collect op, int32_t tag, cudaStream_t stream);
LS_CHECKED ls_status ls_cuda_peers_health(ls_cuda_peers *peers);
// 0: not all had ended when the time was over; the device may then wait for ever at any call that waits for its work.
int ls_cuda_peers_close(ls_cuda_peers *peers, double timeout_s);

// Device memory from the library's own allocator. NULL: there is none; any other memory works, too.
void *ls_cuda_peers_malloc(size_t bytes);
cudaError_t ls_cuda_peers_free(void *address);

#endif
