// host.h - the common part of devices that use host memory: slabs, queues that run work at once, and plain layouts.
//
// Plain layouts: activations are canonical NCHW in their storage type, parameters are canonical fp32. Nothing is
// padded; cpu has layouts of its own. A device fills its table from these functions and adds the others. A queue runs
// work at once: the work is done when run returns. So event_sync and queue_sync only return the queue's first failure.
#ifndef LS_DEVICE_HOST_H
#define LS_DEVICE_HOST_H

#include "base/pool.h"
#include "device/device.h"

ls_status ls_host_slab_new(ls_device *device, ls_memory_kind kind, size_t bytes, const char *what, ls_slab **out);
void ls_host_slab_free(ls_slab *slab);

ls_status ls_host_queue_new(ls_device *device, const char *name, ls_queue **out);
void ls_host_queue_free(ls_queue *queue);
ls_status ls_host_queue_sync(ls_queue *queue);
void ls_host_queue_fail(ls_queue *queue, ls_status status); // records that work on this queue failed; from any thread
ls_status ls_host_event_new(ls_device *device, int timed, ls_event **out);
void ls_host_event_free(ls_event *event);
void ls_host_event_record(ls_event *event, ls_queue *queue);
void ls_host_event_wait(ls_event *event, ls_queue *queue);
ls_status ls_host_event_sync(ls_event *event);
int ls_host_event_happened(ls_event *event);
double ls_host_event_seconds(ls_event *from, ls_event *to);
void ls_host_copy(ls_buffer dst, ls_buffer src, size_t bytes, ls_queue *queue);
void ls_host_zero(ls_buffer dst, size_t bytes, ls_queue *queue);

size_t ls_host_activation_bytes(const ls_device *device, ls_nchw shape, ls_dtype storage);
void ls_host_activation_import(ls_device *device, ls_nchw shape, ls_dtype storage, const float *host, ls_buffer dst);
void ls_host_activation_export(ls_device *device, ls_nchw shape, ls_dtype storage, ls_buffer src, float *host);
size_t ls_host_param_elements(const ls_device *device, const ls_param_shape *shape);
void ls_host_param_import(ls_device *device, const ls_param_shape *shape, const float *host, ls_buffer dst);
void ls_host_param_export(ls_device *device, const ls_param_shape *shape, ls_buffer src, float *host);

// Runs TRIVIAL_AUGMENT (device/op_augment.h). A task is one sample.
void ls_host_trivial_augment(const ls_plan *plan, const ls_buffer *args, ls_pool *pool);

// The rows of a table (ls_device_api) that are the same for every device that uses host memory.
#define LS_HOST_MEMORY_ROWS \
    .slab_new = ls_host_slab_new, .slab_free = ls_host_slab_free, .queue_new = ls_host_queue_new, \
    .queue_free = ls_host_queue_free, .queue_sync = ls_host_queue_sync, .event_new = ls_host_event_new, \
    .event_free = ls_host_event_free, .event_record = ls_host_event_record, .event_wait = ls_host_event_wait, \
    .event_sync = ls_host_event_sync, .event_happened = ls_host_event_happened, \
    .event_seconds = ls_host_event_seconds, .copy = ls_host_copy, .zero = ls_host_zero
#define LS_HOST_LAYOUT_ROWS \
    .activation_bytes = ls_host_activation_bytes, .activation_import = ls_host_activation_import, \
    .activation_export = ls_host_activation_export, .param_elements = ls_host_param_elements, \
    .param_import = ls_host_param_import, .param_export = ls_host_param_export

#endif
