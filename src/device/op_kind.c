#include "device/op_kind.h"

static const ls_op_kind kinds_by_family[LS_FAMILY_COUNT] = {
    [LS_FAMILY_augment] = LS_OP_KIND_INPUT,
    [LS_FAMILY_resize] = LS_OP_KIND_INPUT,
    [LS_FAMILY_conv] = LS_OP_KIND_CONVOLUTION,
    [LS_FAMILY_linear] = LS_OP_KIND_LINEAR,
    [LS_FAMILY_norm] = LS_OP_KIND_NORM,
    [LS_FAMILY_pool] = LS_OP_KIND_POOL,
    [LS_FAMILY_elementwise] = LS_OP_KIND_ELEMENTWISE,
    [LS_FAMILY_gate] = LS_OP_KIND_ELEMENTWISE,
    [LS_FAMILY_channels] = LS_OP_KIND_ELEMENTWISE,
    [LS_FAMILY_group_norm] = LS_OP_KIND_NORM,
    [LS_FAMILY_quantise] = LS_OP_KIND_ELEMENTWISE,
    [LS_FAMILY_loss] = LS_OP_KIND_LOSS,
    [LS_FAMILY_distill] = LS_OP_KIND_LOSS,
    [LS_FAMILY_flat] = LS_OP_KIND_GRADIENTS,
    [LS_FAMILY_step_control] = LS_OP_KIND_GRADIENTS,
    [LS_FAMILY_optimizer] = LS_OP_KIND_OPTIMIZER,
};

const char *ls_op_kind_name(ls_op_kind kind) {
    static const char *const names[] = {
#define X(identifier, name) name,
        LS_OP_KINDS(X)
#undef X
    };
    return names[kind];
}

ls_op_kind ls_op_kind_of(ls_op op) {
    return kinds_by_family[ls_op_family_of(op)];
}
