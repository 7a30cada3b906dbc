// norm_grid.h - how a GPU's blocks divide a batch norm among themselves. The rule (norm_rule.h) chooses it, and the
// kernels (cuda/kernels/norm.h) follow it.
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

// A block handles `lanes` neighbouring packs of channels (16 bytes each). Each row of its threads handles one pixel,
// then the pixels that follow it at a fixed distance. `columns` blocks next to each other cover all channels.
typedef struct {
    ls_cuda_norm_form form;
    int channels, packs; // of a pixel, including padding
    int lanes, columns;  // lanes: a power of two
    int pixels;          // N*H*W
    // blocks in a column whose sums are added up; their number decides the order of additions. In clusters: blocks of a
    // cluster.
    int slices;
    int places;        // places for the sums of the slices: slices, rounded up to a multiple of four
    int kept;          // one launch: most pixels that a thread keeps
    size_t kept_bytes; // one launch: shared memory of a block for the pixels that its threads keep
    int apply_blocks;  // two launches: blocks in a column of the second launch (apply)
} ls_cuda_norm_grid;

#endif
