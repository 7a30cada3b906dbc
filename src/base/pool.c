#include "base/pool.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"

#if defined(__x86_64__)
#define spin_pause() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define spin_pause() __asm__ volatile("isb" ::: "memory") // "yield" does nothing on most processors
#else
#define spin_pause() atomic_signal_fence(memory_order_seq_cst)
#endif

enum { LINE = 128 }; // bytes: a cache line of some arm64 processors, or two of x86-64, which are fetched together

static const double spin_s = 50e-6;

// One thread's share of the tasks; it ends before task number `end`. A run is one call of ls_pool_run. The upper half
// of `state` is the number of the run, the lower half counts the tasks not yet handed out. One compare-and-swap claims
// a task and fails if the run is over. So a thread that wakes late neither delays its run nor takes part in the next
// one. A successful claim means that a task of the run was open, so job, context and end, which are read before the
// claim, belong to that run.
typedef struct {
    _Alignas(LINE) _Atomic uint64_t state;
    atomic_int end;
} share;

typedef struct {
    ls_pool *pool;
    int thread;
    uint32_t seen; // number of the last run that this thread looked at
} worker;

struct ls_pool {
    _Alignas(LINE) _Atomic uint32_t run; // number of the run begun last
    _Atomic(ls_pool_task *) job;
    _Atomic(void *) context;
    atomic_int tasks;
    _Alignas(LINE) atomic_int tasks_done;
    _Alignas(LINE) atomic_int sleeping_workers;
    atomic_int caller_sleeps, stop;
    pthread_mutex_t lock; // only for sleeping
    pthread_cond_t work, finished;
    int threads, started;
    share *shares; // one for each thread
    pthread_t *handles;
    worker *workers;
};

// Runs the tasks of a share that no thread has claimed yet, in order. Returns the number of tasks that this call ran.
static int run_share(ls_pool *pool, share *of, int thread) {
    int count = 0;
    uint64_t state = atomic_load_explicit(&of->state, memory_order_acquire);
    while ((uint32_t)state > 0) {
        ls_pool_task *job = atomic_load_explicit(&pool->job, memory_order_relaxed);
        void *context = atomic_load_explicit(&pool->context, memory_order_relaxed);
        const int end = atomic_load_explicit(&of->end, memory_order_relaxed);
        const int task = end - (int)(uint32_t)state;
        if (!atomic_compare_exchange_weak_explicit(
                &of->state, &state, state - 1, memory_order_acq_rel, memory_order_acquire))
            continue;
        job(context, task, thread);
        count++;
        state = atomic_load_explicit(&of->state, memory_order_acquire);
    }
    return count;
}

// Runs this thread's share, then tasks that other threads have left.
static void run_tasks(ls_pool *pool, int thread) {
    int count = 0;
    for (int i = 0; i < pool->threads; i++)
        count += run_share(pool, &pool->shares[(thread + i) % pool->threads], thread);
    if (!count) return;
    // All tasks counted here belong to the same run: the next run starts only after this addition.
    const int tasks = atomic_load_explicit(&pool->tasks, memory_order_relaxed);
    if (atomic_fetch_add(&pool->tasks_done, count) + count == tasks && atomic_load(&pool->caller_sleeps)) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_signal(&pool->finished);
        pthread_mutex_unlock(&pool->lock);
    }
}

static int has_work(const worker *self) {
    return atomic_load(&self->pool->run) != self->seen || atomic_load(&self->pool->stop);
}

static int is_finished(const worker *self) {
    ls_pool *pool = self->pool;
    return atomic_load(&pool->tasks_done) == atomic_load_explicit(&pool->tasks, memory_order_relaxed);
}

static int spin_until(int (*condition)(const worker *), const worker *self) {
    double end = 0; // the clock is read only if the first 32 checks fail
    for (;;) {
        for (int i = 0; i < 32; i++) {
            if (condition(self)) return 1;
            spin_pause();
        }
        double now = ls_clock_seconds();
        if (end == 0) end = now + spin_s;
        if (now > end) return 0;
    }
}

// Counts the sleeper, then checks the condition again. A thread that makes the condition true checks for sleepers
// afterwards (both seq_cst), so no wake-up is lost.
static void sleep_until(
    int (*condition)(const worker *), const worker *self, pthread_cond_t *signal, atomic_int *sleepers) {
    pthread_mutex_t *lock = &self->pool->lock;
    pthread_mutex_lock(lock);
    atomic_fetch_add(sleepers, 1);
    while (!condition(self)) pthread_cond_wait(signal, lock);
    atomic_fetch_sub(sleepers, 1);
    pthread_mutex_unlock(lock);
}

static void *worker_main(void *argument) {
    worker *self = argument;
    ls_pool *pool = self->pool;
    while (!atomic_load(&pool->stop)) {
        self->seen = atomic_load(&pool->run);
        run_tasks(pool, self->thread);
        if (!spin_until(has_work, self)) sleep_until(has_work, self, &pool->work, &pool->sleeping_workers);
    }
    return NULL;
}

static int start_workers(ls_pool *pool) {
    int error = 0;
    for (int i = 1; i < pool->threads && !error; i++) {
        error = ls_thread_start(&pool->handles[i], worker_main, &pool->workers[i]);
        if (error) break;
        pool->started = i;
        pthread_setname_np(pool->handles[i], "ls-pool"); // the name in top and gdb
    }
    return error;
}

static void *new_aligned(size_t align, size_t bytes) {
    void *made = NULL;
    if (posix_memalign(&made, align, bytes) != 0) ls_out_of_memory(bytes, "a pool of threads");
    memset(made, 0, bytes);
    return made;
}

ls_status ls_pool_new(int threads, ls_pool **out) {
    assert(threads >= 1);
    ls_pool *pool = new_aligned(_Alignof(ls_pool), sizeof *pool);
    pool->threads = threads;
    pthread_mutex_init(&pool->lock, NULL);
    ls_cond_init(&pool->work);
    ls_cond_init(&pool->finished);
    pool->handles = ls_new(threads, sizeof *pool->handles, "a pool of %d threads", threads);
    pool->workers = ls_new(threads, sizeof *pool->workers, "a pool of %d threads", threads);
    pool->shares = new_aligned(_Alignof(share), (size_t)threads * sizeof *pool->shares);
    for (int i = 0; i < threads; i++) pool->workers[i] = (worker){ .pool = pool, .thread = i };
    const int error = start_workers(pool);
    if (error) {
        ls_pool_free(pool);
        return ls_fail(LS_DEVICE,
            "cannot start %d threads: %s; set device.threads lower, or raise the limit of processes", threads,
            strerror(error));
    }
    *out = pool;
    return LS_SUCCESS;
}

void ls_pool_free(ls_pool *pool) {
    if (!pool) return;
    atomic_store(&pool->stop, 1);
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 1; i <= pool->started; i++) pthread_join(pool->handles[i], NULL);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->work);
    pthread_cond_destroy(&pool->finished);
    free(pool->handles);
    free(pool->workers);
    free(pool->shares);
    free(pool);
}

int ls_pool_threads(const ls_pool *pool) {
    return pool->threads;
}

static void wake_workers(ls_pool *pool, int wanted) {
    if (atomic_load(&pool->sleeping_workers) == 0) return;
    pthread_mutex_lock(&pool->lock);
    if (wanted >= pool->threads - 1) {
        pthread_cond_broadcast(&pool->work);
    } else {
        for (int i = 0; i < wanted; i++) pthread_cond_signal(&pool->work);
    }
    pthread_mutex_unlock(&pool->lock);
}

void ls_pool_run(ls_pool *pool, ls_pool_task *job, void *context, int tasks) {
    if (pool->threads == 1 || tasks <= 1) {
        for (int i = 0; i < tasks; i++) job(context, i, 0);
        return;
    }
    atomic_store_explicit(&pool->job, job, memory_order_relaxed);
    atomic_store_explicit(&pool->context, context, memory_order_relaxed);
    atomic_store_explicit(&pool->tasks, tasks, memory_order_relaxed);
    atomic_store_explicit(&pool->tasks_done, 0, memory_order_relaxed);
    const uint32_t run = atomic_load_explicit(&pool->run, memory_order_relaxed) + 1;
    for (int i = 0, begin = 0, end; i < pool->threads; i++, begin = end) {
        end = (int)((int64_t)tasks * (i + 1) / pool->threads);
        atomic_store_explicit(&pool->shares[i].end, end, memory_order_relaxed);
        atomic_store_explicit(
            &pool->shares[i].state, (uint64_t)run << 32 | (uint32_t)(end - begin), memory_order_release);
    }
    atomic_store(&pool->run, run);
    wake_workers(pool, tasks - 1);
    run_tasks(pool, 0);
    const worker *self = &pool->workers[0];
    if (!spin_until(is_finished, self)) sleep_until(is_finished, self, &pool->finished, &pool->caller_sleeps);
}
