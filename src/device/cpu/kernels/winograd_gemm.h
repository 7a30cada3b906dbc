// winograd_gemm.h - the matrix products and filter transforms that winograd.c (kernels) puts into its table, and
// definitions shared by these files. See winograd.h for the layouts.
#ifndef LS_DEVICE_CPU_KERNELS_WINOGRAD_GEMM_H
#define LS_DEVICE_CPU_KERNELS_WINOGRAD_GEMM_H

#include <stddef.h>
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/winograd.h"

#define INLINE static inline __attribute__((always_inline))

enum { B = LS_VL }; // channels in a block

#if LS_VL == 16 || LS_GEMM_ROWS == 12
#define LS_WINOGRAD_PRODUCT_TILES 12
#else
#define LS_WINOGRAD_PRODUCT_TILES 6
#endif

// The kernels of winograd.h that use only floats: winograd_gemm.c, winograd_filters.c.
void LS_FLOAT_KERNEL(ls_winograd_product)(const float *v, size_t v_block, const ls_winograd_channels *in,
    const float *u, int panel_blocks, int half, float *m, size_t m_block, int tiles);
void LS_FLOAT_KERNEL(ls_winograd_sum)(const float *v, size_t v_block, const ls_winograd_channels *in, const float *z,
    size_t z_block, int out_blocks, int out_half, int add, float *a, int tiles);
void LS_FLOAT_KERNEL(ls_winograd_filters_in)(int variant, int backward, ls_winograd_taps taps, const float *weight,
    int in_blocks, int out_blocks, int half, int panel, float *u, size_t pos_stride);
void LS_FLOAT_KERNEL(ls_winograd_filters_out)(int variant, ls_winograd_taps taps, const float *sums, size_t pos_stride,
    int parts, size_t part_stride, int in_blocks, int out_blocks, int half, int block, float *grad_weight);

#endif
