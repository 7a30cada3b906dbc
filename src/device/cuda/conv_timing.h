// conv_timing.h - measures the time of one pass of a convolution on this GPU, with memory of its own.
//
// The L2 cache is overwritten before each run. In a real update other operators run between two runs of a plan. So the
// weights come from memory, and so do activations that were written longer ago than the L2 can hold. Overwriting takes
// longer than the host needs to enqueue the run after it, so for a short run the measured time is that of the run and
// not that of its launch.
#ifndef LS_DEVICE_CUDA_CONV_TIMING_H
#define LS_DEVICE_CUDA_CONV_TIMING_H

#include "device/cuda/cuda.h"

enum { LS_CONV_IMAGE, LS_CONV_WEIGHT, LS_CONV_RESULT, LS_CONV_TENSORS };

typedef struct {
    ls_queue queue; // separate queue on which the timed work is enqueued
    cudaEvent_t begin, end;
    void *tensors[LS_CONV_TENSORS]; // in the storage type, with numbers in [-1, 1)
    void *workspace;                // NULL if no workspace is needed
    void *flush;
    size_t flush_bytes;
} ls_cuda_conv_timing;

// Allocates the tensors and events for timing. *enough is 0 if the GPU has not enough memory, which is not an error.
// Close the timing in any case.
LS_CHECKED ls_status ls_cuda_conv_timing_open(
    ls_cuda_device *device, const ls_conv_attr *attr, size_t workspace, ls_cuda_conv_timing *out, int *enough);
void ls_cuda_conv_timing_close(ls_cuda_conv_timing *timing);
// Begin and end the timing of one run: call them before and after enqueuing it. end waits for the run.
LS_CHECKED ls_status ls_cuda_conv_timing_begin(ls_cuda_conv_timing *timing);
LS_CHECKED ls_status ls_cuda_conv_timing_end(ls_cuda_conv_timing *timing, float *ms);

#endif
