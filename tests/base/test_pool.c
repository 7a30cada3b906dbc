#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/pool.h"
#include "support/alloc_count.c"
#include "support/cmocka.h"

enum { MAX_TASKS = 300, MAX_THREADS = 7 };

typedef struct {
    int threads;
    int ran[MAX_TASKS];       // plain, so that the thread sanitizer sees a missing happens-before
    int scratch[MAX_THREADS]; // plain too: two tasks at once with one thread number would race
    atomic_int busy[MAX_THREADS];
    atomic_int collisions, wrong_thread;
} job_state;

static void count_task(void *context, int task, int thread) {
    job_state *job = context;
    if (thread < 0 || thread >= job->threads) {
        atomic_fetch_add(&job->wrong_thread, 1);
        return;
    }
    if (atomic_exchange(&job->busy[thread], 1)) atomic_fetch_add(&job->collisions, 1);
    job->ran[task]++;
    job->scratch[thread] += task;
    atomic_store(&job->busy[thread], 0);
}

static const int thread_counts[] = { 1, 2, 4, 7 };

static void every_task_once(void **state) {
    (void)state;
    for (int t = 0; t < 4; t++) {
        ls_pool *pool;
        assert_int_equal(ls_pool_new(thread_counts[t], &pool).code, LS_OK);
        assert_int_equal(ls_pool_threads(pool), thread_counts[t]);
        for (int run = 0; run < 2000; run++) {
            int tasks = run % 3 == 0 ? run % 5 : run % (MAX_TASKS + 1);
            job_state job = { .threads = thread_counts[t] };
            ls_pool_run(pool, count_task, &job, tasks);
            for (int i = 0; i < MAX_TASKS; i++)
                if (job.ran[i] != (i < tasks))
                    fail_msg("%d threads, run %d, %d tasks: task %d ran %d times", thread_counts[t], run, tasks, i,
                        job.ran[i]);
            int sum = 0;
            for (int i = 0; i < MAX_THREADS; i++) sum += job.scratch[i];
            if (sum != tasks * (tasks - 1) / 2 || job.collisions || job.wrong_thread)
                fail_msg("%d threads, run %d: sum %d, %d collisions, %d wrong threads", thread_counts[t], run, sum,
                    job.collisions, job.wrong_thread);
            if (run % 100 == 0) ls_clock_sleep(300e-6); // the workers fall asleep in between
        }
        ls_pool_free(pool);
    }
}

typedef struct {
    atomic_int tasks; // that have begun
    int alone;        // a task that no other began beside
} company;

// Ends when another task has begun, on another thread therefore; or, on no machine however loaded, after 30 s.
static void wait_for_company(void *context, int task, int thread) {
    (void)task, (void)thread;
    company *all = context;
    atomic_fetch_add(&all->tasks, 1);
    for (int i = 0; i < 30000 && atomic_load(&all->tasks) < 2; i++) ls_clock_sleep(1e-3);
    if (atomic_load(&all->tasks) < 2) all->alone = 1;
}

static void sleeping_workers_wake(void **state) {
    (void)state;
    ls_pool *pool;
    assert_int_equal(ls_pool_new(4, &pool).code, LS_OK);
    for (int run = 0; run < 20; run++) {
        ls_clock_sleep(1e-3);
        company all = { 0 };
        ls_pool_run(pool, wait_for_company, &all, 4);
        if (all.alone) fail_msg("run %d: no worker took a task", run);
    }
    ls_pool_free(pool);
}

enum { SHARING = 4, SHARE = 3 };
typedef struct {
    int first[SHARING]; // the task that each thread began with, + 1
    atomic_int begun;
} beginnings;

// Ends when every thread has begun with one, so that none takes another's.
static void note_first(void *context, int task, int thread) {
    beginnings *all = context;
    if (all->first[thread]) return;
    all->first[thread] = task + 1;
    atomic_fetch_add(&all->begun, 1);
    for (int i = 0; i < 30000 && atomic_load(&all->begun) < SHARING; i++) ls_clock_sleep(1e-3);
}

static void threads_begin_with_their_shares(void **state) {
    (void)state;
    ls_pool *pool;
    assert_int_equal(ls_pool_new(SHARING, &pool).code, LS_OK);
    for (int run = 0; run < 20; run++) {
        beginnings all = { .begun = 0 };
        ls_pool_run(pool, note_first, &all, SHARING * SHARE);
        for (int t = 0; t < SHARING; t++) assert_int_equal(all.first[t], t * SHARE + 1);
    }
    ls_pool_free(pool);
}

static void unused_pool_ends(void **state) {
    (void)state;
    for (int i = 0; i < 50; i++) {
        ls_pool *pool;
        assert_int_equal(ls_pool_new(3, &pool).code, LS_OK);
        ls_pool_free(pool);
    }
    ls_pool_free(NULL);
}

static void empty_task(void *context, int task, int thread) {
    (void)context, (void)task, (void)thread;
}

static void allocates_nothing_and_is_quick(void **state) {
    (void)state;
    enum { RUNS = 5000 };
    ls_pool *pool;
    assert_int_equal(ls_pool_new(2, &pool).code, LS_OK);
    uint64_t before = ls_allocation_count();
    double start = ls_clock_seconds();
    for (int i = 0; i < RUNS; i++) ls_pool_run(pool, empty_task, NULL, 2);
    double each = (ls_clock_seconds() - start) / RUNS;
    assert_int_equal(ls_allocation_count(), before);
    print_message("dispatch of 2 empty tasks to 2 threads: %.2f us\n", each * 1e6);
    ls_pool_free(pool);
#if LS_COUNTS_ALLOCATIONS
    void *volatile one = malloc(1); // volatile: a compiler may leave out malloc and free together
    free(one);
    assert_true(ls_allocation_count() > before); // the counter counts
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_once),
        cmocka_unit_test(sleeping_workers_wake),
        cmocka_unit_test(threads_begin_with_their_shares),
        cmocka_unit_test(unused_pool_ends),
        cmocka_unit_test(allocates_nothing_and_is_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
