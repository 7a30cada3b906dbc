// run_session.h - the parts that run the updates of a plan: the device with weights and programs, the inputs, the sums
// over ranks, and the update with the optimizer's state.
//
// It starts as {0}. trainer.c opens it step by step: ls_run_session_begin, ls_run_session_open_device,
// ls_run_session_place, ls_run_session_open_sums, ls_run_choose_micro_batch, ls_run_session_allocate. After that, only
// a trace or the loading of weights adds anything. Updates and evaluations change the contents of the device's memory.
// Only the thread that drives the run uses the session; the inputs have their own loader threads. Work is enqueued, so
// an error of the device is returned by a later call that waits for the device (LS_DEVICE).
#ifndef LS_TRAIN_RUN_SESSION_H
#define LS_TRAIN_RUN_SESSION_H

#include "device/algorithm_cache.h"
#include "train/class_weights.h"
#include "train/input_pipeline.h"
#include "train/run_plan.h"
#include "train/run_progress.h"
#include "train/trace_window.h"
#include "train/update.h"

// Indices of the programs in `compute`. Each stage has two programs: one for whole micro-batches and, if this rank has
// the short micro-batch of an epoch, one for that. One more program evaluates, at the resolution of the data.
enum { LS_RUN_EVAL_PROGRAM = 2 * LS_STAGE_LIMIT, LS_RUN_PROGRAMS };
_Static_assert((int)LS_RUN_PROGRAMS <= (int)LS_SESSION_PROGRAMS, "ls_session has too few programs for a run");

typedef struct ls_run_session {
    const ls_run_plan *plan;        // borrowed
    ls_session compute;             // device, queue, weights, programs
    ls_algorithm_cache *algorithms; // NULL: the device's rule chooses algorithms. Owned, like all pointers below
    ls_collective *collective;      // NULL: sums over ranks go through plan->comm
    ls_update *update;
    int depth; // how many updates may be enqueued and not completed; 1 on a device in host memory
    ls_input_pipeline *input, *eval_input, *val_input; // NULL: not needed
    // Views of test pictures: ls_augment_sample[view][plan->eval_batches.micro_batch]. NULL: eval.tta is off.
    ls_slab *views;
    struct ls_teacher *teacher;         // NULL: the run has no teacher (teacher.h)
    ls_balance *balance;                // NULL: each sample comes once an epoch
    ls_class_weights *class_weights;    // NULL: all classes have the same weight
    struct ls_replicas *replicas;       // NULL: the weights of the ranks are not compared (diagnose/replicas.h)
    struct ls_cross_check *cross_check; // NULL: ranks do not check each other's gradients (cross_check.h)
    ls_run_trace trace;
} ls_run_session;

// Begins a session of the plan, which is borrowed. open_session.c implements this and the functions up to
// ls_run_session_close.
void ls_run_session_begin(ls_run_session *session, const ls_run_plan *plan);
// Opens the device and fills in the plan's facts about it. status: this rank's status so far; a failure of any rank
// fails all ranks. Collective.
LS_CHECKED ls_status ls_run_session_open_device(ls_run_session *session, ls_run_plan *plan, ls_status status);
// Decides where each tensor lies in memory. Allocates nothing on the device. Call after the plan is complete.
LS_CHECKED ls_status ls_run_session_place(ls_run_session *session);
// Opens the library that sums over ranks. Call before planning memory, because it takes some. Collective.
LS_CHECKED ls_status ls_run_session_open_sums(ls_run_session *session, ls_run_plan *plan);
// Allocates everything in the memory plan, and makes the first weights. Collective; the caller must let the ranks agree
// on the status.
LS_CHECKED ls_status ls_run_session_allocate(ls_run_session *session);
void ls_run_session_close(ls_run_session *session); // {0} is allowed; the queue must have finished (ls_session_drain)

// Compiles programs that fit into the device of every rank. With train.micro_batch = auto it may make
// plan->info.batches smaller for that. Implemented in micro_batch.c. LS_DEVICE: the programs do not fit. Collective.
LS_CHECKED ls_status ls_run_choose_micro_batch(ls_run_session *session, ls_run_plan *plan);

// Opens session->algorithms, the cache of measured algorithms, for device.autotune. Call before opening the device.
// Implemented in autotune.c.
LS_CHECKED ls_status ls_run_session_open_algorithms(ls_run_session *session);
// Measures which algorithms are fastest for whole micro-batches, and gives all ranks the same choices. Needs
// session->algorithms. Collective.
LS_CHECKED ls_status ls_run_session_autotune(ls_run_session *session);

// Return the training program of an epoch: for a whole micro-batch, or for a micro-batch of `samples` samples.
const ls_program *ls_run_session_full_program(const ls_run_session *session, int64_t epoch);
const ls_program *ls_run_session_program_for(const ls_run_session *session, int64_t epoch, int samples);

ls_input_pipeline_options ls_run_session_input_options(const ls_run_session *session, ls_split split);
// Starts to read training pictures, beginning with the window at position `at`.
LS_CHECKED ls_status ls_run_session_start_input(ls_run_session *session, const ls_position *at);
// Stops the reading of `input`, and starts to read the pictures of rank `rank` into it, from position `at` on: `micros`
// micro-batches of that window.
LS_CHECKED ls_status ls_run_session_read_as(
    const ls_run_session *session, ls_input_pipeline *input, const ls_position *at, int rank, int micros);
// Starts to read training pictures, unless reading has already started, beginning with the window at position `at`.
LS_CHECKED ls_status ls_run_session_read_ahead(ls_run_session *session, const ls_position *at);

// Enqueues the evaluating program for the inputs' pictures in one view (tta.h). View 0 is the picture itself.
LS_CHECKED ls_status ls_run_session_run_view(ls_run_session *session, int view, ls_program_inputs *inputs);
// Waits for the evaluating program, then copies the logits of its last run: (micro-batch, classes).
LS_CHECKED ls_status ls_run_session_read_logits(ls_run_session *session, float *logits);

// Returns 1 if, after `updates` updates, the average is evaluated and saved instead of the weights (average.kind =
// ema).
int ls_run_session_shows_average(const ls_run_session *session, int64_t updates);
// If ls_run_session_shows_average, exchanges the weights with their average; a second call exchanges them back. Call
// between updates.
void ls_run_session_swap_average(ls_run_session *session, int64_t updates);

double ls_run_session_loader_wait_seconds(const ls_run_session *session);    // of this rank, for training pictures
ls_reducer_counts ls_run_session_comm_counts(const ls_run_session *session); // of this rank, since ls_update_new
void ls_run_session_print(const ls_run_session *session, FILE *file);        // print_plan.c, for --dry-run

#endif
