// shared_updates.h - how long two configurations compute the same: until a learning rate, an average or the length of
// the run differs.
#ifndef LS_TRAIN_SHARED_UPDATES_H
#define LS_TRAIN_SHARED_UPDATES_H

#include "config/config.h"
#include "data/sampler.h"

// Returns the number of updates of a run.
int64_t ls_planned_updates(const ls_config *cfg, const ls_batches *batches);
// Finds the number of updates, from the first, after which runs of both configurations have the same bits. Both must
// have the same batches. 0: they differ in an option that may act from the start. LS_USAGE: a schedule is not valid.
LS_CHECKED ls_status ls_shared_updates(
    const ls_config *a, const ls_config *b, const ls_batches *batches, int64_t *shared);

#endif
