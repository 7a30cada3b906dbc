// verdict.h - what a run waited for, and at most one suggestion that is sure to help: decided from where its time went.
//
// The slowest rank decides, the one that waits least for the others. It waited for the first of these with the largest
// share of the time:
//   cores           a tenth of the time or more, threads waited for a core
//   loader          a tenth of the time or more, training waited for the next batch
//   launches        half of the time or more, a GPU's host enqueued operators, and it hardly waited for the device
//   communication   a tenth of the time or more, training waited for sums over ranks
//   compute         none of these
// With more threads than cores, `cores` comes first even if another share is larger.
//
// The suggestion is one of these, where it is certain to help and the configuration would accept it:
//   cores      device.threads = 0, or fewer ranks, if there are more threads than cores
//   loader     more data.workers, if cores are idle
//   launches   a train.micro_batch twice as large, if it fits into the GPU's memory
//   compute    device.threads = 0, if a rank uses fewer threads than it has cores
#ifndef LS_TRAIN_DIAGNOSE_VERDICT_H
#define LS_TRAIN_DIAGNOSE_VERDICT_H

#include "run/run_info.h"

typedef struct {
    const ls_config *cfg;
    int ranks, threads; // threads: of a rank
    int64_t train_samples;
    int micro_batch, accumulation; // samples; micro-batches of a rank in an update
    ls_run_room room;
    int64_t updates;          // of this part of the run
    ls_run_time time;         // rank 0's
    const ls_rank_time *each; // of all ranks, while each_seconds went by; NULL: one rank
    double each_seconds;
} ls_verdict_facts;

// verdict.text is "" if the run is too short: less than a second after its first update, or fewer than
// LS_VERDICT_UPDATES_MIN updates.
enum { LS_VERDICT_UPDATES_MIN = 10 };
ls_verdict ls_verdict_find(const ls_verdict_facts *facts);
// Writes "compute 61 % (convolution 40, norm 12, ...), loader 2 %, evaluation 5 %, other 1 %" into dst; returns dst.
enum { LS_VERDICT_SHARES_BYTES = 512 };
char *ls_verdict_shares(const ls_run_time *time, char dst[LS_VERDICT_SHARES_BYTES]);

#endif
