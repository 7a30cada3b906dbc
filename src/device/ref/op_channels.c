#include "device/ref/ref.h"

typedef struct {
    const ls_channels_attr *attr;
    const void *src, *src2; // src2: may be NULL
    void *dst;
} channels_job;

static void copy_plane(const channels_job *job, const void *src, int64_t src_at, int64_t dst_at) {
    const ls_channels_attr *a = job->attr;
    const ls_nchw copied = ls_channels_copied(a);
    const int src_step = a->spread ? 1 : a->stride, dst_step = a->spread ? a->stride : 1;
    for (int y = 0; y < copied.h; y++) {
        for (int x = 0; x < copied.w; x++) {
            const int64_t from = src_at + (int64_t)y * src_step * a->src.w + (int64_t)x * src_step;
            const int64_t to = dst_at + (int64_t)y * dst_step * a->dst.w + (int64_t)x * dst_step;
            float value = ls_load_float(src, a->storage, from);
            if (a->two_sources) value += ls_load_float(job->src2, a->storage, from);
            ls_store_float(job->dst, a->storage, to, value);
        }
    }
}

static void channels_plane(void *context, int task, int thread) { // task: one (n, c) of dst
    (void)thread;
    const channels_job *job = context;
    const ls_channels_attr *a = job->attr;
    const int n = task / a->dst.c, one = ls_channels_source(a, 0, task % a->dst.c),
              other = a->interleave ? ls_channels_source(a, 1, task % a->dst.c) : -1, from = one >= 0 ? one : other;
    const int64_t plane = (int64_t)a->dst.h * a->dst.w, at = task * plane;
    if (from < 0 && a->keep) return;
    for (int64_t i = 0; i < plane && !a->keep; i++) ls_store_float(job->dst, a->storage, at + i, 0);
    if (from >= 0)
        copy_plane(job, one >= 0 ? job->src : job->src2, ((int64_t)n * a->src.c + from) * a->src.h * a->src.w, at);
}

void ls_ref_copy_channels(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    channels_job job = { .attr = &plan->desc.attr.channels,
        .src = ls_buffer_host(args[LS_COPY_CHANNELS_SRC]),
        .dst = ls_buffer_host(args[LS_COPY_CHANNELS_DST]) };
    if (job.attr->two_sources || job.attr->interleave) job.src2 = ls_buffer_host(args[LS_COPY_CHANNELS_SRC2]);
    ls_ref_run_tasks(plan, channels_plane, &job, job.attr->dst.n * job.attr->dst.c);
}
