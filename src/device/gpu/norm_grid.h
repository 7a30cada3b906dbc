// norm_grid.h - how the blocks of a GPU share out a batch norm: what the rule (norm_rule.h) says and the kernels (cuda/kernels/norm.h) do.
#ifndef LS_DEVICE_GPU_NORM_GRID_H
#define LS_DEVICE_GPU_NORM_GRID_H

#include "device/op_norm.h"

enum {
    LS_CUDA_NORM_SUM_THREADS = 256,
    LS_CUDA_NORM_APPLY_THREADS = 256,
    LS_CUDA_NORM_KEPT_THREADS = 512,
    LS_CUDA_NORM_LANES_MAX = 8 // 128 bytes of a pixel
};

typedef enum { LS_CUDA_NORM_TWO_LAUNCHES, LS_CUDA_NORM_IN_CLUSTERS, LS_CUDA_NORM_IN_ONE_GRID } ls_cuda_norm_form;

// A block has `lanes` neighbouring packs of channels of as many pixels as its threads allow, and of every so many behind
// those; `columns` blocks side by side cover the channels.
typedef struct {
    ls_cuda_norm_form form;
    int channels, packs; // of a pixel, as laid out
    int lanes, columns;  // lanes: a power of two
    int pixels;          // N*H*W
    int slices;          // blocks below each other that add up, as they decide the order; in clusters: one has so many
    int places;          // for their sums: slices, in fours
    int kept;            // in one launch: pixels of a thread
    size_t kept_bytes;   // and the shared memory for them
    int apply_blocks;    // in two launches, apply: blocks below each other
} ls_cuda_norm_grid;

#endif
