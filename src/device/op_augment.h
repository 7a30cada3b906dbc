// op_augment.h - augments a batch of uint8 pictures and normalises it.
//   dst[n,c,y,x] = the value of pixel (c,y,x) of sample n after all steps: augmentations of pixels, then
//   table[c][pixel], then augmentations of values. config/augmentations.def has the formula and the place of each.
//   Sample n is picture n; with `indexed`, it is picture index[n].
// Shapes  pixels     uint8 (N,C,H,W) row-major in host or device memory (indexed: the whole data set, any number of
//         pictures)
//         sample     ls_augment_sample[N], with all its fields
//         table      float[C][256]: the normalised value of every pixel value. The host computes it once, so that all
//                    devices agree bit for bit.
//         index      int32[N], checked by the code that makes it; absent unless indexed
//         dst        (N,C,H,W) activation
//
// TRIVIAL_AUGMENT goes before AUGMENT, which then reads its output and is not indexed:
//   dst[n] = the picture of sample n after the change that sample[n] names (config/augmentations.def)
//   pixels, sample, index  as above; C is 1 or 3. dst: uint8 (N,C,H,W) row-major. storage: fp32, without a meaning
// Source  torchvision ToTensor, Normalize; for augmentations, their rows
#ifndef LS_DEVICE_OP_AUGMENT_H
#define LS_DEVICE_OP_AUGMENT_H

#include "config/augmentation.h"

typedef struct {
    ls_nchw shape;
    ls_dtype storage; // of dst
    ls_augmentation augmentation;
    int indexed;
} ls_augment_attr;

enum { LS_AUGMENT_PIXELS, LS_AUGMENT_SAMPLE, LS_AUGMENT_TABLE, LS_AUGMENT_DST, LS_AUGMENT_INDEX, LS_AUGMENT_ARGS };
enum {
    LS_TRIVIAL_AUGMENT_PIXELS,
    LS_TRIVIAL_AUGMENT_SAMPLE,
    LS_TRIVIAL_AUGMENT_DST,
    LS_TRIVIAL_AUGMENT_INDEX,
    LS_TRIVIAL_AUGMENT_ARGS
};

#endif
