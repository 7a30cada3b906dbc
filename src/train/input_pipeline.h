// input_pipeline.h - brings the loader's micro-batches to the memory from which programs read them.
//
// On a device in host memory, programs read the prefetch ring directly. On a GPU, the ring lies in pinned memory, and a
// separate queue copies its slots to slots on the GPU. Copies run up to LS_INPUT_PIPELINE_AHEAD micro-batches ahead of
// the programs, so that the compute queue never waits for a copy and the host never waits for the compute queue. With
// `resident`, the whole data set lies on the device from the start, and a slot holds the numbers of its samples instead
// of pixels. All three ways deliver the same batches.
#ifndef LS_TRAIN_INPUT_PIPELINE_H
#define LS_TRAIN_INPUT_PIPELINE_H

#include "data/loader.h"
#include "device/timeline.h"
#include "dist/comm.h"
#include "program/session.h"

enum { LS_INPUT_PIPELINE_AHEAD = 2 };

typedef struct ls_input_pipeline ls_input_pipeline;

typedef struct {
    ls_queue *queue; // the queue that programs run on; borrowed
    const ls_dataset *dataset;
    int micro_batch;
    int prefetch; // slots of the ring that the loader may fill ahead
    int resident;
    // If programs exchange data with other ranks: shows the waits to the watchdog. NULL: they exchange no data.
    ls_comm *comm;
} ls_input_pipeline_options;

// Makes the prefetch ring and the slots on the device. With `resident`, copies the data set to the device, or takes the
// copy of another run (resident.h); LS_DATA: a picture cannot be read.
LS_CHECKED ls_status ls_input_pipeline_new(
    ls_device *device, const ls_input_pipeline_options *options, ls_input_pipeline **out);
void ls_input_pipeline_free(ls_input_pipeline *pipeline); // NULL is allowed; the queue must have finished
// Starts a loader at the position that the options name. The pipeline sets their data set, slots and labels. last: the
// number of micro-batches that will be taken; -1: no limit.
LS_CHECKED ls_status ls_input_pipeline_start(
    ls_input_pipeline *pipeline, const ls_loader_options *options, int64_t last);
void ls_input_pipeline_stop(ls_input_pipeline *pipeline);
int ls_input_pipeline_started(const ls_input_pipeline *pipeline);
// Takes the next micro-batch: fills in the inputs (pixels, labels, augment, index, micro record) and makes the queue
// wait for them. Call ls_input_pipeline_done after enqueueing the work that reads them.
LS_CHECKED ls_status ls_input_pipeline_next(ls_input_pipeline *pipeline, ls_program_inputs *inputs, ls_batch *batch);
LS_CHECKED ls_status ls_input_pipeline_done(ls_input_pipeline *pipeline);
// Shows the pipeline's copies on the timeline, which is borrowed.
void ls_input_pipeline_trace(ls_input_pipeline *pipeline, ls_timeline *timeline);
// Returns the labels of the last micro-batch taken, in host memory. They are valid until ls_input_pipeline_done.
const int32_t *ls_input_pipeline_labels(const ls_input_pipeline *pipeline, const ls_batch *batch);
// Returns the seconds since ls_input_pipeline_new that the host waited for the loader.
double ls_input_pipeline_wait_seconds(const ls_input_pipeline *pipeline);
// Returns the seconds since ls_input_pipeline_new that the host waited for the device to free a slot.
double ls_input_pipeline_device_wait_seconds(const ls_input_pipeline *pipeline);
size_t ls_input_pipeline_ring_bytes(const ls_input_pipeline *pipeline); // bytes of the ring, in host memory
// Returns the bytes that ls_input_pipeline_new would allocate on the device.
size_t ls_input_pipeline_device_bytes(ls_device *device, const ls_input_pipeline_options *options);
// Returns the part of them that is not the data set, which pipelines share.
size_t ls_input_pipeline_slot_bytes(ls_device *device, const ls_input_pipeline_options *options);
// Sets the session's normalisation table to the data set's.
LS_CHECKED ls_status ls_input_pipeline_set_table(ls_session *session, const ls_dataset *dataset);

#endif
