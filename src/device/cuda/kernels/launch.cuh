// launch.cuh - launches with dynamic shared memory, also of blocks that wait for each other by cluster.cuh.
//   LS_LAUNCH_CLUSTER((kernel<T>), dim3(columns, n), threads, bytes, stream, ...);
//     Launches `columns` clusters of n blocks. The GPU starts the blocks of a cluster together. n is at most 8, and 1
//     below compute capability 9.0.
//   LS_LAUNCH_GRID(...)
//     The same arguments, with a grid of any shape. All of its blocks run on the GPU at once. A grid that does not fit
//     is an error (cudaErrorCooperativeLaunchTooLarge). If kernels of other queues occupy part of the GPU, the grid
//     waits until they end; so their end must not depend on the grid (device/gpu/norm_rule.h).
//   LS_LAUNCH_SHARED(...)
//     The same arguments, for blocks that do not wait for each other but need the dynamic shared memory.
// LS_SHARED_DYNAMIC(name): declares uint4 *name, the `bytes` of shared memory with arbitrary contents. Together with
// LS_SHARED arrays at most the device's shared_bytes (cuda.h).
#pragma once

#include "device/cuda/kernels/kernels.cuh"

#ifdef LS_EMULATED_CUDA

#define LS_LAUNCH_CLUSTER(kernel, grid, block, bytes, stream, ...) \
    emu::launch_together(dim3(grid).y, bytes, #kernel, grid, block, stream, kernel, __VA_ARGS__)
#define LS_LAUNCH_GRID(kernel, grid, block, bytes, stream, ...) \
    emu::launch_together(emu::WHOLE_GRID, bytes, #kernel, grid, block, stream, kernel, __VA_ARGS__)
#define LS_LAUNCH_SHARED(kernel, grid, block, bytes, stream, ...) \
    emu::launch_together(1, bytes, #kernel, grid, block, stream, kernel, __VA_ARGS__)
#define LS_SHARED_DYNAMIC(name) uint4 *name = static_cast<uint4 *>(emu::dynamic_shared())

#else

#define LS_LAUNCH_CLUSTER(kernel, grid, block, bytes, stream, ...) \
    ls_launch_together(kernel, dim3(grid).y, dim3(grid), static_cast<unsigned>(block), bytes, stream, __VA_ARGS__)
#define LS_LAUNCH_GRID(kernel, grid, block, bytes, stream, ...) \
    ls_launch_together(kernel, 0, dim3(grid), static_cast<unsigned>(block), bytes, stream, __VA_ARGS__)
#define LS_LAUNCH_SHARED(kernel, grid, block, bytes, stream, ...) \
    ls_launch_together(kernel, 1, dim3(grid), static_cast<unsigned>(block), bytes, stream, __VA_ARGS__)
#define LS_SHARED_DYNAMIC(name) \
    extern __shared__ uint4 ls_shared_dynamic[]; \
    uint4 *name = ls_shared_dynamic

// cluster: blocks in a cluster; 0: the whole grid. As with every launch, an error is left for cudaGetLastError.
template <typename... P, typename... A>
void ls_launch_together(
    void (*kernel)(P...), unsigned cluster, dim3 grid, unsigned block, size_t bytes, cudaStream_t stream, A &&...args) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
    cudaLaunchAttribute together = {};
    if (cluster > 0) {
        together.id = cudaLaunchAttributeClusterDimension;
        together.val.clusterDim = { 1, cluster, 1 };
    } else {
        together.id = cudaLaunchAttributeCooperative;
        together.val.cooperative = 1;
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = bytes;
    config.stream = stream;
    config.attrs = &together;
    config.numAttrs = cluster != 1;
    (void)cudaLaunchKernelEx(&config, kernel, args...);
}

#endif
