// recorder.h - runs a piece of work that is enqueued over and over: eagerly the first time, so that plans and
// libraries settle; recorded the second time; from then on the recording is launched whole. The results are the same
// bits. On a device that cannot record, with device.graphs = false, and while a trace is on, every time is the first.
#ifndef LS_TRAIN_RECORDER_H
#define LS_TRAIN_RECORDER_H

#include "device/device.h"

typedef struct ls_recorder ls_recorder;

// The key of a piece of work: all that decides which instructions it enqueues, and with which buffers.
typedef struct {
    const void *program;
    ls_buffer input;
    int variant;
} ls_recorder_key;

LS_CHECKED ls_status ls_recorder_new(ls_queue *queue, const ls_device_api *api, int record, ls_recorder **out);
void ls_recorder_free(ls_recorder *recorder); // NULL is allowed; before the slabs of what was recorded
LS_CHECKED ls_status ls_recorder_run(
    ls_recorder *recorder, ls_recorder_key key, void (*enqueue)(void *context), void *context);
int ls_recorder_count(const ls_recorder *recorder); // recordings made so far

#endif
