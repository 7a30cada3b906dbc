// The session: opened on a device, it computes, takes the memory that it planned, refuses what does not fit before it
// allocates anything, and leaves nothing behind.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "program/session.h"
#include "support/cmocka.h"

#define must(expr) \
    do { \
        ls_status must_status_ = (expr); \
        if (ls_failed(must_status_)) fail_msg("%s: %s", #expr, must_status_.text); \
    } while (0)

static const char network[] = "[network]\ninput = 3x8x8\n"
                              "[c1]\nlayer = conv2d\nout_channels = 8\nkernel = 3\npadding = 1\nbias = false\n"
                              "[n1]\nlayer = batchnorm2d\n[r1]\nlayer = relu\n"
                              "[c2]\nlayer = conv2d\nout_channels = 12\nkernel = 3\n"
                              "[p]\nlayer = globalavgpool\n[f]\nlayer = flatten\n"
                              "[l]\nlayer = linear\nout_features = 5\n";
enum { BATCH = 4, CLASSES = 5, PIXELS = 3 * 8 * 8, TABLE = 3 * 256, SEED = 11 };

static ls_graph *graph;

static int read_network(void **state) {
    (void)state;
    char path[] = "/tmp/lockstep_session_XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, network, sizeof network - 1) != (ssize_t)sizeof network - 1) return -1;
    close(fd);
    ls_status status = ls_graph_read(path, &graph);
    unlink(path);
    return ls_failed(status) ? -1 : 0;
}

static int free_network(void **state) {
    (void)state;
    ls_graph_free(graph);
    return 0;
}

// --- a device whose slabs are counted, with as much memory as a test says ------------------------

static struct {
    const ls_device_api *real;
    ls_device_api api;
    size_t used, limit; // bytes of LS_MEMORY_DEVICE
    int slabs;          // of any kind
} counted;

static ls_status counted_slab_new(ls_device *d, ls_memory_kind kind, size_t bytes, const char *what, ls_slab **out) {
    LS_TRY(counted.real->slab_new(d, kind, bytes, what, out));
    counted.slabs++;
    if (kind == LS_MEMORY_DEVICE) counted.used += bytes;
    return LS_SUCCESS;
}

static void counted_slab_free(ls_slab *slab) {
    counted.slabs--;
    if (slab->kind == LS_MEMORY_DEVICE) counted.used -= slab->bytes;
    counted.real->slab_free(slab);
}

static ls_status counted_memory(ls_device *device, size_t *free_bytes, size_t *all_bytes) {
    (void)device;
    *all_bytes = counted.limit;
    *free_bytes = counted.limit - counted.used;
    return LS_SUCCESS;
}

// limit 0: its memory is the host's.
static void open_device(ls_session *s, const char *type, size_t limit) {
    ls_config cfg;
    const char *why;
    char option[64];
    snprintf(option, sizeof option, "device.type=%s", type);
    ls_config_defaults(&cfg);
    must(ls_config_set(&cfg, option));
    must(ls_config_set(&cfg, "device.threads=2"));
    must(ls_session_open_device(s, &cfg, &why));
    counted.real = s->device->api;
    counted.api = *s->device->api;
    counted.api.slab_new = counted_slab_new;
    counted.api.slab_free = counted_slab_free;
    counted.api.memory = limit ? counted_memory : NULL;
    counted.limit = limit;
    s->device->api = &counted.api;
}

// Up to the parameter store, with one program, of evaluation.
static void open_session(ls_session *s, const char *type, ls_dtype storage, int batch, size_t limit) {
    *s = (ls_session){ 0 };
    open_device(s, type, limit);
    must(ls_session_start(s, storage));
    must(ls_session_place(s, graph, &(ls_param_store_options){ .storage = storage }));
    s->options[0] = (ls_compile_options){ .micro_batch = batch };
    assert_int_equal(counted.slabs, 0);
}

// --- computing -----------------------------------------------------------------------------------

static void set_table(ls_session *s) {
    float table[TABLE];
    for (int i = 0; i < TABLE; i++) table[i] = ((float)(i % 256) - 128.0f) / 64.0f;
    must(ls_session_set_table(s, table));
}

// The logits of one batch.
static void run(ls_session *s, float *logits) {
    const size_t sizes[LS_INPUT_COUNT] = { [LS_INPUT_PIXELS] = (size_t)BATCH * PIXELS,
        [LS_INPUT_LABELS] = BATCH * sizeof(int32_t),
        [LS_INPUT_AUGMENT] = BATCH * sizeof(ls_augment_sample),
        [LS_INPUT_MICRO] = sizeof(ls_micro_input),
        [LS_INPUT_STATE] = sizeof(ls_train_state),
        [LS_INPUT_RESULT] = sizeof(ls_micro_result) };
    enum { LINES = 4096 }; // bytes from one input to the next
    ls_slab *slab;
    must(s->device->api->slab_new(s->device, LS_MEMORY_PINNED, (size_t)LS_INPUT_COUNT * LINES, "a batch", &slab));
    ls_program_inputs inputs = ls_session_inputs(s);
    for (int i = 0; i < LS_INPUT_COUNT; i++)
        if (sizes[i]) inputs.buffer[i] = ls_buffer_at(slab, (size_t)i * LINES, sizes[i]);
    uint8_t *pixels = ls_buffer_host(inputs.buffer[LS_INPUT_PIXELS]);
    for (int i = 0; i < BATCH * PIXELS; i++) pixels[i] = (uint8_t)(i * 37 % 251);
    ((ls_micro_input *)ls_buffer_host(inputs.buffer[LS_INPUT_MICRO]))->count = BATCH;
    const ls_program *program = s->program[0];
    ls_program_run(program, &inputs, s->queue, &(ls_program_hooks){ 0 });
    must(s->device->api->queue_sync(s->queue));
    const ls_buffer at = program->instructions[program->count - 1].args[LS_LOSS_LOGITS];
    s->device->api->activation_export(s->device, program->logits_shape, program->storage, at, logits);
    s->device->api->slab_free(slab);
}

static void close_session(ls_session *s) {
    ls_session_drain(s);
    ls_session_close(s);
    assert_null(s->device);
    assert_int_equal(counted.slabs, 0);
}

static void compute(const char *type, ls_dtype storage, float *logits) {
    ls_session s;
    open_session(&s, type, storage, BATCH, 0);
    must(ls_session_build(&s));
    assert_int_equal(counted.used, ls_memory_plan_bytes(&s.memory)); // what was planned, to the byte
    must(ls_param_store_init(s.store, SEED));
    ls_session_weights_changed(&s);
    set_table(&s);
    run(&s, logits);
    close_session(&s);
}

static void compare(const float *a, const float *b, float tolerance) {
    float largest = 0;
    for (int i = 0; i < BATCH * CLASSES; i++) {
        if (!(fabsf(a[i] - b[i]) <= tolerance)) fail_msg("logit %d: %.9g and %.9g", i, (double)a[i], (double)b[i]);
        largest = fmaxf(largest, fabsf(a[i]));
    }
    assert_true(largest > 0.01f); // else nothing was computed
}

static void computes_on_every_device(void **state) {
    (void)state;
    float ref[BATCH * CLASSES], cpu[BATCH * CLASSES], bf16[BATCH * CLASSES], cpu_bf16[BATCH * CLASSES];
    compute("ref", LS_F32, ref);
    compute("cpu", LS_F32, cpu);
    compute("ref", LS_BF16, bf16);
    compute("cpu", LS_BF16, cpu_bf16);
    compare(ref, cpu, 1e-4f);
    compare(ref, bf16, 5e-2f);
    compare(ref, cpu_bf16, 5e-2f);
}

static void computes_the_same_when_opened_again(void **state) {
    (void)state;
    float first[BATCH * CLASSES], second[BATCH * CLASSES];
    compute("cpu", LS_F32, first);
    compute("cpu", LS_F32, second);
    assert_memory_equal(first, second, sizeof first);
}

// Those of another session, given by hand: with 16 bits what operators read of them is a copy.
static void takes_weights(void **state) {
    (void)state;
    static const ls_dtype storages[] = { LS_F32, LS_BF16, LS_F16 };
    for (size_t i = 0; i < sizeof storages / sizeof *storages; i++) {
        float expected[BATCH * CLASSES], logits[BATCH * CLASSES];
        const float **values = calloc((size_t)graph->param_count, sizeof *values);
        compute("ref", storages[i], expected);
        for (int p = 0; p < graph->param_count; p++) {
            float *tensor = malloc((size_t)ls_param_count(&graph->params[p].shape) * sizeof *tensor);
            ls_graph_init_param(graph, p, SEED, tensor);
            values[p] = tensor;
        }
        ls_session s;
        open_session(&s, "ref", storages[i], BATCH, 0);
        must(ls_session_build(&s));
        ls_session_set_weights(&s, values);
        set_table(&s);
        run(&s, logits);
        close_session(&s);
        assert_memory_equal(logits, expected, sizeof logits);
        for (int p = 0; p < graph->param_count; p++) free((void *)(uintptr_t)values[p]);
        free(values);
    }
}

// --- memory --------------------------------------------------------------------------------------

static const size_t PLENTY = (size_t)1 << 30;

static size_t needs(int batch) {
    ls_session s;
    open_session(&s, "cpu", LS_F32, batch, PLENTY);
    must(ls_session_build(&s));
    size_t bytes = ls_memory_plan_bytes(&s.memory);
    assert_int_equal(counted.used, bytes);
    close_session(&s);
    return bytes;
}

static void refuses_what_does_not_fit(void **state) {
    (void)state;
    const size_t small = needs(BATCH), limit = small + small / 16; // with what is kept for the driver
    ls_session s;
    open_session(&s, "cpu", LS_F32, 64 * BATCH, limit);
    ls_status status = ls_session_build(&s);
    assert_int_equal(status.code, LS_DEVICE);
    assert_non_null(strstr(status.text, "the network does not fit"));
    assert_non_null(strstr(status.text, "micro-batches of 256"));
    assert_non_null(strstr(status.text, "device.type = cpu"));
    assert_null(strstr(status.text, "train.")); // nothing of that can be changed here
    assert_null(s.program[0]);                  // no plan was made for it
    assert_int_equal(counted.slabs, 0);
    s.options[0].micro_batch = BATCH; // and this fits
    must(ls_session_build(&s));
    assert_int_equal(counted.used, small);
    close_session(&s);
}

// What plans need of workspace is known only when they are made.
static void refuses_after_plans_are_made(void **state) {
    (void)state;
    const size_t all = needs(BATCH);
    ls_session s;
    open_session(&s, "cpu", LS_F32, BATCH, PLENTY);
    must(ls_session_measure(&s));
    const size_t without = ls_memory_plan_bytes(&s.memory);
    close_session(&s);
    assert_true(without < all);
    const size_t between = without + (all - without) / 2;
    open_session(&s, "cpu", LS_F32, BATCH, between + between / 31 + 1);
    assert_int_equal(ls_session_build(&s).code, LS_DEVICE);
    assert_non_null(s.program[0]);
    assert_int_equal(counted.slabs, 0);
    close_session(&s);
}

static void a_smaller_batch_replaces_a_larger(void **state) {
    (void)state;
    const size_t small = needs(BATCH);
    ls_session s;
    open_session(&s, "cpu", LS_F32, 8 * BATCH, PLENTY);
    must(ls_session_measure(&s));
    must(ls_session_compile(&s));
    assert_true(ls_memory_plan_bytes(&s.memory) > small);
    s.options[0].micro_batch = BATCH;
    must(ls_session_build(&s));
    assert_int_equal(counted.used, small);
    close_session(&s);
}

// A session that failed at any step is closed like any other.
static void closes_at_every_step(void **state) {
    (void)state;
    enum { STEPS = 6 };
    ls_session s = { 0 };
    ls_session_close(&s);
    for (int step = 0; step < STEPS; step++) {
        s = (ls_session){ 0 };
        open_device(&s, "ref", 0);
        if (step > 0) must(ls_session_start(&s, LS_BF16));
        if (step > 1) must(ls_session_place(&s, graph, &(ls_param_store_options){ .storage = LS_BF16 }));
        s.options[0] = (ls_compile_options){ .micro_batch = BATCH };
        if (step > 2) must(ls_session_measure(&s));
        if (step > 3) must(ls_session_compile(&s));
        if (step > 4) must(ls_session_allocate(&s));
        close_session(&s);
    }
}

static void refuses_a_precision(void **state) {
    (void)state;
    ls_session s = { 0 };
    open_device(&s, "cpu", 0);
    assert_int_equal(ls_session_start(&s, LS_F16).code, LS_USAGE);
    close_session(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(computes_on_every_device),
        cmocka_unit_test(computes_the_same_when_opened_again),
        cmocka_unit_test(takes_weights),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(refuses_after_plans_are_made),
        cmocka_unit_test(a_smaller_batch_replaces_a_larger),
        cmocka_unit_test(closes_at_every_step),
        cmocka_unit_test(refuses_a_precision),
    };
    return cmocka_run_group_tests(tests, read_network, free_network);
}
