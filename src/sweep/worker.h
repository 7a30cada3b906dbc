// worker.h - one run as a thread of this process, with a scope (base/scope.h) of its own. `--together` uses it as
// `--jobs` uses child.h.
#ifndef LS_SWEEP_WORKER_H
#define LS_SWEEP_WORKER_H

#include "dist/comm.h"
#include "sweep/child.h"

// Trains the run of a command line. comm: a communicator of one rank, borrowed.
typedef ls_status ls_run_words(char *const *words, ls_comm *comm);

typedef struct ls_worker ls_worker;

// Starts `run` in a thread of its own. child: as for ls_child_start, but `log` must be set and `gpus` is
// ignored; its words are borrowed until the run has ended. LS_STORAGE: the log cannot be written. LS_DEVICE: the system
// refuses a new thread.
LS_CHECKED ls_status ls_worker_start(const ls_child *child, ls_run_words *run, ls_worker **out);
// Returns 1 if the run has ended, with *exit_code; the worker is freed then. Does not wait.
int ls_worker_ended(ls_worker *worker, int *exit_code);

#endif
