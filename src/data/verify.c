#include "data/verify.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "data/format.h"

// --- what is remembered: a line with the hash of what follows, then the stamps in ascending order

static const char header_format[] = "lockstep pictures 1 %016" PRIx64 "\n";
enum { HEADER_BYTES = 20 + 16 + 1, STAMP_BYTES = sizeof(uint64_t) };

static int compare_stamps(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

ls_status ls_verify_path(const char *folder, const ls_dataset *dataset, char *path, size_t bytes) {
    const int length = snprintf(path, bytes, "%s/pictures-%016" PRIx64, folder, dataset->place);
    return (size_t)length < bytes ? LS_SUCCESS : ls_fail(LS_STORAGE, "%s: path longer than %zu bytes", folder, bytes);
}

void ls_verify_recall(const char *path, const ls_dataset *dataset, uint8_t *known) {
    char *text = NULL, header[HEADER_BYTES + 1];
    size_t bytes = 0;
    memset(known, 0, (size_t)dataset->facts.count);
    if (!ls_path_exists(path) || ls_failed(ls_read_file(path, &text, &bytes))) return;
    const size_t rest = bytes < HEADER_BYTES ? 0 : bytes - HEADER_BYTES;
    snprintf(header, sizeof header, header_format, rest ? ls_hash(text + HEADER_BYTES, rest) : 0);
    uint64_t *stamps = rest && rest % STAMP_BYTES == 0 && memcmp(text, header, HEADER_BYTES) == 0 ? malloc(rest) : NULL;
    if (stamps) {
        memcpy(stamps, text + HEADER_BYTES, rest);
        for (int64_t i = 0; i < dataset->facts.count; i++) {
            const uint64_t stamp = dataset->stamp(dataset, i);
            known[i] = bsearch(&stamp, stamps, rest / STAMP_BYTES, STAMP_BYTES, compare_stamps) != NULL;
        }
    }
    free(stamps);
    free(text);
}

ls_status ls_verify_remember(const char *path, const ls_dataset *dataset, const uint8_t *broken) {
    uint64_t *stamps;
    LS_TRY(LS_NEW(stamps, dataset->facts.count, "%s", path));
    size_t count = 0;
    for (int64_t i = 0; i < dataset->facts.count; i++)
        if (!broken[i]) stamps[count++] = dataset->stamp(dataset, i);
    qsort(stamps, count, STAMP_BYTES, compare_stamps);
    char header[HEADER_BYTES + 1];
    snprintf(header, sizeof header, header_format, ls_hash(stamps, count * STAMP_BYTES));
    ls_atomic_file *file = NULL;
    ls_status status = ls_atomic_file_open(path, &file);
    if (!ls_failed(status)) {
        ls_atomic_file_write(file, header, HEADER_BYTES);
        ls_atomic_file_write(file, stamps, count * STAMP_BYTES);
        status = ls_atomic_file_commit(file);
    }
    free(stamps);
    return status;
}

// --- looking

typedef struct {
    const ls_dataset *dataset;
    const ls_verify_options *options;
    uint8_t *broken;
    atomic_int_fast64_t next; // sample to look at
    atomic_int_fast64_t done; // looked at
    atomic_int working;       // threads
    pthread_mutex_t lock;
    ls_code failed_code; // under the lock
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

static void look_at(look *l, int64_t index, uint8_t *pixels) {
    static const double slow_s = 5;
    const double start_s = ls_clock_seconds();
    int32_t label;
    ls_status status = ls_dataset_read(l->dataset, index, pixels, &label);
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
    const ls_verify_options *o = l->options;
    uint8_t *pixels;
    ls_status status = LS_NEW(pixels, ls_chw_count(l->dataset->facts.shape), "pixels of a picture");
    if (ls_failed(status)) keep_failure(l, status);
    for (int64_t i; (i = atomic_fetch_add(&l->next, o->shares)) < l->dataset->facts.count;)
        if (!o->known[i]) look_at(l, i, pixels);
    free(pixels);
    atomic_fetch_sub(&l->working, 1);
    return NULL;
}

static int64_t count_mine(const ls_dataset *dataset, const ls_verify_options *o) {
    int64_t count = 0;
    for (int64_t i = o->share; i < dataset->facts.count; i += o->shares) count += !o->known[i];
    return count;
}

ls_status ls_verify_read(
    const ls_dataset *dataset, const ls_verify_options *options, uint8_t *broken, int64_t *looked) {
    const int64_t mine = *looked = count_mine(dataset, options);
    if (mine == 0) return LS_SUCCESS;
    const int workers = mine < options->workers ? (int)mine : options->workers;
    pthread_t *threads;
    LS_TRY(LS_NEW(threads, workers, "%d threads", workers));
    look l = { .dataset = dataset, .options = options, .broken = broken, .lock = PTHREAD_MUTEX_INITIALIZER };
    atomic_init(&l.next, options->share);
    int started = 0;
    for (; started < workers; started++) {
        atomic_fetch_add(&l.working, 1);
        if (ls_thread_start(&threads[started], work, &l) == 0) continue;
        atomic_fetch_sub(&l.working, 1);
        break; // fewer are slower, not wrong
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
