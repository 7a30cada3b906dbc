// staging.h - buckets that lie in a device's memory, on their way through pinned memory. Private to dist/.
//
// A GPU's queue copies a bucket out behind its last gradient; the host sums it in pinned memory;
// another queue copies it back, and the compute queue waits for that. Two threads share the work:
// the caller's, which enqueues the way out, and the one that sums.
#ifndef LS_DIST_REDUCE_STAGING_H
#define LS_DIST_REDUCE_STAGING_H

#include "dist/reduce/reducer.h"

typedef struct ls_staging ls_staging;

LS_CHECKED ls_status ls_staging_new(const ls_reducer_options *options, ls_staging **out);
void ls_staging_free(ls_staging *staging); // NULL is allowed
void *ls_staging_data(const ls_staging *staging, int bucket);

// The caller's thread:
void ls_staging_send(ls_staging *staging, int bucket); // behind what is enqueued on the compute queue
void ls_staging_join(ls_staging *staging); // what is enqueued on the compute queue from here on finds the sums
// A few bytes there and back; waits for the compute queue.
LS_CHECKED ls_status ls_staging_fetch(ls_staging *staging, ls_buffer from, void *host, size_t bytes);
LS_CHECKED ls_status ls_staging_store(ls_staging *staging, const void *host, ls_buffer to, size_t bytes);

// The thread that sums:
int ls_staging_arrived(ls_staging *staging, int bucket); // is it in pinned memory? Does not wait
LS_CHECKED ls_status ls_staging_await(ls_staging *staging, int bucket);
void ls_staging_return(ls_staging *staging, int bucket); // summed: copies it back

#endif
