#include "device/device.h"

#include <assert.h>

void ls_device_close(ls_device *device) {
    if (device) device->api->close(device);
}

void *ls_buffer_host(ls_buffer buffer) {
    if (!buffer.slab) return NULL;
    assert(buffer.slab->host_visible && "the host reads device memory");
    return buffer.slab->address + buffer.offset;
}
