// norm_rule.h - decides in how many launches a GPU computes a batch norm (cuda/op_norm.c).
//
// One launch reads memory once. Its blocks keep the data that they have read until all blocks have added it up.
//   in one grid   At most one block on each multiprocessor, 132 on an H100. They keep up to 24.75 MiB in 16 bits
//                 forward, a half or a third of it backward; 13.5 MiB on an A100, 8 MiB on an RTX 4090.
//   in clusters   Each cluster of blocks handles 16 bytes of every pixel. For small maps with few channels, where one
//                 grid is not allowed or cannot keep the data.
//   two launches  Otherwise, and always with pooling, where a thread needs its neighbours' pixels.
//
// The blocks of one grid wait for each other, so all of them must be on the GPU at the same time. No kernel of another
// queue that itself waits for something may run beside them. A sum over ranks is such a kernel: it holds some
// multiprocessors until its blocks have met those of the other ranks. If a grid has got only some of its
// multiprocessors, and the sum's other blocks find none, the GPUs wait for each other for ever. Even if they find some,
// the grid waits for the end of the sum, and nothing overlaps. So the rule uses one grid only if the kernels of a
// single queue are all that run on the GPU (`alone`).
#ifndef LS_DEVICE_GPU_NORM_RULE_H
#define LS_DEVICE_GPU_NORM_RULE_H

#include "device/device.h"
#include "device/gpu/norm_grid.h"

// Properties of a GPU that the rule needs.
typedef struct {
    int multiprocessors;
    int cluster;         // blocks in a cluster; 1: the GPU has no clusters
    size_t shared_bytes; // shared memory of a block
    int alone;           // ls_device_options
} ls_cuda_norm_gpu;

// Returns how the operator's blocks divide the work. Accepts every operator of batch norm. Only whole forward and
// backward passes can get the form of one launch.
ls_cuda_norm_grid ls_cuda_norm_grid_of(const ls_op_desc *desc, const ls_cuda_norm_gpu *gpu);

#endif
