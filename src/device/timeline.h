// timeline.h - spans (base/spans.h) of the work on a device's queues, in the host's time.
//
// On a device that runs operators at once, a span is the clock before and after the work. On other devices, timed
// events are enqueued before and after the work. After the update has completed, the times between these events are
// recorded as spans. One synchronised reference event relates the device's time to the host's. Work between begin and
// end must be enqueued, not captured into a graph.
//
// A rank has one timeline. Only one thread at a time begins or ends spans of a lane; another one may resolve them. The
// spans of a lane are not nested. Nothing is allocated after ls_timeline_new. Every other function accepts a NULL
// timeline and then does nothing. Nothing is recorded either while ls_spans_on() is 0.
#ifndef LS_DEVICE_TIMELINE_H
#define LS_DEVICE_TIMELINE_H

#include "base/spans.h"
#include "device/device.h"

typedef struct ls_timeline ls_timeline;

// spans[lane]: most spans of the lane that are begun but not yet resolved. Further spans are dropped, and the trace
// counts them. LS_DEVICE: no memory, or the device cannot make the events.
LS_CHECKED ls_status ls_timeline_new(ls_device *device, const int spans[LS_SPANS_LANE_COUNT], ls_timeline **out);
void ls_timeline_free(ls_timeline *timeline); // call after the queues have finished
// Relates the device's clock to the host's. Call while the device is idle, before the first span.
LS_CHECKED ls_status ls_timeline_align(ls_timeline *timeline, ls_queue *queue);
double ls_timeline_error_seconds(const ls_timeline *timeline); // largest error of the clocks' relation

// Begin and end a span: call them before and after enqueuing the work. what: the span without its times. Its texts
// must live as long as base/spans.h says.
void ls_timeline_begin(ls_timeline *timeline, const ls_span *what, ls_queue *queue);
void ls_timeline_end(ls_timeline *timeline, ls_span_lane lane, ls_queue *queue);
// Records the spans of all updates up to this one. Call after these updates have completed. Waits for the end events.
// Returns the device's first error.
LS_CHECKED ls_status ls_timeline_resolve(ls_timeline *timeline, int64_t update);

#endif
