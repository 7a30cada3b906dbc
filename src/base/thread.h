// thread.h - starts the program's own threads.
#ifndef LS_BASE_THREAD_H
#define LS_BASE_THREAD_H

#include <pthread.h>

// A thread that takes no signals: they are for the main thread. 0, or pthread_create's error.
int ls_thread_start(pthread_t *thread, void *(*run)(void *), void *context);

#endif
