// op_augment.c - turns uint8 pictures into normalised activations. A task is one sample.
#include <string.h>
#include "device/cpu/cpu.h"
#include "device/host.h"

// The two source indices that a pixel of a stretched axis reads, and the weight of the second in 2048ths.
typedef struct {
    int first, second, share;
} tap;

typedef struct {
    ls_cpu_plan base;
    int stretches, mixes;
    // Scratch memory of one thread: taps of the columns, a row interpolated between two rows, a stretched row, a
    // partner's picture.
    size_t scratch_bytes, between_at, row_at, partner_at;
} augment_plan;

typedef struct {
    const augment_plan *plan;
    const uint8_t *pixels;
    const ls_augment_sample *samples;
    const int32_t *index; // NULL: picture n belongs to sample n
    const float *table;   // [C][256]
    float *dst;
    char *scratch;
} augment_run;

// --- sources of pixels ---------------------------------------------------------------------------

// Index from which position i of a side of `size` pixels is read. -1: outside the picture (value 0).
static int source_index(int i, int size, int pad_mode) {
    if (i >= 0 && i < size) return i;
    if (pad_mode == LS_PAD_ZERO) return -1;
    return i < 0 ? -i : 2 * (size - 1) - i;
}

static tap tap_at(int at, int crop, int size) {
    int64_t t = (2 * (int64_t)at + 1) * crop - size, step = 2 * (int64_t)size;
    if (t < 0) t = 0;
    int first = (int)(t / step);
    return (tap){ first, first + 1 < crop ? first + 1 : first, (int)((t % step * 2048 + size) / step) };
}

// Writes row y of one channel of the stretched rectangle. Rows are interpolated first, because their elements are
// adjacent in memory; integer arithmetic gives the same result in either order.
static void stretch_row(const ls_augment_sample *drawn, const uint8_t *plane, ls_nchw s, int y, const tap *columns,
    int *restrict between, uint8_t *restrict out) {
    const tap row = tap_at(y, drawn->crop_h, s.h);
    const uint8_t *top = plane + (size_t)(drawn->crop_y + row.first) * (size_t)s.w + drawn->crop_x;
    const uint8_t *bottom = plane + (size_t)(drawn->crop_y + row.second) * (size_t)s.w + drawn->crop_x;
    for (int x = 0; x < drawn->crop_w; x++) between[x] = (2048 - row.share) * top[x] + row.share * bottom[x];
    for (int x = 0; x < s.w; x++) {
        const tap c = columns[x];
        out[x] = (uint8_t)(((2048 - c.share) * between[c.first] + c.share * between[c.second] + (1 << 21)) >> 22);
    }
}

// Writes one row of one channel. step: floats between neighbouring pixels of dst.
static void augment_row(
    const ls_augment_attr *attr, const uint8_t *row, const float *table, int shift, int flip, float *dst, size_t step) {
    int w = attr->shape.w;
    // pixels x in [begin, end) read inside the picture
    int begin = flip ? shift : -shift, end = flip ? w + shift : w - shift;
    if (begin < 0) begin = 0;
    if (end > w) end = w;
    for (int x = 0; x < w; x++) {
        if (x == begin) {
            const uint8_t *from = row + (flip ? w - 1 - x + shift : x + shift);
            int direction = flip ? -1 : 1;
            for (; x < end; x++, from += direction) dst[(size_t)x * step] = table[*from];
            if (x == w) break;
        }
        int i = source_index((flip ? w - 1 - x : x) + shift, w, attr->augmentation.pad_mode);
        dst[(size_t)x * step] = table[i < 0 ? 0 : row[i]];
    }
}

// --- changes to the values -----------------------------------------------------------------------

// Returns the table with the sample's jitter applied to each pixel value. A table saves time because a picture has more
// pixels than there are values.
static const float *jittered(
    const ls_augmentation *a, const ls_augment_sample *drawn, const float *table, float room[256]) {
    if (a->brightness == 0 && a->contrast == 0) return table;
    const float shift = a->brightness * ((float)(2 * drawn->brightness - 65535) / 65536);
    const float stretch = a->contrast * ((float)(2 * drawn->contrast - 65535) / 65536), factor = 1 + stretch;
    for (int v = 0; v < 256; v++) room[v] = (table[v] + shift) * factor;
    return room;
}

// Offset of pixel (y, x) of channels c, c + 1, ... in an activation's sample; these channels are adjacent in memory.
static size_t at_pixel(ls_nchw s, size_t c, int y, int x, size_t block) {
    return c * (size_t)s.h * (size_t)s.w + ((size_t)y * (size_t)s.w + (size_t)x) * block;
}

// A rectangle of pixels; bottom and right are the first row and column after it.
typedef struct {
    int top, left, bottom, right;
} rectangle;

// Sets the values of a rectangle to 0, as far as it lies in the picture. `block` adjacent channels are cleared
// together: padding channels are zero anyway.
static void clear(ls_nchw s, rectangle r, size_t block, float *dst) {
    const int first_y = r.top < 0 ? 0 : r.top, end_y = r.bottom > s.h ? s.h : r.bottom;
    const int first_x = r.left < 0 ? 0 : r.left, end_x = r.right > s.w ? s.w : r.right;
    for (size_t c = 0; c < (size_t)s.c; c += block)
        for (int y = first_y; y < end_y; y++)
            memset(dst + at_pixel(s, c, y, first_x, block), 0, (size_t)(end_x - first_x) * block * sizeof *dst);
}

static rectangle square_of_cutout(const ls_augmentation *a, const ls_augment_sample *drawn) {
    const int top = drawn->cut_y - a->cutout / 2, left = drawn->cut_x - a->cutout / 2;
    return (rectangle){ top, left, top + a->cutout, left + a->cutout };
}

static rectangle erased(const ls_augment_sample *d) {
    return (rectangle){ d->erase_y, d->erase_x, d->erase_y + d->erase_h, d->erase_x + d->erase_w };
}

static void paste_rectangle(ls_nchw s, const ls_augment_sample *drawn, size_t block, const float *partner, float *dst) {
    for (size_t c = 0; c < (size_t)s.c; c += block)
        for (int y = drawn->mix_y; y < drawn->mix_y + drawn->mix_h; y++) {
            const size_t at = at_pixel(s, c, y, drawn->mix_x, block);
            memcpy(dst + at, partner + at, (size_t)drawn->mix_w * block * sizeof *dst);
        }
}

static void add_share(size_t count, float share, const float *partner, float *dst) {
    for (size_t i = 0; i < count; i++) {
        // rounded here, because this file is compiled without fused multiply-adds
        const float part = (partner[i] - dst[i]) * share;
        dst[i] += part;
    }
}

// --- a sample ------------------------------------------------------------------------------------

// Computes sample n alone, without a partner, into dst.
static void see(const augment_run *run, int n, char *scratch, float *dst) {
    const ls_cpu *cpu = run->plan->base.cpu;
    const ls_augment_attr *attr = &run->plan->base.base.desc.attr.augment;
    const ls_nchw s = attr->shape;
    const int pad = attr->augmentation.pad;
    const ls_augment_sample *drawn = &run->samples[n];
    const int stretched = run->plan->stretches && drawn->crop_h > 0;
    tap *columns = (tap *)(void *)scratch;
    size_t block = (size_t)ls_cpu_block(cpu, s.c), picture = (size_t)s.h * (size_t)s.w;
    const uint8_t *pictures = run->pixels + (size_t)(run->index ? run->index[n] : n) * (size_t)s.c * picture;
    if (s.c % (int)block != 0) memset(dst, 0, ls_cpu_sample(cpu, s) * sizeof(float));
    for (int x = 0; stretched && x < s.w; x++) columns[x] = tap_at(x, drawn->crop_w, s.w);
    for (int c = 0; c < s.c; c++) {
        const uint8_t *pixels = pictures + (size_t)c * picture;
        float room[256];
        const float *table = jittered(&attr->augmentation, drawn, run->table + (size_t)c * 256, room);
        float *plane = dst + (size_t)c / block * picture * block + (size_t)c % block;
        for (int y = 0; y < s.h; y++) {
            int from = source_index(y + drawn->dy - pad, s.h, attr->augmentation.pad_mode);
            const uint8_t *read = from < 0 ? NULL : pixels + (size_t)from * (size_t)s.w;
            float *row = plane + (size_t)y * (size_t)s.w * block;
            if (read && stretched) {
                uint8_t *own = (uint8_t *)scratch + run->plan->row_at;
                int *between = (int *)(void *)(scratch + run->plan->between_at);
                stretch_row(drawn, pixels, s, from, columns, between, own);
                read = own;
            }
            if (read)
                augment_row(attr, read, table, drawn->dx - pad, drawn->flip, row, block);
            else
                for (int x = 0; x < s.w; x++) row[(size_t)x * block] = table[0];
        }
    }
    if (attr->augmentation.cutout) clear(s, square_of_cutout(&attr->augmentation, drawn), block, dst);
    if (drawn->erase_h > 0) clear(s, erased(drawn), block, dst);
}

static void augment_task(void *context, int n, int thread) {
    const augment_run *run = context;
    const augment_plan *plan = run->plan;
    const ls_nchw s = plan->base.base.desc.attr.augment.shape;
    const ls_augment_sample *drawn = &run->samples[n];
    const size_t sample = ls_cpu_sample(plan->base.cpu, s);
    char *scratch = run->scratch + (size_t)thread * plan->scratch_bytes;
    float *dst = run->dst + (size_t)n * sample;
    see(run, n, scratch, dst);
    if (!plan->mixes || (drawn->mix == 0 && drawn->mix_h == 0)) return;
    float *partner = (float *)(void *)(scratch + plan->partner_at);
    see(run, s.n - 1 - n, scratch, partner);
    if (drawn->mix_h > 0)
        paste_rectangle(s, drawn, (size_t)ls_cpu_block(plan->base.cpu, s.c), partner, dst);
    else
        add_share(sample, (float)drawn->mix / 65536, partner, dst);
}

static void augment_plan_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)queue;
    augment_run run = { .plan = (const augment_plan *)plan,
        .pixels = ls_buffer_host(args[LS_AUGMENT_PIXELS]),
        .samples = ls_buffer_host(args[LS_AUGMENT_SAMPLE]),
        .index = plan->desc.attr.augment.indexed ? ls_buffer_host(args[LS_AUGMENT_INDEX]) : NULL,
        .table = ls_cpu_floats_at(args[LS_AUGMENT_TABLE]),
        .dst = ls_cpu_floats_at(args[LS_AUGMENT_DST]),
        .scratch = ls_buffer_host(workspace) };
    ls_pool_run(run.plan->base.cpu->pool, augment_task, &run, plan->desc.attr.augment.shape.n);
}

// --- plans ---------------------------------------------------------------------------------------

static void trivial_plan_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    (void)queue;
    ls_host_trivial_augment(plan, args, ((const ls_cpu_plan *)plan)->cpu->pool);
}

static size_t aligned(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

ls_status ls_cpu_augment_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out) {
    const ls_augment_attr *attr = &desc->attr.augment;
    if (desc->op == LS_OP_TRIVIAL_AUGMENT) {
        *out = ls_cpu_plan_make(cpu, desc, sizeof(ls_cpu_plan), trivial_plan_run, "own");
        return LS_SUCCESS;
    }
    augment_plan *plan = ls_cpu_plan_make(cpu, desc, sizeof *plan, augment_plan_run, "own");
    plan->stretches = ls_augment_crops(&attr->augmentation);
    plan->mixes = ls_augment_mixes(&attr->augmentation);
    plan->between_at = plan->stretches ? aligned((size_t)attr->shape.w * sizeof(tap)) : 0;
    plan->row_at = plan->stretches ? aligned(plan->between_at + (size_t)attr->shape.w * sizeof(int)) : 0;
    plan->partner_at = plan->stretches ? aligned(plan->row_at + (size_t)attr->shape.w) : 0;
    const size_t partner_bytes = plan->mixes ? aligned(ls_cpu_sample(cpu, attr->shape) * sizeof(float)) : 0;
    plan->scratch_bytes = plan->partner_at + partner_bytes;
    plan->base.base.workspace_bytes = plan->scratch_bytes * (size_t)cpu->threads;
    *out = &plan->base.base;
    return LS_SUCCESS;
}
