// verdict.h - the resource that a run mainly waited for, and at most one suggestion that is sure to help.
//
// The slowest rank decides: the rank that waits least for the others. Its verdict is the row below with the largest
// share of the time, if its condition holds; the earlier row if two shares are equal:
//   cores           a tenth of the time or more, threads waited for a core
//   loader          a tenth of the time or more, training waited for the next batch
//   launches        half of the time or more, a GPU's host enqueued operators and hardly waited for the device
//   communication   a tenth of the time or more, training waited for sums over ranks
//   compute         no other row applies
// With more threads than cores, `cores` wins if its condition holds, even if another share is larger.
//
// The suggestion is one of these, if it is certain to help and the configuration would accept it:
//   cores      device.threads = 0, or fewer ranks, if there are more threads than cores
//   loader     more data.workers, if cores are idle
//   launches   a train.micro_batch twice as large, if it fits into the GPU's memory
//   compute    device.threads = 0, if a rank uses fewer threads than it has cores
#ifndef LS_TRAIN_DIAGNOSE_VERDICT_H
#define LS_TRAIN_DIAGNOSE_VERDICT_H

#include "run/run_info.h"

typedef struct {
    const ls_config *cfg;
    int ranks, threads; // threads: number of threads of a rank
    int64_t train_samples;
    int micro_batch, accumulation; // micro_batch: number of samples; accumulation: a rank's micro-batches in an update
    ls_run_room room;
    int64_t updates;          // number of updates in this part of the run
    ls_run_time time;         // times of rank 0
    const ls_rank_time *each; // times of all ranks during each_seconds; NULL: one rank
    double each_seconds;
} ls_verdict_facts;

// Fewest updates of a run with a verdict. verdict.text is "" if the run has fewer, or less than a second after its
// first update.
enum { LS_VERDICT_UPDATES_MIN = 10 };
ls_verdict ls_verdict_find(const ls_verdict_facts *facts);
// Writes "compute 61 % (convolution 40, norm 12, ...), loader 2 %, evaluation 5 %, other 1 %" into dst; returns dst.
enum { LS_VERDICT_SHARES_BYTES = 512 };
char *ls_verdict_shares(const ls_run_time *time, char dst[LS_VERDICT_SHARES_BYTES]);

#endif
