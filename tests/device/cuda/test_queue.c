// The CUDA device's queues, events and recordings. The emulated device runs what is not ordered by a queue or an event
// in a random order, so a few seeds stand for what a GPU may do.
#include "device/cuda_device.h"
#include "support/must.h"

enum { SEEDS = 10 };

static ls_device *cuda;
static const ls_device_api *api;

static ls_slab *slab_of(ls_memory_kind kind, size_t bytes) {
    ls_slab *slab = NULL;
    must(api->slab_new(cuda, kind, bytes, "a test", &slab));
    return slab;
}

static ls_buffer whole(ls_slab *slab) {
    return ls_buffer_at(slab, 0, slab->bytes);
}

// Opens the device anew; the emulated one with these settings.
static void open_with(const char *settings, int seed) {
    char text[128];
    snprintf(text, sizeof text, "%sseed=%d", settings, seed);
    setenv("LOCKSTEP_EMULATION", text, 1);
    cuda = cuda_open();
    api = cuda->api;
}

enum { ROUNDS = 40, COUNT = 512 };

typedef struct { // numbers travel host -> first -> second -> third -> host
    ls_queue *compute, *copy;
    ls_event *there, *done;
    ls_slab *numbers, *first, *second, *third, *results;
} relay;

static relay relay_new(void) {
    relay r = { 0 };
    must(api->queue_new(cuda, "compute", &r.compute));
    must(api->queue_new(cuda, "copy", &r.copy));
    must(api->event_new(cuda, 0, &r.there));
    must(api->event_new(cuda, 0, &r.done));
    r.numbers = slab_of(LS_MEMORY_PINNED, ROUNDS * COUNT);
    r.results = slab_of(LS_MEMORY_PINNED, ROUNDS * COUNT);
    r.first = slab_of(LS_MEMORY_DEVICE, COUNT);
    r.second = slab_of(LS_MEMORY_DEVICE, COUNT);
    r.third = slab_of(LS_MEMORY_DEVICE, COUNT);
    for (size_t i = 0; i < ROUNDS * COUNT; i++) r.numbers->address[i] = (char)(1 + i % 101 + i / COUNT % 20);
    return r;
}

static void relay_free(relay *r) {
    ls_slab *slabs[] = { r->numbers, r->first, r->second, r->third, r->results };
    for (size_t i = 0; i < sizeof slabs / sizeof *slabs; i++) api->slab_free(slabs[i]);
    api->event_free(r->there);
    api->event_free(r->done);
    api->queue_free(r->compute);
    api->queue_free(r->copy);
}

// The first byte of the results that is wrong; all of them when none is.
static size_t first_wrong(const relay *r) {
    size_t i = 0;
    while (i < ROUNDS * COUNT && r->results->address[i] == r->numbers->address[i]) i++;
    return i;
}

static void check_results(const relay *r, int seed) {
    size_t i = first_wrong(r);
    if (i < ROUNDS * COUNT)
        fail_msg("seed %d, round %zu, byte %zu: %d, expected %d", seed, i / COUNT, i % COUNT, r->results->address[i],
            r->numbers->address[i]);
}

// What happens between the two queues in a round: first -> second on compute, second -> third on copy, and compute
// clears second when that is through.
static void relay_middle(const relay *r) {
    api->copy(whole(r->second), whole(r->first), COUNT, r->compute);
    api->event_record(r->there, r->compute);
    api->event_wait(r->there, r->copy);
    api->copy(whole(r->third), whole(r->second), COUNT, r->copy);
    api->event_record(r->done, r->copy);
    api->event_wait(r->done, r->compute);
    api->zero(whole(r->second), COUNT, r->compute);
}

static void relay_round(const relay *r, size_t round, ls_captured_graph *middle) {
    ls_buffer from = ls_buffer_at(r->numbers, round * COUNT, COUNT),
              to = ls_buffer_at(r->results, round * COUNT, COUNT);
    api->copy(whole(r->first), from, COUNT, r->compute);
    if (middle)
        api->graph_launch(middle, r->compute);
    else
        relay_middle(r);
    api->copy(to, whole(r->third), COUNT, r->compute);
}

static void events_order_two_queues(void **unused) {
    (void)unused;
    for (int seed = 1; seed <= SEEDS; seed++) {
        open_with("", seed);
        relay r = relay_new();
        for (size_t round = 0; round < ROUNDS; round++) relay_round(&r, round, NULL);
        api->event_record(r.there, r.compute);
        must(api->event_sync(r.there));
        check_results(&r, seed);
        must(api->queue_sync(r.compute));
        must(api->queue_sync(r.copy));
        relay_free(&r);
        ls_device_close(cuda);
    }
}

static void a_recording_of_two_queues_is_launched_often(void **unused) {
    (void)unused;
    for (int seed = 1; seed <= SEEDS; seed++) {
        open_with("", seed);
        relay r = relay_new();
        ls_captured_graph *middle;
        must(api->capture_begin(r.compute));
        relay_middle(&r);
        must(api->capture_end(r.compute, &middle));
        for (size_t round = 0; round < ROUNDS; round++) relay_round(&r, round, round % 3 ? middle : NULL);
        must(api->queue_sync(r.compute));
        check_results(&r, seed);
        api->graph_free(middle);
        relay_free(&r);
        ls_device_close(cuda);
    }
}

static void what_is_recorded_does_not_run(void **unused) {
    (void)unused;
    open_with("", 1);
    relay r = relay_new();
    ls_captured_graph *recording;
    ls_buffer result = ls_buffer_at(r.results, 0, COUNT);
    api->copy(whole(r.first), ls_buffer_at(r.numbers, 0, COUNT), COUNT, r.compute);
    must(api->capture_begin(r.compute));
    api->copy(result, whole(r.first), COUNT, r.compute);
    must(api->capture_end(r.compute, &recording));
    must(api->queue_sync(r.compute));
    assert_int_equal(r.results->address[0], 0);
    api->graph_launch(recording, r.compute);
    must(api->queue_sync(r.compute));
    assert_memory_equal(r.results->address, r.numbers->address, COUNT);
    api->graph_free(recording);
    api->graph_free(NULL);
    relay_free(&r);
    ls_device_close(cuda);
}

// No sync in between: an export sees what was enqueued before it, an import comes after it.
static void imports_and_exports_wait_for_the_queues(void **unused) {
    (void)unused;
    enum { FLOATS = 64 };
    const ls_param_shape shape = { LS_PARAM_VECTOR, { FLOATS, 1, 1, 1 }, 1 };
    for (int seed = 1; seed <= SEEDS; seed++) {
        open_with("", seed);
        ls_queue *queue;
        float got[FLOATS], other[FLOATS];
        must(api->queue_new(cuda, "test", &queue));
        ls_slab *pinned = slab_of(LS_MEMORY_PINNED, sizeof got), *device = slab_of(LS_MEMORY_DEVICE, sizeof got);
        for (int i = 0; i < FLOATS; i++) ((float *)ls_buffer_host(whole(pinned)))[i] = (float)i + 1;
        for (int i = 0; i < FLOATS; i++) other[i] = -(float)i;
        api->copy(whole(device), whole(pinned), sizeof got, queue);
        api->param_export(cuda, &shape, whole(device), got);
        assert_memory_equal(got, pinned->address, sizeof got);
        api->zero(whole(device), sizeof got, queue);
        api->param_import(cuda, &shape, other, whole(device));
        api->copy(whole(pinned), whole(device), sizeof got, queue);
        must(api->queue_sync(queue));
        assert_memory_equal(pinned->address, other, sizeof other);
        api->slab_free(pinned);
        api->slab_free(device);
        api->queue_free(queue);
        ls_device_close(cuda);
    }
}

// The tests above see what they are there for: without one of the waits, results are wrong for some seed.
static void a_missing_wait_is_seen(void **unused) {
    (void)unused;
    if (cuda_is_real()) skip();
    int wrong = 0;
    for (int seed = 1; seed <= SEEDS; seed++) {
        open_with("drop_wait=3,", seed);
        relay r = relay_new();
        for (size_t round = 0; round < ROUNDS; round++) relay_round(&r, round, NULL);
        must(api->queue_sync(r.compute));
        must(api->queue_sync(r.copy));
        wrong += first_wrong(&r) < ROUNDS * COUNT;
        relay_free(&r);
        ls_device_close(cuda);
    }
    assert_true(wrong > 0);
}

int main(void) {
    int skipped = cuda_choose();
    if (skipped) return skipped;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_order_two_queues),
        cmocka_unit_test(what_is_recorded_does_not_run),
        cmocka_unit_test(a_recording_of_two_queues_is_launched_often),
        cmocka_unit_test(imports_and_exports_wait_for_the_queues),
        cmocka_unit_test(a_missing_wait_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
