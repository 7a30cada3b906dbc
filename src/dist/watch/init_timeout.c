#include "dist/watch/init_timeout.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/memory.h"
#include "base/thread.h"

static const double default_s = 300, tick_s = 0.25;
// Rank 0 speaks first, rank 1 so much later, then the others: a job ends with one message.
static const double turn_s = 2;

struct ls_init_timeout {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int over; // under the lock
    double limit_s;
    ls_launcher launcher;
};

double ls_init_timeout_seconds(void) {
    const char *text = getenv("LOCKSTEP_START_TIMEOUT");
    return text && *text ? strtod(text, NULL) : default_s;
}

static void give_up(const ls_init_timeout *guard) {
    char host[256] = "?", of[32] = "";
    if (guard->launcher.size > 0) snprintf(of, sizeof of, " of %d", guard->launcher.size);
    gethostname(host, sizeof host - 1);
    fprintf(stderr,
        "error: rank %d%s on %s (pid %d) has waited %g s for the others while MPI starts: a rank hangs, is stopped, or "
        "its host cannot be reached (LOCKSTEP_START_TIMEOUT in the environment gives more seconds; 0: no limit)\n",
        guard->launcher.rank, of, host, (int)getpid(), guard->limit_s);
    _exit(LS_COMM);
}

static void *watch(void *context) {
    ls_init_timeout *guard = context;
    int turn = guard->launcher.rank;
    double waited_s = -turn_s * (turn < 2 ? turn : 2);
    pthread_mutex_lock(&guard->lock);
    while (!guard->over && waited_s < guard->limit_s) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += (long)(tick_s * 1e9);
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (pthread_cond_timedwait(&guard->changed, &guard->lock, &until) == ETIMEDOUT) waited_s += tick_s;
    }
    if (!guard->over) give_up(guard);
    pthread_mutex_unlock(&guard->lock);
    return NULL;
}

ls_status ls_init_timeout_new(const ls_launcher *launcher, ls_init_timeout **out) {
    *out = NULL;
    double limit_s = ls_init_timeout_seconds();
    if (!(limit_s > 0)) return LS_SUCCESS;
    ls_init_timeout *guard;
    LS_TRY(LS_NEW(guard, 1, "watch over MPI's start"));
    guard->limit_s = limit_s;
    guard->launcher = *launcher;
    pthread_mutex_init(&guard->lock, NULL);
    pthread_cond_init(&guard->changed, NULL);
    int rc = ls_thread_start(&guard->thread, watch, guard);
    if (rc) {
        free(guard);
        return ls_fail(LS_DEVICE, "the thread that watches MPI's start: pthread_create: %s", strerror(rc));
    }
    *out = guard;
    return LS_SUCCESS;
}

void ls_init_timeout_free(ls_init_timeout *guard) {
    if (!guard) return;
    pthread_mutex_lock(&guard->lock);
    guard->over = 1;
    pthread_cond_signal(&guard->changed);
    pthread_mutex_unlock(&guard->lock);
    pthread_join(guard->thread, NULL);
    pthread_cond_destroy(&guard->changed);
    pthread_mutex_destroy(&guard->lock);
    free(guard);
}
