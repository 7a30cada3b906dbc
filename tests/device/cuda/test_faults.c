// What the CUDA device says when something is missing or breaks: the emulated one does so on request.
#include "device/cuda_device.h"
#include "support/must.h"

static ls_device *cuda;
static const ls_device_api *api;

static void emulate(const char *settings) {
    setenv("LOCKSTEP_EMULATION", settings, 1);
}

static void open_with(const char *settings) {
    emulate(settings);
    cuda = cuda_open();
    api = cuda->api;
}

static void check_text(const char *row, const char *text, const char *const parts[], size_t count) {
    for (size_t i = 0; i < count && parts[i]; i++) {
        if (!strstr(text, parts[i])) fail_msg("%s: no \"%s\" in: %s", row, parts[i], text);
    }
    if (strchr(text, '\n')) fail_msg("%s: more than one line: %s", row, text);
}

static const struct {
    const char *settings, *parts[3];
} starts[] = {
    { "driver=0", { "there is no NVIDIA driver" } },
    { "driver=12040", { "the NVIDIA driver is too old: it runs CUDA up to 12.4, this build needs " } },
    { "devices=0", { "the NVIDIA driver sees no GPU" } },
    { "sm=60", { "GPU 0 (", "has compute capability 6.0, which is too old: this build is for sm_70, ", "newer" } },
};

static void a_machine_that_cannot_is_told_in_one_line(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        ls_device *device = NULL;
        const char *why = NULL;
        emulate(starts[i].settings);
        ls_status status = ls_device_open("cuda", &(ls_device_options){ .threads = 1 }, &device, NULL);
        assert_int_equal(status.code, LS_DEVICE);
        check_text(starts[i].settings, status.text, starts[i].parts, 3);
        must(ls_device_open("auto", &(ls_device_options){ .threads = 1 }, &device, &why));
        assert_string_equal(device->api->name, "cpu");
        check_text(starts[i].settings, why, starts[i].parts, 3);
        ls_device_close(device);
    }
}

static void a_newer_gpu_is_taken(void **unused) {
    (void)unused;
    ls_device_info facts;
    open_with("sm=120");
    api->info(cuda, &facts);
    assert_non_null(strstr(facts.name, "compute capability 12.0"));
    ls_device_close(cuda);
}

// --- errors that show up later than their cause --------------------------------------------------

enum { ELEMENTS = 64, LAYERS = 3 };
static const char *const layers[LAYERS] = { "first", "second", "third" };

typedef struct { // three casts, one behind the other
    ls_queue *queue;
    ls_slab *memory;
    ls_plan *plans[LAYERS];
} casts;

static casts casts_new(void) {
    casts c;
    must(api->queue_new(cuda, "compute", &c.queue));
    must(api->slab_new(cuda, LS_MEMORY_DEVICE, 8 * ELEMENTS, "a test", &c.memory));
    for (int i = 0; i < LAYERS; i++) {
        ls_op_desc desc = {
            .op = LS_OP_CAST, .layer = layers[i], .attr.flat = { .count = ELEMENTS, .storage = LS_BF16 }
        };
        must(api->plan_new(cuda, &desc, &c.plans[i]));
    }
    return c;
}

static void casts_run(const casts *c, int count) {
    for (int i = 0; i < count; i++) {
        ls_buffer args[] = { ls_buffer_at(c->memory, 0, 4 * ELEMENTS),
            ls_buffer_at(c->memory, 4 * ELEMENTS, 2 * ELEMENTS) };
        ls_plan_run(c->plans[i], args, (ls_buffer){ 0 }, c->queue);
    }
}

static void casts_free(casts *c) {
    for (int i = 0; i < LAYERS; i++) api->plan_free(c->plans[i]);
    api->slab_free(c->memory);
    api->queue_free(c->queue);
}

static void out_of_memory_tells_what_was_wanted_and_what_is_free(void **unused) {
    (void)unused;
    ls_slab *first, *second = NULL;
    open_with("memory=1M");
    must(api->slab_new(cuda, LS_MEMORY_DEVICE, 512 << 10, "weights", &first));
    ls_status status = api->slab_new(cuda, LS_MEMORY_DEVICE, 600 << 10, "activations", &second);
    assert_int_equal(status.code, LS_DEVICE);
    const char *const parts[] = { "out of GPU memory: activations needs 600.0 KiB, but of the 1.0 MiB of GPU 0 (",
        "only 512.0 KiB is free", "train.micro_batch" };
    check_text("memory=1M", status.text, parts, 3);
    assert_null(second);
    must(api->slab_new(cuda, LS_MEMORY_DEVICE, 256 << 10, "less", &second));
    casts c = casts_new(); // it was no error of the device: what is launched next does not meet it
    casts_run(&c, LAYERS);
    must(api->queue_sync(c.queue));
    casts_free(&c);
    api->slab_free(second);
    api->slab_free(first);
    ls_device_close(cuda);
}

static void a_fault_is_reported_with_the_last_operator(void **unused) {
    (void)unused;
    open_with("launch_fail=2");
    casts c = casts_new();
    casts_run(&c, LAYERS);
    ls_status status = api->queue_sync(c.queue);
    assert_int_equal(status.code, LS_DEVICE);
    const char *const parts[] = { "CUDA error 700 (an illegal memory access was encountered), noticed at ",
        "the last operator enqueued was cast of layer ", "CUDA_LAUNCH_BLOCKING=1 and device.graphs = false" };
    check_text("launch_fail=2", status.text, parts, 3);
    // it stays, and nothing works any more
    ls_slab *slab;
    assert_ptr_equal(api->queue_sync(c.queue).text, status.text);
    assert_int_equal(api->slab_new(cuda, LS_MEMORY_DEVICE, 64, "more", &slab).code, LS_DEVICE);
    assert_int_equal(api->capture_begin(c.queue).code, LS_DEVICE);
    casts_free(&c);
    ls_device_close(cuda);
}

static void a_fault_in_a_recording_names_its_end(void **unused) {
    (void)unused;
    ls_captured_graph *recording;
    open_with("launch_fail=2");
    casts c = casts_new();
    must(api->capture_begin(c.queue));
    casts_run(&c, 2);
    must(api->capture_end(c.queue, &recording));
    for (int i = 0; i < 3; i++) api->graph_launch(recording, c.queue);
    ls_status status = api->queue_sync(c.queue);
    assert_int_equal(status.code, LS_DEVICE);
    const char *const parts[] = { "CUDA error 700 (",
        "the last operator enqueued was cast of layer second, the end of a captured update" };
    check_text("launch_fail=2", status.text, parts, 2);
    api->graph_free(recording);
    casts_free(&c);
    ls_device_close(cuda);
}

static void a_capture_that_cannot_end_is_an_error(void **unused) {
    (void)unused;
    ls_captured_graph *recording = NULL;
    ls_queue *other;
    ls_event *event;
    open_with("");
    casts c = casts_new();
    must(api->queue_new(cuda, "other", &other));
    must(api->event_new(cuda, 0, &event));
    must(api->capture_begin(c.queue));
    casts_run(&c, 1);
    api->event_record(event, c.queue);
    api->event_wait(event, other); // forked, and never joined
    api->zero(ls_buffer_at(c.memory, 0, 64), 64, other);
    ls_status status = api->capture_end(c.queue, &recording);
    assert_int_equal(status.code, LS_DEVICE);
    assert_non_null(strstr(status.text, "the end of a captured update: CUDA error 904 ("));
    assert_null(recording);
    casts_run(&c, LAYERS);
    must(api->queue_sync(c.queue));
    api->event_free(event);
    api->queue_free(other);
    casts_free(&c);
    ls_device_close(cuda);
}

int main(void) {
    if (cuda_is_real()) {
        printf("skipped: a GPU does not break on request\n");
        return 77;
    }
    int skipped = cuda_choose();
    if (skipped) return skipped;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_machine_that_cannot_is_told_in_one_line),
        cmocka_unit_test(a_newer_gpu_is_taken),
        cmocka_unit_test(out_of_memory_tells_what_was_wanted_and_what_is_free),
        cmocka_unit_test(a_fault_is_reported_with_the_last_operator),
        cmocka_unit_test(a_fault_in_a_recording_names_its_end),
        cmocka_unit_test(a_capture_that_cannot_end_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
