// ref.h - the reference device: every operator in plain loops, accumulated in double. It is the oracle of the tests.
//
// Layouts are plain (device/host.h). Most inner loops work on doubles: convolutions and linear layers first convert
// their inputs to doubles in the workspace, other operators convert element by element. Threads compute different
// outputs, so results do not depend on the number of threads.
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

// The function that runs each operator.
#define X(NAME, name, text, family, flops) \
    void ls_ref_##name(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue);
#include "device/ops.def"
// Return the bytes of workspace of an operator. Other families need no workspace.
size_t ls_ref_conv_workspace(const ls_op_desc *desc);
size_t ls_ref_linear_workspace(const ls_op_desc *desc);
size_t ls_ref_norm_workspace(const ls_op_desc *desc);
size_t ls_ref_pool_workspace(const ls_op_desc *desc);
size_t ls_ref_loss_workspace(const ls_op_desc *desc);
size_t ls_ref_optimizer_workspace(const ls_op_desc *desc);

// Writes elements 0..count-1 of an array in storage type as doubles.
void ls_ref_doubles(const void *array, ls_dtype storage, int64_t count, double *out);

// In op_update.c. Does UPDATE_BEGIN (device/op_update.h) without zeroing SUMS: copies this update's ls_update_input
// from record state.record of WINDOWS to WINDOW, and zeroes RESULT.
void ls_ref_take_window(const ls_buffer *args);
// grad[i] += rounded[i], then rounded[i] = 0.
void ls_ref_add_rounded(void *rounded, ls_dtype storage, int64_t count, float *grad);
// Values computed from the whole gradient. With them, ls_ref_control does the rest of STEP_CONTROL: it decides on the
// update and writes the report.
typedef struct {
    double squares, bad; // sum of squares; number of elements that are not finite
    int64_t last;        // index of the last element that is not finite, or -1
} ls_ref_gradient;
void ls_ref_control(const ls_plan *plan, const ls_buffer *args, ls_ref_gradient gradient);
// Updates a segment of running statistics. The pointers are at its first element.
void ls_ref_move_statistics(
    const ls_step_segment *segment, const ls_train_state *state, const float *sum, float *running);

static inline void ls_ref_run_tasks(const ls_plan *plan, ls_pool_task *task, void *job, int tasks) {
    ls_pool_run(((const ls_ref_plan *)plan)->pool, task, job, tasks);
}

#endif
