// nvidia.h - what this machine has of NVIDIA's (machine.h).
#ifndef LS_DEVICE_GPU_NVIDIA_H
#define LS_DEVICE_GPU_NVIDIA_H

#include "device/gpu/machine.h"

// The places of ls_gpu_machine.libraries.
typedef enum {
    LS_NVIDIA_RUNTIME,
    LS_NVIDIA_CUDNN,
    LS_NVIDIA_CUBLASLT,
    LS_NVIDIA_NCCL,
    LS_NVIDIA_NVML,
    LS_NVIDIA_LIBRARY_COUNT
} ls_nvidia_library;

extern const ls_gpu_vendor ls_gpu_nvidia;

// For tests: looks only in these folders, a list separated by ':'; whole: does not stop at the first problem.
void ls_nvidia_look_in(const char *folders, int whole, ls_gpu_machine *machine);
// The first problem of what the CUDA device cannot do without, or NULL.
const char *ls_nvidia_problem(const ls_gpu_machine *machine);

#endif
