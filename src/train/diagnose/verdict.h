// verdict.h - what binds a run, and the one setting most worth changing: a decision from where its time went.
//
// What binds it is decided on the slowest rank, the one that waits least for the others:
//   cores           threads wait for a core for a tenth of the time or more
//   loader          training waits for the next batch for a tenth of the time or more
//   launches        a GPU's host enqueues half of the time or more, and hardly ever waits for the device
//   communication   sums over ranks are waited for for a tenth of the time or more
//   compute         else
// Of several the one with the largest share; cores come first where more threads than cores were started.
//
// Each setting that could help has a row in verdict.c, with the factor by which it would be faster at most: by Amdahl's
// law of the share that it could take away. Of those from 3 % on the one with the largest gain is named, where what
// changes results counts half. None is named that this machine or the configuration would refuse.
#ifndef LS_TRAIN_DIAGNOSE_VERDICT_H
#define LS_TRAIN_DIAGNOSE_VERDICT_H

#include "files/run_info.h"

typedef struct {
    const ls_config *cfg;
    int ranks, threads; // threads: of a rank
    int64_t train_samples, parameters;
    ls_run_room room;
    int64_t updates;          // of this part of the run
    ls_run_time time;         // rank 0's
    const ls_rank_time *each; // of all ranks, while each_seconds went by; NULL: one rank
    double each_seconds;
} ls_verdict_facts;

// With verdict.text = "" where the run is too short to say: less than a second after its first update, or fewer than
// LS_VERDICT_UPDATES_MIN updates.
enum { LS_VERDICT_UPDATES_MIN = 10 };
ls_verdict ls_verdict_find(const ls_verdict_facts *facts);
// "compute 61 % (convolution 40, norm 12, ...), loader 2 %, evaluation 5 %, other 1 %" into dst; returns dst.
enum { LS_VERDICT_SHARES_BYTES = 512 };
char *ls_verdict_shares(const ls_run_time *time, char dst[LS_VERDICT_SHARES_BYTES]);

#endif
