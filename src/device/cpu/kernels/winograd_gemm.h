// winograd_gemm.h - the matrix products that winograd.c (kernels) offers with its transforms, and the vector access of
// both files. See winograd.h for the layouts.
#ifndef LS_DEVICE_CPU_KERNELS_WINOGRAD_GEMM_H
#define LS_DEVICE_CPU_KERNELS_WINOGRAD_GEMM_H

#include <stddef.h>
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/winograd.h"

#define INLINE static inline __attribute__((always_inline))

enum { B = LS_VL }; // channels in a block

enum { LS_WINOGRAD_PRODUCT_TILES = LS_VL == 8 ? 6 : 12 };

void LS_KERNEL(ls_winograd_product)(const float *v, size_t v_block, const ls_winograd_channels *in, const float *u,
    int panel_blocks, int half, float *m, size_t m_block, int tiles);
void LS_KERNEL(ls_winograd_sum)(const float *v, size_t v_block, const ls_winograd_channels *in, const float *z,
    size_t z_block, int out_blocks, int out_half, int add, float *a, int tiles);

#endif
