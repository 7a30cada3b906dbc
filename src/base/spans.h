// spans.h - records when this process did which work, in memory. run/trace_file.h writes the spans of all ranks.
//
// Process-wide on purpose: spans are recorded all over the program, and a process has one timeline. Recording is on
// only for the updates of a window. Memory for a fixed number of spans is allocated once, and any thread claims a slot
// there without a lock. Spans that no longer fit are dropped and counted. The newest are dropped, so that the first
// updates of the window are complete. While recording is off, a call to record costs one relaxed load.
//
// Times are those of ls_clock_seconds. Texts are borrowed until ls_spans_close, so they must be constants or live as
// long as the run. A device plugin has its own copy of base/, so the callers of the plugin record its work.
#ifndef LS_BASE_SPANS_H
#define LS_BASE_SPANS_H

#include <stdint.h>
#include "base/status.h"

//    name       text          spans in this lane
#define LS_SPANS_LANES(X) \
    X(HOST, "host")           /* phases of the thread that drives the run; may be nested */ \
    X(WAITS, "waits")         /* waits of that thread: for the loader, for gradients, for the device */ \
    X(COMPUTE, "compute")     /* instructions and the end of an update; one after another */ \
    X(GRADIENTS, "gradients") /* buckets in flight; several at once */ \
    X(COPIES, "copies")       /* copies of inputs and buckets, if the device has its own memory */ \
    X(LOADER, "loader")       /* filling of batches; several at once */

typedef enum {
#define X(name, text) LS_SPANS_##name,
    LS_SPANS_LANES(X)
#undef X
        LS_SPANS_LANE_COUNT
} ls_span_lane;

enum { LS_SPANS_SPANS = 1 << 18, LS_SPANS_NO_UPDATE = -1 };

typedef struct {
    ls_span_lane lane;
    const char *name;      // kind of work: "conv forward", "bucket", "enqueue"
    const char *detail;    // layer or other object of the work; NULL: no detail
    const char *algorithm; // algorithm used; NULL: not known
    int64_t number;        // number of the instruction, bucket or micro-batch; -1: no number
    int64_t update;        // update that the span belongs to; LS_SPANS_NO_UPDATE: the current one
    double bytes, flops;   // bytes moved and operations computed; 0: unknown
    double ready_s;        // for a bucket: the time when it could have begun; 0: unknown
    double start_s, end_s;
} ls_span;

// Allocates memory for `spans` spans. LS_DEVICE without memory.
LS_CHECKED ls_status ls_spans_open(int spans);
void ls_spans_close(void); // call when no thread records any more
int ls_spans_opened(void);
void ls_spans_window(int64_t from, int64_t to); // record the updates [from, to)
// Turns recording on at the start of the window and off at its end. Call it when no work is under way and `update`
// comes next. Returns the update before which all work must end and this function must be called again; INT64_MAX: no
// more calls.
int64_t ls_spans_at(int64_t update);
int ls_spans_on(void);                 // usage: if (ls_spans_on()) { read the clock and record }
double ls_spans_clock(void);           // ls_clock_seconds() while recording is on, else 0
void ls_spans_update(int64_t update);  // the update being enqueued; spans without an update belong to it
int64_t ls_spans_current_update(void); // the update being enqueued

// Records a span. Nothing happens when recording is off.
void ls_spans_add(const ls_span *span);
// Records a finished span like ls_spans_add, from its parts instead of a struct.
void ls_spans_span(
    ls_span_lane lane, const char *name, const char *detail, int64_t number, double start_s, double end_s);

void ls_spans_lose(void); // while recording is on: counts a span that the caller could not record

// Return the recorded spans, in no particular order. Call these functions at the end, when no thread records.
int ls_spans_count(void);
const ls_span *ls_spans_get(int index); // NULL: a thread had not finished writing it
int64_t ls_spans_dropped(void);         // number of spans that did not fit or that ls_spans_lose counted
const char *ls_spans_lane_name(ls_span_lane lane);

#endif
