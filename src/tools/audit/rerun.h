// rerun.h - computes updates of a run again, on all ranks, into a temporary folder.
#ifndef LS_TOOLS_AUDIT_RERUN_H
#define LS_TOOLS_AUDIT_RERUN_H

#include "command/args.h"
#include "dist/comm.h"
#include "tools/audit/findings.h"

typedef struct {
    const ls_args *args; // --set, --quiet
    ls_comm *comm;
    ls_record *record;          // rank 0
    ls_findings findings;       // rank 0
    char folder[LS_TEXT_BYTES]; // rank 0: the temporary folder
    ls_snapshot *state;         // the state that was computed last; NULL: no state yet
    int noted;                  // number of the part whose differences to this machine were reported last
    int64_t nonfinite;          // update that failed, because a value was not finite; -1: all values were finite
} ls_rerun;

// Makes the temporary folder ($TMPDIR or /tmp) on rank 0, and removes it if a signal ends the process. LS_STORAGE: it
// cannot be made.
LS_CHECKED ls_status ls_rerun_open(ls_rerun *rerun);
void ls_rerun_close(ls_rerun *rerun); // also removes the folder; {0} is allowed
// Rank 0: writes the path of a file in the temporary folder into dst.
LS_CHECKED ls_status ls_rerun_file(const ls_rerun *rerun, const char *name, char *dst, size_t bytes);

// Computes the updates from+1 to `to`, with the options and parts of the run. It begins with the checkpoint of update
// `from`, with rerun->state if that has this update, or if `from` is 0 with the initial weights. metrics.jsonl in the
// temporary folder has the events then; at the end of the run weights.safetensors, evaluation.json and summary.json
// are there, too. Rank 0 compares the start events of the parts. inspects: 1 to print the tensors of the update that
// comes next, or of the one that is not finite. LS_DATA: the data are not those of the run. LS_NUMERIC: the network is
// not that of the run. Collective; returns the same on all ranks, and one rank has printed the message.
LS_CHECKED ls_status ls_rerun_updates(ls_rerun *rerun, int64_t from, int64_t to, int inspects);
// Rank 0: writes into dst why the updates from+1 to `to` cannot be computed here; "": they can.
LS_CHECKED ls_status ls_rerun_obstacle(const ls_rerun *rerun, int64_t from, int64_t to, char *dst, size_t bytes);

#endif
