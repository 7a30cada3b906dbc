#include "train/diagnose/replay.h"

#include <string.h>
#include "base/cpus.h"
#include "base/memory.h"
#include "program/compile.h"
#include "train/diagnose/nonfinite_dump.h"
#include "files/weights.h"

enum { ALIGN = 128 };

typedef struct {
    const ls_config *cfg;
    FILE *file;
    ls_nonfinite_batch batch;
    ls_device *device;
    ls_queue *queue;
    ls_param_store *arenas;
    ls_plan *cast;
    ls_program *program;
    ls_slab *activations, *workspace, *inputs_slab;
    ls_program_inputs inputs;
    int next_sum; // of synchronised batch norm
    int marked;   // the first bad tensor was printed
} replay;

// --- device, weights, program --------------------------------------------------------------------

static ls_dtype storage_of(const ls_config *cfg) {
    return cfg->train_precision == LS_PRECISION_BF16   ? LS_BF16
           : cfg->train_precision == LS_PRECISION_FP16 ? LS_F16
                                                       : LS_F32;
}

static ls_status open_device(replay *r) {
    ls_cpus cpus;
    const char *why_not_cuda;
    ls_cpus_detect(&cpus);
    ls_device_options options = {
        .threads = r->cfg->device_threads ? (int)r->cfg->device_threads : ls_cpus_threads_per_rank(&cpus, 1),
        .winograd = ls_config_choice("device.winograd", r->cfg->device_winograd),
        .tf32 = r->cfg->device_tf32,
    };
    const char *type = ls_config_choice("device.type", r->cfg->device_type);
    LS_TRY(ls_device_open(type, &options, &r->device, &why_not_cuda));
    LS_TRY(r->device->api->check_precision(r->device, storage_of(r->cfg)));
    return r->device->api->queue_new(r->device, "compute", &r->queue);
}

// What operators read of weights: the masters, or their 16-bit copy.
static ls_status round_weights(replay *r) {
    const ls_param_store *a = r->arenas;
    if (a->storage == LS_F32) return LS_SUCCESS;
    const ls_device_api *api = r->device->api;
    ls_op_desc desc = { .op = LS_OP_CAST,
        .layer = "working weights",
        .attr.flat = { .count = a->trained_elements, .storage = a->storage } };
    ls_slab *workspace = NULL;
    LS_TRY(api->plan_new(r->device, &desc, &r->cast));
    size_t bytes = r->cast->workspace_bytes;
    if (bytes) LS_TRY(api->slab_new(r->device, LS_MEMORY_DEVICE, bytes, "workspace of a cast", &workspace));
    ls_buffer args[LS_CAST_ARGS] = { [LS_CAST_SRC] =
                                         ls_param_store_range(a->weight, 0, a->trained_elements, sizeof(float)),
        [LS_CAST_DST] = ls_param_store_range(a->copy, 0, a->trained_elements, ls_dtype_bytes(a->storage)) };
    ls_plan_run(r->cast, args, workspace ? ls_buffer_at(workspace, 0, bytes) : (ls_buffer){ 0 }, r->queue);
    ls_status status = api->queue_sync(r->queue);
    if (workspace) api->slab_free(workspace);
    return status;
}

static ls_status take_weights(replay *r) {
    const ls_graph *graph = r->batch.graph;
    const float **values;
    LS_TRY(LS_NEW(values, graph->param_count + 1, "list of weights"));
    ls_status status = ls_weights_find(r->batch.weights, graph, values);
    for (int p = 0; p < graph->param_count && !ls_failed(status); p++)
        r->device->api->param_import(
            r->device, &graph->params[p].shape, values[p], ls_param_store_weight(r->arenas, p));
    free(values);
    return ls_failed(status) ? status : round_weights(r);
}

static ls_status compile_program(replay *r) {
    const ls_device_api *api = r->device->api;
    const ls_config *cfg = r->cfg;
    ls_param_store_options arenas = { .storage = storage_of(cfg) };
    LS_TRY(ls_param_store_new(r->device, r->batch.graph, &arenas, &r->arenas));
    LS_TRY(ls_param_store_allocate(r->arenas));
    LS_TRY(take_weights(r));
    ls_compile_options options = { .micro_batch = r->batch.shape.n,
        .training = 1,
        .label_smoothing = (float)cfg->train_label_smoothing,
        .seed = (uint64_t)cfg->run_seed,
        .pad = (int)cfg->data_pad,
        .pad_mode = cfg->data_pad_mode == LS_PAD_MODE_REFLECT ? LS_PAD_REFLECT : LS_PAD_ZERO,
        .recompute = cfg->train_recompute == LS_RECOMPUTE_BLOCKS,
        .sync_norm = r->batch.sums.count > 0 };
    LS_TRY(ls_compile(r->arenas, &options, &r->program));
    LS_TRY(api->slab_new(r->device, LS_MEMORY_DEVICE, r->program->activation_bytes, "activations", &r->activations));
    if (r->program->workspace_bytes)
        LS_TRY(api->slab_new(r->device, LS_MEMORY_DEVICE, r->program->workspace_bytes, "workspace", &r->workspace));
    ls_program_bind(r->program, r->activations, r->workspace);
    return LS_SUCCESS;
}

// --- the batch -----------------------------------------------------------------------------------

static ls_status upload_batch(replay *r) {
    const ls_device_api *api = r->device->api;
    const ls_nonfinite_batch *b = &r->batch;
    size_t n = (size_t)b->shape.n;
    ls_micro_input micro = { .count = b->shape.n, .update = (uint32_t)b->update, .position = (uint64_t)b->position };
    const struct {
        ls_program_input input;
        const void *data;
        size_t bytes;
    } parts[] = {
        { LS_INPUT_PIXELS, b->pixels, (size_t)ls_nchw_count(b->shape) },
        { LS_INPUT_LABELS, b->labels, n * sizeof *b->labels },
        { LS_INPUT_AUGMENT, b->placement, n * sizeof *b->placement },
        { LS_INPUT_TABLE, b->table, (size_t)b->shape.c * 256 * sizeof *b->table },
        { LS_INPUT_MICRO, &micro, sizeof micro },
    };
    enum { PARTS = sizeof parts / sizeof parts[0] };
    size_t at[PARTS], total = 0;
    for (size_t i = 0; i < PARTS; i++) {
        at[i] = total;
        total += (parts[i].bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
    ls_slab *host;
    LS_TRY(api->slab_new(r->device, LS_MEMORY_DEVICE, total, "micro-batch", &r->inputs_slab));
    LS_TRY(api->slab_new(r->device, LS_MEMORY_PINNED, total, "micro-batch (host)", &host));
    for (size_t i = 0; i < PARTS; i++) {
        memcpy(ls_buffer_host(ls_buffer_at(host, at[i], parts[i].bytes)), parts[i].data, parts[i].bytes);
        r->inputs.buffer[parts[i].input] = ls_buffer_at(r->inputs_slab, at[i], parts[i].bytes);
    }
    api->copy(ls_buffer_at(r->inputs_slab, 0, total), ls_buffer_at(host, 0, total), total, r->queue);
    ls_status status = api->queue_sync(r->queue);
    api->slab_free(host);
    return status;
}

// A shifted picture must lie within what this configuration pads.
static ls_status check_placement(const replay *r) {
    for (int i = 0; i < r->batch.shape.n; i++) {
        const ls_augment_sample *p = &r->batch.placement[i];
        if (p->dy <= 2 * r->cfg->data_pad && p->dx <= 2 * r->cfg->data_pad) continue;
        return ls_fail(LS_USAGE,
            "sample %d of the batch is shifted by %d, %d, beyond 2 * data.pad = %lld of its config.ini", i, p->dy,
            p->dx, 2 * (long long)r->cfg->data_pad);
    }
    return LS_SUCCESS;
}

// --- the table -----------------------------------------------------------------------------------

static void print_look(void *context, const ls_tensor_stats *look) {
    replay *r = context;
    int first = ls_tensor_stats_is_bad(look) && !look->inert && !r->marked;
    char bad[32];
    snprintf(bad, sizeof bad, look->beyond ? "%lld beyond" : "%lld",
        (long long)(look->beyond ? look->beyond : look->nans + look->infs));
    fprintf(r->file, "%c %4d %-8s %-16s %-25s %-32s %9lld %12.4g %12.4g %12.4g %10s\n", first ? '>' : ' ',
        look->instruction, look->backward ? "backward" : "forward", look->layer, look->op, look->tensor,
        (long long)look->count, look->min, look->max, look->mean, bad);
    if (first) r->marked = 1;
}

static ls_status put_sums(void *context, ls_buffer sums, int64_t count, int channels) {
    replay *r = context;
    return ls_norm_sums_put(&r->batch.sums, r->next_sum++, r->device, r->queue, sums, count, channels);
}

static void print_head(const replay *r) {
    ls_device_info facts;
    r->device->api->facts(r->device, &facts);
    fprintf(r->file, "update %lld, %d samples from position %lld of its window, loss scale %g\non %s: %s, %s\n\n",
        (long long)r->batch.update, r->batch.shape.n, (long long)r->batch.position, (double)r->batch.loss_scale,
        r->device->api->name, facts.name, ls_dtype_name(storage_of(r->cfg)));
    fprintf(r->file, "  %4s %-8s %-16s %-25s %-32s %9s %12s %12s %12s %10s\n", "", "", "layer", "operator", "tensor",
        "elements", "minimum", "maximum", "mean", "not finite");
}

static void print_end(const replay *r, const ls_tensor_stats *first, int harmed) {
    char text[1024];
    if (!ls_tensor_stats_is_bad(first)) {
        fprintf(r->file, "\nall finite: ");
        if (r->batch.layer[0]) fprintf(r->file, "here; the run had layer '%s', %s\n", r->batch.layer, r->batch.tensor);
        return;
    }
    fprintf(r->file, "\nfirst      %s\n", ls_nonfinite_origin(first, text, sizeof text));
    if (first->bad_samples >= 0) {
        int shown = first->bad_samples < LS_TENSOR_STATS_SAMPLES_MAX ? first->bad_samples : LS_TENSOR_STATS_SAMPLES_MAX;
        fprintf(r->file, "samples   ");
        for (int i = 0; i < shown; i++) fprintf(r->file, " %lld", (long long)r->batch.samples[first->bad_sample[i]]);
        if (first->bad_samples > shown) fprintf(r->file, " and %d more", first->bad_samples - shown);
        fprintf(r->file, "\n");
    }
    ls_nonfinite_cause cause = ls_nonfinite_find_cause(first);
    fprintf(r->file, "cause      %s: %s\n", ls_nonfinite_cause_name(cause),
        ls_nonfinite_advice(cause, first, r->batch.loss_scale, text, sizeof text));
    if (!harmed) fprintf(r->file, "harm       none: the loss and all gradients of weights are finite here\n");
    int same = strcmp(first->layer, r->batch.layer) == 0 && strcmp(first->tensor, r->batch.tensor) == 0;
    if (same)
        fprintf(r->file, "the run    named the same tensor\n");
    else
        fprintf(r->file, "the run    had layer '%s', %s\n", r->batch.layer, r->batch.tensor);
}

// --- the whole -----------------------------------------------------------------------------------

static ls_status run(replay *r, const char *folder) {
    LS_TRY(ls_nonfinite_read(folder, &r->batch));
    LS_TRY(check_placement(r));
    LS_TRY(open_device(r));
    LS_TRY(compile_program(r));
    LS_TRY(upload_batch(r));
    print_head(r);
    ls_tensor_stats_list inspection = { .program = r->program,
        .inputs = &r->inputs,
        .queue = r->queue,
        .loss_scale = storage_of(r->cfg) == LS_F16 ? r->batch.loss_scale : 1.0f,
        .ordered = r->cfg->run_deterministic,
        .reduce = r->batch.sums.count ? put_sums : NULL,
        .seen = print_look,
        .context = r };
    ls_tensor_stats first;
    int harmed;
    LS_TRY(ls_tensor_stats_run(&inspection, &first, &harmed));
    print_end(r, &first, harmed);
    return LS_SUCCESS;
}

static void close_all(replay *r) {
    ls_program_free(r->program);
    if (r->device) {
        const ls_device_api *api = r->device->api;
        if (r->cast) api->plan_free(r->cast);
        ls_param_store_free(r->arenas);
        ls_slab *slabs[] = { r->activations, r->workspace, r->inputs_slab };
        for (size_t s = 0; s < sizeof slabs / sizeof *slabs; s++)
            if (slabs[s]) api->slab_free(slabs[s]);
        if (r->queue) api->queue_free(r->queue);
        ls_device_close(r->device);
    }
    ls_nonfinite_batch_free(&r->batch);
}

ls_status ls_replay(const char *folder, const ls_config *cfg, FILE *file) {
    replay r = { .cfg = cfg, .file = file };
    ls_status status = run(&r, folder);
    close_all(&r);
    return status;
}
