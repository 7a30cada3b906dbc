// machine.h - what this machine has of NVIDIA's: driver, cards, libraries. It uses dlopen, so the program
// needs neither headers nor libraries of CUDA to be built or started.
//
// A library is looked for where library_search.h says. What was found stays open: the plugin needs libraries by the same
// names, and the loader gives it these.
#ifndef LS_DEVICE_GPU_MACHINE_H
#define LS_DEVICE_GPU_MACHINE_H

#include <stddef.h>
#include "device/gpu/library_search.h"

enum { LS_CUDA_CARDS_MAX = 64, LS_CUDA_TEXT_BYTES = 512, LS_CUDA_CAPABILITY_MIN = 80 };

typedef enum {
    LS_CUDA_RUNTIME,
    LS_CUDA_CUDNN,
    LS_CUDA_CUBLASLT,
    LS_CUDA_NCCL,
    LS_CUDA_NVML,
    LS_CUDA_LIBRARY_COUNT
} ls_cuda_library_id;

typedef struct {
    const char *name;                 // "cuDNN"
    const char *use;                  // "required", "several GPUs" or "optional"
    char path[LS_CUDA_PATH_BYTES];    // "": not found
    char version[32];                 // "9.19.0"; "": unknown
    char needed[32];                  // "9.8 or later"; "": any
    char problem[LS_CUDA_TEXT_BYTES]; // one line: what, found, needed, fix; "": fits
} ls_cuda_library;

typedef struct {
    char name[96];
    int capability;      // 90 for 9.0
    size_t memory_bytes; // of the card
    char uuid[48];       // "GPU-..."; "": unknown
    char pci[16];        // "0000:3b:00.0"
} ls_cuda_card;

typedef struct {
    char driver_path[LS_CUDA_PATH_BYTES]; // of libcuda.so.1; "": none
    char driver_release[32];              // "580.65.06"; "": unknown
    char driver_needed[64];               // "580.65.06 or later (CUDA 13)"
    int driver_cuda;                      // newest CUDA it runs, 13000 for 13.0; 0: unknown
    char driver_problem[LS_CUDA_TEXT_BYTES];
    int card_count;
    ls_cuda_card cards[LS_CUDA_CARDS_MAX]; // visible ones, in CUDA's order
    char card_problem[LS_CUDA_TEXT_BYTES]; // no card, or none that is new enough
    ls_cuda_library libraries[LS_CUDA_LIBRARY_COUNT];
} ls_gpu_machine;

// Looks at everything.
void ls_gpu_machine_look(ls_gpu_machine *machine);
// The first problem of what the CUDA device cannot do without, or NULL.
const char *ls_gpu_machine_problem(const ls_gpu_machine *machine);

// NULL when the CUDA device can be used; else one line: what is missing, what was found, what is needed, what to do.
// Stops at the first thing missing, so it takes no time where there is no driver. Looks once in a process.
const char *ls_cuda_missing(void);

// For tests: looks only in these folders, a list separated by ':'; whole: does not stop at the first problem.
void ls_gpu_machine_look_in(const char *folders, int whole, ls_gpu_machine *machine);

#endif
