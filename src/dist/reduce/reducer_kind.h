// reducer_kind.h - the functions that each kind of reducer provides. Private to dist/.
#ifndef LS_DIST_REDUCE_REDUCER_KIND_H
#define LS_DIST_REDUCE_REDUCER_KIND_H

#include "dist/comm_backend.h"
#include "dist/reduce/reducer.h"

typedef struct {
    int on_queue;
    ls_status (*start)(ls_reducer *reducer); // collective, after each rank has made its reducer; NULL: nothing to do
    void (*free)(ls_reducer *reducer);
    void (*launch)(ls_reducer *reducer, int bucket);
    ls_status (*wait)(ls_reducer *reducer, ls_buffer flag);
    ls_status (*sum_now)(ls_reducer *reducer, ls_buffer sums, int64_t count);
    double (*busy_seconds)(const ls_reducer *reducer);
    double (*waited_seconds)(const ls_reducer *reducer); // NULL: equal to the exposed time
} ls_reducer_kind;

struct ls_reducer { // the struct of each kind begins with this struct
    const ls_reducer_kind *kind;
    ls_reducer_options options; // .buckets is the reducer's own copy
    double exposed_s;           // written only by the thread that calls the reducer
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
