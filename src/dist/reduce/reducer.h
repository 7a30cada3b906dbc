// reducer.h - sums gradients over ranks, bucket by bucket, while the backward pass goes on.
//
// A bucket is a contiguous range of the store (no packing). Buckets are launched in the order in which the backward
// pass completes them, which is the same on all ranks. There are two kinds of reducer:
//
// - On the device's queues: an ls_collective sums on a queue of its own. The host never waits, and the enqueued work
//   can be recorded.
// - Through host memory: a communication thread per rank advances sums of the communicator (MPI), so that computing
//   does not wait. Buckets in a GPU's memory go through pinned memory.
//
// With one rank and no collective, the reducer does nothing, and its times stay 0.
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
    int64_t first, count; // range of elements of the store
} ls_range;

typedef struct {
    ls_buffer data; // the elements, which are summed in place
    int64_t count;  // number of elements, at most 2^31 - 1
    ls_dtype dtype; // LS_F32, LS_BF16, or LS_I64 (the fixed-point array of ordered mode)
} ls_bucket;

typedef struct {
    ls_comm *comm;
    ls_device *device;         // its memory has the buckets; NULL: host memory
    ls_queue *queue;           // queue of the work that fills and reads the buckets
    ls_collective *collective; // opened on this device; NULL: sums go through host memory
    const ls_bucket *buckets;  // in the order of their launch; copied
    int bucket_count;
    int overlap;      // 0: a sum runs when its bucket is launched, and the rest of the backward pass waits for it
    ls_buffer stamps; // with a collective: int64[LS_STAMPS] on the device, for the times of each update
} ls_reducer_options;

// Three time stamps of an update, in ns of the device's clock: first bucket complete, last bucket complete, all summed.
enum { LS_STAMP_FIRST, LS_STAMP_COMPLETE, LS_STAMP_SUMMED, LS_STAMPS };

typedef struct ls_reducer ls_reducer;

// Makes a reducer of the kind that the options need. Collective, as is ls_reducer_free.
LS_CHECKED ls_status ls_reducer_new(const ls_reducer_options *options, ls_reducer **out);
void ls_reducer_free(ls_reducer *reducer); // NULL is allowed; call it before the collective is closed
// Records the buckets and the host's waits for them in the trace. timeline: needed on a device's queues; borrowed.
void ls_reducer_trace(ls_reducer *reducer, ls_timeline *timeline);
// Returns 1 if all work is enqueued and nothing waits on the host, so that launch and wait can be recorded in a graph.
int ls_reducer_on_queue(const ls_reducer *reducer);
// Starts to sum this bucket when the compute queue has done its present work. Call it once per bucket and update.
void ls_reducer_launch(ls_reducer *reducer, int bucket);
// Makes later work in the queue wait until all buckets of this update are summed and `flag` (int32; {0}: no flag) has
// the largest flag of all ranks. The flag must be complete no later than the last bucket. Through host memory the call
// itself waits for both; its wait for the sums counts as exposed.
LS_CHECKED ls_status ls_reducer_wait(ls_reducer *reducer, ls_buffer flag);
// Sums LS_F64 values over ranks in the middle of a pass, before the next instruction: for synchronised batch norm.
LS_CHECKED ls_status ls_reducer_sum_now(ls_reducer *reducer, ls_buffer sums, int64_t count);
// Adds the times of one update to the counters, from stamps that were read back from the device (on a device's queues).
void ls_reducer_account(ls_reducer *reducer, const int64_t stamps[LS_STAMPS]);
typedef struct {
    // Times since ls_reducer_new.
    double exposed_seconds; // time of waiting for sums with nothing left to compute
    double waited_seconds;  // exposed time in which this rank had a core: a stopped rank does not wait
    double busy_seconds;    // time in which at least one sum was in flight, hidden by computation or not
    size_t bytes;           // bytes of all buckets, which each update sums
    int buckets;
} ls_reducer_counts;
ls_reducer_counts ls_reducer_count(const ls_reducer *reducer);

// Returns the size of buckets: dist.bucket_bytes, or for auto a constant. Through host memory all sums are in flight
// together, so small buckets cost little. On a device's queue one sum follows the other, so buckets are larger.
enum { LS_BUCKET_BYTES_HOST = 1 << 20, LS_BUCKET_BYTES_QUEUE = 4 << 20 };
size_t ls_buckets_bytes(const ls_config *cfg, int on_queue);

// Cuts the store's tensors (in the order of completion, first offset 0) into buckets of about bucket_bytes. A bucket
// ends with the tensor that fills it. Returns the number of buckets; ranges has room for tensor_count.
int ls_buckets_cut(const int64_t *tensor_offsets, const int64_t *tensor_elements, int tensor_count,
    size_t element_bytes, size_t bucket_bytes, ls_range *ranges);

#endif
