// cluster.cuh - barriers of blocks that wait for each other. launch.cuh launches them.
//
// ls_cluster_sync(), ls_grid_sync(): called by all threads of all blocks of a cluster or grid. After the call, all of
// them see everything that any of them wrote before it, including global memory. Each is also a barrier of the block.
#pragma once

#include "device/cuda/kernels/launch.cuh"

#ifdef LS_EMULATED_CUDA

inline void ls_cluster_sync() {
    emu::cluster_barrier();
}
inline void ls_grid_sync() {
    emu::grid_barrier();
}

#else

#include <cooperative_groups.h>

__device__ inline void ls_cluster_sync() {
#if __CUDA_ARCH__ >= 900
    cooperative_groups::this_cluster().sync();
#else
    __syncthreads();
#endif
}

__device__ inline void ls_grid_sync() {
    cooperative_groups::this_grid().sync();
}

#endif
