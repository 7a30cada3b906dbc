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

#include "files/run_info.h"

struct ls_trainer;
typedef struct ls_replicas ls_replicas;

// All ranks; the trainer's session has its memory. *out is NULL for one rank, and where it is off.
LS_CHECKED ls_status ls_replicas_new(const struct ls_trainer *trainer, ls_replicas **out);
void ls_replicas_free(ls_replicas *replicas); // NULL is allowed

// The next update, from trainer->progress.done on, after which a check of dist.check_replicas is due by the clock.
int64_t ls_trainer_replicas_stop(const struct ls_trainer *trainer);
// Is it due now?
int ls_trainer_replicas_due(const struct ls_trainer *trainer);
// Compares; once after each update, however often it is called. Nothing is under way. All ranks.
LS_CHECKED ls_status ls_trainer_check_replicas(struct ls_trainer *trainer);
// Ranks have taken over the same state: it counts as compared.
void ls_trainer_replicas_equal(struct ls_trainer *trainer);

ls_replica_checks ls_trainer_replica_checks(const struct ls_trainer *trainer);

#endif
