#include "dist/watchdog.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "dist/comm_backend.h"

struct ls_watchdog {
    ls_comm *comm;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake; // the timeout changed, or stop
    double timeout_s;
    int stop;
};

void ls_life_wait_begins(ls_life *life, const char *what, int bucket) {
    atomic_store(&life->what, what);
    atomic_store(&life->bucket, bucket);
    atomic_fetch_add(&life->sequence, 1);
}

void ls_life_wait_ends(ls_life *life) {
    atomic_fetch_add(&life->sequence, 1);
}

void ls_life_progress(ls_life *life, int bucket) {
    atomic_store(&life->bucket, bucket);
    atomic_fetch_add(&life->sequence, 2);
}

static double tick_of(double timeout_s) {
    return timeout_s / 20 < 0.25 ? timeout_s / 20 : 0.25;
}

static void fire(ls_watchdog *watchdog, double timeout_s) {
    ls_comm *comm = watchdog->comm;
    const char *phase = atomic_load(&comm->life.phase), *what = atomic_load(&comm->life.what);
    int64_t update = (int64_t)atomic_load(&comm->life.update);
    int bucket = atomic_load(&comm->life.bucket);
    char where[96], wait[96], line[512];
    snprintf(where, sizeof where, update < 0 ? "%s" : "%s of update %lld", phase, (long long)update);
    snprintf(wait, sizeof wait, bucket < 0 ? "%s" : "%s %d", what, bucket);
    int bytes = snprintf(line, sizeof line,
        "error: rank %d on %s: no answer from its peers for %g s in %s (%s): a rank died, hangs or lost its network; "
        "raise "
        "dist.timeout if it is only slow\n",
        comm->facts.rank, comm->facts.host, timeout_s, where, wait);
    // stdio's locks may be held by a thread that hangs
    ssize_t written = write(STDERR_FILENO, line, (size_t)bytes);
    (void)written; // nobody is left to be told
    comm->backend->abort(comm, LS_COMM);
}

static struct timespec after(double seconds) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    int64_t ns = t.tv_nsec + (int64_t)(seconds * 1e9);
    return (struct timespec){ t.tv_sec + ns / 1000000000, ns % 1000000000 };
}

static void *watch(void *context) {
    ls_watchdog *watchdog = context;
    ls_life *life = &watchdog->comm->life;
    double waited_s = 0, rank = watchdog->comm->facts.rank, later_s = rank < 4 ? 2 * rank : 8;
    uint_fast64_t last = 0;
    pthread_mutex_lock(&watchdog->mutex);
    while (!watchdog->stop) {
        double timeout_s = watchdog->timeout_s;
        if (timeout_s <= 0) {
            waited_s = 0;
            pthread_cond_wait(&watchdog->wake, &watchdog->mutex);
            continue;
        }
        struct timespec next = after(tick_of(timeout_s));
        if (pthread_cond_timedwait(&watchdog->wake, &watchdog->mutex, &next) != ETIMEDOUT) continue;
        uint_fast64_t sequence = atomic_load(&life->sequence);
        int goes_on = sequence % 2 == 1 && sequence == last;
        waited_s = goes_on ? waited_s + tick_of(timeout_s) : 0;
        last = sequence;
        if (waited_s < timeout_s + later_s) continue;
        pthread_mutex_unlock(&watchdog->mutex);
        fire(watchdog, timeout_s);
    }
    pthread_mutex_unlock(&watchdog->mutex);
    return NULL;
}

int ls_quiet_thread(pthread_t *thread, void *(*run)(void *), void *context) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(thread, NULL, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

ls_status ls_watchdog_new(ls_comm *comm, ls_watchdog **out) {
    ls_watchdog *watchdog = calloc(1, sizeof *watchdog);
    if (!watchdog) return ls_fail(LS_DEVICE, "watchdog: no memory");
    watchdog->comm = comm;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&watchdog->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&watchdog->mutex, NULL);
    int rc = ls_quiet_thread(&watchdog->thread, watch, watchdog);
    if (rc != 0) {
        free(watchdog);
        return ls_fail(
            LS_DEVICE, "watchdog: pthread_create: %s; is the number of processes limited (ulimit -u)?", strerror(rc));
    }
    *out = watchdog;
    return LS_SUCCESS;
}

void ls_watchdog_set_timeout(ls_watchdog *watchdog, double timeout_s) {
    pthread_mutex_lock(&watchdog->mutex);
    watchdog->timeout_s = timeout_s;
    pthread_cond_signal(&watchdog->wake);
    pthread_mutex_unlock(&watchdog->mutex);
}

void ls_watchdog_free(ls_watchdog *watchdog) {
    if (!watchdog) return;
    pthread_mutex_lock(&watchdog->mutex);
    watchdog->stop = 1;
    pthread_cond_signal(&watchdog->wake);
    pthread_mutex_unlock(&watchdog->mutex);
    pthread_join(watchdog->thread, NULL);
    pthread_cond_destroy(&watchdog->wake);
    pthread_mutex_destroy(&watchdog->mutex);
    free(watchdog);
}
