// run_session.h - what runs the updates of a plan: the device with its weights and programs, the inputs, the sums
// over ranks, and the update with the optimizer's state.
//
// It starts as {0}. trainer.c opens it step by step: ls_run_session_begin, _open_device, _place, _open_sums,
// ls_run_choose_micro_batch, _allocate. After that only a trace and the weights of a file add anything. Updates and
// evaluations change what lies in the device's memory. Only the thread that drives the run uses the session; loader
// threads work behind the inputs. Work is enqueued: an error of the device comes from a later call that waits for it
// (LS_DEVICE).
#ifndef LS_TRAIN_RUN_SESSION_H
#define LS_TRAIN_RUN_SESSION_H

#include "device/algorithm_cache.h"
#include "train/class_weights.h"
#include "train/input_pipeline.h"
#include "train/run_plan.h"
#include "train/run_progress.h"
#include "train/trace_window.h"
#include "train/update.h"

// The programs of `compute`: two for each stage, of a whole micro-batch and of the one short micro-batch of an epoch,
// if this rank has one; and one that evaluates, at the data's resolution.
enum { LS_RUN_EVAL_PROGRAM = 2 * LS_STAGE_LIMIT, LS_RUN_PROGRAMS };
_Static_assert((int)LS_RUN_PROGRAMS <= (int)LS_SESSION_PROGRAMS, "ls_session has too few programs for a run");

typedef struct ls_run_session {
    const ls_run_plan *plan;        // borrowed
    ls_session compute;             // device, queue, weights, programs
    ls_algorithm_cache *algorithms; // NULL: the device's rule chooses them. Owned, as all that follows
    ls_collective *collective;      // NULL: sums over ranks go through plan->comm
    ls_update *update;
    int depth;                                         // updates that may be under way: 1 on a device in host memory
    ls_input_pipeline *input, *eval_input, *val_input; // NULL: not needed
    ls_slab *views; // of a test picture, ls_augment_sample[view][plan->eval_batches.micro_batch] (tta.h); NULL: no tta
    ls_class_weights *class_weights; // NULL: all classes count alike
    struct ls_replicas *replicas;    // NULL: the ranks' weights are not compared (diagnose/replicas.h)
    ls_run_trace trace;
} ls_run_session;

// open_session.c.
void ls_run_session_begin(ls_run_session *session, const ls_run_plan *plan);
// Collective. `status` is this rank's so far; all ranks fail if one has. Fills in the plan's facts about the device.
LS_CHECKED ls_status ls_run_session_open_device(ls_run_session *session, ls_run_plan *plan, ls_status status);
// Where each tensor lies; allocates nothing on the device. Call when the plan is complete.
LS_CHECKED ls_status ls_run_session_place(ls_run_session *session);
// Collective: opens what sums gradients over ranks. Call before memory is planned, because a collective takes some.
LS_CHECKED ls_status ls_run_session_open_sums(ls_run_session *session, ls_run_plan *plan);
// Allocates everything in the memory plan, and makes the first weights from the seed. Collective; agree on the status.
LS_CHECKED ls_status ls_run_session_allocate(ls_run_session *session);
void ls_run_session_close(ls_run_session *session); // {0} is allowed; the queue must have finished (ls_session_drain)

// micro_batch.c. Compiles programs that fit into the device of every rank; with train.micro_batch = auto it may make
// plan->info.batches smaller for that. LS_DEVICE: they do not fit. Collective.
LS_CHECKED ls_status ls_run_choose_micro_batch(ls_run_session *session, ls_run_plan *plan);

// autotune.c. Opens session->algorithms if device.autotune wants it. Call before the device is opened.
LS_CHECKED ls_status ls_run_session_open_algorithms(ls_run_session *session);
// Measures algorithms for whole micro-batches; all ranks get the same. Needs session->algorithms. Collective.
LS_CHECKED ls_status ls_run_session_autotune(ls_run_session *session);

// Programs of an epoch: of a whole micro-batch; of one of this rank's micro-batches with so many samples.
const ls_program *ls_run_session_full_program(const ls_run_session *session, int64_t epoch);
const ls_program *ls_run_session_program_for(const ls_run_session *session, int64_t epoch, int samples);

ls_input_pipeline_options ls_run_session_input_options(const ls_run_session *session, ls_split split);
// Starts to read training pictures, from the window after `at` on.
LS_CHECKED ls_status ls_run_session_start_input(ls_run_session *session, const ls_position *at);
LS_CHECKED ls_status ls_run_session_read_ahead(ls_run_session *session, const ls_position *at); // unless it has started

// Enqueues the program that evaluates, on the inputs' pictures in a view (tta.h); 0 is the picture itself.
LS_CHECKED ls_status ls_run_session_run_view(ls_run_session *session, int view, ls_program_inputs *inputs);
// Waits, then copies the logits of that program's last run: (micro-batch, classes).
LS_CHECKED ls_status ls_run_session_read_logits(ls_run_session *session, float *logits);

// With average.kind = ema, is the average evaluated and saved in place of the weights after `updates` updates?
int ls_run_session_shows_average(const ls_run_session *session, int64_t updates);
// If so, weights and average change places; a second call brings them back. Call outside of any update.
void ls_run_session_swap_average(ls_run_session *session, int64_t updates);

double ls_run_session_loader_wait_seconds(const ls_run_session *session);    // of this rank, since the start
ls_reducer_counts ls_run_session_comm_counts(const ls_run_session *session); // of this rank, since the start
void ls_run_session_print(const ls_run_session *session, FILE *file);        // print_plan.c, for --dry-run

#endif
