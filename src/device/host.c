#include "device/host.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/half.h"
#include "base/memory.h"

struct ls_queue {
    ls_device *device;
    pthread_mutex_t lock; // protects status
    ls_status status;     // first failure of any work that ran here
};
struct ls_event {
    ls_device *device;
    ls_queue *queue; // queue that recorded the event last; NULL: never recorded
    double seconds;  // host clock at the last recording
};

ls_status ls_host_slab_new(ls_device *device, ls_memory_kind kind, size_t bytes, const char *what, ls_slab **out) {
    void *memory;
    ls_slab *slab = ls_new(1, sizeof *slab, "record of %s", what);
    ls_status status = ls_memory_new(bytes ? bytes : 1, what, &memory);
    if (ls_failed(status)) {
        free(slab);
        return status;
    }
    *slab = (ls_slab){ .device = device, .kind = kind, .host_visible = 1, .address = memory, .bytes = bytes };
    *out = slab;
    return LS_SUCCESS;
}

void ls_host_slab_free(ls_slab *slab) {
    if (!slab) return;
    ls_memory_free(slab->address);
    free(slab);
}

ls_status ls_host_queue_new(ls_device *device, const char *name, ls_queue **out) {
    *out = ls_new(1, sizeof **out, "queue %s", name);
    **out = (ls_queue){ .device = device, .lock = PTHREAD_MUTEX_INITIALIZER };
    return LS_SUCCESS;
}

void ls_host_queue_free(ls_queue *queue) {
    free(queue);
}

void ls_host_queue_fail(ls_queue *queue, ls_status status) {
    pthread_mutex_lock(&queue->lock);
    ls_keep_first(&queue->status, status);
    pthread_mutex_unlock(&queue->lock);
}

ls_status ls_host_queue_sync(ls_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    ls_status status = queue->status;
    pthread_mutex_unlock(&queue->lock);
    return status;
}

ls_status ls_host_event_new(ls_device *device, int timed, ls_event **out) {
    (void)timed;
    *out = ls_new(1, sizeof **out, "event");
    **out = (ls_event){ .device = device };
    return LS_SUCCESS;
}

void ls_host_event_free(ls_event *event) {
    free(event);
}

void ls_host_event_record(ls_event *event, ls_queue *queue) {
    event->queue = queue;
    event->seconds = ls_clock_seconds();
}

void ls_host_event_wait(ls_event *event, ls_queue *queue) {
    (void)event;
    (void)queue;
}

ls_status ls_host_event_sync(ls_event *event) {
    return event->queue ? ls_host_queue_sync(event->queue) : LS_SUCCESS;
}

int ls_host_event_happened(ls_event *event) {
    (void)event;
    return 1;
}

double ls_host_event_seconds(ls_event *from, ls_event *to) {
    return to->seconds - from->seconds;
}

void ls_host_copy(ls_buffer dst, ls_buffer src, size_t bytes, ls_queue *queue) {
    (void)queue;
    assert(bytes <= dst.bytes && bytes <= src.bytes);
    memcpy(ls_buffer_host(dst), ls_buffer_host(src), bytes);
}

void ls_host_zero(ls_buffer dst, size_t bytes, ls_queue *queue) {
    (void)queue;
    assert(bytes <= dst.bytes);
    memset(ls_buffer_host(dst), 0, bytes);
}

size_t ls_host_activation_bytes(const ls_device *device, ls_nchw shape, ls_dtype storage) {
    (void)device;
    return (size_t)ls_nchw_count(shape) * ls_dtype_bytes(storage);
}

void ls_host_activation_import(ls_device *device, ls_nchw shape, ls_dtype storage, const float *host, ls_buffer dst) {
    (void)device;
    int64_t count = ls_nchw_count(shape);
    void *array = ls_buffer_host(dst);
    for (int64_t i = 0; i < count; i++) ls_store_float(array, storage, i, host[i]);
}

void ls_host_activation_export(ls_device *device, ls_nchw shape, ls_dtype storage, ls_buffer src, float *host) {
    (void)device;
    int64_t count = ls_nchw_count(shape);
    const void *array = ls_buffer_host(src);
    for (int64_t i = 0; i < count; i++) host[i] = ls_load_float(array, storage, i);
}

size_t ls_host_param_elements(const ls_device *device, const ls_param_shape *shape) {
    (void)device;
    return (size_t)ls_param_count(shape);
}

void ls_host_param_import(ls_device *device, const ls_param_shape *shape, const float *host, ls_buffer dst) {
    (void)device;
    memcpy(ls_buffer_host(dst), host, (size_t)ls_param_count(shape) * sizeof *host);
}

void ls_host_param_export(ls_device *device, const ls_param_shape *shape, ls_buffer src, float *host) {
    (void)device;
    memcpy(host, ls_buffer_host(src), (size_t)ls_param_count(shape) * sizeof *host);
}
