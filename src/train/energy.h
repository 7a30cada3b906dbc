// energy.h - the energy in joules that processors and GPUs have used since the start of a run, over all ranks.
//
// The first rank of a host counts the host's processors (system/powercap.h). The first rank that uses a GPU counts it
// (system/monitor.h). Counters cover the whole processor package and the whole card, including other users of them.
#ifndef LS_TRAIN_ENERGY_H
#define LS_TRAIN_ENERGY_H

#include "system/monitor.h"
#include "dist/comm.h"
#include "dist/rank_table.h"
#include "run/run_info.h"

typedef struct ls_energy ls_energy;

// Starts to count energy. Collective, and so is ls_energy_read. places: of all ranks, borrowed. root: a prefix of /sys,
// "" except in tests.
LS_CHECKED ls_status ls_energy_start(ls_comm *comm, const char *root, const ls_rank_info *places, ls_energy **out);
// Returns the energy used so far. gpus: the samples of all ranks from ls_gpu_records_gather, or NULL. last: 1 at the
// end of the run. Joules are NAN if nothing can be counted, and before the end until all GPUs have a sample.
LS_CHECKED ls_status ls_energy_read(ls_energy *energy, const ls_gpu_sample *gpus, int last, ls_run_energy *out);
void ls_energy_free(ls_energy *energy); // not collective; NULL is allowed

#endif
