// winograd.h (kernels) - the arithmetic of Winograd convolution for one vector width B;
// ../winograd.c plans and splits it.
//
// A position is one of the (m+r-1)^2 elements of a transformed tile; at each, channels are multiplied as matrices.
//   V[pos][channel block][tile][B]          transformed tiles of the map that is read
//   U[pos][panel][in channel][panel width]  transformed filters; a panel is 2 blocks of output channels (the last may
//                                           be 1)
//   M[pos][channel block][tile][B]          V * U, the transformed output
//   A[pos][panel][in channel][panel width]  sums over tiles of V * Z (Z: transformed tiles of grad_dst, laid out as V);
//                                           a panel is 3 blocks of output channels (the last may be 1 or 2)
// All strides are in floats; all addresses are 64-byte aligned; in_channels and out_channels are multiples of B.
#ifndef LS_DEVICE_CPU_KERNELS_WINOGRAD_H
#define LS_DEVICE_CPU_KERNELS_WINOGRAD_H

#include <stddef.h>

typedef enum {
    LS_WINOGRAD_F43,
    LS_WINOGRAD_F53,
    LS_WINOGRAD_F25,
    LS_WINOGRAD_F33,
    LS_WINOGRAD_F23,
    LS_WINOGRAD_VARIANTS
} ls_winograd_variant;

// A batch of feature maps seen as tiles, counted image by image, row by row: tile (y,x) begins at row y*step - pad,
// column x*step - pad. What lies outside of the map reads as zero and is not written.
typedef struct {
    int blocks, h, w; // channel blocks, rows, columns
    int image_blocks; // channel blocks from one image to the next
    int tiles_y, tiles_x;
    int step, pad;
    int stream; // written around the cache; for blocks of whole cache lines only
} ls_winograd_map;

enum { LS_WINOGRAD_PANEL = 2, LS_WINOGRAD_SUM_PANEL = 3, LS_WINOGRAD_SUM_TILES = 8 };

typedef struct ls_winograd_kernels ls_winograd_kernels;
struct ls_winograd_kernels {
    int width;         // B
    int product_tiles; // tiles of a product are padded to a multiple of this; those of a sum to LS_WINOGRAD_SUM_TILES

    // Tiles first .. first+tiles-1 of one channel block -> V; zeros up to padded_tiles.
    void (*tiles_in)(int variant, const ls_winograd_map *map, const float *data, int block, int first, int tiles,
        int padded_tiles, float *v, size_t pos_stride);
    // The same for grad_dst as the "filter" of the weight gradient: m x m values -> Z.
    void (*gradients_in)(int variant, const ls_winograd_map *map, const float *data, int block, int first, int tiles,
        int padded_tiles, float *z, size_t pos_stride);
    // M -> tiles of one channel block, plus bias (B floats; NULL: none).
    void (*tiles_out)(int variant, const ls_winograd_map *map, float *data, int block, int first, int tiles,
        const float *m, size_t pos_stride, const float *bias);
    // weight -> panel `panel` of U, at u. backward: the filter of the data gradient, rotated
    // and with inputs and outputs exchanged.
    void (*filters_in)(int variant, int backward, const float *weight, int in_blocks, int out_blocks, int panel,
        float *u, size_t pos_stride);
    // grad_weight of output block `block` += the sum of A over `parts` partial sums, in their order.
    // sums: the panel of A that holds the block.
    void (*filters_out)(int variant, const float *sums, size_t pos_stride, int parts, size_t part_stride, int in_blocks,
        int out_blocks, int block, float *grad_weight);

    // One position, one panel of 1 or 2 output blocks: M = V * U.
    void (*product)(const float *v, size_t v_block, int in_blocks, const float *u, int panel_blocks, float *m,
        size_t m_block, int tiles);
    // One position: A (+)= V^T * Z over the tiles; add = 0 overwrites A.
    void (*sum)(const float *v, size_t v_block, int in_blocks, const float *z, size_t z_block, int out_blocks, int add,
        float *a, int tiles);

    // grad_bias += sum over images, each of `blocks` channel blocks, rows and columns of one channel block of data.
    void (*bias_out)(const float *data, int n, int blocks, size_t pixels, int block, float *grad_bias);
};

#endif
