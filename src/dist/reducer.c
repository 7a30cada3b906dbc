#include "dist/reducer.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include "base/clock.h"
#include "dist/comm_backend.h"

// With overlap, all buckets that were launched are in flight at once and progressed by this rank's communication
// thread. It may share its core with a compute thread, so between looks it naps: short after something happened, longer
// while the peers are late. Only while this rank's compute thread waits (its core is then free) it yields instead, for
// a bounded time.
//
// A position counts launches since the reducer was made; what belongs to it lies at position % range_count: wait leaves
// nothing in flight, so an update never meets the one before.
struct ls_reducer {
    ls_comm *comm;
    char *arena;
    ls_dtype dtype;
    int range_count;
    ls_range *range;
    ls_channel *channel; // NULL: no overlap
    pthread_t thread;

    pthread_mutex_t mutex; // guards what follows
    pthread_cond_t work;   // for the communication thread: launched, waiting or stop changed
    pthread_cond_t idle;   // for the compute thread: all is done, or failed
    int64_t launched, done;
    int *order;       // position -> bucket
    int waiting;      // the compute thread is in wait
    int stop;         // the communication thread ends
    double since_s;   // launched > done since then
    ls_status status; // the first failure; after it nothing is started
    double exposed_s, busy_s;
};

// What only the communication thread knows.
typedef struct {
    int64_t oldest, started; // positions: oldest not complete, next to start
    double active_s, nap_s;  // when something happened last; the next nap
    unsigned char *complete; // by position
} flight;

static const double nap_first_s = 50e-6, nap_last_s = 500e-6, nap_growth = 1.3, yield_s = 1e-3;

static ls_status start_launched(ls_reducer *reducer, flight *f, int64_t launched) {
    for (; f->started < launched; f->started++) {
        int slot = (int)(f->started % reducer->range_count), bucket = reducer->order[slot];
        ls_range range = reducer->range[bucket];
        void *data = reducer->arena + (size_t)range.first * ls_dtype_bytes(reducer->dtype);
        f->complete[slot] = 0;
        LS_TRY(reducer->comm->backend->channel_start(reducer->channel, slot, data, range.count, reducer->dtype));
    }
    return LS_SUCCESS;
}

// One look at everything in flight; *news: how many were completed.
static ls_status look(ls_reducer *reducer, flight *f, int *news) {
    *news = 0;
    for (int64_t i = f->oldest; i < f->started; i++) {
        int slot = (int)(i % reducer->range_count), done = 0;
        if (f->complete[slot]) continue;
        LS_TRY(reducer->comm->backend->channel_test(reducer->channel, slot, &done));
        f->complete[slot] = (unsigned char)(done != 0);
        *news += done != 0;
    }
    while (f->oldest < f->started && f->complete[f->oldest % reducer->range_count]) f->oldest++;
    return LS_SUCCESS;
}

static struct timespec after(double seconds) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    int64_t ns = t.tv_nsec + (int64_t)(seconds * 1e9);
    return (struct timespec){ t.tv_sec + ns / 1000000000, ns % 1000000000 };
}

// Books what a look found. The mutex is held.
static void book(ls_reducer *reducer, int news, ls_status status) {
    reducer->done += news;
    ls_keep_first(&reducer->status, status);
    if (reducer->done < reducer->launched && !ls_failed(status)) {
        int next = reducer->order[reducer->done % reducer->range_count];
        if (news > 0 && reducer->waiting) ls_life_progress(&reducer->comm->life, next);
        return;
    }
    if (news > 0) reducer->busy_s += ls_clock_seconds() - reducer->since_s;
    pthread_cond_signal(&reducer->idle);
}

// Nothing new was seen: gives the core away until the next look. The mutex is held, and is released meanwhile.
static void pause_between_looks(ls_reducer *reducer, flight *f) {
    if (reducer->waiting && ls_clock_seconds() - f->active_s < yield_s) {
        pthread_mutex_unlock(&reducer->mutex);
        sched_yield();
        pthread_mutex_lock(&reducer->mutex);
        return;
    }
    struct timespec next = after(f->nap_s);
    pthread_cond_timedwait(&reducer->work, &reducer->mutex, &next);
    f->nap_s = f->nap_s * nap_growth < nap_last_s ? f->nap_s * nap_growth : nap_last_s;
}

static void *communicate(void *context) {
    ls_reducer *reducer = context;
    flight f = { .complete = (unsigned char *)(reducer->order + reducer->range_count) };
    int64_t launched = 0;
    int waiting = 0;
    prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0); // ns; the default of 50 us would triple a short nap
    pthread_mutex_lock(&reducer->mutex);
    while (!reducer->stop) {
        if (reducer->done == reducer->launched || ls_failed(reducer->status)) {
            pthread_cond_wait(&reducer->work, &reducer->mutex);
            continue;
        }
        int changed = launched != reducer->launched || waiting != reducer->waiting;
        launched = reducer->launched;
        waiting = reducer->waiting;
        pthread_mutex_unlock(&reducer->mutex);

        int news = 0;
        ls_status status = start_launched(reducer, &f, launched);
        if (!ls_failed(status)) status = look(reducer, &f, &news);
        if (news > 0 || changed) {
            f.active_s = ls_clock_seconds();
            f.nap_s = nap_first_s;
        }

        pthread_mutex_lock(&reducer->mutex);
        if (news > 0 || ls_failed(status))
            book(reducer, news, status);
        else if (launched == reducer->launched && waiting == reducer->waiting)
            pause_between_looks(reducer, &f);
    }
    pthread_mutex_unlock(&reducer->mutex);
    return NULL;
}

static ls_status start_thread(ls_reducer *reducer) {
    LS_TRY(reducer->comm->backend->channel_new(reducer->comm, reducer->range_count, &reducer->channel));
    int rc = ls_quiet_thread(&reducer->thread, communicate, reducer);
    if (rc == 0) return LS_SUCCESS;
    reducer->comm->backend->channel_free(reducer->channel);
    reducer->channel = NULL;
    return ls_fail(LS_DEVICE, "reducer: pthread_create: %s", strerror(rc));
}

static ls_status check(ls_buffer arena, ls_dtype dtype, const ls_range *ranges, int range_count) {
    if (dtype != LS_F32 && dtype != LS_I64) {
        return ls_fail(LS_INTERNAL, "reducer: sums fp32 or int64, not %s", ls_dtype_name(dtype));
    }
    if (!arena.slab || !arena.slab->host_visible) return ls_fail(LS_INTERNAL, "reducer: the arena is not host memory");
    int64_t elements = (int64_t)(arena.bytes / ls_dtype_bytes(dtype));
    for (int i = 0; i < range_count; i++) {
        ls_range r = ranges[i];
        if (r.first < 0 || r.count < 0 || r.count > INT32_MAX || r.first + r.count > elements) {
            return ls_fail(LS_INTERNAL,
                "reducer: bucket %d is elements %lld to %lld of %lld (at most 2^31 in one bucket)", i,
                (long long)r.first, (long long)(r.first + r.count), (long long)elements);
        }
    }
    return LS_SUCCESS;
}

ls_status ls_reducer_new(ls_comm *comm, ls_buffer arena, ls_dtype dtype, const ls_range *ranges, int range_count,
    int overlap, ls_reducer **out) {
    LS_TRY(check(arena, dtype, ranges, range_count));
    size_t count = (size_t)range_count;
    ls_reducer *reducer = calloc(1, sizeof *reducer);
    if (reducer) reducer->range = calloc(count + 1, sizeof *ranges);
    if (reducer) reducer->order = calloc(count + 1, sizeof(int) + sizeof(char)); // with flight.complete behind it
    if (!reducer || !reducer->range || !reducer->order) {
        ls_reducer_free(reducer);
        return ls_fail(LS_DEVICE, "reducer of %d buckets: no memory", range_count);
    }
    reducer->comm = comm;
    reducer->arena = arena.slab->address + arena.offset;
    reducer->dtype = dtype;
    reducer->range_count = range_count;
    if (count > 0) memcpy(reducer->range, ranges, count * sizeof *ranges);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&reducer->mutex, NULL);
    pthread_cond_init(&reducer->work, &monotonic);
    pthread_cond_init(&reducer->idle, NULL);
    pthread_condattr_destroy(&monotonic);
    ls_status status = LS_SUCCESS;
    if (overlap && range_count > 0 && comm->facts.world_size > 1) status = start_thread(reducer);
    if (ls_failed(status)) {
        ls_reducer_free(reducer);
        return status;
    }
    *out = reducer;
    return LS_SUCCESS;
}

void ls_reducer_free(ls_reducer *reducer) {
    if (!reducer) return;
    if (reducer->channel) {
        pthread_mutex_lock(&reducer->mutex);
        reducer->stop = 1;
        pthread_cond_signal(&reducer->work);
        pthread_mutex_unlock(&reducer->mutex);
        pthread_join(reducer->thread, NULL);
        reducer->comm->backend->channel_free(reducer->channel);
    }
    free(reducer->range);
    free(reducer->order);
    free(reducer);
}

static const char waited_for[] = "all-reduce of bucket";

static void reduce_now(ls_reducer *reducer, int bucket) {
    if (ls_failed(reducer->status)) return;
    ls_range range = reducer->range[bucket];
    void *data = reducer->arena + (size_t)range.first * ls_dtype_bytes(reducer->dtype);
    double start_s = ls_clock_seconds();
    ls_life_wait_begins(&reducer->comm->life, waited_for, bucket);
    reducer->status =
        reducer->comm->backend->allreduce(reducer->comm, data, range.count, reducer->dtype, LS_REDUCE_SUM);
    ls_life_wait_ends(&reducer->comm->life);
    double seconds = ls_clock_seconds() - start_s;
    reducer->exposed_s += seconds;
    reducer->busy_s += seconds;
}

void ls_reducer_launch(ls_reducer *reducer, int bucket) {
    assert(bucket >= 0 && bucket < reducer->range_count);
    if (reducer->comm->facts.world_size == 1) return;
    if (!reducer->channel) {
        reduce_now(reducer, bucket);
        return;
    }
    pthread_mutex_lock(&reducer->mutex);
    assert(reducer->launched - reducer->done < reducer->range_count);
    if (reducer->launched == reducer->done) reducer->since_s = ls_clock_seconds();
    reducer->order[reducer->launched % reducer->range_count] = bucket;
    reducer->launched++;
    pthread_cond_signal(&reducer->work);
    pthread_mutex_unlock(&reducer->mutex);
}

ls_status ls_reducer_wait(ls_reducer *reducer) {
    if (!reducer->channel) return reducer->status;
    double start_s = ls_clock_seconds();
    pthread_mutex_lock(&reducer->mutex);
    if (reducer->done < reducer->launched && !ls_failed(reducer->status)) {
        reducer->waiting = 1;
        pthread_cond_signal(&reducer->work);
        ls_life_wait_begins(&reducer->comm->life, waited_for, reducer->order[reducer->done % reducer->range_count]);
        while (reducer->done < reducer->launched && !ls_failed(reducer->status)) {
            pthread_cond_wait(&reducer->idle, &reducer->mutex);
        }
        ls_life_wait_ends(&reducer->comm->life);
        reducer->waiting = 0;
        reducer->exposed_s += ls_clock_seconds() - start_s;
    }
    ls_status status = reducer->status;
    pthread_mutex_unlock(&reducer->mutex);
    return status;
}

double ls_reducer_exposed_seconds(const ls_reducer *reducer) {
    return reducer->exposed_s; // written by the caller's own thread
}

double ls_reducer_busy_seconds(const ls_reducer *reducer) {
    pthread_mutex_t *mutex = (pthread_mutex_t *)&reducer->mutex; // const for the caller, who changes nothing
    pthread_mutex_lock(mutex);
    double seconds = reducer->busy_s;
    pthread_mutex_unlock(mutex);
    return seconds;
}
