// graph_capture.h - records a piece of work as a graph of the device (a CUDA graph), so that repeating it costs the
// host little.
//
// The first time, the work runs normally, so that plans and libraries can do what they do at first use. The second time
// it is captured. That time and later the captured graph is launched as a whole. The results are the same bits. The
// work always runs normally on a device that cannot capture, with device.graphs = false, while a trace is recorded, and
// if there are too many pieces of work (LIMIT in graph_capture.c).
#ifndef LS_PROGRAM_GRAPH_CAPTURE_H
#define LS_PROGRAM_GRAPH_CAPTURE_H

#include "device/device.h"

typedef struct ls_graph_capture ls_graph_capture;

// Identifies a piece of work: everything that decides which instructions it enqueues, and with which buffers.
typedef struct {
    const void *program;
    ls_buffer input;
    int variant;
} ls_graph_capture_key;

LS_CHECKED ls_status ls_graph_capture_new(ls_queue *queue, const ls_device_api *api, int on, ls_graph_capture **out);
// Frees `capture` with its graphs. Call it before the slabs that they use are freed. NULL is allowed.
void ls_graph_capture_free(ls_graph_capture *capture);
LS_CHECKED ls_status ls_graph_capture_run(
    ls_graph_capture *capture, ls_graph_capture_key key, void (*enqueue)(void *context), void *context);

#endif
