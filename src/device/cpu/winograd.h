// winograd.h - convolutions with filters of up to 8 taps a direction, dilated or of stride 1 to 4, by Winograd's minimal filtering, fp32;
// and direct ones of any filter as products, F(1,1): forward and backward weight of any stride (dilated: of 1), backward data of 1.
//
// Computes exactly the operators of op_conv.h (forward overwrites dst and adds the bias, backward data overwrites
// grad_src, backward weight adds to grad_weight and grad_bias) with 1.9 to 4.6 times fewer multiplications (docs/cpu.md). F(m,r): tiles of
// m x m outputs, filters of r x r taps, (m+r-1)^2 positions at each of which channels are multiplied as matrices; F(m x n, r x s): tiles of
// m rows and n columns, filters of r x s taps. Filters of 6 to 8 taps a direction are two pieces of 4. With stride s the pixels that lie s
// apart are a map of their own, one of s x s phases, on which the filter has every s-th of its taps.
//
// Layouts   activations nChw{B}c, channels zero-padded to B = the kernels' vector width (8 or 16);
//           (fp32 or bf16; all else is fp32); weight and grad_weight OIhwBiBo: [O/B][I/B][R][S][B i][B o]; bias, grad_bias: K floats, padded to B.
// Groups    each with whole blocks of channels; I is a group's.
//           All 64-byte aligned. Channel padding of the results is zero where that of the inputs is (weight, bias:
//           zero for padded outputs).
// Threads   results are the same bits for any number of threads: a task's arithmetic depends on the shape only.
// Accuracy  RMS error relative to RMS output, normal inputs:
//           F(1,1) as direct, F(2,3) 4e-7, F(3,3) and F(4,3) 1 to 2e-6, F(2,5) 1 to 2e-6, F(5,3), F(3,5) 2 to 5e-6 (direct: 4 to 10e-7).
// Source    Lavin and Gray 2016; interpolation points 0, +-5/8, +-3/2, infinity: 2.4 times less error than
//           0, +-1, +-2, infinity; F(3,3): 0, +-3/2, 1/2, infinity, 1.5 times less than 0, +-1, 2, infinity; F(5,3), F(3,5): 0, +-1,
//           +-7/4, 3/8, infinity, the least of 105 choices.
#ifndef LS_DEVICE_CPU_WINOGRAD_H
#define LS_DEVICE_CPU_WINOGRAD_H

#include <stddef.h>
#include "base/pool.h"
#include "device/cpu/kernels/winograd.h"
#include "device/device.h"

const char *ls_winograd_name(ls_winograd_variant variant); // "winograd f(4,3)"; "own product" of F(1,1)
// Whether the operator can be computed so, on blocked tensors.
int ls_winograd_can(const ls_conv_attr *attr, ls_op op, ls_winograd_variant variant);
// Of the multiplications of direct convolution to (backward data: from) a map those that it does, with the tiles that the map needs.
double ls_winograd_share(const ls_conv_attr *attr, ls_nchw map, ls_winograd_variant variant);
// The tiles of so many outputs, of `tile` in a row, that a map needs in one direction: of each of the dilation's phases whole ones.
int ls_winograd_tiles(int outputs, int tile, int dilation);
// How many times the multiplications of direct convolution are ours, with the tiles that a map needs (those of F(5,3) and F(3,5) count 1.35
// times; both pad channels alike); 0 where it cannot be computed so or is not expected to gain, and for F(1,1), which multiplies as much. rate:
// so many times as fast as products here multiplies what would be taken instead; 1: alike.
double ls_winograd_gain(const ls_conv_attr *attr, ls_op op, ls_winograd_variant variant, int vector_width, double rate);

// Whether F(1,1) computes the operator (attr: of whole blocks, as for the others) and is expected to gain on other direct convolution, which
// multiplies so many times as fast (`rate`; 1: as products do): weight gradients of 1x1, sums over few outputs, and maps so small that half of
// the filter's taps or more meet nothing, as 3x3 on maps of one pixel.
int ls_winograd_product_gains(const ls_conv_attr *attr, ls_op op, int vector_width, double rate);

// Plain data, made only by ls_winograd_plan_make. For the caller: workspace_bytes and algorithm.
typedef struct {
    size_t workspace_bytes; // 64-byte aligned memory that run may overwrite
    const char *algorithm;  // ls_winograd_name

    const ls_winograd_kernels *kernels;
    ls_op op;
    ls_winograd_variant variant;
    ls_dtype storage; // of the maps
    int groups;
    int kernel_h, kernel_w, pieces_x; // of the filter; a row of it is so many pieces
    int first_y, first_x;             // the tap with which the first piece begins
    int stride_y, stride_x;           // 1, or the map of the source falls into phases: its pixels that lie so far apart
    int pad_y, pad_x;                 // the convolution's
    ls_winograd_channels v;           // of V: blocks of `in` for each piece
    int out_half;                     // the last block of `out` has channels in its first half only
    ls_winograd_map in,
        out;        // the maps of a group that become V, and M or Z: backward data reads grad_dst and writes grad_src
    int n, tiles;   // images; tiles of the batch
    int slab_tiles; // tiles transformed and multiplied at a time, padded
    int shared;     // all threads work on one slab at a time (large filters); else each on its own
    int whole;      // shared, and the slab is the whole batch: U or A exist only a panel at a time
    int in_place;   // backward weight of 1x1: the maps are V and Z as they lie
    int parts;      // backward weight: partial sums, a function of the shape only
    size_t in_block, in_pos, out_block, out_pos; // strides of V, and M or Z, in floats
    size_t matrix_pos, matrix_part;              // strides of U or A: position, partial sum
    size_t slab_at, threads_at, thread_floats;   // the workspace: U or A, the shared slab, each thread's own
} ls_winograd_plan;

// For what ls_winograd_can. kernels: of the processor, for maps of attr's storage (ls_kernels.winograd). threads: those of the pool of run.
void ls_winograd_plan_make(ls_winograd_plan *plan, const ls_conv_attr *attr, ls_op op, ls_winograd_variant variant,
    const ls_winograd_kernels *kernels, int threads);

// args: host pointers in the order of the operator's enum in op_conv.h;
// bias and grad_bias may be NULL. Allocates nothing.
void ls_winograd_run(const ls_winograd_plan *plan, void *const *args, float *workspace, ls_pool *pool);

#endif
