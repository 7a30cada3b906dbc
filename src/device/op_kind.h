// op_kind.h - kinds of operators. Tables of times add up the time of each kind, for example of all convolutions.
#ifndef LS_DEVICE_OP_KIND_H
#define LS_DEVICE_OP_KIND_H

#include "device/device.h"

// X(identifier, name). The kind "gradients" covers the families flat and step_control: conversions and checks of
// gradients, and the rest of an update except the optimizer's step.
#define LS_OP_KINDS(X) \
    X(CONVOLUTION, "convolution") \
    X(LINEAR, "linear") \
    X(NORM, "norm") \
    X(POOL, "pool") \
    X(ELEMENTWISE, "elementwise") \
    X(LOSS, "loss") \
    X(INPUT, "input") \
    X(OPTIMIZER, "optimizer") \
    X(GRADIENTS, "gradients")

typedef enum {
#define X(identifier, name) LS_OP_KIND_##identifier,
    LS_OP_KINDS(X)
#undef X
        LS_OP_KIND_COUNT
} ls_op_kind;

const char *ls_op_kind_name(ls_op_kind kind);
ls_op_kind ls_op_kind_of(ls_op op); // follows from the operator's family

#endif
