// trainer_internal.h - a trainer's parts: the session that it computes in, and what only training has. Shared by the files
// of this room.
#ifndef LS_TRAIN_TRAINER_INTERNAL_H
#define LS_TRAIN_TRAINER_INTERNAL_H

#include "files/weights_fit.h"
#include "train/run_plan.h"
#include "train/run_progress.h"
#include "train/run_saving.h"
#include "train/run_session.h"
#include "train/trainer.h"

struct ls_trainer {
    ls_run_plan plan;
    ls_run_session session;
    ls_run_progress progress;
    ls_run_saving saving;
};

// stages.c. When the network, its rules and the shape of the data are known; LS_USAGE: the network does not go with
// train.resolution.
LS_CHECKED ls_status ls_trainer_open_stages(ls_trainer *t);
void ls_trainer_close_stages(ls_trainer *t);
int ls_trainer_stage(const ls_trainer *t, int64_t epoch); // index: that of the first stage with the same programs
int ls_trainer_has_stage(const ls_trainer *t, int stage); // it has programs of its own
const ls_graph *ls_trainer_graph_at(const ls_trainer *t, int stage);
const ls_program *ls_trainer_full(const ls_trainer *t, int64_t epoch); // of a whole micro-batch
// For one of this rank's micro-batches, of so many samples.
const ls_program *ls_trainer_program_for(const ls_trainer *t, int64_t epoch, int samples);

// All ranks compare what must be the same (startup_check.c): LS_COMM with a table where it is not.
LS_CHECKED ls_status ls_startup_check_programs(ls_trainer *t); // program and options
LS_CHECKED ls_status ls_startup_check_devices(ls_trainer *t);  // when the device is open
LS_CHECKED ls_status ls_startup_check_state(ls_trainer *t);    // data and initial weights
LS_CHECKED ls_status ls_startup_check_data(ls_trainer *t);     // again, once the training pictures are verified

// verify_pictures.c: as ls_trainer_verify_pictures, of what is evaluated on (test and validation pictures); what is left out is
// gone from facts.test_data->count.
LS_CHECKED ls_status ls_trainer_verify_test_pictures(ls_trainer *t);

LS_CHECKED ls_status ls_trainer_init_weights(ls_trainer *t); // initial_weights.c

// What the file says of itself beside this trainer's data and network, to evaluate or to start from (weights_fit.h). Of
// this rank alone; path: for messages.
LS_CHECKED ls_status ls_trainer_fit_weights(
    const ls_trainer *t, const char *path, const ls_safetensors *file, ls_weights_fit **out); // trainer_state.c

// micro_batch.c: facts.batches, as the configuration says; checks them.
LS_CHECKED ls_status ls_trainer_plan_batches(ls_trainer *t);
// The session's programs are compiled and fit into the device of every rank, where train.micro_batch = auto with smaller
// micro-batches than facts.batches had; LS_DEVICE: they do not. All ranks.
LS_CHECKED ls_status ls_trainer_choose_micro_batch(ls_trainer *t);
ls_input_pipeline_options ls_trainer_input_options(const ls_trainer *t, ls_split split);

// device.autotune (autotune.c). Opens t->plans where it is wanted; for the device's options.
LS_CHECKED ls_status ls_trainer_open_algorithm_cache(ls_trainer *t);
// All ranks call it where t->plans is not NULL: what the plans of whole micro-batches are chosen by, the same on all ranks.
LS_CHECKED ls_status ls_trainer_autotune(ls_trainer *t);

// Is there an average that stands for the weights, in what is evaluated and saved (average.kind = ema)? After `update` updates.
int ls_trainer_shows_average(const ls_trainer *t, int64_t update);
// Then weights and average change places: the second time they are back. Outside of any update.
void ls_trainer_swap_average(ls_trainer *t);
LS_CHECKED ls_status ls_trainer_set_parts(ls_trainer *t, cJSON *parts);         // taken
LS_CHECKED ls_status ls_trainer_start_input(ls_trainer *t);                     // at the next update's place
LS_CHECKED ls_status ls_trainer_write_weights(ls_trainer *t, const char *path); // this rank alone
// Enqueues updates while fewer than `depth` are under way and before update number `end`; then completes the oldest. LS_NUMERIC on all ranks alike when too many updates in a row were skipped.
LS_CHECKED ls_status ls_trainer_advance(ls_trainer *t, int64_t end, ls_train_state *state);
// One update, enqueued and completed.
LS_CHECKED ls_status ls_trainer_update(ls_trainer *t, ls_train_state *state);

// evaluate.c: the logits of what the program that evaluates has run last, (micro-batch, classes).
LS_CHECKED ls_status ls_trainer_read_logits(ls_trainer *t, float *logits);

// trainer_state.c. The run ends here if t->evaluation has had no improvement for train.patience evaluations.
void ls_trainer_heed_patience(ls_trainer *t);

// stop_and_save.c. Before the update `next` is enqueued: agrees with the other ranks when it is time to. All ranks.
LS_CHECKED ls_status ls_trainer_agree_on_stop(ls_trainer *t);
// The next update, from `done` on, at which a checkpoint is due by counting, or ranks are to meet.
int64_t ls_trainer_next_save(const ls_trainer *t);
// Everything is completed up to `done`: saves if that is due, then LS_STOPPED on all ranks if that was agreed. Observers
// are called on rank 0 for what was written.
LS_CHECKED ls_status ls_trainer_save_if_due(ls_trainer *t, const ls_train_observer *observers, int observer_count);
// The last update is done: waits for what is being written. All ranks.
LS_CHECKED ls_status ls_trainer_save_end(ls_trainer *t, const ls_train_observer *observers, int observer_count);

// Update tracing.next comes next and nothing is under way: the trace begins or ends. All ranks.
LS_CHECKED ls_status ls_trainer_turn_trace(ls_trainer *t);

#endif
