#include "device/ref/ref.h"

typedef struct {
    const ls_augment_attr *attr;
    const uint8_t *pixels;
    const ls_augment_sample *samples;
    const int32_t *index;
    const float *table;
    void *out;
} augment_job;

// Mirrors a coordinate outside 0..size-1 at the edge pixel. pad < size, so mirroring once is enough.
static int mirrored(int at, int size) {
    if (at < 0) return -at;
    return at >= size ? 2 * (size - 1) - at : at;
}

// For one axis: whether `at` is one of the `size` indices from `first` on.
static int within(int at, int first, int size) {
    return at >= first && at < first + size;
}

// Returns a value with the sample's brightness and contrast. Each operation is rounded separately: this file is
// compiled without fused multiply-adds.
static float jitter(const ls_augmentation *a, const ls_augment_sample *drawn, float value) {
    if (a->brightness == 0 && a->contrast == 0) return value;
    float brightness_level = (float)(2 * drawn->brightness - 65535) / 65536;
    float contrast_level = (float)(2 * drawn->contrast - 65535) / 65536;
    float shift = a->brightness * brightness_level, stretch = a->contrast * contrast_level;
    return (value + shift) * (1 + stretch);
}

// The two source indices that position `at` of a stretched axis reads, and the weight of the second in 2048ths.
typedef struct {
    int first, second, share;
} tap;

static tap tap_at(int at, int crop, int size) {
    int64_t t = (2 * (int64_t)at + 1) * crop - size, step = 2 * (int64_t)size;
    if (t < 0) t = 0;
    int first = (int)(t / step);
    return (tap){ first, first + 1 < crop ? first + 1 : first, (int)((t % step * 2048 + size) / step) };
}

// Returns pixel (y, x) of one channel. If the sample has a crop, it is a pixel of the stretched rectangle.
static int pixel_at(const uint8_t *plane, ls_nchw s, const ls_augment_sample *drawn, int y, int x) {
    if (drawn->crop_h == 0) return plane[(int64_t)y * s.w + x];
    tap row = tap_at(y, drawn->crop_h, s.h), column = tap_at(x, drawn->crop_w, s.w);
    const uint8_t *top = plane + (int64_t)(drawn->crop_y + row.first) * s.w + drawn->crop_x;
    const uint8_t *bottom = plane + (int64_t)(drawn->crop_y + row.second) * s.w + drawn->crop_x;
    int above = (2048 - column.share) * top[column.first] + column.share * top[column.second];
    int below = (2048 - column.share) * bottom[column.first] + column.share * bottom[column.second];
    return ((2048 - row.share) * above + row.share * below + (1 << 21)) >> 22;
}

// Returns the value of a pixel of sample n after all steps but mixup and cutmix.
static float seen(const augment_job *job, int n, int c, int y, int x) {
    const ls_augmentation *a = &job->attr->augmentation;
    ls_nchw s = job->attr->shape;
    const ls_augment_sample *drawn = &job->samples[n];
    if (within(y, drawn->cut_y - a->cutout / 2, a->cutout) && within(x, drawn->cut_x - a->cutout / 2, a->cutout))
        return 0;
    if (within(y, drawn->erase_y, drawn->erase_h) && within(x, drawn->erase_x, drawn->erase_w)) return 0;
    int from_y = y + drawn->dy - a->pad, from_x = (drawn->flip ? s.w - 1 - x : x) + drawn->dx - a->pad;
    if (a->pad_mode == LS_PAD_REFLECT) {
        from_y = mirrored(from_y, s.h);
        from_x = mirrored(from_x, s.w);
    }
    int inside = from_y >= 0 && from_y < s.h && from_x >= 0 && from_x < s.w;
    int64_t picture = job->attr->indexed ? job->index[n] : n;
    const uint8_t *plane = job->pixels + (picture * s.c + c) * s.h * s.w;
    int pixel = inside ? pixel_at(plane, s, drawn, from_y, from_x) : 0;
    return jitter(a, drawn, job->table[c * 256 + pixel]);
}

static float mixed(const augment_job *job, int n, int c, int y, int x) {
    const ls_augment_sample *drawn = &job->samples[n];
    int partner = job->attr->shape.n - 1 - n;
    if (drawn->mix_h > 0) {
        int pasted = within(y, drawn->mix_y, drawn->mix_h) && within(x, drawn->mix_x, drawn->mix_w);
        return seen(job, pasted ? partner : n, c, y, x);
    }
    float a = seen(job, n, c, y, x);
    if (drawn->mix == 0) return a;
    float difference = seen(job, partner, c, y, x) - a, part = difference * ((float)drawn->mix / 65536);
    return a + part;
}

static void place_sample(void *context, int n, int thread) {
    (void)thread;
    const augment_job *job = context;
    ls_nchw s = job->attr->shape;
    int64_t sample = (int64_t)s.c * s.h * s.w;
    for (int64_t i = 0; i < sample; i++) {
        int c = (int)(i / ((int64_t)s.h * s.w)), y = (int)(i / s.w % s.h), x = (int)(i % s.w);
        ls_store_float(job->out, job->attr->storage, n * sample + i, mixed(job, n, c, y, x));
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

void ls_ref_trivial_augment(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    ls_host_trivial_augment(plan, args, ((const ls_ref_plan *)plan)->pool);
}
