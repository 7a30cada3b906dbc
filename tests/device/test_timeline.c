// Spans of what is enqueued: on a device in host memory, and on the emulated CUDA device by timed events.
#include <string.h>

#include "base/clock.h"
#include "cuda_device.h"
#include "device/timeline.h"
#include "support/must.h"

enum { COPIES = 6, ROOM = 2 * COPIES, BYTES = 4096 };
static const double tolerance_s = 2e-6; // times between events are floats of milliseconds

static int have_cuda;

typedef struct {
    ls_device *device;
    const ls_device_api *api;
    ls_queue *compute, *copies;
    ls_slab *from, *to;
    ls_timeline *timeline;
} bed;

static bed bed_new(const char *type, int room) {
    bed b = { 0 };
    must(ls_device_open(type, &(ls_device_options){ .threads = 1 }, &b.device, NULL));
    b.api = b.device->api;
    must(b.api->queue_new(b.device, "compute", &b.compute));
    must(b.api->queue_new(b.device, "copies", &b.copies));
    must(b.api->slab_new(b.device, LS_MEMORY_DEVICE, BYTES, "a test", &b.from));
    must(b.api->slab_new(b.device, LS_MEMORY_DEVICE, BYTES, "a test", &b.to));
    const int rooms[LS_SPANS_LANE_COUNT] = { [LS_SPANS_COMPUTE] = room, [LS_SPANS_COPIES] = room };
    must(ls_timeline_new(b.device, rooms, &b.timeline));
    must(ls_spans_open(1000));
    ls_spans_window(5, 7);
    return b;
}

static void bed_free(bed *b) {
    must(b->api->queue_sync(b->compute));
    must(b->api->queue_sync(b->copies));
    ls_timeline_free(b->timeline);
    b->api->slab_free(b->from);
    b->api->slab_free(b->to);
    b->api->queue_free(b->compute);
    b->api->queue_free(b->copies);
    ls_device_close(b->device);
    ls_spans_close();
}

static void enqueue(const bed *b, ls_span_lane lane, int64_t number, int64_t update) {
    ls_queue *queue = lane == LS_SPANS_COMPUTE ? b->compute : b->copies;
    ls_timeline_begin(
        b->timeline, &(ls_span){ .lane = lane, .name = "copy", .number = number, .update = update }, queue);
    b->api->copy(ls_buffer_at(b->to, 0, BYTES), ls_buffer_at(b->from, 0, BYTES), BYTES, queue);
    ls_timeline_end(b->timeline, lane, queue);
}

// COPIES of this update on both lanes.
static void enqueue_update(const bed *b, int64_t update) {
    for (int i = 0; i < COPIES; i++) {
        enqueue(b, LS_SPANS_COMPUTE, i, update);
        enqueue(b, LS_SPANS_COPIES, i, update);
    }
}

// The spans of a lane: numbers from 0 on, of `update`, one after another between the two times.
static void check_lane(ls_span_lane lane, int64_t update, double after, double before, double error) {
    double last = after - error, took = 0;
    int64_t next = 0;
    for (int i = 0; i < ls_spans_count(); i++) {
        const ls_span *s = ls_spans_get(i);
        if (s->lane != lane || s->update != update) continue;
        if (s->number != next || s->start_s < last || s->end_s < s->start_s || s->end_s > before + error)
            fail_msg("lane %s, update %d: span %d (expected %d) from %.9f to %.9f, expected within %.9f and %.9f, the "
                     "clock is known to %g s",
                ls_spans_lane_name(lane), (int)update, (int)s->number, (int)next, s->start_s, s->end_s, last, before,
                error);
        last = s->end_s;
        took += s->end_s - s->start_s;
        next++;
    }
    assert_int_equal(next, COPIES);
    assert_true(took > 0);
}

static void spans_in_order(const char *type) {
    bed b = bed_new(type, ROOM);
    enqueue_update(&b, 4); // before the window: nothing
    must(ls_timeline_align(b.timeline, b.compute));
    assert_int_equal(ls_spans_at(5), 7);
    double start = ls_clock_seconds();
    enqueue_update(&b, LS_SPANS_NO_UPDATE);
    enqueue(&b, LS_SPANS_COPIES, COPIES, 6); // ahead: not yet retired
    must(b.api->queue_sync(b.compute));
    must(ls_timeline_resolve(b.timeline, 5)); // the other queue is not waited for here, but there
    double end = ls_clock_seconds(), error = ls_timeline_error_seconds(b.timeline) + tolerance_s;
    int early = b.api->capture_begin == NULL; // such a device has no "not yet"
    if (ls_spans_count() != 2 * COPIES + early) fail_msg("%s: %d spans", type, ls_spans_count());
    check_lane(LS_SPANS_COMPUTE, 5, start, end, error);
    check_lane(LS_SPANS_COPIES, 5, start, end, error);
    must(ls_timeline_resolve(b.timeline, 6));
    assert_int_equal(ls_spans_count(), 2 * COPIES + 1);
    assert_int_equal(ls_spans_dropped(), 0);
    assert_int_equal(ls_spans_at(7), INT64_MAX);
    enqueue_update(&b, 7);
    must(ls_timeline_resolve(b.timeline, 7));
    assert_int_equal(ls_spans_count(), 2 * COPIES + 1);
    bed_free(&b);
}

static void on_host_devices(void **state) {
    (void)state;
    spans_in_order("ref");
    spans_in_order("cpu");
}

static void on_cuda(void **state) {
    (void)state;
    if (!have_cuda) skip();
    for (int seed = 1; seed <= 4; seed++) {
        char text[32];
        snprintf(text, sizeof text, "seed=%d", seed);
        setenv("LOCKSTEP_EMULATION", text, 1);
        spans_in_order("cuda");
    }
}

// What does not fit is counted, what fits is whole, and room comes back when updates are retired.
static void too_many_under_way(void **state) {
    (void)state;
    if (!have_cuda) skip();
    bed b = bed_new("cuda", COPIES);
    must(ls_timeline_align(b.timeline, b.compute));
    assert_int_equal(ls_spans_at(5), 7);
    for (int64_t update = 5; update < 7; update++) {
        double start = ls_clock_seconds();
        enqueue_update(&b, update);
        enqueue(&b, LS_SPANS_COMPUTE, COPIES, update);
        enqueue(&b, LS_SPANS_COPIES, COPIES, update);
        must(b.api->queue_sync(b.compute));
        must(ls_timeline_resolve(b.timeline, update));
        double error = ls_timeline_error_seconds(b.timeline) + tolerance_s;
        check_lane(LS_SPANS_COMPUTE, update, start, ls_clock_seconds(), error);
        check_lane(LS_SPANS_COPIES, update, start, ls_clock_seconds(), error);
    }
    assert_int_equal(ls_spans_count(), 4 * COPIES);
    assert_int_equal(ls_spans_dropped(), 4);
    bed_free(&b);
}

static void without_a_timeline(void **state) {
    (void)state;
    ls_timeline_begin(NULL, &(ls_span){ .name = "copy" }, NULL);
    ls_timeline_end(NULL, LS_SPANS_COMPUTE, NULL);
    must(ls_timeline_align(NULL, NULL));
    must(ls_timeline_resolve(NULL, 0));
    ls_timeline_free(NULL);
}

int main(void) {
    have_cuda = cuda_choose() == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_timeline),
        cmocka_unit_test(on_host_devices),
        cmocka_unit_test(on_cuda),
        cmocka_unit_test(too_many_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
