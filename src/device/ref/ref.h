// ref.h - the reference device: every operator in plain loops, accumulated in double; the oracle of every test.
//
// Layouts are plain (device/host.h). An operator's inner loops work on doubles: convolutions and linear layers widen
// their inputs into the workspace first, the others element by element. Threads share independent outputs only, so
// results do not depend on their number.
#ifndef LS_DEVICE_REF_REF_H
#define LS_DEVICE_REF_REF_H

#include "base/half.h"
#include "base/pool.h"
#include "device/host.h"

typedef struct {
    ls_device base;
    ls_pool *pool;
} ls_ref_device;

typedef struct {
    ls_plan base;
    ls_pool *pool;
} ls_ref_plan;

//    operator              function                     workspace bytes (NULL: none)
#define LS_REF_OPS(X) \
    X(AUGMENT, ls_ref_augment, NULL) \
    X(CONV_FORWARD, ls_ref_conv_forward, ls_ref_conv_workspace) \
    X(CONV_BACKWARD_DATA, ls_ref_conv_backward_data, ls_ref_conv_workspace) \
    X(CONV_BACKWARD_WEIGHT, ls_ref_conv_backward_weight, ls_ref_conv_workspace) \
    X(LINEAR_FORWARD, ls_ref_linear_forward, ls_ref_linear_workspace) \
    X(LINEAR_BACKWARD_DATA, ls_ref_linear_backward_data, ls_ref_linear_workspace) \
    X(LINEAR_BACKWARD_WEIGHT, ls_ref_linear_backward_weight, ls_ref_linear_workspace) \
    X(NORM_FORWARD, ls_ref_norm_forward, NULL) \
    X(NORM_INFERENCE, ls_ref_norm_inference, NULL) \
    X(NORM_BACKWARD, ls_ref_norm_backward, ls_ref_norm_workspace) \
    X(NORM_SUMS, ls_ref_norm_sums, NULL) \
    X(NORM_APPLY, ls_ref_norm_apply, NULL) \
    X(NORM_BACKWARD_SUMS, ls_ref_norm_backward_sums, ls_ref_norm_workspace) \
    X(NORM_BACKWARD_APPLY, ls_ref_norm_backward_apply, ls_ref_norm_workspace) \
    X(POOL_FORWARD, ls_ref_pool_forward, NULL) \
    X(POOL_BACKWARD, ls_ref_pool_backward, ls_ref_pool_workspace) \
    X(RELU_FORWARD, ls_ref_relu_forward, NULL) \
    X(RELU_BACKWARD, ls_ref_relu_backward, NULL) \
    X(GELU_FORWARD, ls_ref_gelu_forward, NULL) \
    X(GELU_BACKWARD, ls_ref_gelu_backward, NULL) \
    X(ADD, ls_ref_add, NULL) \
    X(SCALE, ls_ref_scale, NULL) \
    X(DROPOUT, ls_ref_dropout, NULL) \
    X(LOSS, ls_ref_loss, NULL) \
    X(GRAD_FIX, ls_ref_grad_fix, NULL) \
    X(GRAD_UNFIX, ls_ref_grad_unfix, NULL) \
    X(GRAD_STATS, ls_ref_grad_stats, NULL) \
    X(CONTROL, ls_ref_control, NULL) \
    X(SGD, ls_ref_sgd, NULL) \
    X(ADAMW, ls_ref_adamw, NULL) \
    X(RUNNING_STATS, ls_ref_running_stats, NULL) \
    X(CAST, ls_ref_cast, NULL) \
    X(WIDEN, ls_ref_widen_flat, NULL)

#define X(op, run, workspace) \
    void run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue);
LS_REF_OPS(X)
#undef X
size_t ls_ref_conv_workspace(const ls_op_desc *desc);
size_t ls_ref_linear_workspace(const ls_op_desc *desc);
size_t ls_ref_norm_workspace(const ls_op_desc *desc);
size_t ls_ref_pool_workspace(const ls_op_desc *desc);

// Elements 0..count-1 of an array in storage type, as doubles.
void ls_ref_widen(const void *array, ls_dtype storage, int64_t count, double *out);

// ref_map.c: GELU (op_map.h) and its derivative.
double ls_ref_gelu(double x);
double ls_ref_gelu_slope(double x);

static inline void ls_ref_run_tasks(const ls_plan *plan, ls_pool_task *task, void *job, int tasks) {
    ls_pool_run(((const ls_ref_plan *)plan)->pool, task, job, tasks);
}

#endif
