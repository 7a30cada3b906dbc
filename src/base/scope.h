// scope.h - what a process has once, unless several runs share the process: then each run has its own.
//
// Every thread belongs to a scope. At first this is the scope of the process. A thread that ls_thread_start starts
// belongs to the scope of the thread that started it. log.h, clock.h, status.h and pinned_folder.h say what they keep
// here; only they use these fields. A device plugin has its own copy of base/, and so only the scope of the process.
#ifndef LS_BASE_SCOPE_H
#define LS_BASE_SCOPE_H

#include <stdatomic.h>
#include <stddef.h>
#include "base/status.h"

enum { LS_PINNED_PATH_BYTES = 4096 };

typedef struct {
    int fd; // lines are written here
    int rank, world_size, level;
    atomic_int bar;    // 1: a bar is shown in the last line
    atomic_int broken; // number of lines above the last one into which the terminal wrapped the bar
    int beside_bar;    // 1: another process may show a bar on this terminal
    atomic_int lost;   // errno of the first line that could not be written
} ls_log_scope;

typedef struct {
    char path[LS_PINNED_PATH_BYTES]; // without "/" at its end
    size_t length;
    int fd; // -1: no folder is pinned
} ls_pinned_scope;

typedef struct {
    ls_log_scope log;
    ls_pinned_scope pinned;
    double started_s;                    // when the run began (ls_clock_seconds); 0: it began with the process
    char (*texts)[LS_STATUS_TEXT_BYTES]; // LS_STATUS_RING texts of failures
    unsigned next_text;
} ls_scope;

// Makes the scope of a run that begins now and writes its lines to log_fd, which is borrowed. Free it with free() after
// all its threads have ended; its texts of failures go with it.
ls_scope *ls_scope_new(int log_fd);
void ls_scope_enter(ls_scope *scope); // moves the calling thread into the scope; NULL: into that of the process
ls_scope *ls_scope_now(void);         // the calling thread's scope, never NULL
int ls_scope_is_of_run(void);         // 1: the calling thread works for one of several runs of this process

#endif
