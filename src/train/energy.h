// energy.h - joules of a run: what processors and GPUs have taken since it began, over all ranks.
//
// A host's processors are counted by its first rank (system/powercap.h), a GPU by the first rank that has it
// (system/monitor.h): the whole package and the whole card, whoever uses them.
#ifndef LS_TRAIN_ENERGY_H
#define LS_TRAIN_ENERGY_H

#include "system/monitor.h"
#include "dist/comm.h"
#include "dist/rank_table.h"
#include "run/run_info.h"

typedef struct ls_energy ls_energy;

// All ranks call start and read alike. places: of all ranks, borrowed; root stands before /sys ("" outside tests).
LS_CHECKED ls_status ls_energy_start(ls_comm *comm, const char *root, const ls_rank_info *places, ls_energy **out);
// Until now. gpus: of all ranks, as ls_gpu_records_gather has them, or NULL. last: the run ends; before that, joules
// are NAN while a GPU has no sample yet, so that they never fall.
LS_CHECKED ls_status ls_energy_read(ls_energy *energy, const ls_gpu_sample *gpus, int last, ls_run_energy *out);
void ls_energy_free(ls_energy *energy); // one rank's own affair; NULL is allowed

#endif
