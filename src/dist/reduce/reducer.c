#include "dist/reduce/reducer.h"

#include <assert.h>
#include <string.h>
#include "base/memory.h"
#include "dist/reduce/reducer_kind.h"

static ls_status check(const ls_reducer_options *o) {
    for (int i = 0; i < o->bucket_count; i++) {
        const ls_bucket *b = &o->buckets[i];
        if (b->dtype != LS_F32 && b->dtype != LS_BF16 && b->dtype != LS_I64)
            return ls_fail(
                LS_INTERNAL, "reducer: sums fp32, bf16 or int64, not %s (bucket %d)", ls_dtype_name(b->dtype), i);
        if (b->count < 0 || b->count > INT32_MAX || ls_bucket_bytes(b) > b->data.bytes)
            return ls_fail(LS_INTERNAL,
                "reducer: bucket %d has %lld elements in %zu bytes (at most 2^31 - 1 in one bucket)", i,
                (long long)b->count, b->data.bytes);
    }
    return LS_SUCCESS;
}

// Makes the parts of a reducer that need no other rank.
static ls_status make(const ls_reducer_options *options, ls_reducer **out) {
    LS_TRY(check(options));
    size_t bytes = (size_t)options->bucket_count * sizeof(ls_bucket);
    ls_bucket *buckets =
        ls_new(options->bucket_count + 1, sizeof *buckets, "reducer of %d buckets", options->bucket_count);
    if (bytes > 0) memcpy(buckets, options->buckets, bytes);
    ls_reducer_options own = *options;
    own.buckets = buckets;
    ls_status status = own.collective ? ls_reducer_queue_new(&own, out) : ls_reducer_host_new(&own, out);
    if (ls_failed(status)) free(buckets);
    return status;
}

ls_status ls_reducer_new(const ls_reducer_options *options, ls_reducer **out) {
    ls_reducer *reducer = NULL;
    ls_status status = ls_comm_agree(options->comm, make(options, &reducer), NULL); // the next step needs all ranks
    if (!ls_failed(status) && reducer->kind->start) status = reducer->kind->start(reducer);
    return LS_GIVE_OR_FREE(status, reducer, out, ls_reducer_free);
}

void ls_reducer_free(ls_reducer *reducer) {
    if (!reducer) return;
    ls_bucket *buckets = (ls_bucket *)reducer->options.buckets; // used until the communication thread has ended
    reducer->kind->free(reducer);
    free(buckets);
}

void ls_reducer_trace(ls_reducer *reducer, ls_timeline *timeline) {
    reducer->timeline = timeline;
}

int ls_reducer_on_queue(const ls_reducer *reducer) {
    return reducer->kind->on_queue;
}

void ls_reducer_launch(ls_reducer *reducer, int bucket) {
    assert(bucket >= 0 && bucket < reducer->options.bucket_count);
    reducer->kind->launch(reducer, bucket);
}

ls_status ls_reducer_wait(ls_reducer *reducer, ls_buffer flag) {
    return reducer->kind->wait(reducer, flag);
}

ls_status ls_reducer_sum_now(ls_reducer *reducer, ls_buffer sums, int64_t count) {
    return reducer->kind->sum_now(reducer, sums, count);
}

ls_reducer_counts ls_reducer_count(const ls_reducer *reducer) {
    ls_reducer_counts counts = { .exposed_seconds = reducer->exposed_s,
        .busy_seconds = reducer->kind->busy_seconds(reducer),
        .buckets = reducer->options.bucket_count };
    counts.waited_seconds =
        reducer->kind->waited_seconds ? reducer->kind->waited_seconds(reducer) : counts.exposed_seconds;
    for (int i = 0; i < counts.buckets; i++) counts.bytes += ls_bucket_bytes(&reducer->options.buckets[i]);
    return counts;
}
