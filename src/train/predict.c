#include "train/predict.h"

#include <math.h>
#include <string.h>
#include "base/log.h"
#include "base/memory.h"
#include "data/image_decode.h"
#include "data/pictures.h"
#include "train/input_pipeline.h"
#include "formats/weights.h"
#include "formats/weights_fit.h"
#include "train/views.h"

// Number of pictures in a batch. All batches have this size, so that a picture's logits have the same bits whatever
// other pictures are in its batch.
enum { BATCH = 8 };

struct ls_predictor {
    ls_predictor_options options;
    const ls_graph *graph;
    ls_dataset *pictures;
    ls_session session;
    const char *why_not_gpu;
    ls_slab *views;   // augmentation of each view (views.h)
    ls_slab *records; // values that the loss reads and writes, besides the logits
    ls_input_pipeline *input;
    ls_program_inputs inputs;
    float *logits, *of_view; // (BATCH, classes): weighted sum over the views so far; of one view
    ls_batch batch;
    // Number of the next picture; number of the first picture after those in `logits`.
    int64_t next, batch_end;
};

static ls_input_pipeline_options input_options(const ls_predictor *p) {
    return (ls_input_pipeline_options){ .queue = p->session.queue,
        .dataset = p->pictures,
        .micro_batch = BATCH,
        .prefetch = (int)p->options.cfg->data_prefetch };
}

static ls_status open_session(ls_predictor *p) {
    ls_session *s = &p->session;
    LS_TRY(ls_session_open_device(s, p->options.cfg, &p->why_not_gpu));
    LS_TRY(ls_session_start(s, LS_F32));
    LS_TRY(ls_session_place(s, p->graph, &(ls_param_store_options){ .storage = LS_F32 }));
    s->options[0] = (ls_compile_options){ .micro_batch = BATCH, .augmentation = ls_views_augmentation(p->options.cfg) };
    const ls_input_pipeline_options input = input_options(p);
    s->memory.inputs = ls_input_pipeline_device_bytes(s->device, &input);
    LS_TRY(ls_session_build(s));
    LS_TRY(ls_weights_load(p->options.file, s));
    LS_TRY(ls_views_new(s, p->options.cfg, BATCH, &p->views));
    return ls_input_pipeline_set_table(s, p->pictures);
}

// Makes the records that the loss reads and writes, because it also runs in an evaluation. Its sums are not used here.
static ls_status make_records(ls_predictor *p) {
    enum { ALIGN = 128 };
    const size_t state = (sizeof(ls_train_state) + ALIGN - 1) / ALIGN * ALIGN;
    ls_device *device = p->session.device;
    LS_TRY(device->api->slab_new(device, LS_MEMORY_DEVICE, state + sizeof(ls_micro_result), "records", &p->records));
    p->inputs = ls_session_inputs(&p->session);
    p->inputs.buffer[LS_INPUT_STATE] = ls_buffer_at(p->records, 0, sizeof(ls_train_state));
    p->inputs.buffer[LS_INPUT_RESULT] = ls_buffer_at(p->records, state, sizeof(ls_micro_result));
    return LS_SUCCESS;
}

static ls_status start_input(ls_predictor *p) {
    const int64_t batches = (p->options.count + BATCH - 1) / BATCH;
    const ls_input_pipeline_options input = input_options(p);
    LS_TRY(ls_input_pipeline_new(p->session.device, &input, &p->input));
    ls_loader_options loader = { .batches = { .samples = p->options.count,
                                     .windows = batches,
                                     .global_batch = BATCH,
                                     .micro_batch = BATCH,
                                     .micro_batches = 1,
                                     .per_rank = 1,
                                     .world_size = 1 },
        .epochs = 1,
        .workers = (int)p->options.cfg->data_workers };
    return ls_input_pipeline_start(p->input, &loader, batches);
}

static int choose_decoder(const ls_predictor *p) {
    const char *trained = p->options.facts->decoder;
    const int decoder = ls_weights_decoder(p->options.facts, p->options.cfg);
    const char *now = ls_image_decoder(decoder);
    if (trained[0] && now && strcmp(now, trained) != 0)
        ls_warn(
            "the training pictures were decoded by %s, these are by %s: JPEG pixels may differ a little", trained, now);
    return decoder;
}

static ls_status open_pictures(ls_predictor *p) {
    const ls_predictor_options *o = &p->options;
    p->pictures = o->pictures;
    if (!o->paths) return LS_SUCCESS;
    ls_pictures_options pictures = { .paths = o->paths,
        .count = o->count,
        .shape = p->graph->input,
        .resize = o->facts->resize == LS_RESIZE_UNKNOWN ? o->cfg->data_resize : o->facts->resize,
        .decoder = choose_decoder(p),
        .mean = o->facts->mean,
        .std = o->facts->std };
    LS_TRY(ls_image_check_decoder(p->options.cfg->data_decoder));
    return ls_pictures_open(&pictures, &p->pictures);
}

static ls_status prepare(ls_predictor *p) {
    LS_TRY(open_pictures(p));
    LS_TRY(open_session(p));
    LS_TRY(make_records(p));
    p->logits = ls_new((size_t)BATCH * (size_t)p->graph->classes, sizeof *p->logits, "logits");
    p->of_view = ls_new((size_t)BATCH * (size_t)p->graph->classes, sizeof *p->of_view, "logits");
    return start_input(p);
}

ls_status ls_predictor_new(const ls_predictor_options *options, ls_predictor **out) {
    ls_predictor *p = ls_new(1, sizeof *p, "predictor");
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
    ls_session_drain(&p->session);
    ls_input_pipeline_free(p->input);
    if (p->records) p->session.device->api->slab_free(p->records);
    if (p->views) p->session.device->api->slab_free(p->views);
    ls_session_close(&p->session);
    if (p->options.paths) ls_dataset_free(p->pictures);
    free(p->logits);
    free(p->of_view);
    free(p);
}

const char *ls_predictor_why_not_gpu(const ls_predictor *p) {
    return p->why_not_gpu;
}

// Adds the logits of the batch in one view, times the view's weight. With only one view, the logits keep their bits.
static ls_status add_view(ls_predictor *p, int view) {
    const ls_program *program = p->session.program[0];
    const float weight = (float)ls_views_weight(p->options.cfg, view);
    ls_views_choose(p->views, BATCH, view, &p->inputs);
    ls_program_run(program, &p->inputs, p->session.queue, &(ls_program_hooks){ 0 });
    LS_TRY(p->session.device->api->queue_sync(p->session.queue));
    ls_program_export_logits(program, p->of_view);
    for (int i = 0; i < BATCH * p->graph->classes; i++)
        p->logits[i] = view == 0 ? weight * p->of_view[i] : p->logits[i] + weight * p->of_view[i];
    return LS_SUCCESS;
}

static ls_status run_batch(ls_predictor *p) {
    LS_TRY(ls_input_pipeline_next(p->input, &p->inputs, &p->batch));
    for (int view = 0; view < ls_views_count(p->options.cfg); view++) LS_TRY(add_view(p, view));
    LS_TRY(ls_input_pipeline_done(p->input));
    p->batch_end += p->batch.count;
    return LS_SUCCESS;
}

ls_status ls_predictor_next(ls_predictor *p, ls_prediction *prediction) {
    if (p->next == p->batch_end) LS_TRY(run_batch(p));
    const int classes = p->graph->classes;
    const char *const *paths = p->options.paths;
    *prediction = (ls_prediction){ .logits = p->logits + (p->next % BATCH) * classes };
    if (paths) {
        prediction->path = paths[p->next];
        prediction->status = ls_pictures_failure(p->pictures, p->next);
    }
    p->next++;
    for (int i = 0; i < classes && !ls_failed(prediction->status); i++)
        if (!isfinite(prediction->logits[i]))
            return ls_fail(LS_NUMERIC,
                "%s: the network's output is not finite: are the weights of a run that diverged?",
                prediction->path ? prediction->path : "a picture");
    return LS_SUCCESS;
}
