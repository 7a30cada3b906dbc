// reducer_host.c - sums in host memory, by the communicator.

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "base/spans.h"
#include "dist/reduce/reducer_kind.h"
#include "dist/reduce/staging.h"

// With overlap, all buckets that were launched are in flight at once, and this rank's communication thread advances
// them. It may share its core with a compute thread, so it naps between polls: for a short time after progress, longer
// while other ranks are late. Only while this rank's compute thread waits, so that its core is free, the communication
// thread yields instead, for a bounded time.
//
// Buckets in a GPU's memory are staged (staging.h): the thread starts a sum when its bucket has arrived in pinned
// memory, and sends the bucket back when the sum is complete.
//
// A position counts launches since the reducer was made. The data of a position are at index position % bucket_count.
// Updates never overlap, because `wait` leaves nothing in flight.
typedef struct {
    ls_reducer base;
    ls_staging *staging; // NULL: the buckets are in host memory
    void *scratch;       // with staging: SCRATCH_BYTES for sum_now
    ls_channel *channel; // NULL: no overlap
    pthread_t thread;

    pthread_mutex_t mutex;  // guards the fields below
    pthread_cond_t work;    // wakes the communication thread: launched, waiting or stop changed
    pthread_cond_t idle;    // wakes the compute thread: all sums are done, or one failed
    int64_t launched, done; // number of sums launched and done
    int *order;             // by position: the bucket
    int waiting;            // the compute thread is in wait
    int stop;               // tells the communication thread to end
    double *ready_s;  // by position: time of the launch, for the trace; in host memory the bucket is complete then
    double since_s;   // time since which launched > done
    double arrived_s; // when the last bucket was in host memory; later waiting is for other ranks
    ls_status status; // the first failure; after it no sum is started
    double busy_s;    // time with sums in flight
    double waited_s;  // ls_reducer_counts.waited_seconds
} host_reducer;

// The state of sums in flight; only the communication thread uses it.
typedef struct {
    int64_t oldest, started; // positions: the oldest sum that is not complete; the next sum to start
    double arrived_s;        // when the last sum was started
    double looked_s;         // time of the last poll, if the compute thread waited; else 0
    double active_s, nap_s;  // time of the last progress; length of the next nap
    unsigned char *complete; // by position: whether its sum is complete
    double *start_s;         // by position: when its sum was started, for the trace; 0: not traced
} flight;

enum { SCRATCH_BYTES = 1 << 14 };

static const double nap_first_s = 50e-6, nap_last_s = 500e-6, nap_growth = 1.3, yield_s = 1e-3;
static const double look_longest_s = 2e-3; // longest time between two polls that counts as waiting

static void *data_of(const host_reducer *r, int bucket) {
    return r->staging ? ls_staging_data(r->staging, bucket) : ls_buffer_host(r->base.options.buckets[bucket].data);
}

static ls_comm *comm_of(const host_reducer *r) {
    return r->base.options.comm;
}

static int slot_of(const host_reducer *r, int64_t position) {
    return (int)(position % r->base.options.bucket_count);
}

static void note_begin(const host_reducer *r, int bucket) {
    ls_comm *comm = comm_of(r);
    int64_t bytes = (int64_t)ls_bucket_bytes(&r->base.options.buckets[bucket]);
    ls_flight_recorder_begins(&comm->recorder, LS_IN_BUCKET, bucket, bytes, (int64_t)atomic_load(&comm->life.update));
}

// Adds a sum to the trace, from start_s (ls_spans_clock; 0: not traced) until now. bucket: -1 for other sums.
static void add_span(const char *name, int bucket, double bytes, double ready_s, double start_s) {
    if (start_s == 0) return;
    ls_spans_add(&(ls_span){ .lane = LS_SPANS_GRADIENTS,
        .name = name,
        .number = bucket,
        .update = LS_SPANS_NO_UPDATE,
        .bytes = bytes,
        .ready_s = ready_s,
        .start_s = start_s,
        .end_s = ls_clock_seconds() });
}

static void add_bucket(const host_reducer *r, int bucket, double ready_s, double start_s) {
    // the host cannot see when a bucket in a GPU's memory is complete
    add_span(
        "bucket", bucket, (double)ls_bucket_bytes(&r->base.options.buckets[bucket]), r->staging ? 0 : ready_s, start_s);
}

// Starts the sums of launched buckets that have arrived in host memory, in the order of launches, which all ranks have.
static ls_status start_launched(host_reducer *r, flight *f, int64_t launched) {
    for (; f->started < launched; f->started++) {
        int slot = slot_of(r, f->started), bucket = r->order[slot];
        if (r->staging && !ls_staging_arrived(r->staging, bucket)) return LS_SUCCESS;
        const ls_bucket *b = &r->base.options.buckets[bucket];
        f->complete[slot] = 0;
        f->start_s[slot] = ls_spans_clock();
        f->arrived_s = ls_clock_seconds();
        note_begin(r, bucket);
        LS_TRY(comm_of(r)->backend->channel_start(r->channel, slot, data_of(r, bucket), b->count, b->dtype));
    }
    return LS_SUCCESS;
}

// Polls all sums in flight. *news: the number of sums that have completed.
static ls_status poll_flights(host_reducer *r, flight *f, int *news) {
    *news = 0;
    for (int64_t i = f->oldest; i < f->started; i++) {
        int slot = slot_of(r, i), done = 0;
        if (f->complete[slot]) continue;
        LS_TRY(comm_of(r)->backend->channel_test(r->channel, slot, &done));
        if (done) ls_flight_recorder_bucket_ends(&comm_of(r)->recorder, r->order[slot]);
        if (done) add_bucket(r, r->order[slot], r->ready_s[slot], f->start_s[slot]);
        if (done && r->staging) ls_staging_return(r->staging, r->order[slot]);
        f->complete[slot] = (unsigned char)(done != 0);
        *news += done != 0;
    }
    while (f->oldest < f->started && f->complete[slot_of(r, f->oldest)]) f->oldest++;
    return LS_SUCCESS;
}

// Adds the result of a poll to the reducer's counters and wakes a waiting thread. Call it with the mutex held.
static void book(host_reducer *r, const flight *f, int news, ls_status status) {
    r->done += news;
    r->arrived_s = f->arrived_s;
    ls_keep_first(&r->status, status);
    if (r->done < r->launched && !ls_failed(status)) {
        if (news > 0 && r->waiting) ls_life_progress(&comm_of(r)->life, r->order[slot_of(r, r->done)]);
        return;
    }
    if (news > 0) r->busy_s += ls_clock_seconds() - r->since_s;
    pthread_cond_signal(&r->idle);
}

// Adds to waited_s the time since the last poll, if the compute thread only waits. Call it with the mutex held.
static void count_waiting(host_reducer *r, flight *f) {
    int waits = r->waiting && f->started == r->launched; // a bucket that has not arrived is still computed
    double now = waits ? ls_clock_seconds() : 0, step = now - f->looked_s;
    if (waits && f->looked_s > 0) r->waited_s += step < look_longest_s ? step : look_longest_s;
    f->looked_s = now;
}

// Gives this thread's core away until the next poll. Call it with the mutex held; it is released meanwhile.
static void pause_between_looks(host_reducer *reducer, flight *f) {
    if (reducer->waiting && ls_clock_seconds() - f->active_s < yield_s) {
        pthread_mutex_unlock(&reducer->mutex);
        sched_yield();
        pthread_mutex_lock(&reducer->mutex);
        return;
    }
    struct timespec next = ls_cond_deadline(f->nap_s);
    pthread_cond_timedwait(&reducer->work, &reducer->mutex, &next);
    f->nap_s = f->nap_s * nap_growth < nap_last_s ? f->nap_s * nap_growth : nap_last_s;
}

static void *communicate(void *context) {
    host_reducer *reducer = context;
    const int count = reducer->base.options.bucket_count;
    flight f = { .complete = (unsigned char *)(reducer->order + count), .start_s = reducer->ready_s + count };
    int64_t launched = 0;
    int waiting = 0;
    prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0); // ns; the default of 50 us would make short naps much longer
    pthread_mutex_lock(&reducer->mutex);
    while (!reducer->stop) {
        if (reducer->done == reducer->launched || ls_failed(reducer->status)) {
            f.looked_s = 0;
            pthread_cond_wait(&reducer->work, &reducer->mutex);
            continue;
        }
        int changed = launched != reducer->launched || waiting != reducer->waiting;
        launched = reducer->launched;
        waiting = reducer->waiting;
        pthread_mutex_unlock(&reducer->mutex);

        int news = 0;
        ls_status status = start_launched(reducer, &f, launched);
        LS_THEN(status, poll_flights(reducer, &f, &news));
        if (news > 0 || changed) {
            f.active_s = ls_clock_seconds();
            f.nap_s = nap_first_s;
        }

        pthread_mutex_lock(&reducer->mutex);
        count_waiting(reducer, &f);
        if (news > 0 || ls_failed(status))
            book(reducer, &f, news, status);
        else if (launched == reducer->launched && waiting == reducer->waiting)
            pause_between_looks(reducer, &f);
    }
    pthread_mutex_unlock(&reducer->mutex);
    return NULL;
}

static ls_status start_thread(host_reducer *r) {
    const ls_comm_backend *backend = comm_of(r)->backend;
    LS_TRY(backend->channel_new(comm_of(r), r->base.options.bucket_count, &r->channel));
    int rc = ls_thread_start(&r->thread, communicate, r);
    if (rc == 0) return LS_SUCCESS;
    backend->channel_free(r->channel);
    r->channel = NULL;
    return ls_fail(LS_DEVICE, "reducer: pthread_create: %s", strerror(rc));
}

static void stop_thread(host_reducer *r) {
    if (!r->channel) return;
    pthread_mutex_lock(&r->mutex);
    r->stop = 1;
    pthread_cond_signal(&r->work);
    pthread_mutex_unlock(&r->mutex);
    pthread_join(r->thread, NULL);
    comm_of(r)->backend->channel_free(r->channel);
}

static void host_free(ls_reducer *reducer) {
    host_reducer *r = (host_reducer *)reducer;
    stop_thread(r);
    ls_staging_free(r->staging);
    free(r->scratch);
    free(r->order);
    free(r->ready_s);
    free(r);
}

static const char waited_for[] = "all-reduce of bucket";

static ls_status sum_bucket(host_reducer *r, int bucket) {
    const ls_bucket *b = &r->base.options.buckets[bucket];
    if (r->staging) {
        ls_staging_send(r->staging, bucket);
        LS_TRY(ls_staging_await(r->staging, bucket));
    }
    double start_s = ls_clock_seconds();
    note_begin(r, bucket);
    ls_life_wait_begins(&comm_of(r)->life, waited_for, bucket);
    ls_status status =
        comm_of(r)->backend->allreduce(comm_of(r), data_of(r, bucket), b->count, b->dtype, LS_REDUCE_SUM);
    ls_life_wait_ends(&comm_of(r)->life);
    ls_flight_recorder_bucket_ends(&comm_of(r)->recorder, bucket);
    if (ls_spans_on()) add_bucket(r, bucket, start_s, start_s);
    double seconds = ls_clock_seconds() - start_s;
    r->base.exposed_s += seconds;
    r->waited_s += seconds;
    r->busy_s += seconds;
    if (r->staging) {
        ls_staging_return(r->staging, bucket);
        ls_staging_join(r->staging);
    }
    return status;
}

static void host_launch(ls_reducer *reducer, int bucket) {
    host_reducer *r = (host_reducer *)reducer;
    if (comm_of(r)->info.world_size == 1) return;
    if (!r->channel) {
        LS_THEN(r->status, sum_bucket(r, bucket));
        return;
    }
    if (r->staging) ls_staging_send(r->staging, bucket);
    pthread_mutex_lock(&r->mutex);
    assert(r->launched - r->done < reducer->options.bucket_count);
    if (r->launched == r->done) r->since_s = ls_clock_seconds();
    r->order[slot_of(r, r->launched)] = bucket;
    r->ready_s[slot_of(r, r->launched)] = ls_spans_clock();
    r->launched++;
    pthread_cond_signal(&r->work);
    pthread_mutex_unlock(&r->mutex);
}

// Waits for all sums. The exposed time begins when the last bucket has arrived: before that, a GPU still computes.
static ls_status wait_for_sums(host_reducer *r) {
    if (!r->channel) return r->status;
    double start_s = ls_clock_seconds();
    pthread_mutex_lock(&r->mutex);
    if (r->done < r->launched && !ls_failed(r->status)) {
        r->waiting = 1;
        pthread_cond_signal(&r->work);
        ls_life_wait_begins(&comm_of(r)->life, waited_for, r->order[slot_of(r, r->done)]);
        while (r->done < r->launched && !ls_failed(r->status)) pthread_cond_wait(&r->idle, &r->mutex);
        ls_life_wait_ends(&comm_of(r)->life);
        r->waiting = 0;
        if (ls_spans_on()) ls_spans_span(LS_SPANS_WAITS, "gradients", NULL, -1, start_s, ls_clock_seconds());
        if (r->staging && r->arrived_s > start_s) start_s = r->arrived_s;
        r->base.exposed_s += ls_clock_seconds() - start_s;
    }
    ls_status status = r->status;
    pthread_mutex_unlock(&r->mutex);
    if (r->staging && !ls_failed(status)) ls_staging_join(r->staging);
    return status;
}

static ls_status agree_on_flag(host_reducer *r, ls_buffer flag) {
    int32_t value;
    if (!r->staging) return ls_comm_allreduce(comm_of(r), ls_buffer_host(flag), 1, LS_I32, LS_REDUCE_MAX);
    LS_TRY(ls_staging_fetch(r->staging, flag, &value, sizeof value));
    LS_TRY(ls_comm_allreduce(comm_of(r), &value, 1, LS_I32, LS_REDUCE_MAX));
    return ls_staging_store(r->staging, &value, flag, sizeof value);
}

static ls_status host_wait(ls_reducer *reducer, ls_buffer flag) {
    host_reducer *r = (host_reducer *)reducer;
    if (comm_of(r)->info.world_size == 1) return LS_SUCCESS;
    LS_TRY(wait_for_sums(r));
    if (!flag.slab) return LS_SUCCESS;
    double start_s = ls_spans_clock();
    ls_status status = agree_on_flag(r, flag);
    add_span("flags", -1, sizeof(int32_t), 0, start_s);
    return status;
}

// Sums values over all ranks while nothing can be computed, so all of its time counts as exposed.
static ls_status sum_exposed(host_reducer *r, void *sums, int64_t count) {
    double start_s = ls_clock_seconds();
    ls_status status = ls_comm_allreduce(comm_of(r), sums, count, LS_F64, LS_REDUCE_SUM);
    double seconds = ls_clock_seconds() - start_s;
    r->base.exposed_s += seconds;
    pthread_mutex_lock(&r->mutex);
    r->waited_s += seconds;
    pthread_mutex_unlock(&r->mutex);
    return status;
}

static ls_status sum_now(host_reducer *r, ls_buffer sums, int64_t count) {
    if (!r->staging) return sum_exposed(r, ls_buffer_host(sums), count);
    const int64_t most = SCRATCH_BYTES / sizeof(double);
    for (int64_t at = 0; at < count; at += most) {
        int64_t part = count - at < most ? count - at : most;
        size_t bytes = (size_t)part * sizeof(double);
        ls_buffer there = ls_buffer_at(sums.slab, sums.offset + (size_t)at * sizeof(double), bytes);
        LS_TRY(ls_staging_fetch(r->staging, there, r->scratch, bytes));
        LS_TRY(sum_exposed(r, r->scratch, part));
        LS_TRY(ls_staging_store(r->staging, r->scratch, there, bytes));
    }
    return LS_SUCCESS;
}

static ls_status host_sum_now(ls_reducer *reducer, ls_buffer sums, int64_t count) {
    host_reducer *r = (host_reducer *)reducer;
    if (comm_of(r)->info.world_size == 1) return LS_SUCCESS;
    double start_s = ls_spans_clock();
    ls_status status = sum_now(r, sums, count);
    add_span("batch norm", -1, (double)count * sizeof(double), 0, start_s);
    return status;
}

static double host_busy_seconds(const ls_reducer *reducer) {
    host_reducer *r = (host_reducer *)(uintptr_t)reducer; // const is cast away for the mutex only
    pthread_mutex_lock(&r->mutex);
    double seconds = r->busy_s;
    pthread_mutex_unlock(&r->mutex);
    return seconds;
}

static double host_waited_seconds(const ls_reducer *reducer) {
    host_reducer *r = (host_reducer *)(uintptr_t)reducer; // const is cast away for the mutex only
    pthread_mutex_lock(&r->mutex);
    double seconds = r->waited_s;
    pthread_mutex_unlock(&r->mutex);
    return seconds;
}

static ls_status host_start(ls_reducer *reducer) {
    const ls_reducer_options *o = &reducer->options;
    int alone = o->comm->info.world_size == 1;
    return o->overlap && o->bucket_count > 0 && !alone ? start_thread((host_reducer *)reducer) : LS_SUCCESS;
}

static const ls_reducer_kind kind = {
    .start = host_start,
    .free = host_free,
    .launch = host_launch,
    .wait = host_wait,
    .sum_now = host_sum_now,
    .busy_seconds = host_busy_seconds,
    .waited_seconds = host_waited_seconds,
};

static void init_locks(host_reducer *r) {
    pthread_mutex_init(&r->mutex, NULL);
    ls_cond_init(&r->work);
    ls_cond_init(&r->idle);
}

static int on_device(const ls_reducer_options *o) {
    for (int i = 0; i < o->bucket_count; i++)
        if (!o->buckets[i].data.slab->host_visible) return 1;
    return 0;
}

static ls_status set_up(host_reducer *r) {
    const ls_reducer_options *o = &r->base.options;
    size_t some = (size_t)o->bucket_count + 1;
    // flight.complete is stored after order, flight.start_s after ready_s
    r->order = ls_new(1, some * (sizeof(int) + sizeof(char)), "reducer of %d buckets", o->bucket_count);
    r->ready_s = ls_new(2 * some, sizeof *r->ready_s, "reducer of %d buckets", o->bucket_count);
    if (o->comm->info.world_size == 1) return LS_SUCCESS;
    if (on_device(o)) {
        r->scratch = ls_new(1, SCRATCH_BYTES, "reducer of %d buckets", o->bucket_count);
        LS_TRY(ls_staging_new(o, &r->staging));
    }
    return LS_SUCCESS;
}

ls_status ls_reducer_host_new(const ls_reducer_options *options, ls_reducer **out) {
    host_reducer *r = ls_new(1, sizeof *r, "reducer of %d buckets", options->bucket_count);
    r->base = (ls_reducer){ .kind = &kind, .options = *options };
    init_locks(r);
    ls_status status = set_up(r);
    return LS_GIVE_OR_FREE(status, &r->base, out, host_free);
}
