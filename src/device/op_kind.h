// op_kind.h - kinds of operators, by which times are added up for people: what a run spends on convolutions.
#ifndef LS_DEVICE_OP_KIND_H
#define LS_DEVICE_OP_KIND_H

#include "device/device.h"

// X(identifier, name); gradients: their sums, statistics and conversions, and what else ends an update.
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
ls_op_kind ls_op_kind_of(ls_op op); // by its family

#endif
