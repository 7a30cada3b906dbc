#include "dist/allreduce_model.h"
#include "dist/reduce/reducer.h"

// Half of what an H100 multiplies in 16 bits (989 TFLOP/s, NVIDIA's data sheet): a slower device hides more of its sums.
static const double flops_per_s = 5e14;

size_t ls_buckets_bytes(const ls_config *cfg, const ls_bucket_facts *facts) {
    if (cfg->dist_bucket_bytes != LS_AUTO) return (size_t)cfg->dist_bucket_bytes;
    if (!facts->on_queue) return LS_BUCKET_BYTES_HOST;
    const ls_allreduce_model links =
        ls_allreduce_model_of_links(LS_LINK_NVLINK4, LS_LINK_NDR, (facts->ranks + facts->hosts - 1) / facts->hosts);
    const ls_allreduce_workload work = { .model = &links,
        .algorithm = LS_ALLREDUCE_HALVING,
        .ranks = facts->ranks,
        .hosts = facts->hosts,
        .compute_s = facts->flops / flops_per_s,
        .overlap = cfg->dist_overlap,
        .in_turn = 1,
        .taken = LS_ALLREDUCE_TAKEN_BY_NCCL };
    return (size_t)ls_allreduce_bucket_bytes(&work, facts->bytes);
}

int ls_buckets_cut(const int64_t *tensor_offsets, const int64_t *tensor_elements, int tensor_count,
    size_t element_bytes, size_t bucket_bytes, ls_range *ranges) {
    int count = 0;
    int64_t first = 0;
    for (int i = 0; i < tensor_count; i++) {
        int64_t end = tensor_offsets[i] + tensor_elements[i];
        int full = (size_t)(end - first) * element_bytes >= bucket_bytes;
        if (!full && i + 1 < tensor_count) continue;
        ranges[count++] = (ls_range){ first, end - first };
        if (i + 1 < tensor_count) first = tensor_offsets[i + 1];
    }
    return count;
}
