// cuda_runtime.h - CUDA C++ as plain C++17: qualifiers, vector types, built-in variables and device functions; and what
// kernels.cuh and cluster.cuh launch with. Absent on purpose: <<<>>>, __shared__ (LS_SHARED), float atomics, inline PTX.
#pragma once

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <algorithm>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>
#include "cuda_runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))

// Vectors may lie over arrays of any type, as nvcc allows it.
#define EMU_VECTOR(type, name, bytes) \
    struct __attribute__((aligned(bytes), may_alias)) name
#define EMU_VECTORS(type, prefix) \
    EMU_VECTOR(type, prefix##2, 2 * sizeof(type)) { type x, y; }; \
    struct prefix##3 { type x, y, z; }; \
    EMU_VECTOR(type, prefix##4, (4 * sizeof(type) < 16 ? 4 * sizeof(type) : 16)) { type x, y, z, w; }; \
    inline prefix##2 make_##prefix##2(type x, type y) { return { x, y }; } \
    inline prefix##3 make_##prefix##3(type x, type y, type z) { return { x, y, z }; } \
    inline prefix##4 make_##prefix##4(type x, type y, type z, type w) { return { x, y, z, w }; }
EMU_VECTORS(unsigned, uint)
EMU_VECTORS(int, int)
EMU_VECTORS(float, float)
EMU_VECTORS(unsigned short, ushort)
EMU_VECTORS(short, short)
EMU_VECTORS(unsigned char, uchar)
EMU_VECTORS(double, double)
EMU_VECTORS(long long, longlong)
EMU_VECTORS(unsigned long long, ulonglong)

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
static constexpr int warpSize = 32;

namespace emu {

static const unsigned WHOLE_GRID = 0;

struct kernel_work {
    const char *name;
    bool cooperating; // its threads may wait for each other
    unsigned cluster; // blocks, neighbours in y, that may wait for each other; or WHOLE_GRID
    size_t dynamic;   // bytes of shared memory, beside the kernel's arrays
    dim3 grid, block;
    std::function<void()> thread; // one thread's work, with the arguments as they were at the launch
};
void enqueue_kernel(kernel_work work, cudaStream_t stream); // an error: cudaGetLastError

template <typename... P, typename... A>
void launch_work(kernel_work work, cudaStream_t stream, void (*kernel)(P...), A &&...args) {
    static_assert(sizeof...(P) == sizeof...(A), "a launch needs as many arguments as the kernel has parameters");
    work.thread = [kernel, stored = std::tuple<std::decay_t<P>...>(std::forward<A>(args)...)] {
        std::apply(kernel, stored);
    };
    enqueue_kernel(std::move(work), stream);
}

template <typename... P, typename... A>
void launch(
    bool cooperating, const char *name, dim3 grid, dim3 block, cudaStream_t stream, void (*kernel)(P...), A &&...args) {
    launch_work({ name, cooperating, 1, 0, grid, block, {} }, stream, kernel, std::forward<A>(args)...);
}

template <typename... P, typename... A>
void launch_together(unsigned cluster, size_t dynamic, const char *name, dim3 grid, dim3 block, cudaStream_t stream,
    void (*kernel)(P...), A &&...args) {
    launch_work({ name, true, cluster, dynamic, grid, block, {} }, stream, kernel, std::forward<A>(args)...);
}

void *shared(int key, size_t bytes); // of this block; `key` tells apart the arrays of a source file
void *dynamic_shared();
void barrier();
void cluster_barrier();
void grid_barrier();

// Hands `bytes` (at most 16) of this lane to the others of its warp, waits for every lane of the mask that has not
// ended, and returns what all gave, 16 bytes a lane; lanes that took no part give bytes of 0xFF.
const unsigned char *exchange(const char *what, unsigned mask, const void *value, size_t bytes);
void needs_matrices(const char *what); // ends the program where the card has no such matrix operation
unsigned lane();

template <typename T> T lane_value(const unsigned char *slots, unsigned from) {
    T value;
    memcpy(&value, slots + 16 * static_cast<size_t>(from), sizeof value);
    return value;
}

template <typename T> T shuffle(const char *what, unsigned mask, T value, unsigned from) {
    static_assert(std::is_trivially_copyable<T>::value && sizeof(T) <= 16, "a shuffle moves plain values");
    return lane_value<T>(exchange(what, mask, &value, sizeof value), from);
}

template <typename T> unsigned ballot(const char *what, unsigned mask, T predicate) {
    int given = predicate != 0;
    const unsigned char *slots = exchange(what, mask, &given, sizeof given);
    unsigned all = 0;
    for (unsigned i = 0; i < 32; i++)
        if (mask >> i & 1u && lane_value<int>(slots, i) == 1) all |= 1u << i;
    return all;
}

} // namespace emu

// ---- threads of a block and of a warp
inline void __syncthreads() { emu::barrier(); }
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu) {
    int nothing = 0;
    emu::exchange("__syncwarp", mask, &nothing, sizeof nothing);
}
inline void __threadfence() {}
inline void __threadfence_block() {}

template <typename T> inline T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
    unsigned w = static_cast<unsigned>(width), me = emu::lane();
    return emu::shuffle("__shfl_sync", mask, value, (me & ~(w - 1)) + (static_cast<unsigned>(from) & (w - 1)));
}
template <typename T> inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    unsigned w = static_cast<unsigned>(width), me = emu::lane();
    return emu::shuffle("__shfl_down_sync", mask, value, (me & (w - 1)) + delta < w ? me + delta : me);
}
template <typename T> inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    unsigned w = static_cast<unsigned>(width), me = emu::lane();
    return emu::shuffle("__shfl_up_sync", mask, value, (me & (w - 1)) >= delta ? me - delta : me);
}
template <typename T> inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
    unsigned w = static_cast<unsigned>(width), me = emu::lane(), from = me ^ static_cast<unsigned>(bits);
    return emu::shuffle("__shfl_xor_sync", mask, value, from < (me & ~(w - 1)) + w ? from : me);
}
inline unsigned __ballot_sync(unsigned mask, int p) { return emu::ballot("__ballot_sync", mask, p); }
inline int __any_sync(unsigned mask, int p) { return emu::ballot("__any_sync", mask, p) != 0; }
inline int __all_sync(unsigned mask, int p) { return emu::ballot("__all_sync", mask, !p) == 0; }

// ---- atomics: a fiber is left only at barriers and warp operations, so plain code is atomic
#define EMU_ATOMIC(name, type, expression) \
    inline type name(type *address, type value) { \
        type old = *address; \
        *address = (expression); \
        return old; \
    }
#define EMU_ATOMICS(type) \
    EMU_ATOMIC(atomicAdd, type, old + value) \
    EMU_ATOMIC(atomicMax, type, old > value ? old : value) \
    EMU_ATOMIC(atomicMin, type, old < value ? old : value) \
    EMU_ATOMIC(atomicOr, type, old | value) \
    EMU_ATOMIC(atomicAnd, type, old &value) \
    EMU_ATOMIC(atomicExch, type, value) \
    inline type atomicCAS(type *address, type compare, type value) { \
        type old = *address; \
        if (old == compare) *address = value; \
        return old; \
    }
EMU_ATOMICS(int)
EMU_ATOMICS(unsigned)
EMU_ATOMICS(unsigned long long)

// ---- bits and numbers
namespace emu {
template <typename To, typename From> inline To cast(From from) {
    static_assert(sizeof(To) == sizeof(From), "same size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
} // namespace emu
inline unsigned __float_as_uint(float v) { return emu::cast<unsigned>(v); }
inline int __float_as_int(float v) { return emu::cast<int>(v); }
inline float __uint_as_float(unsigned v) { return emu::cast<float>(v); }
inline float __int_as_float(int v) { return emu::cast<float>(v); }
inline long long __double_as_longlong(double v) { return emu::cast<long long>(v); }
inline double __longlong_as_double(long long v) { return emu::cast<double>(v); }

template <typename T> inline T __ldg(const T *address) { return *address; }
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __clz(int v) { return v ? __builtin_clz(static_cast<unsigned>(v)) : 32; }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline unsigned __umulhi(unsigned a, unsigned b) {
    return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32);
}

// Out of range, the device's conversions saturate and give 0 for NaN (0x8000000000000000 to 64 bits).
inline long long __double2ll_rn(double v) {
    if (v != v) return LLONG_MIN;
    return v >= 0x1p63 ? LLONG_MAX : v < -0x1p63 ? LLONG_MIN : llrint(v);
}
inline int __double2int_rn(double v) {
    if (v != v) return 0;
    return v >= 0x1p31 - 0.5 ? INT_MAX : v <= -0x1p31 ? INT_MIN : static_cast<int>(lrint(v));
}
inline int __float2int_rn(float v) { return __double2int_rn(static_cast<double>(v)); }
inline int __float2int_rd(float v) { return __double2int_rn(floor(static_cast<double>(v))); }
inline int __float2int_rz(float v) { return __double2int_rn(trunc(static_cast<double>(v))); }
inline float __int2float_rn(int v) { return static_cast<float>(v); }
inline float __uint2float_rn(unsigned v) { return static_cast<float>(v); }
inline float __ll2float_rn(long long v) { return static_cast<float>(v); }
inline double __ll2double_rn(long long v) { return static_cast<double>(v); }
inline float __double2float_rn(double v) { return static_cast<float>(v); }

// One rounding each: the compiler must not fuse them into a multiply-add.
#define EMU_ROUNDED(type, prefix, fused) \
    inline type __##prefix##add_rn(type a, type b) { return a + b; } \
    inline type __##prefix##sub_rn(type a, type b) { return a - b; } \
    inline type __##prefix##mul_rn(type a, type b) { return a * b; } \
    inline type __##prefix##div_rn(type a, type b) { return a / b; }
EMU_ROUNDED(float, f, fmaf)
EMU_ROUNDED(double, d, fma)
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float __fsqrt_rn(float v) { return sqrtf(v); }
inline double __dsqrt_rn(double v) { return sqrt(v); }
inline float rsqrtf(float v) { return 1 / sqrtf(v); }
inline double rsqrt(double v) { return 1 / sqrt(v); }
inline float __expf(float v) { return expf(v); }
inline float __logf(float v) { return logf(v); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __saturatef(float v) { return v > 0 ? (v < 1 ? v : 1) : 0; } // NaN gives 0

#define EMU_MIN_MAX(type) \
    inline type min(type a, type b) { return b < a ? b : a; } \
    inline type max(type a, type b) { return a < b ? b : a; }
EMU_MIN_MAX(int)
EMU_MIN_MAX(unsigned)
EMU_MIN_MAX(long)
EMU_MIN_MAX(unsigned long)
EMU_MIN_MAX(long long)
EMU_MIN_MAX(unsigned long long)
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
