// implicit_gemm_plan.cuh - the plans that implicit_gemm.cu makes on the host for the kernels in implicit_gemm.cuh.
//
// A *unit* is 16 bytes of a pixel's channels, the size of a row that ldmatrix reads. In shared memory, pixels and
// filters have an odd number of units, so that eight neighbours lie in different banks.
#pragma once

#include "device/cuda/kernels/implicit_gemm.h"
#include "device/cuda/kernels/kernels.cuh"

enum {
    KERNEL_MAX = 7,
    CHANNELS_MAX = 128,
    STRIDE_MAX = 2, // largest stride of the data gradient
    PHASES_MAX = STRIDE_MAX * STRIDE_MAX,
    GATHER_WARPS = 4,
    GATHER_BLOCKS = 528, // four on each multiprocessor of an H100; with more tiles of pixels, each block takes several
    FEW_TILES = 264,     // with fewer blocks than this, a block takes half as many pixels
    WEIGHT_WARPS = 8,
    WEIGHT_TILES = 9,    // tiles of 8 columns that a warp sums: the taps of a 3x3 kernel
    WEIGHT_PIXELS = 128, // pixels that a block stages at once
    // one on each multiprocessor of an H100, or two if a warp has 16 channels of grad_dst
    WEIGHT_BLOCKS = 132,
    AHEAD = 4,        // loads in flight of a thread that stages pixels
    FILTERS_AHEAD = 8 // loads in flight of a thread that copies filters
};

// Taps along one axis: their numbers in the filter, and their distances from the first tap.
typedef struct {
    int count;
    signed char tap[KERNEL_MAX], at[KERNEL_MAX];
} taps;

// Which pixels of a map meet which taps. The *virtual* map consists of all rows and columns that any tap of a sample's
// pixels meets, including those beyond the edges, which are zero.
typedef struct {
    int in_h, in_w, units; // size of the map that is read; units in a pixel
    int out_h, out_w;      // rows and columns of pixels that are computed
    int stride_h, stride_w;
    int top, left;             // first row and column of the virtual map, in the map that is read
    int span_h, rows, columns; // rows that one pixel meets; size of the virtual map
    int pitch;                 // units of a pixel in shared memory
    int staged;                // most rows that a block stages
    taps h, w;
    int pixels;
    ls_divider by_out_w, by_image, by_rows, by_units;
    // place of the computed pixels in the map that is written
    int full_h, full_w, step_h, step_w, first_y, first_x;
} pixel_map;

// The filters of a gather.
typedef struct {
    int outputs, padded_outputs, reduced; // channels; `reduced`: channels that are summed over, with padding
    int kernel_w, filter, units;          // of the weight: taps in a row; units of a filter, and of one tap
    int depth, pitch, rows;               // units that are summed over (even); units of a row and rows in shared memory
    ls_divider by_pitch, by_taps_w;
} filter_map;

typedef struct {
    pixel_map map;
    filter_map filters;
} phase;
typedef struct {
    phase of[PHASES_MAX];
} phases;

// Units of the two tables at the start of shared memory: the table of taps and the table of a row.
static __host__ __device__ inline int tables_units(const phase &p) {
    return (p.filters.depth + p.map.columns * p.map.units + 1) / 2;
}

// A column of the product is one tap of one channel, in the weight's order. `columns` counts tiles of 8 of them.
typedef struct {
    pixel_map map;
    int k, c, padded_k, padded_c;  // channels
    int kernel_w, columns, groups; // groups: groups of columns, one for each block
    int warps, shares;             // warps that divide a group's columns among them; warps that share the pixels
    int dy_pitch;                  // units of a pixel's gradients in shared memory
    int tiles, slices;             // tiles of WEIGHT_PIXELS pixels; slices: blocks that share them
} weight_plan;

// Launch parameters of a gather.
typedef struct {
    phases all;
    int count, rows, tiles; // number of phases; ROWS, TILES
    dim3 grid;
    size_t bytes;
} gather_plan;

struct ls_cuda_implicit_gemm {
    ls_dtype storage;
    gather_plan gather; // forward, or backward data
    weight_plan weight;
    int weight_rows;
    size_t weight_bytes;
};

// The launches for one type of element. implicit_gemm_f32.cu, _f16.cu and _bf16.cu instantiate them, so that the types
// compile in parallel. transposed: backward data, from grad_dst to grad_src; bias is NULL. Otherwise forward; bias may
// be NULL.
template <typename T>
void ls_cuda_implicit_gather(const gather_plan &plan, bool transposed, const void *in, const void *weight,
    const float *bias, void *out, cudaStream_t stream);
// Launches the weight gradient of all slices. parts: for each slice fp32 [padded_k][columns][8]
template <typename T>
void ls_cuda_implicit_weight_gather(
    const ls_cuda_implicit_gemm &gemm, const void *src, const void *dy, float *parts, cudaStream_t stream);
