#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include "base/scope.h"

// What a thread of one of several runs begins with.
typedef struct {
    void *(*run)(void *);
    void *context;
    ls_scope *scope;
} beginning;

static void *run_in_scope(void *argument) {
    const beginning b = *(beginning *)argument;
    free(argument);
    ls_scope_enter(b.scope);
    return b.run(b.context);
}

static int create(pthread_t *thread, void *(*run)(void *), void *context) {
    if (!ls_scope_is_of_run()) return pthread_create(thread, NULL, run, context);
    beginning *b = malloc(sizeof *b);
    if (!b) return ENOMEM;
    *b = (beginning){ run, context, ls_scope_now() };
    const int error = pthread_create(thread, NULL, run_in_scope, b);
    if (error) free(b);
    return error;
}

int ls_thread_start(pthread_t *thread, void *(*run)(void *), void *context) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); // a new thread inherits this mask
    int error = create(thread, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

void ls_cond_init(pthread_cond_t *cond) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

struct timespec ls_cond_deadline(double seconds) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)seconds;
    at.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}
