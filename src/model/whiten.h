// whiten.h - filters that whiten the patches of pictures: initial values of a first convolution (weight_init = whiten).
//
// Of all patches of the pictures, C*R*S values x each, normalised as training sees them (pixel/255, less the mean, by
// std), at the pictures' full size and without augmentation:
//   A = sum x x^T / number of patches      (not centred)
//   A v_k = lambda_k v_k                   (lambda descending, |v_k| = 1)
//   filters: v_k / sqrt(lambda_k + eps), then their negatives; the first out_channels of this list
// The sign of v_k is such that its first element of at least half the largest magnitude is positive.
//
// The bits are the same on every machine and in any order of the pictures: pixels are summed as integers, and what
// follows is +, -, *, / and sqrt of doubles in a fixed order (Jacobi's cyclic method).
// Source  airbench94 (github.com/KellerJordan/cifar10-airbench, legacy/airbench94.py, init_whitening_conv)
#ifndef LS_MODEL_WHITEN_H
#define LS_MODEL_WHITEN_H

#include <stdint.h>
#include "base/shape.h"
#include "base/status.h"

enum { LS_WHITEN_PATCH_MAX = 512 }; // values of a patch

typedef struct ls_whiten ls_whiten;

// For a weight {K, C, R, S} and pictures of C channels, not smaller than a patch.
LS_CHECKED ls_status ls_whiten_new(const ls_param_shape *weight, ls_chw picture, ls_whiten **out);
void ls_whiten_free(ls_whiten *whiten);                       // NULL is allowed
void ls_whiten_add(ls_whiten *whiten, const uint8_t *pixels); // of one picture (C,H,W)
// At least one picture was added. mean, std: a number a channel; weight: canonical.
LS_CHECKED ls_status ls_whiten_filters(
    const ls_whiten *whiten, const float *mean, const float *std, double eps, float *weight);

#endif
