// machine.h - what this machine has for a GPU plugin: driver, cards, libraries. It is found with dlopen, so the program
// needs no vendor's header or library to be built or started.
//
// A library is looked for in the order of library_search.h. What was found stays open: the plugin needs libraries by the same
// names, and the loader gives it these.
#ifndef LS_DEVICE_GPU_MACHINE_H
#define LS_DEVICE_GPU_MACHINE_H

#include <stddef.h>
#include "device/gpu/library_search.h"

enum { LS_GPU_CARDS_MAX = 64, LS_GPU_LIBRARIES_MAX = 8, LS_GPU_TEXT_BYTES = 512 };

typedef struct {
    const char *name;                 // "cuDNN"
    const char *use;                  // "required", "several GPUs" or "optional"
    char path[LS_LIBRARY_PATH_BYTES]; // "": not found
    char version[32];                 // "9.19.0"; "": unknown
    char needed[32];                  // "9.8 or later"; "": any
    char problem[LS_GPU_TEXT_BYTES];  // one line: what, found, needed, fix; "": fits
} ls_gpu_library;

typedef struct {
    char name[96];
    int capability; // the compute capability: 90 for 9.0
    int new_enough;
    size_t memory_bytes; // of the card
    char uuid[48];       // "GPU-..."; "": unknown
    char pci[16];        // "0000:3b:00.0"
} ls_gpu_card;

typedef struct {
    char driver_path[LS_LIBRARY_PATH_BYTES]; // "": none
    char driver_release[32];                 // "580.65.06"; "": unknown
    char driver_needed[64];                  // "580.65.06 or later (CUDA 13)"
    int driver_runs;                         // the newest version of the runtime, 13000 for 13.0; 0: unknown
    char driver_problem[LS_GPU_TEXT_BYTES];
    int card_count;
    ls_gpu_card cards[LS_GPU_CARDS_MAX];  // visible ones, in the driver's order
    char card_problem[LS_GPU_TEXT_BYTES]; // no card, or none that is new enough
    int library_count;
    ls_gpu_library libraries[LS_GPU_LIBRARIES_MAX];
} ls_gpu_machine;

// How one vendor's GPUs are found: a column of plugins.def.
typedef struct {
    void (*look)(ls_gpu_machine *machine); // at everything
    // NULL: the plugin can be used; else one line: what is missing, what was found, what is needed, what to do.
    // Stops at the first problem, so it takes no time where there is no driver. Looks once in a process.
    const char *(*missing)(void);
    int (*expected)(void); // has this machine a card of this vendor, or its driver? NULL: that cannot be seen
} ls_gpu_vendor;

extern const ls_gpu_vendor ls_gpu_none; // all NULL: nothing is looked for

#endif
