// loader.c - a worker takes a ticket (the next micro-batch of this rank, and the next slot) under a lock, fills the
// slot without the lock, and hands it to the consumer through the ring. A consumer whose batch is filled takes no lock.
//
// There are two buffers for the order of samples, used in turn by successive epochs. A worker shuffles the next epoch's
// order while it has no free slot to fill, or at the end of the epoch at the latest.
#include "data/loader.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "base/spans.h"
#include "data/prefetch_ring.h"

typedef struct {
    int64_t epoch, window;
    int micro; // index among this rank's micro-batches in the window
} place;

typedef struct {
    uint32_t *order;
    int64_t epoch; // the epoch that has this order; -1: no order yet
    int readers;   // workers that are filling slots from it
} epoch_order;

struct ls_loader {
    ls_loader_options options;
    size_t sample_bytes;
    ls_ring ring;
    ls_batch *batches; // by slot: its batch
    int worker_count;
    pthread_t *workers;

    pthread_mutex_t lock;
    pthread_cond_t work, filled; // work: a worker may have something to do; filled: a slot was filled for the consumer
    place next;                  // place of the next ticket
    int64_t end_epoch;
    uint64_t tickets;      // number of tickets given out
    epoch_order orders[2]; // epoch e uses orders[e % 2]
    int shuffling;
    int consumer_waits;
    int failed; // a worker failed: no more tickets are given out
    uint64_t failed_ticket;
    ls_code failed_code;
    char failed_text[LS_STATUS_TEXT_BYTES];
    atomic_int idle; // number of workers that wait, or are about to wait, for a free slot
    atomic_int stop;

    uint64_t acquired, released; // used by the consumer alone
    double wait_seconds;
};

// Returns the first place from p on at which this rank has samples.
static place skip_empty(const ls_loader *loader, place p) {
    const ls_batches *b = &loader->options.batches;
    for (;;) {
        if (p.window >= b->windows) {
            p = (place){ p.epoch + 1, 0, 0 };
            if (p.epoch >= loader->end_epoch) return p;
            continue;
        }
        if (p.micro < b->per_rank && ls_batches_micro_samples(b, p.window, b->rank * b->per_rank + p.micro) > 0)
            return p;
        p = (place){ p.epoch, p.window + 1, 0 };
    }
}

static ls_status fill_slot(const ls_loader *loader, const ls_batch *batch, const uint32_t *order) {
    const ls_loader_options *o = &loader->options;
    const ls_slot *slot = &o->slots[batch->slot];
    const ls_dataset_info *info = ls_dataset_get_info(o->dataset);
    size_t bytes = loader->sample_bytes;
    int64_t first = batch->window * o->batches.global_batch + (int64_t)batch->position;
    for (int k = 0; k < batch->count; k++) {
        int64_t draw = order ? order[first + k] : first + k, sample = draw % info->count;
        if (slot->pixels) {
            LS_TRY(ls_dataset_read_whole(o->dataset, sample, slot->pixels + (size_t)k * bytes, &slot->labels[k]));
        } else {
            slot->index[k] = (int32_t)sample;
            slot->labels[k] = o->labels[sample];
        }
        slot->augment[k] = ls_augment_draw(&o->augmentation, info->shape, o->seed, batch->epoch, draw);
    }
    size_t rest = (size_t)(o->batches.micro_batch - batch->count), used = (size_t)batch->count;
    if (rest > 0) {
        if (slot->pixels) memset(slot->pixels + used * bytes, 0, rest * bytes);
        if (slot->index) memset(slot->index + used, 0, rest * sizeof *slot->index);
        memset(slot->labels + used, 0, rest * sizeof *slot->labels);
        memset(slot->augment + used, 0, rest * sizeof *slot->augment);
    }
    return LS_SUCCESS;
}

static double traced_clock(const ls_loader *loader) {
    return loader->options.traced && ls_spans_on() ? ls_clock_seconds() : 0;
}

// Adds a span of this loader's work to the trace, from start_s (from traced_clock) until now. start_s 0: adds nothing.
static void add_span(
    const ls_loader *loader, ls_span_lane lane, const char *name, const ls_batch *batch, double start_s) {
    if (start_s == 0) return;
    size_t picture = loader->options.slots[batch->slot].pixels ? loader->sample_bytes : 0;
    ls_spans_add(&(ls_span){ .lane = lane,
        .name = name,
        .number = batch->micro,
        .update = batch->epoch * loader->options.batches.windows + batch->window,
        .bytes = (double)batch->count * (double)picture,
        .start_s = start_s,
        .end_s = ls_clock_seconds() });
}

static void keep_failure(ls_loader *loader, uint64_t ticket, ls_status status) {
    if (loader->failed && loader->failed_ticket < ticket) return;
    loader->failed = 1;
    loader->failed_ticket = ticket;
    loader->failed_code = status.code;
    snprintf(loader->failed_text, sizeof loader->failed_text, "%s", status.text); // later texts overwrite it
}

// Takes the next ticket and fills its slot. Call it with the lock held; it is released while the slot is filled.
static void fill_next(ls_loader *loader, epoch_order *order) {
    const ls_batches *b = &loader->options.batches;
    place p = loader->next;
    uint64_t ticket = loader->tickets++;
    loader->next = skip_empty(loader, (place){ p.epoch, p.window, p.micro + 1 });
    order->readers++;
    ls_batch *batch = &loader->batches[ticket % (uint64_t)loader->ring.slots];
    int micro = b->rank * b->per_rank + p.micro;
    *batch = (ls_batch){
        .slot = (int)(ticket % (uint64_t)loader->ring.slots),
        .count = ls_batches_micro_samples(b, p.window, micro),
        .epoch = p.epoch,
        .window = p.window,
        .micro = micro,
        .position = (uint64_t)micro * (uint64_t)b->micro_batch,
    };
    pthread_mutex_unlock(&loader->lock);
    double start_s = traced_clock(loader);
    const uint32_t *samples = loader->options.shuffle ? order->order : loader->options.order;
    ls_status status = fill_slot(loader, batch, samples);
    add_span(loader, LS_SPANS_LOADER, "fill", batch, start_s);
    pthread_mutex_lock(&loader->lock);
    order->readers--;
    if (ls_failed(status)) {
        keep_failure(loader, ticket, status);
    } else {
        ls_ring_fill(&loader->ring, ticket);
    }
    if (loader->consumer_waits) pthread_cond_signal(&loader->filled);
    if (loader->options.shuffle && order->readers == 0) pthread_cond_signal(&loader->work); // order's buffer is free
}

// Shuffles the order of samples of this epoch. Call it with the lock held, which is released while shuffling.
static void shuffle_epoch(ls_loader *loader, int64_t epoch) {
    epoch_order *order = &loader->orders[epoch % 2];
    loader->shuffling = 1;
    pthread_mutex_unlock(&loader->lock);
    const ls_loader_options *o = &loader->options;
    ls_balance_order(o->balance, order->order, ls_dataset_get_info(o->dataset)->count, o->seed, epoch);
    pthread_mutex_lock(&loader->lock);
    loader->shuffling = 0;
    order->epoch = epoch;
    pthread_cond_broadcast(&loader->work);
}

// Fills a slot or shuffles an epoch, if there is such work. Returns 0 if there is none. Call it with the lock held.
static int do_something(ls_loader *loader) {
    int64_t epoch = loader->next.epoch;
    if (epoch < loader->end_epoch && !loader->failed) {
        epoch_order *order = &loader->orders[epoch % 2];
        int ready = !loader->options.shuffle || order->epoch == epoch;
        if (ready && ls_ring_is_free(&loader->ring, loader->tickets)) {
            fill_next(loader, order);
            return 1;
        }
        int64_t wanted = ready ? epoch + 1 : epoch;
        order = &loader->orders[wanted % 2];
        if (loader->options.shuffle && wanted < loader->end_epoch && order->epoch != wanted && !loader->shuffling &&
            order->readers == 0) {
            shuffle_epoch(loader, wanted);
            return 1;
        }
    }
    return 0;
}

static void *work(void *argument) {
    ls_loader *loader = argument;
    pthread_mutex_lock(&loader->lock);
    while (!loader->stop) {
        if (do_something(loader)) continue;
        // `idle` is raised before the last look for work: a consumer that later releases a slot sees that and signals.
        atomic_fetch_add(&loader->idle, 1);
        if (!do_something(loader) && !loader->stop) pthread_cond_wait(&loader->work, &loader->lock);
        atomic_fetch_sub(&loader->idle, 1);
    }
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

static ls_status check_options(const ls_loader_options *o) {
    int64_t count = ls_dataset_get_info(o->dataset)->count;
    int good = o->workers >= 1 && o->slot_count >= 1 && o->batches.samples >= 1 && o->batches.samples <= count &&
               o->first_epoch >= 0 && o->first_window >= 0;
    if (good) return LS_SUCCESS;
    return ls_fail(LS_INTERNAL,
        "loader: impossible options: %d workers, %d slots, %lld samples of %lld, epoch %lld, window %lld", o->workers,
        o->slot_count, (long long)o->batches.samples, (long long)count, (long long)o->first_epoch,
        (long long)o->first_window);
}

static ls_status start(ls_loader *loader) {
    const ls_loader_options *o = &loader->options;
    ls_ring_new(&loader->ring, o->slot_count);
    loader->batches = ls_new(o->slot_count, sizeof *loader->batches, "loader");
    loader->workers = ls_new(o->workers, sizeof *loader->workers, "loader");
    size_t samples = (size_t)ls_dataset_get_info(o->dataset)->count;
    for (int i = 0; i < 2; i++) {
        loader->orders[i].epoch = -1;
        if (!o->shuffle) continue;
        LS_TRY(ls_try_new(
            &loader->orders[i].order, samples, sizeof *loader->orders[i].order, "order of %zu samples", samples));
    }
    for (; loader->worker_count < o->workers; loader->worker_count++) {
        int rc = ls_thread_start(&loader->workers[loader->worker_count], work, loader);
        if (rc == 0) continue;
        return ls_fail(LS_DEVICE, "cannot start loader thread %d of %d: %s; lower data.workers",
            loader->worker_count + 1, o->workers, strerror(rc));
    }
    return LS_SUCCESS;
}

ls_status ls_loader_new(const ls_loader_options *options, ls_loader **out) {
    LS_TRY(check_options(options));
    ls_loader *loader = ls_new(1, sizeof *loader, "loader");
    loader->options = *options;
    loader->sample_bytes = (size_t)ls_chw_count(ls_dataset_get_info(options->dataset)->shape);
    loader->end_epoch = options->first_epoch + options->epochs;
    loader->next = skip_empty(loader, (place){ options->first_epoch, options->first_window, 0 });
    pthread_mutex_init(&loader->lock, NULL);
    ls_cond_init(&loader->work);
    ls_cond_init(&loader->filled);
    ls_status status = start(loader);
    if (ls_failed(status)) {
        ls_loader_free(loader);
        return status;
    }
    *out = loader;
    return status;
}

void ls_loader_free(ls_loader *loader) {
    if (!loader) return;
    pthread_mutex_lock(&loader->lock);
    loader->stop = 1;
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->lock);
    for (int i = 0; i < loader->worker_count; i++) pthread_join(loader->workers[i], NULL);
    pthread_cond_destroy(&loader->filled);
    pthread_cond_destroy(&loader->work);
    pthread_mutex_destroy(&loader->lock);
    for (int i = 0; i < 2; i++) free(loader->orders[i].order);
    ls_ring_free(&loader->ring);
    free(loader->workers);
    free(loader->batches);
    free(loader);
}

// Waits until batch `ticket` is filled. Returns the failure of the loader if the batch will never be filled.
static ls_status wait_for(ls_loader *loader, uint64_t ticket) {
    ls_status status = LS_SUCCESS;
    double began = ls_clock_seconds();
    pthread_mutex_lock(&loader->lock);
    loader->consumer_waits = 1;
    while (!ls_ring_is_filled(&loader->ring, ticket)) {
        if (loader->failed && loader->failed_ticket == ticket) {
            status = ls_fail(loader->failed_code, "%s", loader->failed_text);
            break;
        }
        if (loader->next.epoch >= loader->end_epoch && ticket >= loader->tickets) {
            status = ls_fail(LS_INTERNAL, "loader: asked for a batch after the last of %lld epochs",
                (long long)loader->options.epochs);
            break;
        }
        pthread_cond_wait(&loader->filled, &loader->lock);
    }
    loader->consumer_waits = 0;
    pthread_mutex_unlock(&loader->lock);
    loader->wait_seconds += ls_clock_seconds() - began;
    return status;
}

ls_status ls_loader_acquire(ls_loader *loader, ls_batch *batch) {
    uint64_t ticket = loader->acquired;
    if (ticket - loader->released == (uint64_t)loader->ring.slots) {
        return ls_fail(LS_INTERNAL, "loader: all %d slots are acquired and none is released", loader->ring.slots);
    }
    const ls_batch *next = &loader->batches[ticket % (uint64_t)loader->ring.slots];
    if (!ls_ring_is_filled(&loader->ring, ticket)) {
        double start_s = traced_clock(loader);
        LS_TRY(wait_for(loader, ticket));
        add_span(loader, LS_SPANS_WAITS, "loader", next, start_s);
    }
    *batch = *next;
    loader->acquired++;
    return LS_SUCCESS;
}

void ls_loader_release(ls_loader *loader, const ls_batch *batch) {
    ls_ring_release(&loader->ring, batch->slot);
    loader->released++;
    if (atomic_load(&loader->idle) == 0) return; // a busy worker finds the free slot by itself
    pthread_mutex_lock(&loader->lock);
    pthread_cond_signal(&loader->work);
    pthread_mutex_unlock(&loader->lock);
}

double ls_loader_wait_seconds(const ls_loader *loader) {
    return loader->wait_seconds;
}
