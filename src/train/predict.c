#include "train/predict.h"

#include <math.h>
#include "base/cpus.h"
#include "base/memory.h"
#include "data/pictures.h"
#include "program/compile.h"
#include "train/input_pipeline.h"
#include "files/weights.h"

enum { BATCH = 8 }; // always as many, so that a picture's logits are the same bits beside any others

struct ls_predictor {
    ls_predictor_options options;
    const ls_graph *graph;
    ls_dataset *pictures;
    ls_device *device;
    const char *why_not_cuda;
    ls_queue *queue;
    ls_param_store *arenas;
    ls_program *program;
    ls_slab *activations, *workspace, *table, *records; // records: what the loss reads and writes beside the logits
    ls_input_pipeline *feed;
    ls_program_inputs inputs;
    float *logits; // of the batch, (BATCH, classes)
    ls_batch batch;
    int64_t next, batch_end; // pictures: to give next; behind the last that logits has
};

static ls_status open_device(ls_predictor *p) {
    const ls_config *cfg = p->options.cfg;
    ls_cpus cpus;
    ls_cpus_detect(&cpus);
    ls_device_options options = {
        .threads = cfg->device_threads ? (int)cfg->device_threads : ls_cpus_threads_per_rank(&cpus, 1),
        .winograd = ls_config_choice("device.winograd", cfg->device_winograd),
        .tf32 = cfg->device_tf32,
    };
    const char *type = ls_config_choice("device.type", cfg->device_type);
    LS_TRY(ls_device_open(type, &options, &p->device, &p->why_not_cuda));
    return p->device->api->queue_new(p->device, "compute", &p->queue);
}

static ls_status take_weights(ls_predictor *p) {
    const float **values;
    LS_TRY(LS_NEW(values, p->graph->param_count + 1, "list of weights"));
    ls_status status = ls_weights_find(p->options.file, p->graph, values);
    if (!ls_failed(status)) status = ls_param_store_allocate(p->arenas);
    for (int i = 0; i < p->graph->param_count && !ls_failed(status); i++)
        p->device->api->param_import(
            p->device, &p->graph->params[i].shape, values[i], ls_param_store_weight(p->arenas, i));
    free(values);
    return status;
}

static ls_status compile_program(ls_predictor *p) {
    const ls_device_api *api = p->device->api;
    ls_param_store_options arenas = { .storage = LS_F32 };
    LS_TRY(ls_param_store_new(p->device, p->graph, &arenas, &p->arenas));
    LS_TRY(take_weights(p));
    ls_compile_options compile = { .micro_batch = BATCH };
    LS_TRY(ls_compile(p->arenas, &compile, &p->program));
    LS_TRY(api->slab_new(p->device, LS_MEMORY_DEVICE, p->program->activation_bytes, "activations", &p->activations));
    if (p->program->workspace_bytes)
        LS_TRY(api->slab_new(p->device, LS_MEMORY_DEVICE, p->program->workspace_bytes, "workspace", &p->workspace));
    ls_program_bind(p->program, p->activations, p->workspace);
    return LS_SUCCESS;
}

static ls_status upload_table(ls_predictor *p) {
    const ls_device_api *api = p->device->api;
    const size_t bytes = (size_t)p->graph->input.c * 256 * sizeof(float);
    ls_slab *host;
    LS_TRY(api->slab_new(p->device, LS_MEMORY_DEVICE, bytes, "normalisation table", &p->table));
    LS_TRY(api->slab_new(p->device, LS_MEMORY_PINNED, bytes, "normalisation table (host)", &host));
    ls_dataset_table(p->pictures, ls_buffer_host(ls_buffer_at(host, 0, bytes)));
    api->copy(ls_buffer_at(p->table, 0, bytes), ls_buffer_at(host, 0, bytes), bytes, p->queue);
    ls_status status = api->queue_sync(p->queue);
    api->slab_free(host);
    p->inputs.buffer[LS_INPUT_TABLE] = ls_buffer_at(p->table, 0, bytes);
    return status;
}

// The loss runs, too, as it does in evaluation; what it adds up is not looked at.
static ls_status make_records(ls_predictor *p) {
    enum { ALIGN = 128 };
    const size_t state = (sizeof(ls_train_state) + ALIGN - 1) / ALIGN * ALIGN;
    LS_TRY(
        p->device->api->slab_new(p->device, LS_MEMORY_DEVICE, state + sizeof(ls_micro_result), "records", &p->records));
    p->inputs.buffer[LS_INPUT_STATE] = ls_buffer_at(p->records, 0, sizeof(ls_train_state));
    p->inputs.buffer[LS_INPUT_RESULT] = ls_buffer_at(p->records, state, sizeof(ls_micro_result));
    return LS_SUCCESS;
}

static ls_status start_feed(ls_predictor *p) {
    const ls_config *cfg = p->options.cfg;
    const int64_t batches = (p->options.count + BATCH - 1) / BATCH;
    ls_input_pipeline_options feed = {
        .queue = p->queue, .dataset = p->pictures, .micro_batch = BATCH, .prefetch = (int)cfg->data_prefetch
    };
    LS_TRY(ls_input_pipeline_new(p->device, &feed, &p->feed));
    ls_loader_options loader = { .batches = { .samples = p->options.count,
                                     .windows = batches,
                                     .global_batch = BATCH,
                                     .micro_batch = BATCH,
                                     .micro_batches = 1,
                                     .per_rank = 1,
                                     .world_size = 1 },
        .epochs = 1,
        .workers = (int)cfg->data_workers };
    return ls_input_pipeline_start(p->feed, &loader, batches);
}

static ls_status prepare(ls_predictor *p) {
    const ls_predictor_options *o = &p->options;
    ls_pictures_options pictures = {
        .paths = o->paths, .count = o->count, .shape = p->graph->input, .mean = o->facts->mean, .std = o->facts->std
    };
    LS_TRY(ls_pictures_open(&pictures, &p->pictures));
    LS_TRY(open_device(p));
    LS_TRY(compile_program(p));
    LS_TRY(upload_table(p));
    LS_TRY(make_records(p));
    LS_TRY(LS_NEW(p->logits, (size_t)BATCH * (size_t)p->graph->classes, "logits"));
    return start_feed(p);
}

ls_status ls_predictor_new(const ls_predictor_options *options, ls_predictor **out) {
    ls_predictor *p;
    LS_TRY(LS_NEW(p, 1, "predictor"));
    *p = (ls_predictor){ .options = *options, .graph = options->facts->graph };
    ls_status status = prepare(p);
    if (ls_failed(status)) {
        ls_predictor_free(p);
        return status;
    }
    *out = p;
    return LS_SUCCESS;
}

void ls_predictor_free(ls_predictor *p) {
    if (!p) return;
    if (p->queue) (void)p->device->api->queue_sync(p->queue); // what a failed run left under way
    ls_input_pipeline_free(p->feed);
    ls_program_free(p->program);
    ls_param_store_free(p->arenas);
    if (p->device) {
        ls_slab *slabs[] = { p->activations, p->workspace, p->table, p->records };
        for (size_t s = 0; s < sizeof slabs / sizeof *slabs; s++)
            if (slabs[s]) p->device->api->slab_free(slabs[s]);
        if (p->queue) p->device->api->queue_free(p->queue);
    }
    ls_device_close(p->device);
    ls_dataset_free(p->pictures);
    free(p->logits);
    free(p);
}

const char *ls_predictor_why_not_cuda(const ls_predictor *p) {
    return p->why_not_cuda;
}

static ls_status run_batch(ls_predictor *p) {
    const ls_program *program = p->program;
    LS_TRY(ls_input_pipeline_next(p->feed, &p->inputs, &p->batch));
    ls_program_run(program, &p->inputs, p->queue, &(ls_program_hooks){ 0 });
    LS_TRY(ls_input_pipeline_done(p->feed));
    LS_TRY(p->device->api->queue_sync(p->queue));
    const ls_buffer logits = program->instructions[program->count - 1].args[LS_LOSS_LOGITS]; // the loss comes last
    p->device->api->activation_export(p->device, program->logits_shape, program->storage, logits, p->logits);
    p->batch_end += p->batch.count;
    return LS_SUCCESS;
}

ls_status ls_predictor_next(ls_predictor *p, ls_prediction *prediction) {
    if (p->next == p->batch_end) LS_TRY(run_batch(p));
    const int classes = p->graph->classes;
    *prediction = (ls_prediction){ .path = p->options.paths[p->next],
        .status = ls_pictures_failure(p->pictures, p->next),
        .logits = p->logits + (p->next % BATCH) * classes };
    p->next++;
    for (int i = 0; i < classes && !ls_failed(prediction->status); i++)
        if (!isfinite(prediction->logits[i]))
            return ls_fail(LS_NUMERIC,
                "%s: the network's output is not finite: are the weights of a run that diverged?", prediction->path);
    return LS_SUCCESS;
}
