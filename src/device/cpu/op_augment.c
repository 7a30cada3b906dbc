// op_augment.c - uint8 pictures to normalised activations; a sample is a task.
#include <string.h>
#include "device/cpu/cpu.h"

typedef struct {
    const ls_cpu_plan *plan;
    const uint8_t *pixels;
    const ls_augment_sample *samples;
    const int32_t *index; // NULL: picture n is sample n
    const float *table;   // [C][256]
    float *dst;
} augment_run;

// Where index i of a side of `size` reads: -1 is outside (value 0).
static int source_index(int i, int size, int pad_mode) {
    if (i >= 0 && i < size) return i;
    if (pad_mode == LS_PAD_ZERO) return -1;
    return i < 0 ? -i : 2 * (size - 1) - i;
}

// One row of one channel; step: floats between neighbours in dst.
static void augment_row(
    const ls_augment_attr *attr, const uint8_t *row, const float *table, int shift, int flip, float *dst, size_t step) {
    int w = attr->shape.w;
    // x in [begin, end) reads inside the picture
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

// What this sample's jitter makes of each pixel value: a picture has more pixels than there are values.
static const float *jittered(
    const ls_augmentation *a, const ls_augment_sample *drawn, const float *table, float room[256]) {
    if (a->brightness == 0 && a->contrast == 0) return table;
    const float shift = a->brightness * ((float)(2 * drawn->brightness - 65535) / 65536);
    const float stretch = a->contrast * ((float)(2 * drawn->contrast - 65535) / 65536), factor = 1 + stretch;
    for (int v = 0; v < 256; v++) room[v] = (table[v] + shift) * factor;
    return room;
}

// Channels are `block` floats of neighbours: what lies beyond the last one is zero already.
static void cut_square(const ls_augment_attr *attr, const ls_augment_sample *drawn, size_t block, float *dst) {
    const ls_nchw s = attr->shape;
    const int side = attr->augmentation.cutout, top = drawn->cut_y - side / 2, left = drawn->cut_x - side / 2;
    const int first_y = top < 0 ? 0 : top, end_y = top + side > s.h ? s.h : top + side;
    const int first_x = left < 0 ? 0 : left, end_x = left + side > s.w ? s.w : left + side;
    for (size_t c = 0; c < (size_t)s.c; c += block)
        for (int y = first_y; y < end_y; y++) {
            size_t pixel = (size_t)y * (size_t)s.w + (size_t)first_x;
            memset(dst + (c * (size_t)s.h * (size_t)s.w + pixel * block), 0,
                (size_t)(end_x - first_x) * block * sizeof *dst);
        }
}

static void augment_task(void *context, int n, int thread) {
    (void)thread;
    const augment_run *run = context;
    const ls_cpu *cpu = run->plan->cpu;
    const ls_augment_attr *attr = &run->plan->base.desc.attr.augment;
    const ls_nchw s = attr->shape;
    const int pad = attr->augmentation.pad;
    const ls_augment_sample *drawn = &run->samples[n];
    size_t block = (size_t)ls_cpu_block(cpu, s.c), sample = ls_cpu_sample(cpu, s), picture = (size_t)s.h * (size_t)s.w;
    float *dst = run->dst + (size_t)n * sample;
    const uint8_t *pictures = run->pixels + (size_t)(run->index ? run->index[n] : n) * (size_t)s.c * picture;
    if (s.c % (int)block != 0) memset(dst, 0, sample * sizeof(float));
    for (int c = 0; c < s.c; c++) {
        const uint8_t *pixels = pictures + (size_t)c * picture;
        float room[256];
        const float *table = jittered(&attr->augmentation, drawn, run->table + (size_t)c * 256, room);
        float *plane = dst + (size_t)c / block * picture * block + (size_t)c % block;
        for (int y = 0; y < s.h; y++) {
            int from = source_index(y + drawn->dy - pad, s.h, attr->augmentation.pad_mode);
            float *row = plane + (size_t)y * (size_t)s.w * block;
            if (from >= 0)
                augment_row(attr, pixels + (size_t)from * (size_t)s.w, table, drawn->dx - pad, drawn->flip, row, block);
            else
                for (int x = 0; x < s.w; x++) row[(size_t)x * block] = table[0];
        }
    }
    if (attr->augmentation.cutout) cut_square(attr, drawn, block, dst);
}

static void augment_plan_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    (void)queue;
    augment_run run = { .plan = (const ls_cpu_plan *)plan,
        .pixels = ls_buffer_host(args[LS_AUGMENT_PIXELS]),
        .samples = ls_buffer_host(args[LS_AUGMENT_SAMPLE]),
        .index = plan->desc.attr.augment.indexed ? ls_buffer_host(args[LS_AUGMENT_INDEX]) : NULL,
        .table = ls_cpu_floats_at(args[LS_AUGMENT_TABLE]),
        .dst = ls_cpu_floats_at(args[LS_AUGMENT_DST]) };
    ls_pool_run(run.plan->cpu->pool, augment_task, &run, plan->desc.attr.augment.shape.n);
}

ls_status ls_cpu_augment_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out) {
    return ls_cpu_plan_make(cpu, desc, sizeof(ls_cpu_plan), augment_plan_run, "own", out);
}
