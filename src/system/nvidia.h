// nvidia.h - describes this machine's NVIDIA driver, cards and libraries (machine.h).
#ifndef LS_SYSTEM_NVIDIA_H
#define LS_SYSTEM_NVIDIA_H

#include "system/machine.h"

// Indices into ls_gpu_machine.libraries.
typedef enum {
    LS_NVIDIA_RUNTIME,
    LS_NVIDIA_CUBLASLT,
    LS_NVIDIA_CUDNN,
    LS_NVIDIA_NCCL,
    LS_NVIDIA_NVML,
    LS_NVIDIA_LIBRARY_COUNT
} ls_nvidia_library;

extern const ls_gpu_vendor ls_gpu_nvidia;

// For tests: describes driver, cards, libraries and the plugin's builds, but searches only `folders`, separated by ':'.
// whole 1: does not stop at the first problem.
void ls_nvidia_look_in(const char *folders, int whole, ls_gpu_machine *machine);

#endif
