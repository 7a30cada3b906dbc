// tensor_cores.cuh - products of small matrices by one warp. All lanes must call each function.
//
// A row of an operand is 32 bytes along the dimension that is summed: 16 elements of 16 bits, or 8 floats whose last 13
// bits are ignored (ls_round_tf32). A lane's registers of 4 bytes, in PTX's layout, with g = lane / 4, t = lane % 4:
//   a[4]   rows g and g + 8 of 16: bytes 4t of the first 16, rows g, g + 8; then of the second 16
//   b[2]   row g of 8 (a column of the product): bytes 4t of the first 16, and of the second
//   d[4]   rows g (two) and g + 8 (two), columns 2t and 2t + 1
// Source: PTX ISA, ldmatrix, mma.m16n8k16 and mma.m16n8k8.
//
// ls_has_tensor_cores: these operations exist, from compute capability 8.0 on (LS_CUDA_BF16). A kernel that needs them
// returns at once where it is false, so that machine code for older GPUs holds an empty kernel. The host never launches
// it there.
#pragma once

#include "device/cuda/kernels/kernels.cuh"

#ifdef LS_EMULATED_CUDA

#include "tensor_cores.h"

#define ls_load_matrices emu::load_matrices
#define ls_load_matrices_transposed emu::load_matrices_transposed
#define ls_multiply_add emu::multiply_add
#define ls_round_tf32 emu::round_tf32
static constexpr bool ls_has_tensor_cores = true; // the emulation ends the program on an older card

#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800

static constexpr bool ls_has_tensor_cores = false;
__device__ inline void ls_load_matrices(uint32_t *, const void *) {
    __trap();
}
__device__ inline void ls_load_matrices_transposed(uint32_t *, const void *) {
    __trap();
}
template <typename T> __device__ inline void ls_multiply_add(float *, const uint32_t *, const uint32_t *) {
    __trap();
}
__device__ inline float ls_round_tf32(float v) {
    return v;
}

#else

static constexpr bool ls_has_tensor_cores = true;

// Loads four matrices of 8 rows of 16 bytes from shared memory. Lane i passes the address, a multiple of 16, of row i %
// 8 of matrix i / 8. It receives bytes 4t of row g of each matrix.
__device__ inline void ls_load_matrices(uint32_t to[4], const void *row) {
    uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at));
}

// Loads four matrices of 8 rows of 8 16-bit elements like ls_load_matrices, but transposed: a lane receives elements g
// of rows 2t and 2t + 1 of each matrix (g = lane / 4, t = lane % 4).
__device__ inline void ls_load_matrices_transposed(uint32_t to[4], const void *row) {
    uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at));
}

#define LS_MMA(shape_and_types) \
    asm volatile("mma.sync.aligned." shape_and_types \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

// d[row][column] += sum of a[row] * b[column], with elements of type T
template <typename T> __device__ inline void ls_multiply_add(float d[4], const uint32_t a[4], const uint32_t b[2]);
template <>
__device__ inline void ls_multiply_add<__nv_bfloat16>(float d[4], const uint32_t a[4], const uint32_t b[2]) {
    LS_MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
}
template <> __device__ inline void ls_multiply_add<__half>(float d[4], const uint32_t a[4], const uint32_t b[2]) {
    LS_MMA("m16n8k16.row.col.f32.f16.f16.f32");
}
template <> __device__ inline void ls_multiply_add<float>(float d[4], const uint32_t a[4], const uint32_t b[2]) {
    LS_MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
}

// Rounds to the nearest number with 11 significant bits, ties away from 0.
__device__ inline float ls_round_tf32(float v) {
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(v));
    return __uint_as_float(bits);
}

#endif
