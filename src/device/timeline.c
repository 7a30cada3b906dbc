#include "device/timeline.h"

#include <stdatomic.h>
#include "base/clock.h"
#include "base/memory.h"

enum { ALIGN_TRIES = 8 };

typedef struct {
    ls_span span;
    ls_event *from, *to;
} entry;

// The spans in progress of one lane: a ring with one writer and one reader. One thread enqueues work and begins spans;
// another thread resolves them, that is, records their times.
typedef struct {
    entry *entries;
    int capacity;
    int open; // begin was called for the entry at `begun`, but not yet end
    _Atomic int64_t begun, resolved;
    ls_span span; // the open span, on a device that runs operators at once
} lane;

struct ls_timeline {
    ls_device *device;
    int at_once; // the device runs operators before the call returns
    lane lanes[LS_SPANS_LANE_COUNT];
    ls_event *reference, *trial;
    double reference_s, error_s; // when the reference event happened, in the host's time, and the possible error
};

static ls_status new_lane(ls_timeline *timeline, lane *l, int spans) {
    const ls_device_api *api = timeline->device->api;
    LS_TRY(ls_try_new(&l->entries, spans + 1, sizeof *l->entries, "--trace: %d spans under way", spans));
    for (; l->capacity < spans; l->capacity++) {
        LS_TRY(api->event_new(timeline->device, 1, &l->entries[l->capacity].from));
        LS_TRY(api->event_new(timeline->device, 1, &l->entries[l->capacity].to));
    }
    return LS_SUCCESS;
}

static ls_status make(ls_timeline *timeline, const int spans[LS_SPANS_LANE_COUNT]) {
    const ls_device_api *api = timeline->device->api;
    LS_TRY(api->event_new(timeline->device, 1, &timeline->reference));
    LS_TRY(api->event_new(timeline->device, 1, &timeline->trial));
    for (int i = 0; i < LS_SPANS_LANE_COUNT; i++) LS_TRY(new_lane(timeline, &timeline->lanes[i], spans[i]));
    return LS_SUCCESS;
}

ls_status ls_timeline_new(ls_device *device, const int spans[LS_SPANS_LANE_COUNT], ls_timeline **out) {
    ls_timeline *timeline = ls_new(1, sizeof *timeline, "--trace: timeline");
    timeline->device = device;
    timeline->at_once = !device->api->capture_begin;
    ls_status status = timeline->at_once ? LS_SUCCESS : make(timeline, spans);
    return LS_GIVE_OR_FREE(status, timeline, out, ls_timeline_free);
}

static void free_event(const ls_timeline *timeline, ls_event *event) {
    if (event) timeline->device->api->event_free(event);
}

void ls_timeline_free(ls_timeline *timeline) {
    if (!timeline) return;
    for (int i = 0; i < LS_SPANS_LANE_COUNT; i++) {
        lane *l = &timeline->lanes[i];
        for (int e = 0; l->entries && e <= l->capacity; e++) {
            free_event(timeline, l->entries[e].from);
            free_event(timeline, l->entries[e].to);
        }
        free(l->entries);
    }
    free_event(timeline, timeline->reference);
    free_event(timeline, timeline->trial);
    free(timeline);
}

ls_status ls_timeline_align(ls_timeline *timeline, ls_queue *queue) {
    if (!timeline || timeline->at_once) return LS_SUCCESS;
    const ls_device_api *api = timeline->device->api;
    LS_TRY(api->queue_sync(queue));
    // The event happened between the two clock readings, so the pair with the smallest difference gives the best bound.
    for (int i = 0; i < ALIGN_TRIES; i++) {
        double before = ls_clock_seconds();
        api->event_record(timeline->trial, queue);
        LS_TRY(api->event_sync(timeline->trial));
        double after = ls_clock_seconds(), error = (after - before) / 2;
        if (i > 0 && error >= timeline->error_s) continue;
        ls_event *best = timeline->trial;
        timeline->trial = timeline->reference;
        timeline->reference = best;
        timeline->reference_s = (before + after) / 2;
        timeline->error_s = error;
    }
    return LS_SUCCESS;
}

double ls_timeline_error_seconds(const ls_timeline *timeline) {
    return timeline ? timeline->error_s : 0;
}

void ls_timeline_begin(ls_timeline *timeline, const ls_span *what, ls_queue *queue) {
    if (!timeline || !ls_spans_on()) return;
    lane *l = &timeline->lanes[what->lane];
    ls_span span = *what;
    if (span.update == LS_SPANS_NO_UPDATE) span.update = ls_spans_current_update();
    if (timeline->at_once) {
        l->span = span;
        l->open = 1;
        l->span.start_s = ls_clock_seconds();
        return;
    }
    if (l->begun - l->resolved >= l->capacity) {
        ls_spans_lose();
        return;
    }
    entry *e = &l->entries[l->begun % l->capacity];
    e->span = span;
    l->open = 1;
    timeline->device->api->event_record(e->from, queue);
}

void ls_timeline_end(ls_timeline *timeline, ls_span_lane number, ls_queue *queue) {
    if (!timeline) return;
    lane *l = &timeline->lanes[number];
    if (!l->open) return; // begin was called outside the recorded window, or its span was dropped
    l->open = 0;
    if (timeline->at_once) {
        l->span.end_s = ls_clock_seconds();
        ls_spans_add(&l->span);
        return;
    }
    timeline->device->api->event_record(l->entries[l->begun % l->capacity].to, queue);
    l->begun++;
}

ls_status ls_timeline_resolve(ls_timeline *timeline, int64_t update) {
    if (!timeline || timeline->at_once) return LS_SUCCESS;
    const ls_device_api *api = timeline->device->api;
    for (int i = 0; i < LS_SPANS_LANE_COUNT; i++) {
        lane *l = &timeline->lanes[i];
        for (; l->resolved < l->begun; l->resolved++) {
            entry *e = &l->entries[l->resolved % l->capacity];
            if (e->span.update > update) break;
            LS_TRY(api->event_sync(e->to)); // the update may have completed before this event
            e->span.start_s = timeline->reference_s + api->event_seconds(timeline->reference, e->from);
            e->span.end_s = timeline->reference_s + api->event_seconds(timeline->reference, e->to);
            ls_spans_add(&e->span);
        }
    }
    return LS_SUCCESS;
}
