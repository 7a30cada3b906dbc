// kernels_layer.h - the description of a step that the kernels of an exported C file read (kernels_float.h,
// kernels_int8.h). "//: NAME" begins a part, which write_c.c copies.
#ifndef LS_DEPLOY_KERNELS_LAYER_H
#define LS_DEPLOY_KERNELS_LAYER_H

#include <stdint.h>

//: window
// Sizes of input and output, and a window that slides over the input. A map has its channels next to each other:
// element (y, x, c) is map[(y * width + x) * channels + c].
typedef struct {
    int in_h, in_w, in_c, out_h, out_w, out_c;
    int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation, groups;
} window;

//: position
// Returns the pixel of the input that output pixel `at` meets at element k of the kernel; -1: it is padding.
static inline int position(const window *w, int at, int k) {
    const int y = at / w->out_w * w->stride_h - w->pad_h + k / w->kernel_w * w->dilation;
    const int x = at % w->out_w * w->stride_w - w->pad_w + k % w->kernel_w * w->dilation;
    return y < 0 || y >= w->in_h || x < 0 || x >= w->in_w ? -1 : y * w->in_w + x;
}

//: float_layer
typedef struct {
    window w;
    const float *weight, *bias;
    float factor;          // map_values: multiplies; group_norm: is added to the variance
    float parameter;       // of the activation
    int activation, first; // first: join: the output's channel of channel 0
} float_layer;

//: int8_layer
typedef struct {
    window w;
    const int8_t *weight; // or a table
    const int32_t *bias, *multiplier, *shift;
    float scale;               // write_logits: of its input
    int a, b, out, low, first; // zero points of the inputs and the output; its least value; join: as in float_layer
} int8_layer;

//: end

#endif
