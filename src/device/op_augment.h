// op_augment.h - augments a batch of uint8 pictures as config/augmentations.def says, and normalises it.
//   dst[n,c,y,x] = mixed(n, a)[c,y,x], where a = seen(n) and b = seen(N-1-n), and
//   seen(n)[c,y,x] = jitter(n, table[c][ p(n, c, y + dy[n] - pad, (flip[n] ? W-1-x : x) + dx[n] - pad) ])
//   where p is the pixel of picture n (with `indexed`: of picture index[n]). Outside the picture:
//     LS_PAD_ZERO     pixel value 0, so table[c][0]
//     LS_PAD_REFLECT  mirrored without repeating the edge: index -1 is pixel 1, index W is pixel W-2
//   With crop_h[n] > 0, p(n,c,y,x) is a pixel of the stretched crop: a rectangle of crop_h * crop_w pixels, which
//   starts at (crop_y, crop_x), is resized to the whole picture. The resize is bilinear between pixel centres, in
//   integers, rounded down:
//     rows: t = max(0, (2*y+1) * crop_h - H); y0 = t / (2*H); v = ((t mod 2*H) * 2048 + H) / (2*H);
//           y1 = min(y0 + 1, crop_h - 1)
//     columns: x0, x1, u likewise, from crop_w and W
//     p = ((2048-v) * ((2048-u) * q[y0,x0] + u * q[y0,x1]) + v * ((2048-u) * q[y1,x0] + u * q[y1,x1]) + 2^21) / 2^22
//   jitter(n, value) = (value + brightness * level(brightness[n])) * (1 + contrast * level(contrast[n])),
//   level(i) = (2i - 65535) / 65536; the value itself where both options are 0
//   Cutout: seen(n)[c,y,x] = 0 in the square of cutout * cutout pixels that starts at (cut_y[n] - cutout/2, cut_x[n] -
//   cutout/2), as far as it lies in the picture. cutout/2 is rounded down.
//   mixed: with mix_h[n] > 0, b in the rectangle of mix_h * mix_w pixels that starts at (mix_y, mix_x), and a outside
//   it; with mix_h[n] = 0 and mix[n] > 0, a + (b - a) * (mix[n] / 65536); else a
//   Values are fp32. Every operation on them is rounded separately, not fused, so all devices give the same bits.
// Shapes  pixels     uint8 (N,C,H,W) row-major in host or device memory (indexed: the whole data set, any number of
//         pictures)
//         sample     ls_augment_sample[N], with all its fields
//         table      float[C][256]: the normalised value of every pixel value. The host computes it once, so that all
//                    devices agree bit for bit.
//         index      int32[N], checked by the code that makes it; absent unless indexed
//         dst        (N,C,H,W) activation
// Source  torchvision RandomCrop(padding), RandomHorizontalFlip, ToTensor, Normalize; DeVries and Taylor 2017,
//         cutout.py, for even sides; hiverge, cifar10-speedrun, batch_color_jitter; torchvision
//         RandomResizedCrop(antialias=False); Zhang et al. 2018 and Yun et al. 2019; the partner as in timm's Mixup
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

#endif
