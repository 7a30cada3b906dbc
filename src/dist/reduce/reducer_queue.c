// reducer_queue.c - sums by the device's collectives: all work is enqueued, and the host waits for nothing.
//
// A separate queue carries all collectives in the program's order. It waits for the event of each complete bucket, and
// the compute queue waits for the event of all sums. Without overlap the compute queue itself carries the collectives.
#include "base/memory.h"
#include "dist/reduce/reducer_kind.h"

// Tags of sums that are not buckets, larger than any bucket's number. In their place the watchdog's message says "the
// last bucket" (hang_report.c).
enum { TAG_FLAG = 1 << 20, TAG_SUM_NOW };

typedef struct {
    ls_reducer base;
    ls_queue *own;                     // NULL: no overlap, the compute queue is used
    ls_event **events;                 // one per bucket
    ls_event *summed, *before, *after; // all sums are done; begin and end of queue_sum_now
    int launched;                      // number of buckets launched in this update
    double busy_s;
} queue_reducer;

static const ls_collective_api *api_of(const queue_reducer *r) {
    return ls_reducer_api(&r->base)->collective;
}

static ls_queue *sums_queue(const queue_reducer *r) {
    return r->own ? r->own : r->base.options.queue;
}

// Makes work that is enqueued on `second` from now on follow the work that was enqueued on `first` until now.
static void follow(const queue_reducer *r, ls_event *event, ls_queue *first, ls_queue *second) {
    if (first == second) return;
    ls_reducer_api(&r->base)->event_record(event, first);
    ls_reducer_api(&r->base)->event_wait(event, second);
}

static void stamp(const queue_reducer *r, int which, ls_queue *queue) {
    ls_buffer all = r->base.options.stamps;
    if (!all.slab) return;
    ls_buffer one = { all.slab, all.offset + (size_t)which * sizeof(int64_t), sizeof(int64_t) };
    api_of(r)->stamp(r->base.options.collective, one, queue);
}

// Enqueues one sum. The trace shows it, and a profiler finds it by its name.
static void sum(const queue_reducer *r, const char *name, ls_buffer data, int64_t count, ls_dtype dtype, ls_collect op,
    int32_t tag) {
    const ls_device_api *api = ls_reducer_api(&r->base);
    ls_queue *queue = sums_queue(r);
    if (api->range_begin) api->range_begin(name);
    ls_timeline_begin(r->base.timeline,
        &(ls_span){ .lane = LS_SPANS_GRADIENTS,
            .name = name,
            .number = tag < r->base.options.bucket_count ? tag : -1,
            .update = LS_SPANS_NO_UPDATE,
            .bytes = (double)count * (double)ls_dtype_bytes(dtype) },
        queue);
    api->collective->all_reduce(r->base.options.collective, data, count, dtype, op, tag, queue);
    ls_timeline_end(r->base.timeline, LS_SPANS_GRADIENTS, queue);
    if (api->range_end) api->range_end();
}

static void queue_launch(ls_reducer *reducer, int bucket) {
    queue_reducer *r = (queue_reducer *)reducer;
    const ls_bucket *b = &reducer->options.buckets[bucket];
    follow(r, r->events[bucket], reducer->options.queue, sums_queue(r));
    if (r->launched++ == 0) stamp(r, LS_STAMP_FIRST, sums_queue(r));
    sum(r, "bucket", b->data, b->count, b->dtype, LS_COLLECT_SUM, bucket);
}

static ls_status queue_wait(ls_reducer *reducer, ls_buffer flag) {
    queue_reducer *r = (queue_reducer *)reducer;
    ls_queue *queue = reducer->options.queue;
    if (flag.slab) // the flag is complete no later than the last bucket, for which the queue already waits
        sum(r, "flags", flag, 1, LS_I32, LS_COLLECT_MAX, TAG_FLAG);
    if (r->own) stamp(r, LS_STAMP_COMPLETE, queue); // without overlap nothing is hidden, and all time is exposed
    stamp(r, LS_STAMP_SUMMED, sums_queue(r));
    follow(r, r->summed, sums_queue(r), queue);
    r->launched = 0;
    return LS_SUCCESS;
}

static ls_status queue_sum_now(ls_reducer *reducer, ls_buffer sums, int64_t count) {
    queue_reducer *r = (queue_reducer *)reducer;
    follow(r, r->before, reducer->options.queue, sums_queue(r));
    sum(r, "batch norm", sums, count, LS_F64, LS_COLLECT_SUM, TAG_SUM_NOW);
    follow(r, r->after, sums_queue(r), reducer->options.queue);
    return LS_SUCCESS;
}

void ls_reducer_account(ls_reducer *reducer, const int64_t stamps[LS_STAMPS]) {
    if (!reducer->kind->on_queue) return;
    queue_reducer *r = (queue_reducer *)reducer;
    double busy_s = 1e-9 * (double)(stamps[LS_STAMP_SUMMED] - stamps[LS_STAMP_FIRST]);
    double late_s = 1e-9 * (double)(stamps[LS_STAMP_SUMMED] - stamps[LS_STAMP_COMPLETE]);
    if (!r->own) late_s = busy_s;
    if (busy_s > 0) r->busy_s += busy_s;
    if (late_s > 0) reducer->exposed_s += late_s;
}

static double queue_busy_seconds(const ls_reducer *reducer) {
    return ((const queue_reducer *)reducer)->busy_s;
}

static void queue_free(ls_reducer *reducer) {
    queue_reducer *r = (queue_reducer *)reducer;
    const ls_device_api *api = ls_reducer_api(reducer);
    ls_event *others[] = { r->summed, r->before, r->after };
    for (int i = 0; r->events && i < reducer->options.bucket_count; i++)
        if (r->events[i]) api->event_free(r->events[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i]) api->event_free(others[i]);
    if (r->own) api->queue_free(r->own);
    free(r->events);
    free(r);
}

static const ls_reducer_kind kind = {
    .on_queue = 1,
    .free = queue_free,
    .launch = queue_launch,
    .wait = queue_wait,
    .sum_now = queue_sum_now,
    .busy_seconds = queue_busy_seconds,
};

static ls_status fill(queue_reducer *r) {
    const ls_reducer_options *o = &r->base.options;
    const ls_device_api *api = o->device->api;
    r->events = ls_new(o->bucket_count + 1, sizeof *r->events, "reducer of %d buckets", o->bucket_count);
    for (int i = 0; i < o->bucket_count; i++) LS_TRY(api->event_new(o->device, 0, &r->events[i]));
    ls_event **others[] = { &r->summed, &r->before, &r->after };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) LS_TRY(api->event_new(o->device, 0, others[i]));
    return o->overlap ? api->queue_new(o->device, "gradients", &r->own) : LS_SUCCESS;
}

ls_status ls_reducer_queue_new(const ls_reducer_options *options, ls_reducer **out) {
    queue_reducer *r = ls_new(1, sizeof *r, "reducer of %d buckets", options->bucket_count);
    r->base = (ls_reducer){ .kind = &kind, .options = *options };
    ls_status status = fill(r);
    return LS_GIVE_OR_FREE(status, &r->base, out, queue_free);
}
