// share.h - computes the updates that several settings share once (--share): settings that differ only after update t,
// by a later milestone, the end of a schedule, the start of an average or the length of the run.
//
// A stem is a run of its own, in the folder "until=T,SETTING,seed=S", that ends after its updates. Runs and stems that
// share a stem's updates begin with the stem's last checkpoint as their own (run.adopt), so each has the bits of a run
// from update 0, and its checkpoints and summary list the parts that other processes computed.
#ifndef LS_SWEEP_SHARE_H
#define LS_SWEEP_SHARE_H

#include "sweep/results.h"

// Finds the stems of the plan and adds them, with plan->work. Opens the training data, to count the updates of an
// epoch. LS_USAGE: an option of [data] or a batch size is swept, train.patience is set, or the settings share nothing.
// LS_DATA: the data cannot be read.
LS_CHECKED ls_status ls_sweep_share(ls_sweep_plan *plan);
// Call before the run or stem starts. If it begins with a stem and has no checkpoint yet, links the stem's last
// checkpoint into its folder. LS_STORAGE: that checkpoint is missing, or the folder cannot be read or written.
LS_CHECKED ls_status ls_sweep_begin_with_stem(const ls_sweep_plan *plan, int run);

#endif
