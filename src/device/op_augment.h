// op_augment.h - a batch of uint8 pictures, placed, mirrored and normalised.
//   dst[n,c,y,x] = table[c][ p(n, c, y + dy[n] - pad, (flip[n] ? W-1-x : x) + dx[n] - pad) ]
//   where p is the pixel (of picture n; with `indexed`: of picture index[n]), and outside the picture:
//     LS_PAD_ZERO     pixel value 0, so table[c][0]
//     LS_PAD_REFLECT  mirrored without repeating the edge: index -1 is pixel 1, index W is pixel W-2
// Shapes  pixels     uint8 (N,C,H,W) row-major in host or device memory (indexed: the whole data set, any number of
//                    pictures)
//         placement  ls_augment_sample[N]; dx, dy in 0..2*pad (pad, pad is the middle)
//         table      float[C][256]: the normalised value of every pixel value, made once on the host, so that all
//                    devices agree bit for bit
//         index      int32[N], checked by its maker; absent unless indexed
//         dst        (N,C,H,W) activation
// Source  torchvision RandomCrop(padding), RandomHorizontalFlip, ToTensor, Normalize
#ifndef LS_DEVICE_OP_AUGMENT_H
#define LS_DEVICE_OP_AUGMENT_H

#include "base/shape.h"

typedef enum { LS_PAD_ZERO, LS_PAD_REFLECT } ls_pad_mode;

typedef struct {
    ls_nchw shape;
    ls_dtype storage; // of dst
    int pad;          // 0..127; with LS_PAD_REFLECT below H and W
    ls_pad_mode mode;
    int indexed;
} ls_augment_attr;

enum { LS_AUGMENT_PIXELS, LS_AUGMENT_SAMPLE, LS_AUGMENT_TABLE, LS_AUGMENT_DST, LS_AUGMENT_INDEX, LS_AUGMENT_ARGS };

#endif
