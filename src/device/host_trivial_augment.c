#include "device/host.h"
#include "device/trivial_augment.h"

typedef struct {
    ls_nchw shape;
    const uint8_t *pixels;
    const ls_augment_sample *samples;
    const int32_t *index; // NULL: picture n belongs to sample n
    uint8_t *dst;
} change_run;

static void make_table(const ls_trivial_picture *p, uint8_t *table) {
    uint32_t counts[LS_TRIVIAL_CHANNELS_MAX][LS_TRIVIAL_VALUES] = { 0 };
    ls_trivial_summary summary[LS_TRIVIAL_CHANNELS_MAX] = { 0 };
    const int histograms = ls_trivial_histograms(p);
    const int64_t plane = (int64_t)p->h * p->w;
    for (int i = 0; i < histograms; i++) {
        for (int64_t at = 0; at < plane; at++) counts[i][ls_trivial_counted(p, i, at)]++;
        summary[i] = ls_trivial_sum_up(counts[i]);
    }
    for (int c = 0; c < p->c; c++) {
        const int of = histograms > 1 ? c : 0;
        for (int v = 0; v < LS_TRIVIAL_VALUES; v++)
            table[c * LS_TRIVIAL_VALUES + v] = ls_trivial_entry(p, &summary[of], counts[of], v);
    }
}

static void change_task(void *context, int n, int thread) {
    (void)thread;
    const change_run *run = context;
    const ls_nchw s = run->shape;
    const size_t picture = (size_t)s.c * (size_t)s.h * (size_t)s.w;
    const uint8_t *from = run->pixels + (size_t)(run->index ? run->index[n] : n) * picture;
    const ls_trivial_picture p = ls_trivial_picture_of(from, s, &run->samples[n]);
    uint8_t table[LS_TRIVIAL_TABLE], *dst = run->dst + (size_t)n * picture;
    if (ls_trivial_has_table(&p)) make_table(&p, table);
    for (int c = 0; c < s.c; c++)
        for (int y = 0; y < s.h; y++)
            for (int x = 0; x < s.w; x++) *dst++ = ls_trivial_pixel(&p, table, c, y, x);
}

void ls_host_trivial_augment(const ls_plan *plan, const ls_buffer *args, ls_pool *pool) {
    const ls_augment_attr *attr = &plan->desc.attr.augment;
    change_run run = { .shape = attr->shape,
        .pixels = ls_buffer_host(args[LS_TRIVIAL_AUGMENT_PIXELS]),
        .samples = ls_buffer_host(args[LS_TRIVIAL_AUGMENT_SAMPLE]),
        .index = attr->indexed ? ls_buffer_host(args[LS_TRIVIAL_AUGMENT_INDEX]) : NULL,
        .dst = ls_buffer_host(args[LS_TRIVIAL_AUGMENT_DST]) };
    ls_pool_run(pool, change_task, &run, attr->shape.n);
}
