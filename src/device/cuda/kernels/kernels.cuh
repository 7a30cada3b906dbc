// kernels.cuh - shared by all kernels: launching, shared memory, 16-byte packs, storage types, reductions in a block.
//
// nvcc compiles these files; for tests without a GPU, a C++ compiler compiles them against tests/emulation. So kernels
// follow these rules: inline PTX only in tensor_cores.cuh and collective.cu, no asynchronous copies, shared memory only
// by LS_SHARED and LS_SHARED_DYNAMIC, warp operations with the full mask, launches only by the LS_LAUNCH macros (here
// and in launch.cuh). No float atomics: every sum has one order.
//
// Estimates of a kernel's speed stand above it or at the head of its file. Their numbers of registers are those in
// tests/device/cuda/registers.txt, which scripts/kernel_report.py checks.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include "base/shape.h"

// LS_LAUNCH: for threads that never wait for each other (no barrier, no shuffle). LS_LAUNCH_BLOCK: for threads that
// may.
//   LS_LAUNCH((relu_forward<T>), blocks, threads, stream, src, dst, packs);
// LS_UNROLL, LS_UNROLL_BY(4): placed before a loop.
// LS_SHARED(float, sums, 256): an array in shared memory with arbitrary contents.
#ifdef LS_EMULATED_CUDA
#define LS_LAUNCH(kernel, grid, block, stream, ...) \
    emu::launch(false, #kernel, grid, block, stream, kernel, __VA_ARGS__)
#define LS_LAUNCH_BLOCK(kernel, grid, block, stream, ...) \
    emu::launch(true, #kernel, grid, block, stream, kernel, __VA_ARGS__)
#define LS_UNROLL
#define LS_UNROLL_BY(times)
#define LS_SHARED(type, name, count) \
    type *name = static_cast<type *>(emu::shared(__COUNTER__, sizeof(type) * static_cast<size_t>(count)))
#else
#define LS_LAUNCH(kernel, grid, block, stream, ...) (kernel)<<<grid, block, 0, stream>>>(__VA_ARGS__)
#define LS_LAUNCH_BLOCK(kernel, grid, block, stream, ...) (kernel)<<<grid, block, 0, stream>>>(__VA_ARGS__)
#define LS_UNROLL _Pragma("unroll")
#define LS_UNROLL_BY(times) LS_PRAGMA(unroll times)
#define LS_PRAGMA(text) _Pragma(#text)
#define LS_SHARED(type, name, count) __shared__ type name[count]
#endif

enum { LS_BLOCK = 256 }; // threads in a block, unless a kernel needs another number

// Runs the statement with T bound to the element type of `storage`.
#define LS_BY_STORAGE(storage, ...) \
    do { \
        if ((storage) == LS_F32) { \
            using T = float; \
            __VA_ARGS__; \
        } else if ((storage) == LS_F16) { \
            using T = __half; \
            __VA_ARGS__; \
        } else { \
            using T = __nv_bfloat16; \
            __VA_ARGS__; \
        } \
    } while (0)

__device__ inline float ls_float(float v) {
    return v;
}
__device__ inline float ls_float(__half v) {
    return __half2float(v);
}
__device__ inline float ls_float(__nv_bfloat16 v) {
    return __bfloat162float(v);
}
template <typename T> __device__ inline T ls_store(float v);
template <> __device__ inline float ls_store<float>(float v) {
    return v;
}
template <> __device__ inline __half ls_store<__half>(float v) {
    return __float2half_rn(v);
}
template <> __device__ inline __nv_bfloat16 ls_store<__nv_bfloat16>(float v) {
    return __float2bfloat16_rn(v);
}

// 16 bytes of elements: 4 of 32 bits or 8 of 16 bits. Channels are padded to 8, so a pixel has a whole number of packs.
template <typename T> struct ls_pack {
    static constexpr int size = 16 / sizeof(T);
    float v[size];
};

template <typename T> __device__ inline ls_pack<T> ls_pack_unpack(uint4 raw) {
    T elements[ls_pack<T>::size];
    memcpy(elements, &raw, sizeof raw);
    ls_pack<T> pack;
    for (int i = 0; i < ls_pack<T>::size; i++) pack.v[i] = ls_float(elements[i]);
    return pack;
}

template <typename T> __device__ inline uint4 ls_pack_raw(const T *from) {
    return *reinterpret_cast<const uint4 *>(from);
}

template <typename T> __device__ inline ls_pack<T> ls_pack_load(const T *from) {
    return ls_pack_unpack<T>(ls_pack_raw(from));
}

template <typename T> __device__ inline void ls_pack_store(T *to, const ls_pack<T> &pack) {
    T elements[ls_pack<T>::size];
    for (int i = 0; i < ls_pack<T>::size; i++) elements[i] = ls_store<T>(pack.v[i]);
    uint4 raw;
    memcpy(&raw, elements, sizeof raw);
    *reinterpret_cast<uint4 *>(to) = raw;
}

// Sums over a block of `threads` threads (a power of two, at least 32), in one order. All threads get the sum. `room`:
// LS_SHARED of `threads` elements. All threads of the block must call it; afterwards room may be used again.
template <typename T> __device__ inline T ls_block_sum(T value, T *room, int threads) {
    int t = static_cast<int>(threadIdx.x);
    room[t] = value;
    __syncthreads();
    for (int half = threads / 2; half > 0; half /= 2) {
        if (t < half) room[t] += room[t + half];
        __syncthreads();
    }
    T sum = room[0];
    __syncthreads();
    return sum;
}

// Sums over `lanes` neighbouring threads (a power of two, at most 32), in one order. Each of them gets the sum. All
// threads of the warp must call it.
constexpr unsigned LS_ALL_LANES = 0xFFFFFFFFu;
__device__ inline float ls_lanes_sum(float value, int lanes) {
    for (int step = lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(LS_ALL_LANES, value, step);
    return value;
}

inline int ls_blocks(int64_t items, int threads) {
    return static_cast<int>((items + threads - 1) / threads);
}

// Division of numerators below 2^31 by a number that is known at launch: one multiplication. Source: Granlund and
// Montgomery, "Division by invariant integers using multiplication", 1994.
struct ls_divider {
    uint32_t divisor, multiplier, shift;
};
inline ls_divider ls_divider_of(int divisor) {
    uint32_t d = static_cast<uint32_t>(divisor), shift = 0;
    while ((1ull << shift) < d) shift++;
    uint64_t multiplier = ((1ull << 32) * ((1ull << shift) - d)) / d + 1;
    return { d, static_cast<uint32_t>(multiplier), shift };
}
__device__ inline uint32_t ls_divide(uint32_t numerator, ls_divider by) {
    uint32_t high = static_cast<uint32_t>(static_cast<uint64_t>(numerator) * by.multiplier >> 32);
    return (high + numerator) >> by.shift;
}
