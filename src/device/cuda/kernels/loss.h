// loss.h - the loss, its gradient, and the sums that a micro-batch adds to the results.
#ifndef LS_DEVICE_CUDA_KERNELS_LOSS_H
#define LS_DEVICE_CUDA_KERNELS_LOSS_H

#include <cuda_runtime_api.h>
#include "device/op_loss.h"
#include "device/op_update.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    ls_loss_attr attr;
    int channels; // classes, including padding
    float scale;  // factor of the logits
    const void *logits;
    const int32_t *labels;
    const ls_augment_sample *samples; // NULL unless mixed
    const float *weights;             // class weights; NULL: all are 1
    const uint8_t *sets;              // rows of labels; NULL: a label is a class
    const ls_micro_input *micro;
    const ls_train_state *state;
    ls_micro_result *result;
    void *grad;     // NULL: no gradient
    float *losses;  // workspace: the loss of each sample
    int *correct;   // workspace: whether each sample is correct
    unsigned *done; // counts the blocks that have finished; must be 0 and is 0 again afterwards
} ls_cuda_loss_args;

void ls_cuda_loss(const ls_cuda_loss_args *args, cudaStream_t stream);
// With focal_gamma > 0 or several labels.
void ls_cuda_focal_loss(const ls_cuda_loss_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
