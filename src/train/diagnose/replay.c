#include "train/diagnose/replay.h"

#include <string.h>
#include "train/diagnose/nonfinite_dump.h"
#include "formats/weights.h"

enum { PARTS = 4 }; // number of uploaded parts of a micro-batch

typedef struct {
    const ls_config *cfg;
    FILE *file;
    ls_nonfinite_batch batch;
    ls_graph *resized; // the network at the resolution of the epoch; NULL: at the resolution of the pictures
    ls_param_rules *rules;
    ls_session session;
    ls_slab *uploaded[PARTS];
    ls_program_inputs inputs;
    int next_sum; // number of the next sum of synchronised batch norm
    int marked;   // 1: the first bad tensor has been printed
} replay;

static ls_status open_resolution(replay *r) {
    ls_resolutions resolutions;
    LS_TRY(ls_parse_resolutions("train.resolution", r->cfg->train_resolution, &resolutions));
    if (resolutions.count == 0) return LS_SUCCESS;
    const ls_resolution *step = &resolutions.step[ls_resolutions_find(&resolutions, r->batch.epoch)];
    return ls_graph_resize(r->batch.graph, step->h, step->w, &r->resized);
}

static ls_status open_session(replay *r) {
    ls_session *s = &r->session;
    const char *why_not_gpu;
    // Like the run's program, this one has no gradients of frozen parameters or of those whose rate has ended.
    LS_TRY(ls_param_rules_new(r->cfg, r->batch.graph, &r->rules));
    const ls_param_store_options store = { .storage = ls_config_storage(r->cfg), .rules = r->rules };
    LS_TRY(ls_session_open_device(s, r->cfg, &why_not_gpu));
    LS_TRY(ls_session_start(s, store.storage));
    LS_TRY(ls_session_place(s, r->batch.graph, &store));
    s->options[0] = ls_compile_options_of(r->cfg, r->batch.shape.n);
    s->options[0].graph = r->resized;
    s->options[0].epoch = r->batch.epoch;
    s->options[0].weighted = r->batch.class_weights != NULL;
    s->options[0].sync_norm = r->batch.sums.count > 0;
    LS_TRY(ls_session_build(s));
    LS_TRY(ls_weights_load(r->batch.weights, s));
    if (r->batch.class_weights) LS_TRY(ls_session_set_class_weights(s, r->batch.class_weights));
    return ls_session_set_table(s, r->batch.table);
}

// --- the batch -----------------------------------------------------------------------------------

static ls_status upload_batch(replay *r) {
    const ls_nonfinite_batch *b = &r->batch;
    const size_t n = (size_t)b->shape.n;
    const ls_micro_input micro = {
        .count = b->shape.n, .update = (uint32_t)b->update, .position = (uint64_t)b->position
    };
    const struct {
        ls_program_input input;
        const void *data;
        size_t bytes;
    } parts[PARTS] = {
        { LS_INPUT_PIXELS, b->pixels, (size_t)ls_nchw_count(b->shape) },
        { LS_INPUT_LABELS, b->labels, n * sizeof *b->labels },
        { LS_INPUT_AUGMENT, b->augment, n * sizeof *b->augment },
        { LS_INPUT_MICRO, &micro, sizeof micro },
    };
    r->inputs = ls_session_inputs(&r->session);
    for (int i = 0; i < PARTS; i++) {
        LS_TRY(ls_session_upload(&r->session, "micro-batch", parts[i].data, parts[i].bytes, &r->uploaded[i]));
        r->inputs.buffer[parts[i].input] = ls_buffer_at(r->uploaded[i], 0, parts[i].bytes);
    }
    return LS_SUCCESS;
}

// Checks that this configuration could have drawn the augmentation of each sample in the batch, because operators rely
// on that.
static ls_status check_augmentation(const replay *r) {
    const ls_augmentation augmentation = ls_config_augmentation(r->cfg), *a = &augmentation;
    const ls_chw picture = r->batch.graph->input;
    (void)picture; // the rows of augmentations.def may use it
    for (int i = 0; i < r->batch.shape.n; i++) {
        const ls_augment_sample *drawn = &r->batch.augment[i];
#define FIELD(type, name, most) \
    if (drawn->name > (most)) \
        return ls_fail(LS_USAGE, \
            "sample %d of the batch was augmented with " #name " = %d; its config.ini has up to %d", i, drawn->name, \
            most);
#include "config/augmentations.def"
    }
    return LS_SUCCESS;
}

// --- the table -----------------------------------------------------------------------------------

static void print_stats(void *context, const ls_tensor_stats *stats) {
    replay *r = context;
    int first = ls_tensor_stats_is_bad(stats) && !stats->inert && !r->marked;
    char bad[32];
    snprintf(bad, sizeof bad, stats->beyond ? "%lld beyond" : "%lld",
        (long long)(stats->beyond ? stats->beyond : stats->nans + stats->infs));
    fprintf(r->file, "%c %4d %-8s %-16s %-25s %-32s %9lld %12.4g %12.4g %12.4g %10s\n", first ? '>' : ' ',
        stats->instruction, stats->backward ? "backward" : "forward", stats->layer, stats->op, stats->tensor,
        (long long)stats->count, stats->min, stats->max, stats->mean, bad);
    if (first) r->marked = 1;
}

static ls_status put_sums(void *context, ls_buffer sums, int64_t count, int channels) {
    replay *r = context;
    return ls_norm_sums_put(&r->batch.sums, r->next_sum++, r->session.device, r->session.queue, sums, count, channels);
}

static void print_head(const replay *r) {
    ls_device_info facts;
    ls_device *device = r->session.device;
    device->api->info(device, &facts);
    fprintf(r->file, "update %lld, %d samples from position %lld of its window, loss scale %g\non %s: %s, %s\n\n",
        (long long)r->batch.update, r->batch.shape.n, (long long)r->batch.position, (double)r->batch.loss_scale,
        device->api->name, facts.name, ls_dtype_name(ls_config_storage(r->cfg)));
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
    LS_TRY(check_augmentation(r));
    LS_TRY(open_resolution(r));
    LS_TRY(open_session(r));
    LS_TRY(upload_batch(r));
    print_head(r);
    ls_tensor_stats_list inspection = { .program = r->session.program[0],
        .inputs = &r->inputs,
        .queue = r->session.queue,
        .loss_scale = ls_config_storage(r->cfg) == LS_F16 ? r->batch.loss_scale : 1.0f,
        .ordered = r->cfg->run_deterministic,
        .reduce = r->batch.sums.count ? put_sums : NULL,
        .seen = print_stats,
        .context = r };
    ls_tensor_stats first;
    int harmed;
    LS_TRY(ls_tensor_stats_run(&inspection, &first, &harmed));
    print_end(r, &first, harmed);
    return LS_SUCCESS;
}

static void close_all(replay *r) {
    ls_session_drain(&r->session);
    for (int i = 0; i < PARTS; i++)
        if (r->uploaded[i]) r->session.device->api->slab_free(r->uploaded[i]);
    ls_session_close(&r->session);
    ls_param_rules_free(r->rules);
    ls_graph_free(r->resized);
    ls_nonfinite_batch_free(&r->batch);
}

ls_status ls_replay(const char *folder, const ls_config *cfg, FILE *file) {
    replay r = { .cfg = cfg, .file = file };
    ls_status status = run(&r, folder);
    close_all(&r);
    return status;
}
