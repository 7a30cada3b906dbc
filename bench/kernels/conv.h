// conv.h - one convolution pass, its data, and every way to compute it: for the ladder and for the table of errors.
//
// What is expected is computed in double for some outputs only, chosen by a fixed hash over all of them: a whole layer
// would take minutes. "Plain" is one fp32 sum an output, in the order of the loops, no fused multiply-add.
#ifndef BENCH_KERNELS_CONV_H
#define BENCH_KERNELS_CONV_H

#include "bench.h"

typedef struct {
    const char *network, *name;
    ls_nchw src; // n: the batch
    int out_channels, kernel, stride, pad, groups;
} conv_layer;

typedef struct {
    ls_op op;
    ls_conv_attr attr;
    float *src, *weight, *grad_dst; // canonical; two of them are the inputs
    float *out;                     // canonical
    size_t outs;                    // elements of out
    int samples;
    size_t *sample; // which elements of out
    double *expected;
} conv_pass;

ls_conv_attr conv_attr_of(const conv_layer *layer);
const char *conv_pass_name(ls_op op);
ls_conv_attr conv_smaller(ls_conv_attr attr, double flops_most); // fewer samples, at least one

// zeros: inputs as a ReLU leaves them (src: negative ones are 0; grad_dst: half are 0).
LS_CHECKED ls_status conv_pass_new(ls_op op, ls_conv_attr attr, int zeros, conv_pass *pass);
void conv_pass_free(conv_pass *pass);
// Sees pass->out.
bench_error conv_pass_error(const conv_pass *pass);
// Element `index` of the output by plain loops.
float conv_plain(const conv_pass *pass, size_t index);

LS_CHECKED ls_status conv_operands(const conv_pass *pass, ls_device *device, bench_operands *operands);
// Runs once on outputs of zero; then pass->out holds the result.
LS_CHECKED ls_status conv_run_once(const conv_pass *pass, bench_parts *parts, bench_operands *operands);

#endif
