// prove.h - shows that runs which share updates (share.h) have the bits of runs alone (--prove).
#ifndef LS_SWEEP_PROVE_H
#define LS_SWEEP_PROVE_H

#include "sweep/jobs.h"

// Call after all runs are complete. Trains the first and the last run that begin with a stem once more, from update 0,
// in FOLDER/alone, and compares the hashes of the weights. LS_INTERNAL: they differ. Otherwise as ls_sweep_jobs.
LS_CHECKED ls_status ls_sweep_prove(
    const ls_sweep_plan *plan, const ls_sweep_result *results, const ls_sweep_jobs_options *options);

#endif
