// norm_rule.h - in how many launches a GPU computes a batch norm: one rule, for the device (cuda/op_norm.c), into which it is built a
// second time, and for the model of what an update costs (cli/bench/cost_operators.c).
//
// One launch reads memory once, and needs blocks that keep what they have read until all have added it up:
//   in one grid   a block on each multiprocessor, 132 of them on an H100: 24.75 MiB of 16 bits forward, a half or a third backward;
//                 13.5 MiB on an A100, 8 on an RTX 4090
//   in clusters   the blocks of a cluster have 16 bytes of each pixel between them: small maps of few channels, where there is no grid
//   two launches  what is larger, and pooling, where a thread needs its neighbours' pixels
//
// The blocks of a grid wait for each other, so all of them must lie on the GPU at once. A kernel of another queue that waits for something
// itself must not be beside them: a sum over ranks holds some multiprocessors until its blocks have met those of the other ranks, and where
// these find no room beside a grid that has found a part of its own, GPUs wait for each other for ever. Even where they do find it, the
// grid waits for the sum's end, and nothing overlaps. So a grid is taken where one queue's kernels are all that run (`alone`).
#ifndef LS_DEVICE_GPU_NORM_RULE_H
#define LS_DEVICE_GPU_NORM_RULE_H

#include "device/device.h"
#include "device/gpu/norm_grid.h"

// What the rule must know of a GPU.
typedef struct {
    int multiprocessors;
    int cluster;         // blocks of a cluster; 1: there are none
    size_t shared_bytes; // of a block
    int alone;           // ls_device_options
} ls_cuda_norm_gpu;

// For every operator of the family.
ls_cuda_norm_grid ls_cuda_norm_grid_of(const ls_op_desc *desc, const ls_cuda_norm_gpu *gpu);

#endif
