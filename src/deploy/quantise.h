// quantise.h - makes a network's integers from its float weights and from the ranges of its values on training pictures
// (calibration). kernels_int8.h states the arithmetic.
//
// Three quarters of the pictures are computed in floats, and a histogram of each value is made. Four rules turn a
// histogram into a range: least and largest value; 99.99 % or 99.9 % of the values; the range with the smallest mean
// square of rounding and clipping, among the first range times 1, 0.95, ... 0.35. Each rule gives a quantised network.
// The rule with the smallest loss on the other quarter is used. Every range is widened to contain 0. The range of the
// pixels is exact. Outputs of max pooling and shortcuts have their input's scale, values with a quantise layer its own.
#ifndef LS_DEPLOY_QUANTISE_H
#define LS_DEPLOY_QUANTISE_H

#include "deploy/network.h"

typedef struct {
    const uint8_t *pixels; // pictures (C,H,W), one after the other; pictures 3, 7, 11, ... are held out
    const int32_t *labels;
    int count; // at least LS_QUANTISE_PICTURES_MIN
} ls_quantise_pictures;
enum { LS_QUANTISE_PICTURES_MIN = 4 };

typedef struct {
    const char *rule;           // the rule that was chosen, for people
    double float_loss, loss;    // mean cross-entropy on the pictures held out: in floats, in integers
    int constant_channels;      // output channels whose weights are all 0: they are exact
    const char *constant_layer; // a layer with constant channels, or NULL
    double clipped;             // largest share of a value's numbers that lie outside its range, and its layer
    const char *clipped_layer;
} ls_quantised;

// Quantises the network, which was lowered for int8. LS_USAGE: by each rule a layer's sums do not fit into int32, or
// the scale of its output is more than 2^30 times finer than that of its sums. LS_NUMERIC: a value is not finite.
LS_CHECKED ls_status ls_quantise(ls_network *network, const ls_quantise_pictures *pictures, ls_quantised *result);
// For ls_quantise alone (integers.c): makes scale and zero of all values but `fixed` ones from their ranges, then the
// integers of all steps, constant_channels and constant_layer. Call it again for other ranges. LS_USAGE as above.
LS_CHECKED ls_status ls_integers_make(ls_network *network, ls_quantised *result);

#endif
