// activation.h - the activations and their formulas. Devices compute the same in fp32 (device/op_elementwise.h).
#ifndef LS_CONFIG_ACTIVATION_H
#define LS_CONFIG_ACTIVATION_H

typedef enum {
    LS_ACTIVATION_NONE,
    LS_ACTIVATION_RELU,
#define ACTIVATION(NAME, name, zero, text) LS_ACTIVATION_##NAME,
#include "config/activations.def"
    LS_ACTIVATION_COUNT
} ls_activation;

// Return f(x) and f'(x) in double. parameter: the parameter of a PARAMETRIC row; other rows ignore it. NONE is the
// identity.
double ls_activation_value(ls_activation kind, double parameter, double x);
double ls_activation_slope(ls_activation kind, double parameter, double x);

// Whether f(0) = 0, so that padding stays 0.
static inline int ls_activation_keeps_zero(ls_activation kind) {
    switch (kind) {
#define ACTIVATION(NAME, name, zero, text) \
    case LS_ACTIVATION_##NAME: \
        return zero;
#include "config/activations.def"
    default:
        return 1;
    }
}

#endif
