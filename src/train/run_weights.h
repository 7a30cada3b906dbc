// run_weights.h - the weights of a session: made for the start of a run, read from a file, written to a file.
#ifndef LS_TRAIN_RUN_WEIGHTS_H
#define LS_TRAIN_RUN_WEIGHTS_H

#include "formats/weights_fit.h"
#include "train/run_session.h"

// Makes weights from the seed, and filters that whiten the training pictures. Not collective.
LS_CHECKED ls_status ls_run_make_weights(ls_run_session *session);
// Reads the weights file of model.init on rank 0 and gives all ranks the weights that model.init_rules take from it.
// Does nothing without model.init. If the run only evaluates, the file must contain the whole network. LS_USAGE or
// LS_STORAGE: the file does not fit or is damaged. Call before the first update, but not if the run resumes from a
// checkpoint. Collective.
LS_CHECKED ls_status ls_run_init_weights(ls_run_plan *plan, ls_run_session *session);

// Compares the file's metadata with the plan's data and network. path is used in messages. Not collective.
LS_CHECKED ls_status ls_run_fit_weights(
    const ls_run_plan *plan, const char *path, const ls_safetensors *file, ls_weights_fit **out);
// Reads weights from the file on every rank, and sets the session's weights. LS_USAGE or LS_STORAGE: the file does not
// fit or is damaged. Collective.
LS_CHECKED ls_status ls_run_load_weights(ls_run_session *session, const char *path);
// Rank 0 writes the weights after `updates` updates, or their average if that is saved instead. Collective.
LS_CHECKED ls_status ls_run_save_weights(ls_run_session *session, int64_t updates, const char *path);
// Writes the session's weights to `path` from this rank. Not collective.
LS_CHECKED ls_status ls_run_write_weights(const ls_run_session *session, const char *path);

#endif
