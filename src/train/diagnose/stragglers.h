// stragglers.h - which ranks arrive last where all sum their gradients, how long the others wait for them, and why.
//
// Every rank measures how long it waits for sums when it has nothing left to compute. The sums themselves take all
// ranks alike; what some wait longer than others, they wait for those that come last, who wait least. Ranks exchange
// these times with every record of the metrics. When the same ranks have held up the others for more than a tenth of
// the time in three intervals of some seconds each, one warning says so, and again every few minutes.
//
// Where sums run on the device's queues the waits are those of the device, by its own clock, at the end of an
// update; sums of synchronised batch norm are not among them there, and with those no rank may be named.
#ifndef LS_TRAIN_DIAGNOSE_STRAGGLERS_H
#define LS_TRAIN_DIAGNOSE_STRAGGLERS_H

#include "dist/comm.h"
#include "run/run_info.h"

// Of some stretch of training; all arrays are [ranks].
typedef struct {
    int ranks;
    double seconds;
    const ls_rank_time *spent;
    const ls_rank_info *places;
    const ls_gpu_sample *gpus; // NULL: unknown
} ls_straggler_info;

// late[r]: 1 for those that come last, at most half of all. Returns the share of the time that the others wait
// for them on average; 0: none is late.
double ls_stragglers_find(const ls_straggler_info *facts, uint64_t *is_slow);
// "rank 3 (host b, cpus 4-7) arrives last: the others wait 0.18 s of every second for it; its loader waits 0.15 s: slow
// data" into dst; returns dst.
char *ls_stragglers_text(
    const ls_straggler_info *facts, const uint64_t *is_slow, double share, char dst[LS_STRAGGLERS_TEXT_BYTES]);

typedef struct ls_stragglers ls_stragglers;

// All ranks. *out is NULL with one rank; what follows then does nothing.
LS_CHECKED ls_status ls_stragglers_new(ls_comm *comm, const ls_rank_info *places, ls_stragglers **out);
void ls_stragglers_free(ls_stragglers *stragglers); // NULL is allowed
// With every record; all ranks: *times has all ranks' (NULL with one rank), since the start. seconds: of training so
// far. A warning is due where *warning is not NULL: on rank 0.
LS_CHECKED ls_status ls_stragglers_report(ls_stragglers *stragglers, const ls_rank_time *mine, double seconds,
    const ls_gpu_sample *gpus, const ls_rank_time **times, const char **warning);
// After the last record, on rank 0: which ranks were late over the whole run, and by what share of it; NULL: none.
const char *ls_stragglers_sum_up(ls_stragglers *stragglers, double *share);

#endif
