// stragglers.h - finds ranks that arrive last at the sums of gradients, how long the others wait, and why.
//
// Every rank measures how long it waits for sums when it has nothing left to compute. The sums themselves take equally
// long on all ranks. The rest of the waiting is for the ranks that come last, and these wait least. Ranks exchange
// these times with every record of the metrics. A warning is given if the same ranks delay the others for more than a
// tenth of the time, in three consecutive intervals of some seconds. It is repeated every few minutes.
//
// If sums run on the device's queues, the times are waits of the device by its own clock, at the end of an update.
// These times leave out the sums of synchronised batch norm, with which no rank may be named.
#ifndef LS_TRAIN_DIAGNOSE_STRAGGLERS_H
#define LS_TRAIN_DIAGNOSE_STRAGGLERS_H

#include "dist/comm.h"
#include "run/run_info.h"

// A part of the training time, with the times and facts of all ranks. All arrays are [ranks].
typedef struct {
    int ranks;
    double seconds;
    const ls_rank_time *spent;
    const ls_rank_info *places;
    const ls_gpu_sample *gpus; // NULL: nothing is known about GPUs
} ls_straggler_info;

// Finds the ranks that come last, and sets is_slow[r] = 1 for each. Returns the fraction of the time that the other
// ranks wait for them on average; 0 if no rank is late, or if more than half of all ranks are.
double ls_stragglers_find(const ls_straggler_info *facts, uint64_t *is_slow);
// Writes a description of the late ranks into dst and returns dst: "rank 3 (host b, cpus 4-7) arrives last: the others
// wait 0.18 s of every second for it; its loader waits 0.15 s: slow data".
char *ls_stragglers_text(
    const ls_straggler_info *facts, const uint64_t *is_slow, double share, char dst[LS_STRAGGLERS_TEXT_BYTES]);

typedef struct ls_stragglers ls_stragglers;

// Starts to look for late ranks. *out is NULL with one rank; the functions below accept NULL and then do nothing.
LS_CHECKED ls_status ls_stragglers_new(ls_comm *comm, const ls_rank_info *places, ls_stragglers **out);
void ls_stragglers_free(ls_stragglers *stragglers); // NULL is allowed
// Exchanges the times of all ranks and looks for late ranks. Call with every record. *times: the times of all ranks
// since the start, valid until the next call; NULL with one rank. seconds: training time so far. *warning: on rank 0
// the text of a warning that is due, otherwise NULL. Collective.
LS_CHECKED ls_status ls_stragglers_report(ls_stragglers *stragglers, const ls_rank_time *mine, double seconds,
    const ls_gpu_sample *gpus, const ls_rank_time **times, const char **warning);
// Call after the last record. Returns the description of the ranks that were late over the whole run; *share: the
// fraction of the time that the others waited for them. NULL: no rank was late.
const char *ls_stragglers_sum_up(ls_stragglers *stragglers, double *share);

#endif
