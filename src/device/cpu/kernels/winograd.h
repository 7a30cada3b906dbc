// winograd.h (kernels) - the arithmetic of Winograd convolution for one vector width B. ../winograd.c plans the work
// and splits it.
//
// A position is one of the (m+r-1)^2 elements of a transformed tile. At each position, channels are multiplied as
// matrices.
//   V[pos][channel block][tile][B]          transformed tiles of the map that is read
//   U[pos][panel][in channel][panel width]  transformed filters; a panel is 2 blocks of output channels (the last may
//                                           be 1)
//   M[pos][channel block][tile][B]          V * U, the transformed output
//   A[pos][panel][in channel][panel width]  sums over tiles of V * Z (Z: transformed tiles of grad_dst, in V's layout);
//                                           a panel is 3 blocks of output channels (the last may be 1 or 2)
// Maps (data) are floats, or bfloat16 in the tables of bf16 kernels. Everything else is floats. All strides count
// elements. All addresses are 64-byte aligned (maps of bfloat16: to one vector). in_channels and out_channels are
// multiples of B.
#ifndef LS_DEVICE_CPU_KERNELS_WINOGRAD_H
#define LS_DEVICE_CPU_KERNELS_WINOGRAD_H

#include <stddef.h>

// The variants. The first F(m,r) applies down the columns and the second along the rows: m outputs of r taps from m+r-1
// positions. F(1,1) leaves its direction unchanged. F(1,1) in both directions is direct convolution: each tap is a
// piece, and the pixels that it meets are multiplied as a matrix.
#define LS_WINOGRAD_EACH(X) \
    X(F11, "own product", 1, 1, 1, 1) \
    X(F43, "winograd f(4,3)", 4, 3, 4, 3) \
    X(F53, "winograd f(5,3)", 5, 3, 5, 3) \
    X(F25, "winograd f(2,5)", 2, 5, 2, 5) \
    X(F35, "winograd f(3,5)", 3, 5, 3, 5) \
    X(F33, "winograd f(3,3)", 3, 3, 3, 3) \
    X(F23, "winograd f(2,3)", 2, 3, 2, 3) \
    X(F34, "winograd f(3,4)", 3, 4, 3, 4) \
    X(F43_25, "winograd f(4x2,3x5)", 4, 3, 2, 5) \
    X(F25_43, "winograd f(2x4,5x3)", 2, 5, 4, 3) \
    X(F63_11, "winograd f(6x1,3x1)", 6, 3, 1, 1) \
    X(F11_63, "winograd f(1x6,1x3)", 1, 1, 6, 3) \
    X(F43_11, "winograd f(4x1,3x1)", 4, 3, 1, 1) \
    X(F11_43, "winograd f(1x4,1x3)", 1, 1, 4, 3) \
    X(F45_11, "winograd f(4x1,5x1)", 4, 5, 1, 1) \
    X(F11_45, "winograd f(1x4,1x5)", 1, 1, 4, 5) \
    X(F47_11, "winograd f(4x1,7x1)", 4, 7, 1, 1) \
    X(F11_47, "winograd f(1x4,1x7)", 1, 1, 4, 7)

typedef enum {
#define LS_WINOGRAD_ENUM(name, text, my, ry, mx, rx) LS_WINOGRAD_##name,
    LS_WINOGRAD_EACH(LS_WINOGRAD_ENUM)
#undef LS_WINOGRAD_ENUM
        LS_WINOGRAD_VARIANTS
} ls_winograd_variant;

enum { LS_WINOGRAD_DILATION_MAX = 18, LS_WINOGRAD_STRIDE_MAX = 4 };

// A batch of feature maps divided into tiles, numbered image by image, row by row. Neighbouring pixels of a tile are
// `apart` pixels from each other in the map. With dilation d, `apart` is d: a dilated convolution is d x d plain
// convolutions on phases. A phase has every d-th pixel. In each direction the first tiles of all phases come
// first, then all second tiles: tile i starts at pixel i / phases * phases * step + i % phases - pad. With stride s,
// `apart` is s and there is one phase at a time; pad selects the phase. Pixels outside the map read as zero and are not
// written.
typedef struct {
    int blocks, h, w; // channel blocks, rows, columns
    int image_blocks; // channel blocks between one image and the next
    int tiles_y, tiles_x;
    int step_y, step_x, pad_y, pad_x;
    int apart_y, apart_x, phases;
    int stream; // written around the cache; only for blocks of whole cache lines
} ls_winograd_map;

// A piece of a filter with h x w taps: taps (y,x), (y + step_y,x), ..., as many as the variant has. Taps beyond the
// filter are zero. `lead` more zeros come before the first tap.
typedef struct {
    int h, w, y, x, step_y, step_x, lead_y, lead_x;
} ls_winograd_taps;

// Channel blocks of V. half: of every `each` blocks (those of one piece of the filter) the last has channels only in
// its first half.
typedef struct {
    int blocks, each, half;
} ls_winograd_channels;

enum { LS_WINOGRAD_PANEL = 2, LS_WINOGRAD_SUM_PANEL = 3, LS_WINOGRAD_SUM_TILES = 8 };

typedef struct ls_winograd_kernels ls_winograd_kernels;
struct ls_winograd_kernels {
    int width;         // B
    int product_tiles; // `product` needs a multiple of this many tiles (the rest are zeros); `sum` takes any number

    // Transforms tiles first .. first+tiles-1 of one channel block to V, and writes zeros up to padded_tiles.
    void (*tiles_in)(int variant, const ls_winograd_map *map, const void *data, int block, int first, int tiles,
        int padded_tiles, float *v, size_t pos_stride);
    // The same for grad_dst, which acts as the "filter" of the weight gradient: transforms m x m values to Z.
    void (*gradients_in)(int variant, const ls_winograd_map *map, const void *data, int block, int first, int tiles,
        int padded_tiles, float *z, size_t pos_stride);
    // Transforms M to tiles of one channel block and adds the bias (B floats; NULL: none).
    void (*tiles_out)(int variant, const ls_winograd_map *map, void *data, int block, int first, int tiles,
        const float *m, size_t pos_stride, const float *bias);
    // Transforms weights to panel `panel` of U, at u. backward: transforms the filter of the data gradient, which is
    // rotated (`taps` is a piece of the rotated filter) and has inputs and outputs exchanged. half: only the first half
    // of the last block of in channels is written.
    void (*filters_in)(int variant, int backward, ls_winograd_taps taps, const float *weight, int in_blocks,
        int out_blocks, int half, int panel, float *u, size_t pos_stride);
    // grad_weight of output block `block` += A, summed over `parts` partial sums in their order. sums: the panel of A
    // that holds the block. half: only the first half of the last block of in channels is read.
    void (*filters_out)(int variant, ls_winograd_taps taps, const float *sums, size_t pos_stride, int parts,
        size_t part_stride, int in_blocks, int out_blocks, int half, int block, float *grad_weight);

    // One position, one panel of 1 or 2 output blocks: M = V * U. half: only the first half of the last block is
    // multiplied; the other half becomes zero.
    void (*product)(const float *v, size_t v_block, const ls_winograd_channels *in, const float *u, int panel_blocks,
        int half, float *m, size_t m_block, int tiles);
    // One position: A (+)= V^T * Z over the tiles; add = 0 overwrites A. out_half: as `half` in product. Sums of
    // missing in channels may stay unchanged. v and z may be untransformed maps (v_block, z_block: size of a plane).
    void (*sum)(const float *v, size_t v_block, const ls_winograd_channels *in, const float *z, size_t z_block,
        int out_blocks, int out_half, int add, float *a, int tiles);

    // grad_bias += sum of one channel block of data over images, rows and columns. blocks: channel blocks of an image.
    void (*bias_out)(const void *data, int n, int blocks, size_t pixels, int block, float *grad_bias);
};

#endif
