// fixture.h - a network written to a temporary file, compiled on a device, with one batch:
// for tests that look inside an update.
#ifndef LS_TESTS_TRAIN_FIXTURE_H
#define LS_TESTS_TRAIN_FIXTURE_H

#include <stdint.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/philox.h"
#include "config/purpose.h"
#include "support/cmocka.h"
#include "program/session.h"

#define must(expr) \
    do { \
        ls_status must_status_ = (expr); \
        if (ls_failed(must_status_)) fail_msg("%s: %s", #expr, must_status_.text); \
    } while (0)

typedef struct {
    const char *device, *network; // network: the text of a network file
    int batch, training, recompute, sync_norm;
    unsigned fusions; // a set of ls_fusion
    float focal_gamma;
} fixture_setup;

typedef struct {
    ls_device_api api; // the device's own but for its fusions
    ls_session session;
    ls_graph *graph;
    ls_device *device; // these are the session's
    ls_queue *queue;
    ls_param_store *store;
    ls_program *program;
    ls_slab *memory; // batch, table and records
    ls_program_inputs inputs;
    ls_micro_result *result;
    int batch;
} fixture;

static inline ls_graph *fixture_graph(const char *text) {
    char path[] = "/tmp/lockstep_network_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    ls_graph *graph;
    must(ls_graph_read(path, &graph));
    unlink(path);
    return graph;
}

static inline void fixture_batch(fixture *f) {
    size_t pixels = (size_t)(f->batch * ls_chw_count(f->graph->input)), labels = (size_t)f->batch * sizeof(int32_t);
    size_t augment = (size_t)f->batch * sizeof(ls_augment_sample),
           table = (size_t)f->graph->input.c * 256 * sizeof(float);
    size_t sizes[LS_INPUT_COUNT] = { [LS_INPUT_PIXELS] = pixels,
        [LS_INPUT_LABELS] = labels,
        [LS_INPUT_AUGMENT] = augment,
        [LS_INPUT_MICRO] = sizeof(ls_micro_input),
        [LS_INPUT_TABLE] = table,
        [LS_INPUT_STATE] = sizeof(ls_train_state),
        [LS_INPUT_RESULT] = sizeof(ls_micro_result) };
    size_t total = 0;
    for (int i = 1; i < LS_INPUT_COUNT; i++) total += (sizes[i] + 127) / 128 * 128;
    must(f->device->api->slab_new(f->device, LS_MEMORY_PINNED, total, "test batch", &f->memory));
    size_t at = 0;
    for (int i = 1; i < LS_INPUT_COUNT; i++) {
        f->inputs.buffer[i] = ls_buffer_at(f->memory, at, sizes[i]);
        at += (sizes[i] + 127) / 128 * 128;
    }
    uint8_t *p = ls_buffer_host(f->inputs.buffer[LS_INPUT_PIXELS]);
    for (size_t i = 0; i < pixels; i++) p[i] = (uint8_t)(ls_random_word(7, LS_PURPOSE_SYNTHETIC, 0, 0, i) & 255);
    int32_t *l = ls_buffer_host(f->inputs.buffer[LS_INPUT_LABELS]);
    for (int i = 0; i < f->batch; i++) l[i] = i % f->graph->classes;
    float *t = ls_buffer_host(f->inputs.buffer[LS_INPUT_TABLE]);
    for (int i = 0; i < f->graph->input.c * 256; i++) t[i] = ((float)(i % 256) / 255.0f - 0.5f) / 0.25f;
    *(ls_micro_input *)ls_buffer_host(f->inputs.buffer[LS_INPUT_MICRO]) = (ls_micro_input){ .count = f->batch };
    *(ls_train_state *)ls_buffer_host(f->inputs.buffer[LS_INPUT_STATE]) = (ls_train_state){ .loss_scale = 1 };
    f->result = ls_buffer_host(f->inputs.buffer[LS_INPUT_RESULT]);
}

// f must not move afterwards: it holds the device's table.
static inline void fixture_make(fixture *f, const fixture_setup *setup) {
    *f = (fixture){ .batch = setup->batch };
    ls_session *s = &f->session;
    const ls_device_options options = { .threads = 2, .winograd = "auto" };
    const char *why;
    must(ls_device_open(setup->device, &options, &s->device, &why));
    f->api = *s->device->api;
    f->api.fusions = setup->fusions;
    s->device->api = &f->api;
    f->graph = fixture_graph(setup->network);
    must(ls_session_start(s, LS_F32));
    must(ls_session_place(s, f->graph, &(ls_param_store_options){ .storage = LS_F32, .state_tensors = 1 }));
    s->options[0] = (ls_compile_options){ .micro_batch = setup->batch,
        .training = setup->training,
        .seed = 5,
        .recompute = setup->recompute,
        .sync_norm = setup->sync_norm,
        .focal_gamma = setup->focal_gamma };
    must(ls_session_build(s));
    must(ls_param_store_init(s->store, 3));
    f->device = s->device;
    f->queue = s->queue;
    f->store = s->store;
    f->program = s->program[0];
    fixture_batch(f);
}

static inline void fixture_new(fixture *f, const char *device, const char *network, int batch, int training) {
    fixture_make(f, &(fixture_setup){ .device = device, .network = network, .batch = batch, .training = training });
}

// Loss summed over the batch; gradients start from zero.
static inline double fixture_run(fixture *f) {
    *f->result = (ls_micro_result){ 0 };
    f->device->api->zero(ls_buffer_at(f->store->grad, 0, f->store->grad->bytes), f->store->grad->bytes, f->queue);
    ls_program_run(f->program, &f->inputs, f->queue, &(ls_program_hooks){ 0 });
    must(f->device->api->queue_sync(f->queue));
    return f->result->loss_sum;
}

static inline void fixture_free(fixture *f) {
    f->device->api->slab_free(f->memory);
    ls_session_close(&f->session);
    ls_graph_free(f->graph);
}

#endif
