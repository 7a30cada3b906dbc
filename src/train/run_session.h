// run_session.h - what runs the updates of a plan: the device with its programs, the inputs, the sums over ranks, and the
// update with the optimizer's state.
//
// It starts as {0}. trainer.c opens it step by step, beside the plan: the device, the place of every tensor, the sums over
// ranks, the programs (ls_run_choose_micro_batch), the memory. After that no function here changes what is allocated: updates and evaluations
// change what lies in the device's memory. Only the thread that drives the run uses it; loader threads work behind the
// inputs. Errors of the device come from the call that waits for it.
#ifndef LS_TRAIN_RUN_SESSION_H
#define LS_TRAIN_RUN_SESSION_H

#include "device/algorithm_cache.h"
#include "files/trace_events.h"
#include "train/class_weights.h"
#include "train/diagnose/replicas.h"
#include "train/input_pipeline.h"
#include "train/run_plan.h"
#include "train/update.h"

// The programs of `compute`: two for each stage, of a whole micro-batch and of the one short micro-batch of an epoch,
// where this rank has one; and one that evaluates, at the data's resolution.
enum { LS_RUN_EVAL_PROGRAM = 2 * LS_STAGE_LIMIT, LS_RUN_PROGRAMS };
_Static_assert((int)LS_RUN_PROGRAMS <= (int)LS_SESSION_PROGRAMS, "a session has room for a run's programs");

// A trace of some updates (trace_window.c). A run without --trace has none.
typedef struct {
    int64_t from, to;      // updates
    int64_t next;          // update before which the trace begins or ends; INT64_MAX: none
    ls_timeline *timeline; // NULL: the run is not traced. Owned
    ls_trace_info info;
    double start_s; // on the clock
} ls_run_trace;

typedef struct {
    const ls_run_plan *plan;        // borrowed
    ls_session compute;             // device, queue, weights, programs
    ls_algorithm_cache *algorithms; // NULL: the device's rule chooses them. Owned, as all that follows
    ls_collective *collective;      // NULL: sums go through plan->comm
    ls_update *update;
    int depth; // updates that may be under way at a time: 1 on a device in host memory
    ls_input_pipeline *input, *eval_input, *val_input;
    ls_slab *views; // of a test picture, ls_augment_sample[view][plan->eval_batches.micro_batch] (tta.h); NULL: no tta
    ls_class_weights *class_weights; // NULL: all classes count alike
    ls_replicas *replicas;           // NULL: the ranks' weights are not compared
    ls_run_trace trace;
} ls_run_session;

#endif
