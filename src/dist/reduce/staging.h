// staging.h - takes buckets from a device's memory through pinned memory and back. Private to dist/.
//
// A GPU's queue copies a bucket out after its last gradient, the host sums it in pinned memory, another queue copies it
// back, and the compute queue waits for that copy. Two threads share the work: the caller's thread enqueues the way
// out, another thread does the sums and the way back.
#ifndef LS_DIST_REDUCE_STAGING_H
#define LS_DIST_REDUCE_STAGING_H

#include "dist/reduce/reducer.h"

typedef struct ls_staging ls_staging;

LS_CHECKED ls_status ls_staging_new(const ls_reducer_options *options, ls_staging **out);
void ls_staging_free(ls_staging *staging);                    // NULL is allowed
void *ls_staging_data(const ls_staging *staging, int bucket); // the bucket's place in pinned memory

// Functions for the caller's thread:
void ls_staging_send(ls_staging *staging, int bucket); // copies a bucket out, after earlier work in the compute queue
void ls_staging_join(ls_staging *staging);             // makes later work in the compute queue wait for the copies back
// Copy a few bytes from the device to the host, or back, and wait for the compute queue.
LS_CHECKED ls_status ls_staging_fetch(ls_staging *staging, ls_buffer from, void *host, size_t bytes);
LS_CHECKED ls_status ls_staging_store(ls_staging *staging, const void *host, ls_buffer to, size_t bytes);

// Functions for the thread that sums:
int ls_staging_arrived(ls_staging *staging, int bucket);                // whether a bucket is in pinned memory
LS_CHECKED ls_status ls_staging_await(ls_staging *staging, int bucket); // waits until it has arrived
void ls_staging_return(ls_staging *staging, int bucket);                // copies a summed bucket back

#endif
