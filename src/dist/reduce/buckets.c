#include "dist/reduce/reducer.h"

size_t ls_buckets_bytes(const ls_config *cfg, int on_queue) {
    if (cfg->dist_bucket_bytes != LS_AUTO) return (size_t)cfg->dist_bucket_bytes;
    return on_queue ? LS_BUCKET_BYTES_QUEUE : LS_BUCKET_BYTES_HOST;
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
