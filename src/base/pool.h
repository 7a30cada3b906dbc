// pool.h - the threads that compute for one rank: a fixed team that runs numbered tasks.
//
// A waiting thread spins for about 50 us, then sleeps, so that processes can share cores. Each thread begins with its
// own share of neighbouring tasks, the same share in every ls_pool_run of the same number of tasks. If all calls number
// their tasks along the same data (samples), a thread finds data that it wrote earlier in its own cache. On processors
// with several caches or sockets, its own cache is much faster than another thread's cache. A thread that has finished
// its share takes tasks left over by others. So it is not determined which thread runs a task, and a task's result must
// depend only on its number.
#ifndef LS_BASE_POOL_H
#define LS_BASE_POOL_H

#include "base/status.h"

typedef struct ls_pool ls_pool;
typedef void ls_pool_task(void *context, int task, int thread); // thread: 0..threads-1, for per-thread scratch

// Creates a pool. threads >= 1 includes the caller: a pool of 1 starts no thread. LS_DEVICE if a thread does not start.
LS_CHECKED ls_status ls_pool_new(int threads, ls_pool **out);
void ls_pool_free(ls_pool *pool);
int ls_pool_threads(const ls_pool *pool);
// Runs tasks 0..tasks-1 and returns when all are done. Not re-entrant; one caller at a time. Allocates nothing.
void ls_pool_run(ls_pool *pool, ls_pool_task *task_fn, void *context, int tasks);

#endif
