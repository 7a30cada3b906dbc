// input_pipeline.h - brings the loader's micro-batches to where programs read them.
//
// On a device in host memory programs read the prefetch ring itself. On a GPU the ring lies in pinned memory; a queue
// of its own copies its slots to slots on the GPU, LS_INPUT_PIPELINE_AHEAD micro-batches ahead of the programs, so
// that the compute queue never waits for a copy and the host never waits for the compute queue. With `resident` the
// whole data set lies on the device from the start, and a slot holds numbers of samples instead of pixels. All of
// them bring the same batches.
#ifndef LS_TRAIN_INPUT_PIPELINE_H
#define LS_TRAIN_INPUT_PIPELINE_H

#include "data/loader.h"
#include "device/timeline.h"
#include "dist/comm.h"
#include "program/session.h"

enum { LS_INPUT_PIPELINE_AHEAD = 2 };

typedef struct ls_input_pipeline ls_input_pipeline;

typedef struct {
    ls_queue *queue; // that programs run on; borrowed
    const ls_dataset *dataset;
    int micro_batch;
    int prefetch; // slots of the ring that the loader may fill ahead
    int resident;
    ls_comm *comm; // whose ranks meet in what the queue runs: the watchdog must see the waits; NULL: none do
} ls_input_pipeline_options;

// Makes ring and slots; with `resident` copies the data set to the device, too
// (LS_DATA for a picture that cannot be decoded).
LS_CHECKED ls_status ls_input_pipeline_new(
    ls_device *device, const ls_input_pipeline_options *options, ls_input_pipeline **out);
void ls_input_pipeline_free(ls_input_pipeline *pipeline); // NULL is allowed; the queue must have finished
// Starts a loader at the place that options say; its data set, slots and labels are the pipeline's. last: how many
// micro-batches will be taken; -1: no end.
LS_CHECKED ls_status ls_input_pipeline_start(
    ls_input_pipeline *pipeline, const ls_loader_options *options, int64_t last);
void ls_input_pipeline_stop(ls_input_pipeline *pipeline);
int ls_input_pipeline_started(const ls_input_pipeline *pipeline);
// The next micro-batch: fills in its inputs (pixels, labels, augment, index, micro record) and makes the queue wait
// for them. done: what was enqueued since then was all that reads them.
LS_CHECKED ls_status ls_input_pipeline_next(ls_input_pipeline *pipeline, ls_program_inputs *inputs, ls_batch *batch);
LS_CHECKED ls_status ls_input_pipeline_done(ls_input_pipeline *pipeline);
void ls_input_pipeline_trace(ls_input_pipeline *pipeline, ls_timeline *timeline); // shows its copies there; borrowed
// Labels of the micro-batch that was taken last, in host memory, until done.
const int32_t *ls_input_pipeline_labels(const ls_input_pipeline *pipeline, const ls_batch *batch);
double ls_input_pipeline_wait_seconds(const ls_input_pipeline *pipeline); // for the loader, since new
// For a slot on the device, which is the host's wait for computation; since new.
double ls_input_pipeline_device_wait_seconds(const ls_input_pipeline *pipeline);
size_t ls_input_pipeline_bytes(const ls_input_pipeline *pipeline); // ring, slots and resident data set
size_t ls_input_pipeline_device_bytes(
    ls_device *device, const ls_input_pipeline_options *options); // what new would take on the device
// The session's normalisation table becomes that of the data set.
LS_CHECKED ls_status ls_input_pipeline_set_table(ls_session *session, const ls_dataset *dataset);

#endif
