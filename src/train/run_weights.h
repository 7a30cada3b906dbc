// run_weights.h - the weights of a session: made for the start of a run, read from a file, written to one.
#ifndef LS_TRAIN_RUN_WEIGHTS_H
#define LS_TRAIN_RUN_WEIGHTS_H

#include "formats/weights_fit.h"
#include "train/run_session.h"

// Weights from the seed, and filters that whiten the training pictures. This rank alone.
LS_CHECKED ls_status ls_run_make_weights(ls_run_session *session);
// With model.init: rank 0 reads that file, and all ranks get the weights that model.init_rules take from it; else
// nothing is done. Without training, all of the network must be in the file. LS_USAGE: the file does not fit. Call
// before the first update, and not if the run goes on from a checkpoint. Collective.
LS_CHECKED ls_status ls_run_init_weights(ls_run_plan *plan, ls_run_session *session);

// Compares what the file says of itself with the plan's data and network. This rank alone; path: for messages.
LS_CHECKED ls_status ls_run_fit_weights(
    const ls_run_plan *plan, const char *path, const ls_safetensors *file, ls_weights_fit **out);
// Every rank reads the file. LS_USAGE or LS_STORAGE: it does not fit, or is damaged. Collective.
LS_CHECKED ls_status ls_run_load_weights(ls_run_session *session, const char *path);
// Rank 0 writes the weights after `updates` updates, or the average that stands for them. Collective.
LS_CHECKED ls_status ls_run_save_weights(ls_run_session *session, int64_t updates, const char *path);
LS_CHECKED ls_status ls_run_write_weights(const ls_run_session *session, const char *path); // this rank alone

#endif
