#include "dist/watch/collective_monitor.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/memory.h"
#include "base/thread.h"

struct ls_collective_monitor {
    const ls_collective_api *api;
    ls_collective *collective;
    pthread_t thread;
    pthread_mutex_t mutex; // guards what follows; not held during a call into the library
    pthread_cond_t wake;
    int stop;
    ls_collective_progress progress;
    ls_status health;
};

enum { TICK_NS = 250000000 };

static struct timespec next_tick(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += TICK_NS;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static void *ask(void *context) {
    ls_collective_monitor *watch = context;
    pthread_mutex_lock(&watch->mutex);
    while (!watch->stop) {
        pthread_mutex_unlock(&watch->mutex);
        ls_collective_progress progress = watch->api->progress(watch->collective);
        ls_status health = watch->api->health(watch->collective);
        pthread_mutex_lock(&watch->mutex);
        watch->progress = progress;
        ls_keep_first(&watch->health, health);
        struct timespec until = next_tick();
        while (!watch->stop && pthread_cond_timedwait(&watch->wake, &watch->mutex, &until) != ETIMEDOUT) continue;
    }
    pthread_mutex_unlock(&watch->mutex);
    return NULL;
}

ls_status ls_collective_monitor_new(
    const ls_collective_api *api, ls_collective *collective, ls_collective_monitor **out) {
    ls_collective_monitor *watch;
    LS_TRY(LS_NEW(watch, 1, "watchdog of the device's collectives"));
    watch->api = api;
    watch->collective = collective;
    watch->progress.last_tag = -1;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&watch->mutex, NULL);
    pthread_cond_init(&watch->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int rc = ls_thread_start(&watch->thread, ask, watch);
    if (rc != 0) {
        free(watch);
        return ls_fail(LS_DEVICE, "watchdog of the device's collectives: pthread_create: %s", strerror(rc));
    }
    *out = watch;
    return LS_SUCCESS;
}

void ls_collective_monitor_free(ls_collective_monitor *watch) {
    if (!watch) return;
    pthread_mutex_lock(&watch->mutex);
    watch->stop = 1;
    pthread_cond_signal(&watch->wake);
    pthread_mutex_unlock(&watch->mutex);
    pthread_join(watch->thread, NULL);
    pthread_cond_destroy(&watch->wake);
    pthread_mutex_destroy(&watch->mutex);
    free(watch);
}

int ls_collective_monitor_failed(ls_collective_monitor *watch, char *text, size_t bytes) {
    pthread_mutex_lock(&watch->mutex);
    int failed = ls_failed(watch->health);
    if (failed) snprintf(text, bytes, "%s", watch->health.text);
    pthread_mutex_unlock(&watch->mutex);
    return failed;
}

ls_collective_progress ls_collective_monitor_progress(ls_collective_monitor *watch) {
    pthread_mutex_lock(&watch->mutex);
    ls_collective_progress progress = watch->progress;
    pthread_mutex_unlock(&watch->mutex);
    return progress;
}
