#include "data/verify.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "data/format.h"

typedef struct {
    const ls_dataset *dataset;
    const ls_verify_options *options;
    uint8_t *broken;
    atomic_int_fast64_t next; // next sample to read
    atomic_int_fast64_t done; // number of samples that were read
    atomic_int working;       // number of threads that have not ended
    pthread_mutex_t lock;
    ls_code failed_code; // guarded by the lock
    char failed_text[LS_STATUS_TEXT_BYTES];
} look;

static void keep_failure(look *l, ls_status status) {
    pthread_mutex_lock(&l->lock);
    if (l->failed_code == LS_OK) {
        l->failed_code = status.code;
        snprintf(l->failed_text, sizeof l->failed_text, "%s", status.text);
    }
    pthread_mutex_unlock(&l->lock);
    atomic_store(&l->next, l->dataset->facts.count);
}

static int is_mine(const ls_verify_options *o, int64_t index) {
    return index / o->groups % o->shares == o->share;
}

static void look_at(look *l, int64_t index, uint8_t *pixels) {
    static const double slow_s = 5;
    const double start_s = ls_clock_seconds();
    ls_status status = ls_dataset_verify(l->dataset, index, index % l->options->groups == l->options->group, pixels);
    if (status.code == LS_DATA)
        l->broken[index] = 1;
    else if (ls_failed(status))
        keep_failure(l, status);
    atomic_fetch_add(&l->done, 1);
    const double took_s = ls_clock_seconds() - start_s;
    char name[LS_TEXT_BYTES];
    if (took_s > slow_s)
        ls_warn("%s: takes %.0f s to decode, in every epoch; scale it down",
            ls_dataset_sample_name(l->dataset, index, name, sizeof name), took_s);
}

static void *work(void *context) {
    look *l = context;
    uint8_t *pixels;
    ls_status status =
        ls_try_new(&pixels, ls_chw_count(l->dataset->facts.shape), sizeof *pixels, "pixels of a picture");
    if (ls_failed(status)) keep_failure(l, status);
    for (int64_t i; (i = atomic_fetch_add(&l->next, 1)) < l->dataset->facts.count;)
        if (is_mine(l->options, i) && !ls_dataset_is_packed(l->dataset, i)) look_at(l, i, pixels);
    free(pixels);
    atomic_fetch_sub(&l->working, 1);
    return NULL;
}

static int64_t count_mine(const ls_dataset *dataset, const ls_verify_options *o) {
    int64_t count = 0;
    for (int64_t i = 0; i < dataset->facts.count; i++) count += is_mine(o, i) && !ls_dataset_is_packed(dataset, i);
    return count;
}

ls_status ls_verify_read(
    const ls_dataset *dataset, const ls_verify_options *options, uint8_t *broken, int64_t *looked) {
    const int64_t mine = *looked = count_mine(dataset, options);
    if (mine == 0) return LS_SUCCESS;
    const int workers = mine < options->workers ? (int)mine : options->workers;
    pthread_t *threads = ls_new(workers, sizeof *threads, "%d threads", workers);
    look l = { .dataset = dataset, .options = options, .broken = broken, .lock = PTHREAD_MUTEX_INITIALIZER };
    int started = 0;
    for (; started < workers; started++) {
        atomic_fetch_add(&l.working, 1);
        if (ls_thread_start(&threads[started], work, &l) == 0) continue;
        atomic_fetch_sub(&l.working, 1);
        break; // fewer threads are slower, not wrong
    }
    if (started == 0) {
        atomic_fetch_add(&l.working, 1);
        work(&l);
    }
    while (atomic_load(&l.working) > 0) {
        ls_clock_sleep(atomic_load(&l.done) < 100 ? 0.001 : 0.1);
        if (options->alive) options->alive(options->context, atomic_load(&l.done), mine);
    }
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
    free(threads);
    pthread_mutex_destroy(&l.lock);
    return l.failed_code == LS_OK ? LS_SUCCESS : ls_fail(l.failed_code, "%s", l.failed_text);
}

uint64_t ls_verify_contents(const ls_dataset *dataset, const ls_verify_options *options, int64_t *contents) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < dataset->facts.count; i++) {
        if (!is_mine(options, i)) continue;
        const uint64_t content = ls_dataset_content(dataset, i);
        const int64_t file = dataset->file(dataset, i);
        if (contents) contents[i] = (int64_t)content;
        sum += ls_hash_more(content, &file, sizeof file);
    }
    return sum;
}
