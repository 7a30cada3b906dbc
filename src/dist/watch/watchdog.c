#include "dist/watch/watchdog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "dist/watch/collective_monitor.h"
#include "dist/watch/hang_report.h"

struct ls_watchdog {
    ls_watched_ranks ranks;
    ls_life *life;
    ls_flight_recorder *recorder;
    ls_heartbeat *heartbeat;
    pthread_t thread;
    int started;
    int wake_fd; // wakes the thread: the timeout or `stop` changed
    atomic_int stop;
    _Atomic(double) timeout_s;
    pthread_mutex_t device_mutex;  // guards the field `device`
    ls_collective_monitor *device; // NULL: there are no collectives to watch

    // Used by the watchdog's thread alone.
    double life_s, phase_s; // since the last sign of life; since phase or update changed
    double until_send_s;    // until the next record to the monitors
    double quiet_s;         // since another rank has written why the job ends
    double reported_s;      // since this rank has reported that another one is gone; below 0: it has not
    uint_fast64_t sequence;
    const char *phase;
    int64_t update, completed;
    char text[LS_HANG_REPORT_BYTES];
};

static const double tick_max_s = 0.25, tick_last_s = 4;
static const double gone_s = 0.4;   // a launcher that ends all ranks does so within this time
static const double error_s = 0.5;  // wait after an error, so that the first of several failing ranks is named
static const double ending_s = 10;  // time for a rank that has written why it ends the job
static const double launcher_s = 5; // time for the launcher to end the job, after a rank is gone

// --- signs of life -------------------------------------------------------------------------------

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

static atomic_int ended_by; // ls_ended_by

int ls_life_claim_end(ls_ended_by by) {
    int none = LS_ENDED_BY_NONE;
    return atomic_compare_exchange_strong(&ended_by, &none, (int)by) || none == (int)by;
}

int ls_life_end_claimed(void) {
    return atomic_load(&ended_by) != LS_ENDED_BY_NONE;
}

// --- this rank's record --------------------------------------------------------------------------

static void fill_tail(ls_flight_recorder *recorder, ls_heartbeat_record *record) {
    double now = ls_clock_seconds();
    for (int64_t n = record->begun - LS_HEARTBEAT_TAIL; n < record->begun; n++) {
        ls_flight_recorder_entry e;
        if (!ls_flight_recorder_read(recorder, n, &e)) continue;
        record->tail[record->tail_count++] = (ls_heartbeat_entry){ .number = n,
            .bytes = e.bytes,
            .update = e.update,
            .kind = (int32_t)e.kind,
            .bucket = e.bucket,
            .age_s = (float)(now - e.launched_s),
            .seconds = e.ended_s > 0 ? (float)(e.ended_s - e.launched_s) : -1 };
    }
}

// Fills in this rank's record, except for its times and its device's state, which only the watchdog's thread adds. Any
// thread may call it.
static void fill_record(ls_watchdog *watchdog, ls_heartbeat_record *record) {
    ls_life *life = watchdog->life;
    ls_flight_recorder *recorder = watchdog->recorder;
    *record = (ls_heartbeat_record){ .bucket = -1,
        .rank = watchdog->ranks.rank,
        .gone = -1,
        .device_tag = -1,
        .device_done = -1,
        .end = ls_life_end_claimed()        ? LS_RANK_REPORTED
               : atomic_load(&life->leaves) ? LS_RANK_LEAVES
                                            : LS_RANK_STAYS,
        .update = (int64_t)atomic_load(&life->update),
        .begun = (int64_t)atomic_load(&recorder->begun),
        .ended = (int64_t)atomic_load(&recorder->ended) };
    snprintf(record->phase, sizeof record->phase, "%s", atomic_load(&life->phase));
    fill_tail(recorder, record);
    if (atomic_load(&life->naps)) record->state = LS_RANK_NAPS;
    if (atomic_load(&life->sequence) % 2 == 0) return;
    record->state = LS_RANK_WAITS;
    record->bucket = atomic_load(&life->bucket);
    snprintf(record->what, sizeof record->what, "%s", atomic_load(&life->what));
}

static void poll_device(ls_watchdog *watchdog, ls_heartbeat_record *record) {
    pthread_mutex_lock(&watchdog->device_mutex);
    if (watchdog->device) {
        ls_collective_progress progress = ls_collective_monitor_progress(watchdog->device);
        record->device_done = progress.completed;
        record->device_tag = progress.last_tag;
        ls_collective_monitor_failed(watchdog->device, record->error, sizeof record->error);
    }
    pthread_mutex_unlock(&watchdog->device_mutex);
}

// Adds one tick to this rank's times. Sets life_s to 0 after a sign of life, and phase_s after a change of the phase.
static void observe(ls_watchdog *watchdog, ls_heartbeat_record *record, double tick_s) {
    const char *phase = atomic_load(&watchdog->life->phase);
    uint_fast64_t sequence = atomic_load(&watchdog->life->sequence);
    int alive = sequence != watchdog->sequence || record->device_done > watchdog->completed;
    int moved = phase != watchdog->phase || record->update != watchdog->update;
    watchdog->life_s = alive ? 0 : watchdog->life_s + tick_s;
    watchdog->phase_s = moved ? 0 : watchdog->phase_s + tick_s;
    watchdog->sequence = sequence;
    watchdog->completed = record->device_done;
    watchdog->phase = phase;
    watchdog->update = record->update;
    record->life_s = (float)watchdog->life_s;
    record->phase_s = (float)watchdog->phase_s;
}

// --- firing --------------------------------------------------------------------------------------

static double first_s(double a, double b) {
    return a < b ? a : b;
}

// Returns the time between two records. It grows with the number of ranks: a monitor gets some hundred records a
// second.
static double send_tick(const ls_watchdog *watchdog, double timeout_s) {
    double tick_s = watchdog->ranks.world_size / 256.0;
    if (tick_s < tick_max_s) tick_s = tick_max_s;
    return first_s(first_s(tick_s, tick_last_s), timeout_s > 4 ? timeout_s / 5 : tick_max_s);
}

// Returns how long this rank waits for others to end the job first: 0 s for the second monitor if rank 0 is silent.
static double turn_of(const ls_watchdog *watchdog, double timeout_s) {
    int monitor = ls_heartbeat_monitor(watchdog->heartbeat), rank = watchdog->ranks.rank;
    const ls_heartbeat_row *first = ls_heartbeat_get_table(watchdog->heartbeat)->row;
    if (monitor == 0) return 0;
    if (monitor == 1) return first->gone || first->silent_s >= 4 * send_tick(watchdog, timeout_s) ? 0 : 2;
    return rank < 4 ? 2 + 2 * rank : 8;
}

// Returns the longest wait of any rank in the table, this rank included.
static double longest_wait(const ls_heartbeat_table *table) {
    double longest = 0;
    for (int r = 0; r < table->world_size; r++) {
        const ls_heartbeat_row *row = &table->row[r];
        if (!row->heard || row->gone || row->last.state != LS_RANK_WAITS) continue;
        if ((double)row->last.life_s > longest) longest = (double)row->last.life_s;
    }
    return longest;
}

// Returns the longest silence of a rank that this rank waits for, but no more than this rank's own wait.
static double longest_silence(const ls_watchdog *watchdog, const ls_heartbeat_table *table) {
    const ls_heartbeat_row *row = table->row;
    if (row[table->rank].last.state == LS_RANK_COMPUTES) return 0;
    double longest = 0;
    for (int r = 0; r < table->world_size; r++)
        if (row[r].heard && row[r].last.end == LS_RANK_STAYS && row[r].silent_s > longest) longest = row[r].silent_s;
    return first_s(longest, watchdog->life_s);
}

static double longest_error(const ls_heartbeat_table *table) {
    double longest = 0;
    for (int r = 0; r < table->world_size; r++)
        if (table->row[r].error_s > longest) longest = table->row[r].error_s;
    return longest;
}

static double longest_gone(const ls_heartbeat_table *table) {
    double longest = 0;
    for (int r = 0; r < table->world_size; r++)
        if (table->row[r].gone && table->row[r].last.end == LS_RANK_STAYS && table->row[r].gone_s > longest)
            longest = table->row[r].gone_s;
    return longest;
}

static int another_ends_it(const ls_heartbeat_table *table) {
    for (int r = 0; r < table->world_size; r++)
        if (r != table->rank && table->row[r].last.end == LS_RANK_REPORTED) return 1;
    return 0;
}

// Writes the report that names the culprit. Returns 0 if this rank's own message has already named why the job ends.
static int report(ls_watchdog *watchdog, double timeout_s) {
    if (!ls_life_claim_end(LS_ENDED_BY_WATCHDOG)) return 0;
    ls_watchdog_notify(watchdog);
    const ls_heartbeat_table *table = ls_heartbeat_get_table(watchdog->heartbeat);
    // A rank that was stopped has been silent for about as long as the others have waited for it.
    double silent_s = 3 * send_tick(watchdog, timeout_s), waited_s = longest_wait(table);
    if (silent_s < waited_s / 2) silent_s = waited_s / 2;
    int bytes = ls_hang_report_write(table, (ls_hang_report_limits){ timeout_s, silent_s }, watchdog->text);
    ls_log_bar("");
    // not through stdio, whose locks a thread that hangs may hold
    ssize_t written = write(STDERR_FILENO, watchdog->text, (size_t)bytes);
    (void)written; // there is no other way to report a failed write
    return 1;
}

static void check_ranks(ls_watchdog *watchdog, double timeout_s, double tick_s) {
    const ls_heartbeat_table *table = ls_heartbeat_get_table(watchdog->heartbeat);
    double turn_s = turn_of(watchdog, timeout_s);
    if (watchdog->reported_s >= 0) {
        watchdog->reported_s += tick_s;
        if (watchdog->reported_s >= launcher_s + turn_s) watchdog->ranks.abort(watchdog->ranks.comm, LS_COMM);
        return;
    }
    if (another_ends_it(table) && watchdog->quiet_s < ending_s) {
        watchdog->quiet_s += tick_s;
        return;
    }
    int late = longest_wait(table) >= timeout_s + turn_s || longest_silence(watchdog, table) >= timeout_s + turn_s;
    if (late || longest_error(table) >= error_s + turn_s) {
        if (report(watchdog, timeout_s)) watchdog->ranks.abort(watchdog->ranks.comm, LS_COMM);
        return;
    }
    if (ls_heartbeat_monitor(watchdog->heartbeat) >= 0 && !atomic_load(&watchdog->life->leaves) &&
        longest_gone(table) >= gone_s + turn_s && report(watchdog, timeout_s))
        watchdog->reported_s = 0;
}

static void tick(ls_watchdog *watchdog, double timeout_s, double tick_s, int send) {
    ls_heartbeat_record record;
    fill_record(watchdog, &record);
    poll_device(watchdog, &record);
    observe(watchdog, &record, tick_s);
    watchdog->until_send_s -= tick_s;
    if (send || watchdog->until_send_s <= 0) {
        ls_heartbeat_send(watchdog->heartbeat, &record);
        watchdog->until_send_s = send_tick(watchdog, timeout_s);
    }
    ls_heartbeat_row *mine = &ls_heartbeat_get_table(watchdog->heartbeat)->row[record.rank];
    mine->last = record;
    mine->heard = 1;
    mine->silent_s = 0;
    check_ranks(watchdog, timeout_s, tick_s);
}

static void *watch(void *context) {
    ls_watchdog *watchdog = context;
    while (!atomic_load(&watchdog->stop)) {
        double timeout_s = atomic_load(&watchdog->timeout_s);
        double tick_s = timeout_s > 0 ? first_s(timeout_s / 20, tick_max_s) : -1;
        int woken = ls_heartbeat_wait(watchdog->heartbeat, tick_s, watchdog->wake_fd);
        uint64_t unused;
        if (woken && read(watchdog->wake_fd, &unused, sizeof unused) < 0) unused = 0; // woken by a process's end
        timeout_s = atomic_load(&watchdog->timeout_s);
        if (timeout_s > 0) tick(watchdog, timeout_s, woken ? 0 : tick_s, woken);
    }
    return NULL;
}

// --- the whole -----------------------------------------------------------------------------------

static ls_status start(ls_watchdog *watchdog) {
    LS_TRY(ls_heartbeat_open(&watchdog->ranks, &watchdog->heartbeat));
    watchdog->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (watchdog->wake_fd < 0)
        return ls_fail(LS_DEVICE, "watchdog: eventfd: %m; is the number of files limited (ulimit -n)?");
    ls_watchdog_notify(watchdog); // so that the monitors hear of every rank before the first collective
    int rc = ls_thread_start(&watchdog->thread, watch, watchdog);
    if (rc != 0)
        return ls_fail(
            LS_DEVICE, "watchdog: pthread_create: %s; is the number of processes limited (ulimit -u)?", strerror(rc));
    watchdog->started = 1;
    return LS_SUCCESS;
}

ls_status ls_watchdog_new(
    const ls_watched_ranks *ranks, ls_life *life, ls_flight_recorder *recorder, ls_watchdog **out) {
    ls_watchdog *watchdog = ls_new(1, sizeof *watchdog, "watchdog");
    watchdog->ranks = *ranks;
    watchdog->life = life;
    watchdog->recorder = recorder;
    watchdog->wake_fd = -1;
    watchdog->reported_s = -1;
    watchdog->completed = -1;
    pthread_mutex_init(&watchdog->device_mutex, NULL);
    ls_status status = start(watchdog);
    return LS_GIVE_OR_FREE(status, watchdog, out, ls_watchdog_free);
}

static void wake(ls_watchdog *watchdog) {
    uint64_t one = 1;
    ssize_t written = write(watchdog->wake_fd, &one, sizeof one);
    (void)written; // it fails only if the thread is awake anyway
}

void ls_watchdog_set_timeout(ls_watchdog *watchdog, double timeout_s) {
    atomic_store(&watchdog->timeout_s, timeout_s);
    wake(watchdog);
}

ls_status ls_watchdog_set_device(ls_watchdog *watchdog, const ls_collective_api *api, ls_collective *collective) {
    ls_collective_monitor *next = NULL;
    if (collective) LS_TRY(ls_collective_monitor_new(api, collective, &next));
    pthread_mutex_lock(&watchdog->device_mutex);
    ls_collective_monitor *before = watchdog->device;
    watchdog->device = next;
    pthread_mutex_unlock(&watchdog->device_mutex);
    ls_collective_monitor_free(before);
    return LS_SUCCESS;
}

void ls_watchdog_notify(ls_watchdog *watchdog) {
    ls_heartbeat_record record;
    fill_record(watchdog, &record);
    ls_heartbeat_send(watchdog->heartbeat, &record);
}

void ls_watchdog_free(ls_watchdog *watchdog) {
    if (!watchdog) return;
    if (watchdog->started) {
        atomic_store(&watchdog->stop, 1);
        wake(watchdog);
        pthread_join(watchdog->thread, NULL);
    }
    if (watchdog->wake_fd >= 0) close(watchdog->wake_fd);
    ls_collective_monitor_free(watchdog->device);
    ls_heartbeat_close(watchdog->heartbeat);
    pthread_mutex_destroy(&watchdog->device_mutex);
    free(watchdog);
}
