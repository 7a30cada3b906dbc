// machine.h - describes what this machine has for a GPU plugin: driver, cards, libraries. They are found with dlopen,
// so the program can be built and started without any vendor's headers or libraries.
//
// A library is searched in the order of library_search.h. Libraries stay open once found: the plugin needs libraries
// with the same names, and the loader gives it these.
#ifndef LS_SYSTEM_MACHINE_H
#define LS_SYSTEM_MACHINE_H

#include <stddef.h>
#include "system/library_search.h"

enum { LS_GPU_CARDS_MAX = 64, LS_GPU_LIBRARIES_MAX = 8, LS_GPU_BUILDS_MAX = 4, LS_GPU_TEXT_BYTES = 512 };

typedef struct {
    const char *name;                 // "cuDNN"
    const char *use;                  // "required", "several GPUs" or "optional"
    char path[LS_LIBRARY_PATH_BYTES]; // "": not found
    char version[32];                 // "9.19.0"; "": unknown
    char needed[32];                  // "9.8 or later"; "": any version
    // one line: which library, what was found, what is needed, how to fix it; "": the library fits
    char problem[LS_GPU_TEXT_BYTES];
} ls_gpu_library;

// A plugin's file. There is one for each major version of CUDA.
typedef struct {
    char path[LS_LIBRARY_PATH_BYTES]; // ".../lockstep_cuda12.so"
    int runtime;                      // version of the CUDA runtime that it is for, 12040 for 12.4
    char problem[LS_GPU_TEXT_BYTES];  // one line: why it cannot be used; "": it can, or it was not tried
} ls_gpu_build;

typedef struct {
    char name[96];
    int capability;      // compute capability: 90 for 9.0
    int new_enough;      // 1: `capability` is enough for `build` (below)
    size_t memory_bytes; // memory of the card
    char uuid[48];       // "GPU-..."; "": unknown
    char pci[16];        // "0000:3b:00.0"
} ls_gpu_card;

typedef struct {
    char driver_path[LS_LIBRARY_PATH_BYTES]; // "": no driver
    char driver_release[32];                 // "580.65.06"; "": unknown
    char driver_needed[64];                  // "580.65.06 or later (CUDA 13)"
    int driver_runs;                         // newest CUDA runtime that the driver supports, 13000 for 13.0; 0: unknown
    char driver_problem[LS_GPU_TEXT_BYTES];
    int card_count;
    ls_gpu_card cards[LS_GPU_CARDS_MAX];  // visible cards, in the driver's order
    char card_problem[LS_GPU_TEXT_BYTES]; // no card, or all are too old; "": one is new enough, or the driver fails
    int library_count;
    ls_gpu_library libraries[LS_GPU_LIBRARIES_MAX];
    int build_count;
    ls_gpu_build builds[LS_GPU_BUILDS_MAX]; // the plugin's files beside the program, the newest CUDA first
    // Index of the newest build that can be used, or else of the build that lacks least; 0 if the driver fails or lists
    // no card. The needs and problems above are for this build; driver_needed is for the oldest if the driver fails.
    int build;
    char problem[LS_GPU_TEXT_BYTES]; // one line: the first problem that prevents the use of `build`; "": no problem
} ls_gpu_machine;

// How the GPUs of one vendor are found: a column of plugins.def.
typedef struct {
    void (*fill)(ls_gpu_machine *machine); // fills in everything, also after a problem
    // Returns NULL if the plugin can be used, else one line: what is missing, what was found, what is needed, what to
    // do. Stores in *file, unless file is NULL, the path of the plugin to open, or NULL: no plugin is beside the
    // program. Stops at the first problem, so it costs little time on machines without a driver. Searches once in a
    // process.
    const char *(*missing)(const char **file);
    // Whether this machine has a card or a driver of this vendor. NULL: that cannot be determined.
    int (*expected)(void);
} ls_gpu_vendor;

extern const ls_gpu_vendor ls_gpu_none; // all NULL: a vendor for which nothing is searched

#endif
