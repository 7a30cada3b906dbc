#include "device/ref/ref.h"

// The two source indices that an output position of one axis reads, and the weight of the second.
typedef struct {
    int64_t first, second;
    float share;
} axis_tap;

static axis_tap tap_of(int at, int size, int out_size) {
    int64_t t = (2 * (int64_t)at + 1) * size - out_size, step = 2 * (int64_t)out_size;
    if (t < 0) t = 0;
    int64_t first = t / step, second = first + 1 < size ? first + 1 : size - 1;
    return (axis_tap){ first, second, (float)(t % step) / (float)step };
}

static float between(float a, float b, float share) {
    float of_a = (1 - share) * a, of_b = share * b;
    return of_a + of_b;
}

typedef struct {
    const ls_resize_attr *attr;
    const void *src;
    void *dst;
} resize_job;

static void resize_plane(void *context, int plane, int thread) {
    (void)thread;
    const resize_job *job = context;
    const ls_resize_attr *a = job->attr;
    const int h = a->src.h, w = a->src.w, p = a->dst.h, q = a->dst.w;
    for (int y = 0; y < p; y++)
        for (int x = 0; x < q; x++) {
            const axis_tap row = tap_of(y, h, p), column = tap_of(x, w, q);
            const int64_t top = ((int64_t)plane * h + row.first) * w, bottom = ((int64_t)plane * h + row.second) * w;
            float of_top = between(ls_load_float(job->src, a->storage, top + column.first),
                ls_load_float(job->src, a->storage, top + column.second), column.share);
            float of_bottom = between(ls_load_float(job->src, a->storage, bottom + column.first),
                ls_load_float(job->src, a->storage, bottom + column.second), column.share);
            ls_store_float(
                job->dst, a->storage, ((int64_t)plane * p + y) * q + x, between(of_top, of_bottom, row.share));
        }
}

void ls_ref_resize(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    resize_job job = { .attr = &plan->desc.attr.resize,
        .src = ls_buffer_host(args[LS_RESIZE_SRC]),
        .dst = ls_buffer_host(args[LS_RESIZE_DST]) };
    ls_ref_run_tasks(plan, resize_plane, &job, job.attr->src.n * job.attr->src.c);
}
