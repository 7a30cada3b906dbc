#include "device/ref/ref.h"

typedef struct {
    const ls_augment_attr *attr;
    const uint8_t *pixels;
    const ls_augment_sample *samples;
    const int32_t *index;
    const float *table;
    void *out;
} augment_job;

// A coordinate outside 0..size-1 mirrored at the edge pixel; pad < size, so once is enough.
static int mirrored(int at, int size) {
    if (at < 0) return -at;
    return at >= size ? 2 * (size - 1) - at : at;
}

// Of one axis: is `at` one of the square's `side` indices, of which the first is middle - side/2?
static int in_square(int at, int middle, int side) {
    int first = middle - side / 2;
    return at >= first && at < first + side;
}

// Each operation rounded: this file has no fused ones.
static float jitter(const ls_augmentation *a, const ls_augment_sample *drawn, float value) {
    if (a->brightness == 0 && a->contrast == 0) return value;
    float brightness_level = (float)(2 * drawn->brightness - 65535) / 65536;
    float contrast_level = (float)(2 * drawn->contrast - 65535) / 65536;
    float shift = a->brightness * brightness_level, stretch = a->contrast * contrast_level;
    return (value + shift) * (1 + stretch);
}

static void place_sample(void *context, int n, int thread) {
    (void)thread;
    const augment_job *job = context;
    const ls_augment_attr *a = job->attr;
    ls_nchw s = a->shape;
    const ls_augment_sample *drawn = &job->samples[n];
    int pad = a->augmentation.pad;
    int64_t sample = (int64_t)s.c * s.h * s.w;
    const uint8_t *picture = job->pixels + (a->indexed ? job->index[n] : n) * sample;
    for (int64_t i = 0; i < sample; i++) {
        int c = (int)(i / ((int64_t)s.h * s.w)), y = (int)(i / s.w % s.h), x = (int)(i % s.w);
        int from_y = y + drawn->dy - pad, from_x = (drawn->flip ? s.w - 1 - x : x) + drawn->dx - pad;
        int pixel = 0;
        if (a->augmentation.pad_mode == LS_PAD_REFLECT) {
            from_y = mirrored(from_y, s.h);
            from_x = mirrored(from_x, s.w);
        }
        if (from_y >= 0 && from_y < s.h && from_x >= 0 && from_x < s.w) {
            pixel = picture[((int64_t)c * s.h + from_y) * s.w + from_x];
        }
        int cut =
            in_square(y, drawn->cut_y, a->augmentation.cutout) && in_square(x, drawn->cut_x, a->augmentation.cutout);
        float value = cut ? 0 : jitter(&a->augmentation, drawn, job->table[c * 256 + pixel]);
        ls_store_float(job->out, a->storage, n * sample + i, value);
    }
}

void ls_ref_augment(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    augment_job job = {
        .attr = &plan->desc.attr.augment,
        .pixels = ls_buffer_host(args[LS_AUGMENT_PIXELS]),
        .samples = ls_buffer_host(args[LS_AUGMENT_SAMPLE]),
        .index = ls_buffer_host(args[LS_AUGMENT_INDEX]),
        .table = ls_buffer_host(args[LS_AUGMENT_TABLE]),
        .out = ls_buffer_host(args[LS_AUGMENT_DST]),
    };
    ls_ref_run_tasks(plan, place_sample, &job, job.attr->shape.n);
}
