// pool.h - the threads of one rank's computation: a fixed team that runs numbered tasks.
//
// Waiting spins for a bounded time (about 50 us), then sleeps, so that oversubscribed cores are shared, not burnt.
// Each thread begins with a share of the tasks that lie side by side, the same share of every run: where runs number
// their tasks along the same data (samples), a thread finds what it wrote before in its own cache, which on processors
// of several caches, or sockets, is a good deal nearer than another thread's. Then it takes what others have left. So
// which thread runs a task is not determined, and a task's result must depend on its number only.
#ifndef LS_BASE_POOL_H
#define LS_BASE_POOL_H

#include "base/status.h"

typedef struct ls_pool ls_pool;
typedef void ls_pool_task(void *context, int task, int thread); // thread: 0..threads-1, for per-thread scratch

// threads >= 1, the caller being one of them: a pool of 1 has no thread of its own and calls tasks directly.
LS_CHECKED ls_status ls_pool_new(int threads, ls_pool **out);
void ls_pool_free(ls_pool *pool);
int ls_pool_threads(const ls_pool *pool);
// Runs tasks 0..tasks-1 and returns when all are done. Not re-entrant; one caller at a time. Allocates nothing.
void ls_pool_run(ls_pool *pool, ls_pool_task *task_fn, void *context, int tasks);

#endif
