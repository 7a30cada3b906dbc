#include "train/resident.h"

#include <pthread.h>
#include <stdlib.h>
#include "base/memory.h"

// A copy of a data set and the devices of its users. All runs of a process that have the same kind of device have the
// same device.
typedef struct copy {
    ls_resident base; // first, so that a pointer to it is a pointer to the copy
    struct copy *next;
    const ls_dataset *dataset;
    ls_device **users;
    int user_count;
} copy;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // protects the list and all copies; held while one is made
static copy *first;

// Copies the samples [from, from + count) to the device, through pinned memory.
static ls_status upload(copy *c, ls_queue *queue, ls_slab *through, int64_t from, int64_t count, size_t picture) {
    const ls_device_api *api = through->device->api;
    for (int64_t i = 0; i < count; i++) {
        uint8_t *pixels = (uint8_t *)through->address + (size_t)i * picture;
        LS_TRY(ls_dataset_read_whole(c->dataset, from + i, pixels, &c->base.labels[from + i]));
    }
    size_t bytes = (size_t)count * picture;
    api->copy(
        ls_buffer_at(c->base.pixels, (size_t)from * picture, bytes), ls_buffer_at(through, 0, bytes), bytes, queue);
    return api->queue_sync(queue);
}

static ls_status fill(copy *c, ls_device *device, ls_queue *queue) {
    const ls_device_api *api = device->api;
    const ls_dataset_info *facts = ls_dataset_get_info(c->dataset);
    size_t picture = (size_t)ls_chw_count(facts->shape), samples = (size_t)facts->count;
    if (facts->count > INT32_MAX)
        return ls_fail(LS_USAGE,
            "data.loader = resident holds up to %d samples, but data.dataset = %s has %lld; use data.loader = stream",
            INT32_MAX, facts->name, (long long)facts->count);
    int64_t chunk = (int64_t)((16u << 20) / picture) + 1;
    LS_TRY(ls_try_new(&c->base.labels, samples, sizeof *c->base.labels, "labels of %zu samples", samples));
    LS_TRY(api->slab_new(device, LS_MEMORY_DEVICE, samples * picture, "resident data set", &c->base.pixels));
    ls_slab *through;
    LS_TRY(
        api->slab_new(device, LS_MEMORY_PINNED, (size_t)chunk * picture, "resident data set (on its way)", &through));
    ls_status status = LS_SUCCESS;
    for (int64_t from = 0; from < facts->count && !ls_failed(status); from += chunk)
        status = upload(c, queue, through, from, facts->count - from < chunk ? facts->count - from : chunk, picture);
    api->slab_free(through);
    return status;
}

static copy *find(const ls_device *device, const ls_dataset *dataset) {
    copy *c = first;
    while (c && (c->dataset != dataset || c->users[0]->api != device->api)) c = c->next;
    return c;
}

static void free_copy(copy *c) {
    if (c->base.pixels) c->base.pixels->device->api->slab_free(c->base.pixels);
    free(c->base.labels);
    free(c->users);
    free(c);
}

static ls_status get(ls_device *device, ls_queue *queue, const ls_dataset *dataset, copy **out) {
    copy *c = find(device, dataset);
    if (!c) {
        c = ls_new(1, sizeof *c, "record of a resident data set");
        *c = (copy){ .next = first, .dataset = dataset };
        ls_status status = fill(c, device, queue);
        if (ls_failed(status)) {
            free_copy(c);
            return status;
        }
        first = c;
    }
    c->users = ls_grow(c->users, c->user_count, sizeof(ls_device *), "users of a resident data set");
    c->users[c->user_count++] = device;
    *out = c;
    return LS_SUCCESS;
}

ls_status ls_resident_get(ls_device *device, ls_queue *queue, const ls_dataset *dataset, const ls_resident **out) {
    copy *c;
    pthread_mutex_lock(&lock);
    ls_status status = get(device, queue, dataset, &c);
    pthread_mutex_unlock(&lock);
    if (!ls_failed(status)) *out = &c->base;
    return status;
}

static void drop(copy *c) {
    copy **at = &first;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    free_copy(c);
}

void ls_resident_release(ls_device *device, const ls_resident *resident) {
    copy *c = (copy *)(uintptr_t)resident;
    if (!c) return;
    pthread_mutex_lock(&lock);
    int at = 0;
    while (c->users[at] != device) at++;
    c->users[at] = c->users[c->user_count - 1];
    if (--c->user_count == 0)
        drop(c);
    else
        c->base.pixels->device = c->users[0]; // the device that made the memory may be closed now
    pthread_mutex_unlock(&lock);
}
