// resident.h - a whole data set in a device's memory. Runs of this process that share a data set share its pixels
// there.
#ifndef LS_TRAIN_RESIDENT_H
#define LS_TRAIN_RESIDENT_H

#include "data/dataset.h"
#include "device/device.h"

typedef struct {
    ls_slab *pixels; // sample i begins at byte i * C*H*W
    int32_t *labels; // in host memory
} ls_resident;

// Copies the data set to the device, on the queue, or takes the copy that another run has there. The copy belongs to
// all runs that have got it, until each has called ls_resident_release with its own device. A failure is not shared.
// LS_USAGE: too many samples. LS_DATA: a picture cannot be read. LS_DEVICE: no memory.
LS_CHECKED ls_status ls_resident_get(
    ls_device *device, ls_queue *queue, const ls_dataset *dataset, const ls_resident **out);
void ls_resident_release(ls_device *device, const ls_resident *resident); // NULL is allowed

#endif
