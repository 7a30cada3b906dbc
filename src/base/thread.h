// thread.h - the program's own threads, and waiting for them.
#ifndef LS_BASE_THREAD_H
#define LS_BASE_THREAD_H

#include <pthread.h>
#include <time.h>

// A thread that takes no signals: they are for the main thread. 0, or pthread_create's error.
int ls_thread_start(pthread_t *thread, void *(*run)(void *), void *context);

// Initialises a condition whose timed waits use the monotonic clock: the wall clock may stand still, jump or be in
// 1970. Every condition of the program is made by this function.
void ls_cond_init(pthread_cond_t *cond);
// The time `seconds` from now, at least 0 and finite, for pthread_cond_timedwait on such a condition.
struct timespec ls_cond_deadline(double seconds);

#endif
