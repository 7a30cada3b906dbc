#include "dist/reduce/staging.h"

#include <string.h>
#include "base/memory.h"

enum { ALIGN = 128, SMALL_BYTES = 1 << 14 };

typedef struct {
    ls_buffer pinned;
    ls_event *filled, *arrived; // recorded when the bucket is complete on the device, and when it is in pinned memory
} place;

struct ls_staging {
    ls_device *device;
    ls_queue *compute, *out, *back; // out: used by the caller's thread; back: by the thread that sums
    const ls_bucket *buckets;       // the reducer's buckets
    int count;
    ls_slab *pinned; // all buckets, then SMALL_BYTES
    ls_buffer small;
    place *places;
    ls_event *returned; // recorded after the last copy back
};

static ls_status fill(ls_staging *s, const ls_reducer_options *o) {
    const ls_device_api *api = o->device->api;
    size_t bytes = 0;
    s->places = ls_new(s->count + 1, sizeof *s->places, "staging of %d buckets", s->count);
    for (int b = 0; b < s->count; b++) {
        size_t own = (size_t)s->buckets[b].count * ls_dtype_bytes(s->buckets[b].dtype);
        s->places[b].pinned = (ls_buffer){ NULL, bytes, own };
        bytes += (own + ALIGN - 1) / ALIGN * ALIGN;
    }
    LS_TRY(api->slab_new(s->device, LS_MEMORY_PINNED, bytes + SMALL_BYTES, "gradients (host)", &s->pinned));
    s->small = ls_buffer_at(s->pinned, bytes, SMALL_BYTES);
    LS_TRY(api->queue_new(s->device, "gradients out", &s->out));
    LS_TRY(api->queue_new(s->device, "gradients back", &s->back));
    LS_TRY(api->event_new(s->device, 0, &s->returned));
    for (int b = 0; b < s->count; b++) {
        s->places[b].pinned.slab = s->pinned;
        LS_TRY(api->event_new(s->device, 0, &s->places[b].filled));
        LS_TRY(api->event_new(s->device, 0, &s->places[b].arrived));
    }
    return LS_SUCCESS;
}

ls_status ls_staging_new(const ls_reducer_options *options, ls_staging **out) {
    ls_staging *s = ls_new(1, sizeof *s, "staging of %d buckets", options->bucket_count);
    *s = (ls_staging){ .device = options->device,
        .compute = options->queue,
        .buckets = options->buckets,
        .count = options->bucket_count };
    ls_status status = fill(s, options);
    return LS_GIVE_OR_FREE(status, s, out, ls_staging_free);
}

void ls_staging_free(ls_staging *s) {
    if (!s) return;
    const ls_device_api *api = s->device->api;
    for (int b = 0; s->places && b < s->count; b++) {
        if (s->places[b].filled) api->event_free(s->places[b].filled);
        if (s->places[b].arrived) api->event_free(s->places[b].arrived);
    }
    if (s->returned) api->event_free(s->returned);
    if (s->out) api->queue_free(s->out);
    if (s->back) api->queue_free(s->back);
    if (s->pinned) api->slab_free(s->pinned);
    free(s->places);
    free(s);
}

void *ls_staging_data(const ls_staging *s, int bucket) {
    return ls_buffer_host(s->places[bucket].pinned);
}

void ls_staging_send(ls_staging *s, int bucket) {
    const ls_device_api *api = s->device->api;
    const place *p = &s->places[bucket];
    api->event_record(p->filled, s->compute);
    api->event_wait(p->filled, s->out);
    api->copy(p->pinned, s->buckets[bucket].data, p->pinned.bytes, s->out);
    api->event_record(p->arrived, s->out);
}

int ls_staging_arrived(ls_staging *s, int bucket) {
    return s->device->api->event_happened(s->places[bucket].arrived);
}

ls_status ls_staging_await(ls_staging *s, int bucket) {
    return s->device->api->event_sync(s->places[bucket].arrived);
}

void ls_staging_return(ls_staging *s, int bucket) {
    const place *p = &s->places[bucket];
    s->device->api->copy(s->buckets[bucket].data, p->pinned, p->pinned.bytes, s->back);
    s->device->api->event_record(s->returned, s->back);
}

void ls_staging_join(ls_staging *s) {
    s->device->api->event_wait(s->returned, s->compute);
}

ls_status ls_staging_fetch(ls_staging *s, ls_buffer from, void *host, size_t bytes) {
    const ls_device_api *api = s->device->api;
    for (size_t at = 0; at < bytes; at += SMALL_BYTES) {
        size_t part = bytes - at < SMALL_BYTES ? bytes - at : SMALL_BYTES;
        api->copy(s->small, ls_buffer_at(from.slab, from.offset + at, part), part, s->compute);
        LS_TRY(api->queue_sync(s->compute));
        memcpy((char *)host + at, ls_buffer_host(s->small), part);
    }
    return LS_SUCCESS;
}

ls_status ls_staging_store(ls_staging *s, const void *host, ls_buffer to, size_t bytes) {
    const ls_device_api *api = s->device->api;
    for (size_t at = 0; at < bytes; at += SMALL_BYTES) {
        size_t part = bytes - at < SMALL_BYTES ? bytes - at : SMALL_BYTES;
        memcpy(ls_buffer_host(s->small), (const char *)host + at, part);
        api->copy(ls_buffer_at(to.slab, to.offset + at, part), s->small, part, s->compute);
        LS_TRY(api->queue_sync(s->compute)); // the next part uses `small` again
    }
    return LS_SUCCESS;
}
