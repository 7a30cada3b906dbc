// replicas.h - checks that all ranks still have the same weights, statistics, optimizer state and counters.
//
// After the start, ranks never exchange weights. They stay equal because every rank takes the same steps. Without this
// check, a flipped bit in the memory of one rank, a device that computes wrong values or a bug in Lockstep would not be
// noticed, and the checkpoints of the ranks would belong to different runs. So each rank hashes its state, tensor by
// tensor in canonical layout (like the hashes in a checkpoint's manifest), and the ranks compare: after every
// dist.check_replicas updates, before every checkpoint, and at the end of the run. A check is one small all-reduce of
// one hash of the whole state. Only if it differs do the ranks exchange the hashes of all tensors.
//
// Diverged replicas end the run on all ranks with LS_NUMERIC and one message: which tensor differs, the ranks and their
// values, and when the ranks were last equal. RUN/diverged-update-N/rank-R.safetensors has the whole state of one rank
// of each group of equal ranks (8 at most); tensors have the names of a weights file and a checkpoint.
#ifndef LS_TRAIN_DIAGNOSE_REPLICAS_H
#define LS_TRAIN_DIAGNOSE_REPLICAS_H

#include "train/run_progress.h"
#include "train/run_saving.h"
#include "train/run_session.h"

typedef struct ls_replicas ls_replicas;

// Allocates memory for the comparison of ranks. *out is NULL with one rank or dist.check_replicas = 0.
LS_CHECKED ls_status ls_replicas_new(const ls_run_session *session, ls_replicas **out);
void ls_replicas_free(ls_replicas *replicas); // NULL is allowed

// Returns the next update, after progress->done, at which dist.check_replicas asks for a check. INT64_MAX: never.
int64_t ls_replicas_next_check(const ls_run_session *session, const ls_run_progress *progress);
int ls_replicas_due(const ls_run_session *session, const ls_run_progress *progress); // whether a check is due now
// Compares the replicas. Further calls after the same update do nothing. All enqueued updates must be completed.
// LS_NUMERIC on all ranks: the replicas differ, and evidence is in the run's folder. Collective.
LS_CHECKED ls_status ls_replicas_check(
    ls_run_session *session, const ls_run_progress *progress, const ls_run_saving *saving);
// Notes that all ranks have received the same state, with `updates` updates done; this counts as a comparison. NULL is
// allowed.
void ls_replicas_equal(ls_replicas *replicas, int64_t updates);

ls_replica_checks ls_replicas_checks(const ls_replicas *replicas); // NULL is allowed

#endif
