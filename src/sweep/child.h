// child.h - starts this program again as a child process. A child never outlives its parent: when the parent dies in
// any way, the kernel kills the child.
#ifndef LS_SWEEP_CHILD_H
#define LS_SWEEP_CHILD_H

#include <sys/types.h>
#include "system/cpu_mask.h"
#include "base/status.h"

typedef struct {
    char *const *words;      // the child's argv, ends with NULL; words[0] does not choose the program
    const char *log;         // its stdout and stderr are appended to this file; NULL: they are those of this process
    const ls_cpu_mask *cpus; // the processors that the child may use; NULL: the same as this process
    const char *gpus;        // the child's CUDA_VISIBLE_DEVICES; NULL: the same as this process
} ls_child;

// Starts the child. Call it from the main thread, because the kernel kills a child when the thread that started it
// ends. LS_STORAGE: the log cannot be written. LS_DEVICE: the system refuses a new process.
LS_CHECKED ls_status ls_child_start(const ls_child *child, pid_t *pid);
// Returns 1 if the child has ended; does not wait. *signal: the signal that killed it, or 0 after an exit with
// *exit_code.
int ls_child_ended(pid_t pid, int *exit_code, int *signal);

#endif
