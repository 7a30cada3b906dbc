// reducer_kind.h - the two kinds of reducer behind reducer.h. Private to dist/.
#ifndef LS_DIST_REDUCE_REDUCER_KIND_H
#define LS_DIST_REDUCE_REDUCER_KIND_H

#include "dist/comm_backend.h"
#include "dist/reduce/reducer.h"

typedef struct {
    int on_queue;
    ls_status (*start)(ls_reducer *reducer); // by all ranks together, when each has made its own; NULL: nothing to do
    void (*free)(ls_reducer *reducer);
    void (*launch)(ls_reducer *reducer, int bucket);
    ls_status (*wait)(ls_reducer *reducer, ls_buffer flag);
    ls_status (*sum_now)(ls_reducer *reducer, ls_buffer sums, int64_t count);
    double (*busy_seconds)(const ls_reducer *reducer);
    double (*waited_seconds)(const ls_reducer *reducer); // NULL: all that is exposed
} ls_reducer_kind;

struct ls_reducer { // what each kind's own struct begins with
    const ls_reducer_kind *kind;
    ls_reducer_options options; // its buckets are the reducer's own
    double exposed_s;           // written by the caller's own thread
    ls_timeline *timeline;      // NULL: not traced
};

ls_status ls_reducer_host_new(const ls_reducer_options *options, ls_reducer **out);  // reducer_host.c
ls_status ls_reducer_queue_new(const ls_reducer_options *options, ls_reducer **out); // reducer_queue.c

static inline const ls_device_api *ls_reducer_api(const ls_reducer *reducer) {
    return reducer->options.device->api;
}
static inline size_t ls_bucket_bytes(const ls_bucket *bucket) {
    return (size_t)bucket->count * ls_dtype_bytes(bucket->dtype);
}

#endif
