// reducer.h - sums gradients over ranks, bucket by bucket, while the backward pass goes on.
//
// A bucket is a contiguous range of the store (no packing); buckets are launched in the order in which the backward
// pass completes them, the same on all ranks. Two kinds, behind one interface:
//
//   on the device's queues  an ls_collective sums them on a queue of its own; the host never waits, and what was
//                           enqueued can be recorded
//   through host memory     a communication thread per rank progresses sums of the communicator (MPI), so that no
//                           compute instruction waits; buckets in a GPU's memory go through pinned memory
//
// With one rank and no collective nothing is done and nothing is counted.
#ifndef LS_DIST_REDUCE_REDUCER_H
#define LS_DIST_REDUCE_REDUCER_H

#include <stddef.h>
#include <stdint.h>
#include "base/shape.h"
#include "base/status.h"
#include "config/config.h"
#include "device/device.h"
#include "device/timeline.h"
#include "dist/comm.h"

typedef struct {
    int64_t first, count; // elements of the store
} ls_range;

typedef struct {
    ls_buffer data; // what is summed, in place
    int64_t count;  // elements, at most 2^31 - 1
    ls_dtype dtype; // LS_F32, LS_BF16, or LS_I64 (the fixed-point array of ordered mode)
} ls_bucket;

typedef struct {
    ls_comm *comm;
    ls_device *device;         // whose memory the buckets are in; NULL: host memory
    ls_queue *queue;           // what fills and reads the buckets is enqueued there
    ls_collective *collective; // of this device; NULL: through host memory
    const ls_bucket *buckets;  // in the order of their launch; copied
    int bucket_count;
    int overlap;      // 0: a sum runs when its bucket is launched, and the rest of the backward pass waits for it
    ls_buffer stamps; // with a collective: int64[LS_STAMPS] on the device, where every update leaves its times
} ls_reducer_options;

// The device's clock, ns: when the first bucket was complete, when the last one was, and when all were summed.
enum { LS_STAMP_FIRST, LS_STAMP_COMPLETE, LS_STAMP_SUMMED, LS_STAMPS };

typedef struct ls_reducer ls_reducer;

// All ranks call it; so too free.
LS_CHECKED ls_status ls_reducer_new(const ls_reducer_options *options, ls_reducer **out);
void ls_reducer_free(ls_reducer *reducer); // NULL is allowed; before the collective is closed
// Shows buckets on the trace's lane of gradients, and the host's waits for them.
// On a device's queues by the timeline, which is borrowed.
void ls_reducer_trace(ls_reducer *reducer, ls_timeline *timeline);
// Whether everything is enqueued and nothing waits on the host: launch and wait can then be recorded.
int ls_reducer_on_queue(const ls_reducer *reducer);
// The next bucket of this update is complete when the queue has come this far; each once per update.
void ls_reducer_launch(ls_reducer *reducer, int bucket);
// What is enqueued from here on finds all buckets of this update summed, and in flag (int32; {0}: none) the largest of
// all ranks' flags; a flag is complete no later than the last bucket. Through host memory it returns when that is so;
// the time waited counts as exposed.
LS_CHECKED ls_status ls_reducer_wait(ls_reducer *reducer, ls_buffer flag);
// Sums of LS_F64 that the next instruction reads: synchronised batch norm, in the midst of a pass.
LS_CHECKED ls_status ls_reducer_sum_now(ls_reducer *reducer, ls_buffer sums, int64_t count);
// On the device's queues: counts the times of one update, as they came back from the device.
void ls_reducer_account(ls_reducer *reducer, const int64_t stamps[LS_STAMPS]);
typedef struct {
    double exposed_seconds; // waited for sums when nothing was left to compute; since new
    double waited_seconds;  // of that, while this rank was running: one that is stopped, or has no core, does not wait
    double busy_seconds;    // from launch to completion, overlapped or not; since new
    size_t bytes;           // of all buckets: summed in every update
    int buckets;
} ls_reducer_counts;
ls_reducer_counts ls_reducer_count(const ls_reducer *reducer);

// The size of buckets: dist.bucket_bytes, or for auto a constant of the backend. Sums through host memory are in flight
// together, so small buckets cost little there. On a device's queue (by an ls_collective) one sum follows the other.
enum { LS_BUCKET_BYTES_HOST = 1 << 20, LS_BUCKET_BYTES_QUEUE = 4 << 20 };
size_t ls_buckets_bytes(const ls_config *cfg, int on_queue);

// Cuts the store's tensors (elements each, in completion order, first offset 0) into buckets of about bucket_bytes:
// a bucket ends with the tensor that fills it. Returns their number; ranges has room for tensor_count.
int ls_buckets_cut(const int64_t *tensor_offsets, const int64_t *tensor_elements, int tensor_count,
    size_t element_bytes, size_t bucket_bytes, ls_range *ranges);

#endif
