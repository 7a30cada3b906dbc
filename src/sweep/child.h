// child.h - processes of this program that another one of it starts. They end with it, whatever ends it: the kernel kills
// them where it cannot any more.
#ifndef LS_SWEEP_CHILD_H
#define LS_SWEEP_CHILD_H

#include <sys/types.h>
#include "system/cpu_mask.h"
#include "base/status.h"

typedef struct {
    char *const *words;      // the command line up to NULL, argv[0] first; the program is this one in any case
    const char *log;         // standard output and error are appended to this file; NULL: this process's own
    const ls_cpu_mask *cpus; // that it may use; NULL: this process's
    const char *gpus;        // its CUDA_VISIBLE_DEVICES; NULL: this process's
} ls_child;

// From the main thread: a child ends with the thread that started it. LS_STORAGE: the log cannot be written; LS_DEVICE: no
// process can be made.
LS_CHECKED ls_status ls_child_start(const ls_child *child, pid_t *pid);
// Has it ended? Then *exit_code, or *signal (0: none) that killed it. Does not wait.
int ls_child_ended(pid_t pid, int *exit_code, int *signal);

#endif
