#include "base/spans.h"

#include <stdatomic.h>
#include "base/clock.h"
#include "base/memory.h"

typedef struct {
    ls_span span;
    atomic_int whole; // the span is completely written
} slot;

// Process-wide on purpose: see spans.h.
static struct {
    slot *slots;
    int64_t capacity;
    int64_t from, to; // the window of updates
    atomic_int on;
    _Atomic int64_t claimed; // claims so far; those beyond `capacity` are dropped spans
    _Atomic int64_t lost;    // spans dropped before a slot was claimed
    _Atomic int64_t update;  // the update being enqueued
} trace = { .update = LS_SPANS_NO_UPDATE };

ls_status ls_spans_open(int spans) {
    LS_TRY(ls_try_new(&trace.slots, spans, sizeof *trace.slots, "--trace: %d spans", spans));
    trace.capacity = spans;
    trace.from = trace.to = 0;
    atomic_store(&trace.lost, 0);
    atomic_store(&trace.update, LS_SPANS_NO_UPDATE);
    atomic_store(&trace.claimed, 0); // last, so that a thread that claims a slot sees the other values
    return LS_SUCCESS;
}

void ls_spans_close(void) {
    atomic_store(&trace.on, 0);
    free(trace.slots);
    trace.slots = NULL;
    trace.capacity = 0;
    atomic_store(&trace.lost, 0);
    atomic_store(&trace.claimed, 0);
}

int ls_spans_opened(void) {
    return trace.slots != NULL;
}

void ls_spans_window(int64_t from, int64_t to) {
    trace.from = from;
    trace.to = to;
}

int64_t ls_spans_at(int64_t update) {
    if (!trace.slots || trace.to <= trace.from || update >= trace.to) {
        atomic_store(&trace.on, 0);
        return INT64_MAX;
    }
    if (update < trace.from) return trace.from;
    ls_spans_update(update);
    atomic_store(&trace.on, 1);
    return trace.to;
}

int ls_spans_on(void) {
    return atomic_load_explicit(&trace.on, memory_order_relaxed);
}

double ls_spans_clock(void) {
    return ls_spans_on() ? ls_clock_seconds() : 0;
}

void ls_spans_update(int64_t update) {
    atomic_store_explicit(&trace.update, update, memory_order_relaxed);
}

int64_t ls_spans_current_update(void) {
    return atomic_load_explicit(&trace.update, memory_order_relaxed);
}

void ls_spans_add(const ls_span *span) {
    if (!ls_spans_on()) return;
    int64_t index = atomic_fetch_add(&trace.claimed, 1);
    if (index >= trace.capacity) return;
    slot *p = &trace.slots[index];
    p->span = *span;
    if (span->update == LS_SPANS_NO_UPDATE) p->span.update = atomic_load_explicit(&trace.update, memory_order_relaxed);
    atomic_store_explicit(&p->whole, 1, memory_order_release);
}

void ls_spans_span(
    ls_span_lane lane, const char *name, const char *detail, int64_t number, double start_s, double end_s) {
    ls_spans_add(&(ls_span){ .lane = lane,
        .name = name,
        .detail = detail,
        .number = number,
        .update = LS_SPANS_NO_UPDATE,
        .start_s = start_s,
        .end_s = end_s });
}

void ls_spans_lose(void) {
    if (ls_spans_on()) atomic_fetch_add(&trace.lost, 1);
}

int ls_spans_count(void) {
    int64_t claimed = atomic_load(&trace.claimed);
    return (int)(claimed < trace.capacity ? claimed : trace.capacity);
}

const ls_span *ls_spans_get(int index) {
    const slot *p = &trace.slots[index];
    return atomic_load_explicit(&p->whole, memory_order_acquire) ? &p->span : NULL;
}

int64_t ls_spans_dropped(void) {
    return atomic_load(&trace.claimed) - ls_spans_count() + atomic_load(&trace.lost);
}

const char *ls_spans_lane_name(ls_span_lane lane) {
    static const char *const texts[] = {
#define X(name, text) text,
        LS_SPANS_LANES(X)
#undef X
    };
    return texts[lane];
}
