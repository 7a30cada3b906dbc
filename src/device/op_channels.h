// op_channels.h - copies a range of channels from one activation into another. Concatenations and shortcuts without
// parameters use it, forward and backward.
//   dst[n, to + c, y, x] = src[n, from + c, y*stride, x*stride], 0 <= c < count
//   spread (the transpose)
//     dst[n, to + c, y*stride, x*stride] = src[n, from + c, y, x], and 0 between
//   The other channels of dst become 0; with keep they do not change.
//   two_sources: src + src2 in place of src (devices with LS_FUSES_CONCAT_ADD)
// Shapes  src (N,C,H,W), dst (N,K,P,Q), P = (H - 1)/stride + 1 (rounded down); with spread H = (P - 1)/stride + 1
// Types   all in storage; values are copied exactly, a sum is rounded once. Sources and dst do not overlap.
// Source  He et al. 2015 (arXiv 1512.03385), option A of shortcuts; torch.cat
#ifndef LS_DEVICE_OP_CHANNELS_H
#define LS_DEVICE_OP_CHANNELS_H

#include "base/shape.h"

typedef struct {
    ls_nchw src, dst;
    int from, to, count; // first channel of src, first channel of dst, number of channels
    int stride;
    int spread;
    int keep; // not with spread
    ls_dtype storage;
    int two_sources;
} ls_channels_attr;

enum { LS_COPY_CHANNELS_SRC, LS_COPY_CHANNELS_DST, LS_COPY_CHANNELS_SRC2, LS_COPY_CHANNELS_ARGS };

// The activation with fewer pixels (src with spread, else dst): only these pixels are copied.
static inline ls_nchw ls_channels_copied(const ls_channels_attr *attr) {
    return attr->spread ? attr->src : attr->dst;
}

#endif
