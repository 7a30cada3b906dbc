// graph_capture.h - runs a piece of work that is enqueued over and over: eagerly the first time, so that plans and
// libraries settle; captured the second time; from then on the captured graph is launched whole. The results are the same
// bits. On a device that cannot capture, with device.graphs = false, and while a trace is on, every time is the first.
#ifndef LS_PROGRAM_GRAPH_CAPTURE_H
#define LS_PROGRAM_GRAPH_CAPTURE_H

#include "device/device.h"

typedef struct ls_graph_capture ls_graph_capture;

// The key of a piece of work: all that decides which instructions it enqueues, and with which buffers.
typedef struct {
    const void *program;
    ls_buffer input;
    int variant;
} ls_graph_capture_key;

LS_CHECKED ls_status ls_graph_capture_new(ls_queue *queue, const ls_device_api *api, int on, ls_graph_capture **out);
void ls_graph_capture_free(ls_graph_capture *capture); // NULL is allowed; before the slabs of what was captured
LS_CHECKED ls_status ls_graph_capture_run(
    ls_graph_capture *capture, ls_graph_capture_key key, void (*enqueue)(void *context), void *context);

#endif
