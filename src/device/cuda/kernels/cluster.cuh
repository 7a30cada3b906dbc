// cluster.cuh - kernels whose blocks wait for each other: a grid of (columns, n) blocks is so many clusters of n blocks,
// which the GPU starts together; n is at most 8, and 1 below compute capability 9.0.
//   LS_LAUNCH_CLUSTER((kernel<T>), dim3(columns, n), threads, bytes, stream, ...);
// LS_SHARED_DYNAMIC(name): uint4 *name, the `bytes` of shared memory, contents arbitrary; with those of LS_SHARED at most
// ls_cuda_shared_bytes (cuda.h).
// ls_cluster_sync(), called by all threads of all blocks of a cluster: what any of them wrote before, to global memory
// too, all of them read behind it. A barrier of the block as well.
#pragma once

#include "device/cuda/kernels/kernels.cuh"

#ifdef LS_EMULATED_CUDA

#define LS_LAUNCH_CLUSTER(kernel, grid, block, bytes, stream, ...) \
    emu::launch_clusters(true, dim3(grid).y, bytes, #kernel, grid, block, stream, kernel, __VA_ARGS__)
#define LS_SHARED_DYNAMIC(name) uint4 *name = static_cast<uint4 *>(emu::dynamic_shared())

inline void ls_cluster_sync() {
    emu::cluster_barrier();
}

#else

#include <cooperative_groups.h>

#define LS_LAUNCH_CLUSTER(kernel, grid, block, bytes, stream, ...) \
    ls_launch_cluster(kernel, dim3(grid), static_cast<unsigned>(block), bytes, stream, __VA_ARGS__)
#define LS_SHARED_DYNAMIC(name) \
    extern __shared__ uint4 ls_shared_dynamic[]; \
    uint4 *name = ls_shared_dynamic

// An error stays for cudaGetLastError, as with every launch.
template <typename... P, typename... A>
void ls_launch_cluster(
    void (*kernel)(P...), dim3 grid, unsigned block, size_t bytes, cudaStream_t stream, A &&...args) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = { 1, grid.y, 1 };
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = bytes;
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = grid.y > 1;
    (void)cudaLaunchKernelEx(&config, kernel, args...);
}

__device__ inline void ls_cluster_sync() {
#if __CUDA_ARCH__ >= 900
    cooperative_groups::this_cluster().sync();
#else
    __syncthreads();
#endif
}

#endif
