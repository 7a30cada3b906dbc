// reducer.h - sums gradients over ranks, bucket by bucket, while the backward pass goes on.
//
// A bucket is a contiguous range of the gradient arena (no packing); buckets are launched in the order in which the
// backward pass completes them, the same on all ranks. A communication thread per rank progresses them (dist.overlap),
// so that no compute instruction waits. With one rank nothing is done and nothing is counted.
#ifndef LS_DIST_REDUCER_H
#define LS_DIST_REDUCER_H

#include <stddef.h>
#include <stdint.h>
#include "base/shape.h"
#include "base/status.h"
#include "device/device.h"
#include "dist/comm.h"

typedef struct {
    int64_t first, count; // elements of the arena
} ls_range;

typedef struct ls_reducer ls_reducer;

// arena: what is summed, LS_F32 gradients or the LS_I64 fixed-point arena of ordered mode; host-visible (staging: a
// later matter of the cuda device). ranges in launch order; copied. All ranks call it; so too free.
LS_CHECKED ls_status ls_reducer_new(ls_comm *comm, ls_buffer arena, ls_dtype dtype, const ls_range *ranges,
    int range_count, int overlap, ls_reducer **out);
void ls_reducer_free(ls_reducer *reducer);
// The next bucket of this update is complete; each once per update. Does not wait, with overlap; without it, reduces
// now.
void ls_reducer_launch(ls_reducer *reducer, int bucket);
// Waits until all buckets of this update are reduced. The time waited counts as exposed.
LS_CHECKED ls_status ls_reducer_wait(ls_reducer *reducer);
double ls_reducer_exposed_seconds(const ls_reducer *reducer); // so far
double ls_reducer_busy_seconds(const ls_reducer *reducer);    // from launch to completion, overlapped or not

// Cuts an arena of tensors (elements each, in completion order, first offset 0) into buckets of about bucket_bytes: a
// bucket ends with the tensor that fills it. Returns their number; ranges has room for tensor_count.
int ls_buckets_cut(const int64_t *tensor_offsets, const int64_t *tensor_elements, int tensor_count,
    size_t element_bytes, size_t bucket_bytes, ls_range *ranges);

#endif
