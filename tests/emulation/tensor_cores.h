// tensor_cores.h - the emulation's side of src/device/cuda/kernels/tensor_cores.cuh: what a warp's matrix operations do, by lanes
// that hand each other their registers.
#pragma once

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_runtime.h"

namespace emu {

// Row `row` of matrix `matrix`, as its lane gives it.
inline const unsigned char *matrix_row(const unsigned char *slots, unsigned matrix, unsigned row) {
    return lane_value<const unsigned char *>(slots, 8 * matrix + row);
}

inline const unsigned char *hand_rows(const char *what, const void *row) {
    needs_matrices(what);
    if (reinterpret_cast<uintptr_t>(row) % 16) {
        fprintf(stderr, "%s: a row that does not begin at a multiple of 16 bytes\n", what);
        abort();
    }
    return exchange(what, 0xFFFFFFFFu, &row, sizeof row);
}

inline void load_matrices(uint32_t to[4], const void *row) {
    const unsigned char *slots = hand_rows("ldmatrix", row);
    unsigned g = lane() / 4, t = lane() % 4;
    for (unsigned m = 0; m < 4; m++) memcpy(&to[m], matrix_row(slots, m, g) + 4 * t, 4);
}

inline void load_matrices_transposed(uint32_t to[4], const void *row) {
    const unsigned char *slots = hand_rows("ldmatrix.trans", row);
    unsigned g = lane() / 4, t = lane() % 4;
    for (unsigned m = 0; m < 4; m++) {
        for (unsigned i = 0; i < 2; i++)
            memcpy(reinterpret_cast<char *>(&to[m]) + 2 * i, matrix_row(slots, m, 2 * t + i) + 2 * g, 2);
    }
}

inline float round_tf32(float v) {
    if (v != v) return v;
    return __uint_as_float((__float_as_uint(v) + 0x1000u) & ~0x1FFFu); // away from 0: of the magnitude
}

inline float operand(float v) { return v != v ? v : __uint_as_float(__float_as_uint(v) & ~0x1FFFu); }
inline float operand(__half v) { return __half2float(v); }
inline float operand(__nv_bfloat16 v) { return __bfloat162float(v); }

template <typename T> void multiply_add(float d[4], const uint32_t a[4], const uint32_t b[2]) {
    constexpr unsigned IN_REGISTER = 4 / sizeof(T), DEPTH = 32 / sizeof(T);
    needs_matrices("mma");
    unsigned char all_a[32 * 16];
    memcpy(all_a, exchange("mma", 0xFFFFFFFFu, a, 16), sizeof all_a); // before another lane hands over b
    const unsigned char *all_b = exchange("mma, b", 0xFFFFFFFFu, b, 8);
    unsigned g = lane() / 4, t = lane() % 4;
    for (unsigned i = 0; i < 4; i++) {
        unsigned row = g + i / 2 * 8, column = 2 * t + i % 2;
        float sum = 0;
        for (unsigned k = 0; k < DEPTH; k++) {
            unsigned half = k / (DEPTH / 2), inside = k % (DEPTH / 2), holder = inside / IN_REGISTER;
            T from_a, from_b;
            memcpy(&from_a, all_a + 16 * (row % 8 * 4 + holder) + 4 * (row / 8 + 2 * half) + sizeof(T) * (inside % IN_REGISTER),
                sizeof(T));
            memcpy(&from_b, all_b + 16 * (column * 4 + holder) + 4 * half + sizeof(T) * (inside % IN_REGISTER), sizeof(T));
            sum += operand(from_a) * operand(from_b);
        }
        d[i] += sum;
    }
}

} // namespace emu
