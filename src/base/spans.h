// spans.h - spans of a run: what this process did when, held in memory; run/trace_file.h writes those of all ranks.
//
// Process-wide on purpose, like base/log.h: spans are recorded all over the program, and a process has one timeline.
// Recording is off but for the updates of a window. Memory for a fixed number of spans is allocated once; any thread
// claims a slot there without a lock. What no longer fits is dropped and counted: the newest, so that the first
// updates of the window are whole. Off, all of it is one relaxed load.
//
// Times are those of ls_clock_seconds. Texts are borrowed until ls_spans_close: constants, or what lives as long as the
// run. A device plugin has its own copy of base/: what happens there is recorded by its callers.
#ifndef LS_BASE_SPANS_H
#define LS_BASE_SPANS_H

#include <stdint.h>
#include "base/status.h"

//    name       text          what lies there
#define LS_SPANS_LANES(X) \
    X(HOST, "host")           /* phases of the thread that drives the run; may lie inside each other */ \
    X(WAITS, "waits")         /* of that thread: for the loader, for gradients, for the device */ \
    X(COMPUTE, "compute")     /* instructions and what ends an update; one after another */ \
    X(GRADIENTS, "gradients") /* buckets in flight; several at once */ \
    X(COPIES, "copies")       /* of inputs and of buckets, where the device has a memory of its own */ \
    X(LOADER, "loader")       /* batches that are being filled; several at once */

typedef enum {
#define X(name, text) LS_SPANS_##name,
    LS_SPANS_LANES(X)
#undef X
        LS_SPANS_LANE_COUNT
} ls_span_lane;

enum { LS_SPANS_SPANS = 1 << 18, LS_SPANS_NO_UPDATE = -1 };

typedef struct {
    ls_span_lane lane;
    const char *name;      // what it is: "conv forward", "bucket", "enqueue"
    const char *detail;    // of what: the layer; NULL: nothing to add
    const char *algorithm; // how; NULL: nothing to add
    int64_t number;        // which one: instruction, bucket, micro-batch; -1: none
    int64_t update;        // that it belongs to; LS_SPANS_NO_UPDATE: the current one
    double bytes, flops;   // moved, computed; 0: unknown
    double ready_s;        // a bucket: since when it could have begun; 0: unknown
    double start_s, end_s;
} ls_span;

// Memory for that many spans. LS_DEVICE: none left.
LS_CHECKED ls_status ls_spans_open(int spans);
void ls_spans_close(void); // no thread records any more
int ls_spans_opened(void);
void ls_spans_window(int64_t from, int64_t to); // updates [from, to) are recorded
// Nothing is under way and `update` comes next: recording goes on at the window's begin and off at its end. Returns the
// update before which everything must have ended and this must be called again; INT64_MAX: no more.
int64_t ls_spans_at(int64_t update);
int ls_spans_on(void);                 // so: if (ls_spans_on()) { look at the clock and record }
double ls_spans_clock(void);           // ls_clock_seconds() while recording is on, else 0
void ls_spans_update(int64_t update);  // is being enqueued: spans without an update belong to it
int64_t ls_spans_current_update(void); // that update

// Records a span. Nothing happens when recording is off.
void ls_spans_add(const ls_span *span);
// The same for what is over, in short.
void ls_spans_span(
    ls_span_lane lane, const char *name, const char *detail, int64_t number, double start_s, double end_s);

void ls_spans_lose(void); // a span had to be left out: counts as dropped

// What was recorded, in no particular order; for the end, when no thread records.
int ls_spans_count(void);
const ls_span *ls_spans_get(int index); // NULL: a thread was still at it
int64_t ls_spans_dropped(void);         // spans that did not fit
const char *ls_spans_lane_name(ls_span_lane lane);

#endif
