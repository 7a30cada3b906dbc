// replicas.h - whether all ranks still have the same weights, statistics, optimizer's memory and counters.
//
// Lockstep's ranks never exchange weights after the start: they stay the same because every rank takes the same step.
// A flipped bit in one rank's memory, a device that computes wrong or a bug of ours would go unnoticed, and every
// rank's checkpoint would hold another run. So each rank hashes what it has, tensor by tensor in canonical layout
// (the hashes of a checkpoint's manifest), and all compare: after every dist.check_replicas updates, before every
// checkpoint, and at the run's end. One small all-reduce of one hash; only where that differs, all of them.
//
// Diverged replicas end the run on all ranks with LS_NUMERIC and one message: tensor, ranks and their values, since
// when. RUN/diverged-update-N/rank-R.safetensors is the whole state of one rank of each kind: weights and statistics as
// in a weights file, and the optimizer's memory under a checkpoint's names.
#ifndef LS_TRAIN_DIAGNOSE_REPLICAS_H
#define LS_TRAIN_DIAGNOSE_REPLICAS_H

#include "train/run_progress.h"
#include "train/run_saving.h"
#include "train/run_session.h"

typedef struct ls_replicas ls_replicas;

// Collective; the session's memory is allocated. *out is NULL with one rank, and without dist.check_replicas.
LS_CHECKED ls_status ls_replicas_new(const ls_run_session *session, ls_replicas **out);
void ls_replicas_free(ls_replicas *replicas); // NULL is allowed

// The next update after progress->done after which dist.check_replicas asks for a check; INT64_MAX: none.
int64_t ls_replicas_next_check(const ls_run_session *session, const ls_run_progress *progress);
int ls_replicas_due(const ls_run_session *session, const ls_run_progress *progress); // now
// Compares, once after each update, however often it is called; all enqueued updates are completed. LS_NUMERIC on all
// ranks if replicas differ; the report goes into the run's folder. Collective.
LS_CHECKED ls_status ls_replicas_check(
    ls_run_session *session, const ls_run_progress *progress, const ls_run_saving *saving);
// All ranks have taken over the same state after so many updates: that counts as a comparison. NULL is allowed.
void ls_replicas_equal(ls_replicas *replicas, int64_t updates);

ls_replica_checks ls_replicas_checks(const ls_replicas *replicas); // NULL is allowed

#endif
