#include "program/session.h"

#include <string.h>
#include "system/cpus.h"

// --- device --------------------------------------------------------------------------------------

int ls_session_threads(const ls_config *cfg, int ranks_of_host) {
    ls_cpus cpus;
    if (cfg->device_threads) return (int)cfg->device_threads;
    ls_cpus_detect(&cpus);
    return ls_cpus_threads_per_rank(&cpus, ranks_of_host);
}

ls_device_options ls_session_device_options(const ls_config *cfg, int threads) {
    return (ls_device_options){
        .threads = threads,
        .winograd = ls_config_choice("device.winograd", cfg->device_winograd),
        .tf32 = cfg->device_tf32,
        .workspace_limit_bytes = (size_t)cfg->device_workspace << 20,
    };
}

ls_status ls_session_open_device(ls_session *s, const ls_config *cfg, const char **why_not_gpu) {
    const ls_device_options options = ls_session_device_options(cfg, ls_session_threads(cfg, 1));
    return ls_device_open(ls_config_choice("device.type", cfg->device_type), &options, &s->device, why_not_gpu);
}

ls_status ls_session_start(ls_session *s, ls_dtype storage) {
    LS_TRY(s->device->api->check_precision(s->device, storage));
    return s->device->api->queue_new(s->device, "compute", &s->queue);
}

// --- plans ---------------------------------------------------------------------------------------

static ls_status place(ls_device *device, const ls_graph *graph, const ls_param_store_options *options,
    ls_param_store **store, ls_plan **cast) {
    LS_TRY(ls_param_store_new(device, graph, options, store));
    if (options->storage == LS_F32) return LS_SUCCESS;
    const ls_op_desc desc = { .op = LS_OP_CAST,
        .layer = "working weights",
        .attr.flat = { .count = ls_param_store_working_elements(*store), .storage = options->storage } };
    return device->api->plan_new(device, &desc, cast);
}

ls_status ls_session_place(ls_session *s, const ls_graph *graph, const ls_param_store_options *options) {
    return place(s->device, graph, options, &s->store, &s->cast);
}

ls_status ls_session_place_teacher(ls_session *s, const ls_graph *graph) {
    const ls_param_store_options options = { .storage = s->store->storage, .frozen = 1 };
    return place(s->device, graph, &options, &s->teacher, &s->teacher_cast);
}

static void grow(size_t *most, size_t bytes) {
    if (bytes > *most) *most = bytes;
}

static void free_programs(ls_session *s) {
    for (int p = 0; p < LS_SESSION_PROGRAMS; p++) {
        ls_program_free(s->program[p]);
        s->program[p] = NULL;
    }
}

ls_status ls_session_measure(ls_session *s) {
    const ls_param_store_sizes *sizes = &s->store->sizes;
    free_programs(s);
    s->memory.weights = sizes->weight + sizes->copy;
    s->memory.gradients = sizes->grad + sizes->fixed + sizes->wire + sizes->rounded;
    s->memory.optimizer = sizes->state + sizes->average;
    s->memory.activations = 0;
    s->memory.workspace = s->cast ? s->cast->workspace_bytes : 0;
    s->memory.teacher = s->teacher ? s->teacher->sizes.weight + s->teacher->sizes.copy : 0;
    if (s->teacher_cast) grow(&s->memory.workspace, s->teacher_cast->workspace_bytes);
    LS_TRY(ls_memory_plan_look(&s->memory, s->device));
    for (int p = 0; s->memory.own_memory && p < LS_SESSION_PROGRAMS; p++) {
        size_t bytes = 0;
        if (s->options[p].micro_batch) LS_TRY(ls_compile_measure(s->store, &s->options[p], &bytes));
        grow(&s->memory.activations, bytes);
    }
    return LS_SUCCESS;
}

ls_status ls_session_compile(ls_session *s) {
    for (int p = 0; p < LS_SESSION_PROGRAMS; p++) {
        if (!s->options[p].micro_batch) continue;
        LS_TRY(ls_compile(s->store, &s->options[p], &s->program[p]));
        grow(&s->memory.activations, s->program[p]->activation_bytes);
        grow(&s->memory.workspace, s->program[p]->workspace_bytes);
    }
    return ls_memory_plan_look(&s->memory, s->device); // plans may have allocated device memory
}

// --- memory --------------------------------------------------------------------------------------

ls_status ls_session_allocate(ls_session *s) {
    const ls_device_api *api = s->device->api;
    const size_t activations = s->memory.activations, workspace = s->memory.workspace;
    LS_TRY(ls_param_store_allocate(s->store));
    if (s->teacher) LS_TRY(ls_param_store_allocate(s->teacher));
    LS_TRY(api->slab_new(s->device, LS_MEMORY_DEVICE, activations, "activations", &s->activations));
    if (workspace) LS_TRY(api->slab_new(s->device, LS_MEMORY_DEVICE, workspace, "workspace", &s->workspace));
    for (int p = 0; p < LS_SESSION_PROGRAMS; p++)
        if (s->program[p]) ls_program_bind(s->program[p], s->activations, s->workspace);
    return LS_SUCCESS;
}

static ls_status check_fits(const ls_session *s) {
    int samples = 0;
    for (int p = 0; p < LS_SESSION_PROGRAMS; p++)
        if (s->options[p].micro_batch > samples) samples = s->options[p].micro_batch;
    return ls_memory_plan_fits(&s->memory) ? LS_SUCCESS : ls_memory_plan_refuse(&s->memory, NULL, samples);
}

ls_status ls_session_build(ls_session *s) {
    LS_TRY(ls_session_measure(s));
    LS_TRY(check_fits(s));
    LS_TRY(ls_session_compile(s));
    LS_TRY(check_fits(s));
    return ls_session_allocate(s);
}

void ls_session_drain(ls_session *s) {
    if (s->queue) (void)s->device->api->queue_sync(s->queue);
}

void ls_session_close(ls_session *s) {
    if (!s->device) return;
    const ls_device_api *api = s->device->api;
    free_programs(s);
    if (s->cast) api->plan_free(s->cast);
    if (s->teacher_cast) api->plan_free(s->teacher_cast);
    ls_param_store_free(s->store);
    ls_param_store_free(s->teacher);
    ls_slab *slabs[] = { s->activations, s->workspace, s->table, s->class_weights, s->label_sets };
    for (size_t i = 0; i < sizeof slabs / sizeof *slabs; i++)
        if (slabs[i]) api->slab_free(slabs[i]);
    if (s->queue) api->queue_free(s->queue);
    ls_device_close(s->device);
    *s = (ls_session){ 0 };
}

// --- contents ------------------------------------------------------------------------------------

void ls_session_set_weights(ls_session *s, const float *const *values) {
    for (int p = 0; p < s->store->graph->param_count; p++) ls_param_store_import(s->store, p, values[p]);
    ls_session_weights_changed(s);
}

static void cast_weights(const ls_session *s, const ls_plan *cast, const ls_param_store *store) {
    if (!cast) return;
    const int64_t count = ls_param_store_working_elements(store);
    const ls_buffer args[LS_CAST_ARGS] = { [LS_CAST_SRC] = ls_param_store_range(store->weight, 0, count, sizeof(float)),
        [LS_CAST_DST] = ls_param_store_range(store->copy, 0, count, ls_dtype_bytes(store->storage)) };
    ls_plan_run(
        cast, args, s->workspace ? ls_buffer_at(s->workspace, 0, s->workspace->bytes) : (ls_buffer){ 0 }, s->queue);
}

void ls_session_weights_changed(ls_session *s) {
    cast_weights(s, s->cast, s->store);
    cast_weights(s, s->teacher_cast, s->teacher);
}

ls_status ls_session_upload(ls_session *s, const char *what, const void *values, size_t bytes, ls_slab **out) {
    const ls_device_api *api = s->device->api;
    ls_slab *host;
    LS_TRY(api->slab_new(s->device, LS_MEMORY_DEVICE, bytes, what, out));
    LS_TRY(api->slab_new(s->device, LS_MEMORY_PINNED, bytes, what, &host));
    memcpy(host->address, values, bytes);
    api->copy(ls_buffer_at(*out, 0, bytes), ls_buffer_at(host, 0, bytes), bytes, s->queue);
    ls_status status = api->queue_sync(s->queue);
    api->slab_free(host);
    return status;
}

ls_status ls_session_set_table(ls_session *s, const float *values) {
    const size_t bytes = (size_t)s->store->graph->input.c * 256 * sizeof *values;
    return ls_session_upload(s, "normalisation table", values, bytes, &s->table);
}

ls_status ls_session_set_class_weights(ls_session *s, const float *values) {
    const size_t bytes = (size_t)s->store->graph->classes * sizeof *values;
    return ls_session_upload(s, "class weights", values, bytes, &s->class_weights);
}

ls_status ls_session_set_label_sets(ls_session *s, const uint8_t *sets, int64_t rows) {
    return ls_session_upload(s, "label sets", sets, (size_t)rows * (size_t)s->store->graph->classes, &s->label_sets);
}

static ls_buffer whole_slab(ls_slab *slab) {
    return slab ? ls_buffer_at(slab, 0, slab->bytes) : (ls_buffer){ 0 };
}

ls_program_inputs ls_session_inputs(const ls_session *s) {
    return (ls_program_inputs){ .buffer = { [LS_INPUT_TABLE] = whole_slab(s->table),
                                    [LS_INPUT_CLASS_WEIGHTS] = whole_slab(s->class_weights),
                                    [LS_INPUT_LABEL_SETS] = whole_slab(s->label_sets) } };
}
