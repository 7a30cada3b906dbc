// whiten.h - filters that whiten the patches of pictures: initial values of a first convolution (weight_init = whiten).
//
// A patch x has C*R*S values, normalised as in training ((pixel/255 - mean) / std). All patches of the pictures are
// used, at full size and without augmentation:
//   A = sum x x^T / number of patches      (not centred)
//   A v_k = lambda_k v_k                   (lambda descending, |v_k| = 1)
//   filters: v_k / sqrt(lambda_k + eps), then their negatives; the first out_channels of this list
// The sign of v_k is chosen so that its first element of at least half the largest magnitude is positive.
//
// The bits are the same on every machine and for any order of the pictures: pixels are summed as integers, and all
// later steps are +, -, *, / and sqrt of doubles in a fixed order (Jacobi's cyclic method).
// Source  airbench94 (github.com/KellerJordan/cifar10-airbench, legacy/airbench94.py, init_whitening_conv)
#ifndef LS_MODEL_WHITEN_H
#define LS_MODEL_WHITEN_H

#include <stdint.h>
#include "base/shape.h"
#include "base/status.h"

enum { LS_WHITEN_PATCH_MAX = 512 }; // largest number of values of a patch

typedef struct ls_whiten ls_whiten;

// Creates the sums for a weight {K, C, R, S} and pictures of C channels, which must not be smaller than a patch.
LS_CHECKED ls_status ls_whiten_new(const ls_param_shape *weight, ls_chw picture, ls_whiten **out);
void ls_whiten_free(ls_whiten *whiten);                       // NULL is allowed
void ls_whiten_add(ls_whiten *whiten, const uint8_t *pixels); // adds one picture (C,H,W)
// Computes the filters. Call after at least one picture was added. mean, std: one number per channel; weight: in
// canonical layout.
LS_CHECKED ls_status ls_whiten_filters(
    const ls_whiten *whiten, const float *mean, const float *std, double eps, float *weight);

#endif
