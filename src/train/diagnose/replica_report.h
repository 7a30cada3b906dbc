// replica_report.h - reports diverged replicas (replicas.h): the tensors that differ, the ranks, and files as evidence.
#ifndef LS_TRAIN_DIAGNOSE_REPLICA_REPORT_H
#define LS_TRAIN_DIAGNOSE_REPLICA_REPORT_H

#include "device/op_update.h"
#include "train/run_progress.h"
#include "train/run_saving.h"
#include "train/run_session.h"

// The counters of an update that are compared in addition to tensors; one word for each.
typedef enum {
    LS_REPLICA_LOSS_SCALE,
    LS_REPLICA_APPLIED,
    LS_REPLICA_SKIPPED,
    LS_REPLICA_FINITE_IN_ROW,
    LS_REPLICA_SKIPPED_IN_ROW,
    LS_REPLICA_COUNTERS
} ls_replica_counter;
void ls_replica_report_counters(const ls_train_state *state, uint64_t words[LS_REPLICA_COUNTERS]);

// Reports a difference between ranks. words: this rank's counters, then a hash of each tensor in `list`. values: room
// for the largest tensor. equal_at: the last update after which all ranks were equal. Writes the evidence, and returns
// the same LS_NUMERIC on all ranks. Collective.
LS_CHECKED ls_status ls_replica_report(ls_run_session *session, const ls_run_progress *progress,
    const ls_run_saving *saving, const ls_snapshot *list, const uint64_t *words, float *values, int64_t equal_at);

#endif
