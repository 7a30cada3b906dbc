// conv_timing.h - how long one pass of a convolution takes on this GPU, on memory of its own.
//
// Before each run the L2 is overwritten: in an update other operators run between two runs of a plan, so its weights, and
// of its activations what is older than the L2 is large, come from memory. Overwriting takes longer than the host needs
// to enqueue the run behind it, so that of a short run its time is measured and not its launch.
#ifndef LS_DEVICE_CUDA_CONV_TIMING_H
#define LS_DEVICE_CUDA_CONV_TIMING_H

#include "device/cuda/cuda.h"

enum { LS_CONV_IMAGE, LS_CONV_WEIGHT, LS_CONV_RESULT, LS_CONV_TENSORS };

typedef struct {
    ls_queue queue; // of its own: what is to be timed is enqueued here
    cudaEvent_t begin, end;
    void *tensors[LS_CONV_TENSORS]; // in the storage type, numbers in [-1, 1)
    void *workspace;                // NULL where none is wanted
    void *flush;
    size_t flush_bytes;
} ls_cuda_conv_timing;

// *enough is 0 when the GPU has no room for it, which is no error. Close it in any case.
LS_CHECKED ls_status ls_cuda_conv_timing_open(
    ls_cuda_device *device, const ls_conv_attr *attr, size_t workspace, ls_cuda_conv_timing *out, int *enough);
void ls_cuda_conv_timing_close(ls_cuda_conv_timing *timing);
// Around what is enqueued once. end waits for it.
LS_CHECKED ls_status ls_cuda_conv_timing_begin(ls_cuda_conv_timing *timing);
LS_CHECKED ls_status ls_cuda_conv_timing_end(ls_cuda_conv_timing *timing, float *ms);

#endif
