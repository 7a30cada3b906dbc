#include "dist/watch/collective_monitor.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "base/ticker.h"

struct ls_collective_monitor {
    const ls_collective_api *api;
    ls_collective *collective;
    ls_ticker *ticker;
    pthread_mutex_t mutex; // guards what follows; not held during a call into the library
    ls_collective_progress progress;
    ls_status health;
};

static const double period_s = 0.25;

static void ask(void *context) {
    ls_collective_monitor *watch = context;
    ls_collective_progress progress = watch->api->progress(watch->collective);
    ls_status health = watch->api->health(watch->collective);
    pthread_mutex_lock(&watch->mutex);
    watch->progress = progress;
    ls_keep_first(&watch->health, health);
    pthread_mutex_unlock(&watch->mutex);
}

ls_status ls_collective_monitor_new(
    const ls_collective_api *api, ls_collective *collective, ls_collective_monitor **out) {
    static const char what[] = "watchdog of the device's collectives";
    ls_collective_monitor *watch;
    LS_TRY(LS_NEW(watch, 1, "%s", what));
    watch->api = api;
    watch->collective = collective;
    watch->progress.last_tag = -1;
    pthread_mutex_init(&watch->mutex, NULL);
    ls_status status = ls_ticker_start(what, period_s, ask, watch, &watch->ticker);
    return LS_GIVE(status, watch, out, ls_collective_monitor_free);
}

void ls_collective_monitor_free(ls_collective_monitor *watch) {
    if (!watch) return;
    ls_ticker_stop(watch->ticker);
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
