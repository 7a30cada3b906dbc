#include "base/thread.h"

#include <signal.h>

int ls_thread_start(pthread_t *thread, void *(*run)(void *), void *context) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); // a new thread begins with its starter's
    int error = pthread_create(thread, NULL, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}
