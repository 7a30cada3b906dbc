// timeline.h - spans (base/spans.h) of what is enqueued on a device's queues, on the host's clock.
//
// On a device whose operators run at once, a span is the clock before and after. Elsewhere timed events are
// enqueued around the work, and when the update has completed, the spans between them are recorded, placed by one
// synchronised reference event. Work between begin and end is enqueued, not captured into a graph.
//
// One timeline serves a rank. A lane is used by one thread at a time and its spans do not lie inside each other;
// several lanes may be used by several threads. Nothing is allocated after new. A NULL timeline is allowed everywhere:
// nothing happens, as nothing happens while ls_spans_on() is 0.
#ifndef LS_DEVICE_TIMELINE_H
#define LS_DEVICE_TIMELINE_H

#include "base/spans.h"
#include "device/device.h"

typedef struct ls_timeline ls_timeline;

// spans[lane]: how many may be under way at once; more are left out, and counted by the trace. LS_DEVICE: no memory.
LS_CHECKED ls_status ls_timeline_new(ls_device *device, const int spans[LS_SPANS_LANE_COUNT], ls_timeline **out);
void ls_timeline_free(ls_timeline *timeline); // the queues have finished
// Finds out where the device's clock lies on the host's, when nothing is under way; before the first span.
LS_CHECKED ls_status ls_timeline_align(ls_timeline *timeline, ls_queue *queue);
double ls_timeline_error_seconds(const ls_timeline *timeline); // of that, at most

// Around what is enqueued on queue. what: all but the times; its texts as in base/spans.h.
void ls_timeline_begin(ls_timeline *timeline, const ls_span *what, ls_queue *queue);
void ls_timeline_end(ls_timeline *timeline, ls_span_lane lane, ls_queue *queue);
// Updates up to this one have completed: records their spans. The first error of the device.
LS_CHECKED ls_status ls_timeline_resolve(ls_timeline *timeline, int64_t update);

#endif
