// thread.h - the program's own threads, and waiting for them.
#ifndef LS_BASE_THREAD_H
#define LS_BASE_THREAD_H

#include <pthread.h>
#include <time.h>

// Starts a thread in the caller's scope (scope.h) that takes no signals: the main thread handles them. Returns 0 or
// pthread_create's error.
int ls_thread_start(pthread_t *thread, void *(*run)(void *), void *context);

// Initialises a condition whose timed waits use the monotonic clock, because the wall clock may stop or jump. Every
// condition of the program is made by this function.
void ls_cond_init(pthread_cond_t *cond);
// Returns the time `seconds` from now, for pthread_cond_timedwait on a condition that ls_cond_init made. seconds:
// finite, at least 0.
struct timespec ls_cond_deadline(double seconds);

#endif
