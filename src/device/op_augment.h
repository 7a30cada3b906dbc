// op_augment.h - a batch of uint8 pictures, augmented as base/augmentations.def says, and normalised.
//   dst[n,c,y,x] = jitter(n, table[c][ p(n, c, y + dy[n] - pad, (flip[n] ? W-1-x : x) + dx[n] - pad) ])
//   where p is the pixel (of picture n; with `indexed`: of picture index[n]), and outside the picture:
//     LS_PAD_ZERO     pixel value 0, so table[c][0]
//     LS_PAD_REFLECT  mirrored without repeating the edge: index -1 is pixel 1, index W is pixel W-2
//   jitter(n, v) = (v + brightness * level(brightness[n])) * (1 + contrast * level(contrast[n])), every operation rounded to fp32, not
//   fused; level(i) = (2i - 65535) / 65536; v itself where both options are 0
//   and dst[n,c,y,x] = 0 in the square of cutout * cutout pixels whose first is (cut_y[n] - cutout/2, cut_x[n] - cutout/2), as far as
//   it lies in the picture; cutout/2 is rounded down
// Shapes  pixels     uint8 (N,C,H,W) row-major in host or device memory (indexed: the whole data set, any number of
//                    pictures)
//         sample     ls_augment_sample[N], with its fields dy, dx, flip, cut_y, cut_x, brightness, contrast
//         table      float[C][256]: the normalised value of every pixel value, made once on the host, so that all
//                    devices agree bit for bit
//         index      int32[N], checked by its maker; absent unless indexed
//         dst        (N,C,H,W) activation
// Source  torchvision RandomCrop(padding), RandomHorizontalFlip, ToTensor, Normalize; DeVries and Taylor 2017, cutout.py, for even sides;
//         hiverge, cifar10-speedrun, batch_color_jitter
#ifndef LS_DEVICE_OP_AUGMENT_H
#define LS_DEVICE_OP_AUGMENT_H

#include "base/augmentation.h"

typedef struct {
    ls_nchw shape;
    ls_dtype storage; // of dst
    ls_augmentation augmentation;
    int indexed;
} ls_augment_attr;

enum { LS_AUGMENT_PIXELS, LS_AUGMENT_SAMPLE, LS_AUGMENT_TABLE, LS_AUGMENT_DST, LS_AUGMENT_INDEX, LS_AUGMENT_ARGS };

#endif
