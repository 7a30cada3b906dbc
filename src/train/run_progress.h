// run_progress.h - where a run stands: position, counters, sums of losses, results and times. Plain data, but for the
// two reports that it owns.
//
// It starts as {0}. Enqueueing an update moves `next`; completing one moves `done` (advance.c). Records, epochs and
// evaluations change the rest (run.c, evaluate.c), and a snapshot that is restored changes all of it (snapshots.c).
// Only the thread that drives the run reads or writes it. All ranks have the same position, counters and results;
// times and the sums of micro-batches are each rank's own.
#ifndef LS_TRAIN_RUN_PROGRESS_H
#define LS_TRAIN_RUN_PROGRESS_H

#include "device/op_update.h"
#include "dist/comm.h"
#include "run/evaluation.h"
#include "run/snapshot.h"
#include "train/schedule.h"

struct ls_nonfinite;

// A place between two updates. `epoch` and `window` say which window comes next, `updates` and `samples` how much is
// done.
typedef struct {
    int64_t epoch, window, updates, samples;
} ls_position;

typedef struct {
    ls_position done, next; // after the updates that are completed; after those that are enqueued
    int64_t last;           // update after which the run ends: what the plan says, or earlier by train.patience
    int stopped_early;      // by train.patience
    int64_t skipped;        // updates
    ls_rescaling rescaling; // of weights, in the updates up to `next`
    float loss_scale;       // of the update that is completed next
    ls_micro_result since_report, of_epoch; // sums over this rank's micro-batches: since the last record, of this epoch
    double last_epoch_loss;                 // mean over the last whole epoch
    ls_train_evaluation evaluation;         // the last evaluation
    ls_evaluation *details;                 // rank 0: of the last evaluation in detail; NULL: there was none. Owned
    struct ls_nonfinite *nonfinite; // why the run ended with LS_NUMERIC; NULL: it did not (nonfinite_search.h). Owned
    double started_s;               // on the clock; 0: the run has not started
    double seconds_before;          // of training, in the parts of the run before this process
    double device_wait_s;           // seconds that the host waited for updates to complete
    ls_train_steady steady, steady_before; // of this process; of the parts before
} ls_run_progress;

void ls_run_progress_close(ls_run_progress *progress); // {0} is allowed

// Moves the position past its window.
void ls_position_move_on(ls_position *position, const ls_batches *batches);
// Ends the run at `done` if the last evaluation was the train.patience-th in a row without improvement.
void ls_run_progress_heed_patience(ls_run_progress *progress, int64_t patience);
void ls_micro_result_add(ls_micro_result *sum, const ls_micro_result *more);
// Collective: loss, correct and count become the sums over all ranks; `bad` stays this rank's own.
LS_CHECKED ls_status ls_micro_result_sum(ls_comm *comm, ls_micro_result *result);

#endif
