#include "dist/watch/collective_monitor.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "system/ticker.h"

struct ls_collective_monitor {
    const ls_collective_api *api;
    ls_collective *collective;
    ls_ticker *ticker;
    pthread_mutex_t mutex; // guards the fields below; not held during calls into the library
    ls_collective_progress progress;
    ls_status health;
};

static const double period_s = 0.25;

static void poll_state(void *context) {
    ls_collective_monitor *monitor = context;
    ls_collective_progress progress = monitor->api->progress(monitor->collective);
    ls_status health = monitor->api->health(monitor->collective);
    pthread_mutex_lock(&monitor->mutex);
    monitor->progress = progress;
    ls_keep_first(&monitor->health, health);
    pthread_mutex_unlock(&monitor->mutex);
}

ls_status ls_collective_monitor_new(
    const ls_collective_api *api, ls_collective *collective, ls_collective_monitor **out) {
    static const char what[] = "watchdog of the device's collectives";
    ls_collective_monitor *monitor = ls_new(1, sizeof *monitor, "%s", what);
    monitor->api = api;
    monitor->collective = collective;
    monitor->progress.last_tag = -1;
    pthread_mutex_init(&monitor->mutex, NULL);
    ls_status status = ls_ticker_start(what, period_s, poll_state, monitor, &monitor->ticker);
    return LS_GIVE_OR_FREE(status, monitor, out, ls_collective_monitor_free);
}

void ls_collective_monitor_free(ls_collective_monitor *monitor) {
    if (!monitor) return;
    ls_ticker_stop(monitor->ticker);
    pthread_mutex_destroy(&monitor->mutex);
    free(monitor);
}

int ls_collective_monitor_failed(ls_collective_monitor *monitor, char *text, size_t bytes) {
    pthread_mutex_lock(&monitor->mutex);
    int failed = ls_failed(monitor->health);
    if (failed) snprintf(text, bytes, "%s", monitor->health.text);
    pthread_mutex_unlock(&monitor->mutex);
    return failed;
}

ls_collective_progress ls_collective_monitor_progress(ls_collective_monitor *monitor) {
    pthread_mutex_lock(&monitor->mutex);
    ls_collective_progress progress = monitor->progress;
    pthread_mutex_unlock(&monitor->mutex);
    return progress;
}
