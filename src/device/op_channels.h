// op_channels.h - copies a range of channels from one activation into another. Slices, concatenations and shortcuts
// without parameters use it, forward and backward.
//   dst[n, to + c, y, x] = src[n, from + c, y*stride, x*stride], 0 <= c < count
//   spread (the transpose)
//     dst[n, to + c, y*stride, x*stride] = src[n, from + c, y, x], and 0 between
//   The other channels of dst become 0; with keep they do not change.
//   interleave: src and src2 take turns
//     dst[n, to + 2c, y, x] = src[n, from + c, y*stride, x*stride], dst[n, to + 2c + 1, y, x] from src2
//   alternate (the transpose, for one of them)
//     dst[n, to + c, y, x] = src[n, from + 2c, y*stride, x*stride]
//   two_sources: src + src2 in place of src (devices with LS_FUSES_CONCAT_ADD)
// Shapes  src (N,C,H,W), dst (N,K,P,Q), P = (H - 1)/stride + 1 (rounded down); with spread H = (P - 1)/stride + 1
// Types   all in storage; values are copied exactly, a sum is rounded once. Sources and dst do not overlap.
// Source  He et al. 2015 (arXiv 1512.03385), option A of shortcuts; torch.cat; Ma et al. 2018
//         (arXiv 1807.11164), channel shuffle of two groups
#ifndef LS_DEVICE_OP_CHANNELS_H
#define LS_DEVICE_OP_CHANNELS_H

#include "base/shape.h"

typedef struct {
    ls_nchw src, dst;
    int from, to, count; // first channel of src, first channel of dst, number of channels
    int stride;
    int spread;
    int keep;                  // channels that are not copied keep their values; not with spread
    int interleave, alternate; // not both
    ls_dtype storage;
    int two_sources; // not with interleave
} ls_channels_attr;

enum { LS_COPY_CHANNELS_SRC, LS_COPY_CHANNELS_DST, LS_COPY_CHANNELS_SRC2, LS_COPY_CHANNELS_ARGS };

// Returns the shape of the activation with fewer pixels: src with spread, else dst. Each of its pixels is copied once.
static inline ls_nchw ls_channels_copied(const ls_channels_attr *attr) {
    return attr->spread ? attr->src : attr->dst;
}

// Returns the channel of source number i (0: src, 1: src2) that is copied to this channel of dst; -1: none.
static inline int ls_channels_source(const ls_channels_attr *attr, int i, int channel) {
    const int c = channel - attr->to, pair = attr->interleave;
    if (c < 0 || c >= attr->count << pair || (pair && c % 2 != i)) return -1;
    return attr->from + ((c >> pair) << attr->alternate);
}

#endif
