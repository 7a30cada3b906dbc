// feed.h - brings the loader's micro-batches to where programs read them.
//
// On a device in host memory programs read the prefetch ring itself. On a GPU the ring lies in pinned memory; a queue
// of its own copies its slots to slots on the GPU, LS_FEED_AHEAD micro-batches ahead of the programs, so that the
// compute queue never waits for a copy and the host never waits for the compute queue. With `resident` the whole data
// set lies on the device from the start, and a slot holds numbers of samples instead of pixels.
// All of them feed the same batches.
#ifndef LS_TRAIN_FEED_H
#define LS_TRAIN_FEED_H

#include "data/loader.h"
#include "device/timeline.h"
#include "dist/comm.h"
#include "train/program.h"

enum { LS_FEED_AHEAD = 2 };

typedef struct ls_feed ls_feed;

typedef struct {
    ls_queue *queue; // that programs run on; borrowed
    const ls_dataset *dataset;
    int micro_batch;
    int prefetch; // slots of the ring that the loader may fill ahead
    int resident;
    ls_comm *comm; // whose ranks meet in what the queue runs: the watchdog must see the waits; NULL: none do
} ls_feed_options;

// Makes ring and slots; with `resident` copies the data set to the device, too
// (LS_DATA for a picture that cannot be decoded).
LS_CHECKED ls_status ls_feed_new(ls_device *device, const ls_feed_options *options, ls_feed **out);
void ls_feed_free(ls_feed *feed); // NULL is allowed; the queue must have finished what it was given
// Starts a loader at the place that options say; its data set, slots and labels are the feed's. last: how many
// micro-batches will be taken; -1: no end.
LS_CHECKED ls_status ls_feed_start(ls_feed *feed, const ls_loader_options *options, int64_t last);
void ls_feed_stop(ls_feed *feed);
int ls_feed_started(const ls_feed *feed);
// The next micro-batch: fills in its inputs (pixels, labels, placement, index, micro record) and makes the queue wait
// for them. done: what was enqueued since then was all that reads them.
LS_CHECKED ls_status ls_feed_next(ls_feed *feed, ls_program_inputs *inputs, ls_batch *batch);
LS_CHECKED ls_status ls_feed_done(ls_feed *feed);
void ls_feed_trace(ls_feed *feed, ls_timeline *timeline);                       // shows its copies there; borrowed
double ls_feed_wait_seconds(const ls_feed *feed);                               // for the loader, since new
size_t ls_feed_bytes(const ls_feed *feed);                                      // ring, slots and resident data set
size_t ls_feed_device_bytes(ls_device *device, const ls_feed_options *options); // what new would take on the device

#endif
