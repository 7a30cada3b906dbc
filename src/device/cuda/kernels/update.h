// update.h - the flat operators of op_update.h, one launch each. All arrays, `state` and `window` are in device memory;
// arrays are 16-byte aligned.
#ifndef LS_DEVICE_CUDA_KERNELS_UPDATE_H
#define LS_DEVICE_CUDA_KERNELS_UPDATE_H

#include <cuda_runtime_api.h>
#include "device/op_loss.h"
#include "device/op_update.h"

#ifdef __cplusplus
extern "C" {
#endif

void ls_cuda_to_fixed_point(
    const ls_flat_attr *attr, const float *grad, ls_train_state *state, int64_t *fixed, cudaStream_t stream);
void ls_cuda_from_fixed_point(
    const ls_flat_attr *attr, const int64_t *fixed, const ls_train_state *state, float *grad, cudaStream_t stream);
typedef struct {
    ls_step_control_attr attr;
    const ls_update_input *window;
    float *grad;
    void *rounded; // NULL if storage is LS_F32
    ls_train_state *state;
    void *reports;  // host memory that the device writes; NULL if there are no records
    void *parts;    // workspace: ls_cuda_control_workspace(count) bytes
    unsigned *done; // counts the blocks that have finished; must be 0 and is 0 again afterwards
} ls_cuda_control_args;
void ls_cuda_step_control(const ls_cuda_control_args *args, cudaStream_t stream);
size_t ls_cuda_control_workspace(int64_t count);
// UPDATE_BEGIN: takes this update's window, and zeroes sums and result. windows: host memory that the device reads.
void ls_cuda_update_begin(const ls_flat_attr *attr, const void *windows, const ls_train_state *state,
    ls_update_input *window, ls_micro_result *result, float *sums, cudaStream_t stream);

typedef struct { // a ls_step_segment in the form that the device searches
    int64_t end; // number of the element after the segment; increases from segment to segment
    float lr_factor, decay, momentum;
    int rate;
    int number; // number of the segment
    uint32_t rests_with;
} ls_cuda_segment;

typedef struct {
    const ls_cuda_segment *segments; // device memory; segment_count of them
    const ls_train_state *state;
    const float *grad;
    // tensors that the optimizer keeps from update to update; their number depends on the optimizer
    float *kept[LS_STEP_KEPT_MAX];
    float *weight;
    void *copy;      // NULL if storage is LS_F32
    void *workspace; // LARS: ls_cuda_lars_workspace(attr) bytes
} ls_cuda_step_args;
typedef void ls_cuda_step_launch(const ls_optimizer_attr *attr, const ls_cuda_step_args *args, cudaStream_t stream);
ls_cuda_step_launch ls_cuda_lars; // three launches
size_t ls_cuda_lars_workspace(const ls_optimizer_attr *attr);
#define STEP(NAME, name, text, flops) ls_cuda_step_launch ls_cuda_##name;
#include "device/ops.def"

void ls_cuda_average(const ls_flat_attr *attr, const ls_update_input *window, const ls_train_state *state,
    float *average, float *weight, cudaStream_t stream);
void ls_cuda_cast(const ls_flat_attr *attr, const float *src, void *dst, cudaStream_t stream);
void ls_cuda_cast_to_f32(const ls_flat_attr *attr, const void *src, float *dst, cudaStream_t stream);
void ls_cuda_widen(const ls_flat_attr *attr, void *rounded, float *grad, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
