// distill.h - the part of the loss that comes from a teacher's logits, and its gradient.
#ifndef LS_DEVICE_CUDA_KERNELS_DISTILL_H
#define LS_DEVICE_CUDA_KERNELS_DISTILL_H

#include <cuda_runtime_api.h>
#include "device/op_distill.h"
#include "device/op_loss.h"
#include "device/op_update.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    ls_distill_attr attr;
    int channels; // classes, including padding
    const void *logits, *teacher;
    const ls_micro_input *micro;
    const ls_train_state *state;
    ls_micro_result *result;
    void *grad;
    float *losses;  // workspace, N
    int *bad;       // workspace, N
    unsigned *done; // counts the blocks that have finished; must be 0 and is 0 again afterwards
} ls_cuda_distill_args;

void ls_cuda_distill(const ls_cuda_distill_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
