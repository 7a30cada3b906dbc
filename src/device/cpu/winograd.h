// winograd.h - convolutions by Winograd's minimal filtering, fp32: filters of up to 8 taps in each direction, dilated
// or with stride 1 to 4. Also direct convolutions with any filter as matrix products, F(1,1): forward and backward
// weight with any stride (dilated: stride 1), backward data with stride 1.
//
// It computes exactly the operators of op_conv.h (forward overwrites dst and adds the bias, backward data overwrites
// grad_src, backward weight adds to grad_weight and grad_bias) with 1.9 to 4.6 times fewer multiplications
// (docs/cpu.md). F(m,r) has tiles of m x m outputs and filters of r x r taps. At each of the (m+r-1)^2 positions of a
// tile, the channels are multiplied as matrices. F(m x n, r x s) has tiles of m rows and n columns and filters of r x s
// taps. With r = 4, filters of 6 to 8 taps are split into two pieces of 4. With stride s, pixels at a distance of s
// form a map of their own. There are s x s such maps, called phases, and in each the filter has every s-th of its taps.
//
// Layouts   activations nChw{B}c, channels zero-padded to B = the kernels' vector width (4, 8, 16), fp32 or bf16; all
//           else fp32. weight and grad_weight OIhwBiBo: [O/B][I/B][R][S][B i][B o]. bias, grad_bias: K floats, padded
//           to B. All 64-byte aligned. Channel padding of the results is zero where that of the inputs is zero (weight,
//           bias: zero for padded outputs).
// Groups    each has whole blocks of channels; I counts the channels of one group
// Threads   results are the same bits for any number of threads: a task's arithmetic depends on the shape only
// Accuracy  RMS error relative to RMS output, normal inputs: F(1,1) as direct, F(2,3) 4e-7, F(3,3) and F(4,3) 1 to
//           2e-6, F(2,5) 1 to 2e-6, F(5,3), F(3,5) 2 to 5e-6 (direct: 4 to 10e-7)
// Source    Lavin and Gray 2016. Interpolation points 0, +-5/8, +-3/2, infinity: 2.4 times less error than 0, +-1, +-2,
//           infinity. F(3,3): 0, +-3/2, 1/2, infinity, 1.5 times less error than 0, +-1, 2, infinity. F(5,3), F(3,5):
//           0, +-1, +-7/4, 3/8, infinity, the smallest error of 105 choices.
#ifndef LS_DEVICE_CPU_WINOGRAD_H
#define LS_DEVICE_CPU_WINOGRAD_H

#include <stddef.h>
#include "base/pool.h"
#include "device/cpu/kernels/winograd.h"
#include "device/device.h"

const char *ls_winograd_name(ls_winograd_variant variant); // "winograd f(4,3)"; for F(1,1) "own product"
// Whether this variant can compute the operator on blocked tensors.
int ls_winograd_can(const ls_conv_attr *attr, ls_op op, ls_winograd_variant variant);
// The variant's multiplications divided by those of direct convolution. map: size of the convolution's output (dst), in
// backward data too, where grad_dst has this size. A tile that lies only partly on the map counts as a whole tile.
// F(1,1): the share of the filter's taps that meet a pixel; map is not used.
double ls_winograd_share(const ls_conv_attr *attr, ls_nchw map, ls_winograd_variant variant);
// Number of tiles in one direction, each of `tile` outputs in a row. Each phase of the dilation has whole tiles.
int ls_winograd_tiles(int outputs, int tile, int dilation);
// How many times fewer multiplications the variant needs than direct convolution, with whole tiles. Multiplications of
// F(5,3) and F(3,5) count 1.35 times; both methods pad channels alike. 0 if the variant cannot compute the operator or
// no gain is expected, and for F(1,1), which needs as many multiplications. rate: how many times faster the alternative
// multiplies than our matrix products; 1: equally fast.
double ls_winograd_gain(const ls_conv_attr *attr, ls_op op, ls_winograd_variant variant, int vector_width, double rate);

// Whether F(1,1) can compute the operator and is expected to be faster than other direct convolution. attr: with whole
// blocks of channels, as above. rate: how many times faster the other method multiplies than our products. Gains are
// expected for weight gradients of 1x1 filters or over few outputs; else for maps so small that half of the filter's
// taps or more fall outside, such as 3x3 on maps of one pixel.
int ls_winograd_product_gains(const ls_conv_attr *attr, ls_op op, int vector_width, double rate);

// Plain data, made only by ls_winograd_plan_make. Callers read workspace_bytes and algorithm.
typedef struct {
    size_t workspace_bytes; // 64-byte aligned memory that run may overwrite
    const char *algorithm;  // ls_winograd_name

    const ls_winograd_kernels *kernels;
    ls_op op;
    ls_winograd_variant variant;
    ls_dtype storage; // storage type of the maps
    int groups;
    int kernel_h, kernel_w, pieces_x; // taps of the filter; pieces in a row of the filter
    int first_y, first_x;             // first tap of the first piece
    int stride_y, stride_x; // stride; more than 1: the source map is split into phases of pixels at this distance
    int pad_y, pad_x;       // padding of the convolution
    ls_winograd_channels v; // channels of V: blocks of `in` for each piece
    int out_half;           // the last block of `out` has channels only in its first half
    // The maps of one group that become V, and M or Z. Backward data reads grad_dst and writes grad_src.
    ls_winograd_map in, out;
    int n, tiles;   // images; tiles of the whole batch
    int slab_tiles; // tiles that are transformed and multiplied at a time, padded
    int shared;     // 1: all threads work on one slab at a time; 0: each thread has its own slab
    int whole;      // shared, and the slab is the whole batch: each thread holds one panel of U or A at a time
    int in_place;   // backward weight of large fp32 maps by 1x1 filters: the maps serve as V and Z without a copy
    int parts;      // backward weight: number of partial sums; depends on the shape only
    size_t in_block, in_pos, out_block, out_pos; // strides of V, and of M or Z, in floats
    size_t matrix_pos, matrix_part;              // strides of U or A: position, partial sum
    // offsets into the workspace: U or A, the shared slab, the threads' own memory (thread_floats each)
    size_t slab_at, threads_at, thread_floats;
} ls_winograd_plan;

// Makes the plan of an operator for which ls_winograd_can holds. kernels: the processor's, for maps of attr's storage
// (ls_kernels.winograd). threads: size of the pool that will run the plan.
void ls_winograd_plan_make(ls_winograd_plan *plan, const ls_conv_attr *attr, ls_op op, ls_winograd_variant variant,
    const ls_winograd_kernels *kernels, int threads);

// Computes the operator. args: host pointers in the order of the operator's enum in op_conv.h. bias and grad_bias may
// be NULL. Allocates nothing.
void ls_winograd_run(const ls_winograd_plan *plan, void *const *args, float *workspace, ls_pool *pool);

#endif
