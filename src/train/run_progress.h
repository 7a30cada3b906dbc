// run_progress.h - how far a run has come. Plain data, except two reports that it owns.
//
// It starts as {0}. Enqueueing an update moves `next`, and completing an update moves `done` (advance.c). Records,
// epochs and evaluations change the other fields (run.c, evaluate.c). Restoring a snapshot changes all of them
// (snapshots.c). Only the thread that drives the run reads or writes this struct. Position, counters and results are
// the same on all ranks; times and the sums over micro-batches are each rank's own.
#ifndef LS_TRAIN_RUN_PROGRESS_H
#define LS_TRAIN_RUN_PROGRESS_H

#include "device/op_update.h"
#include "dist/comm.h"
#include "run/evaluation.h"
#include "run/snapshot.h"
#include "run/startup_times.h"
#include "train/schedule.h"

struct ls_nonfinite;

// A position between two updates: `epoch` and `window` of the next window; `updates` and `samples` done so far.
typedef struct {
    int64_t epoch, window, updates, samples;
} ls_position;

typedef struct {
    ls_position done, next; // position after the completed updates; position after the enqueued updates
    int64_t last;           // number of updates at which the run ends: as planned, or earlier by train.patience
    int64_t pause;          // number of updates after which ls_run_to_end also returns; 0: no pause
    int stopped_early;      // 1: train.patience ended the run
    int64_t skipped;        // number of skipped updates
    ls_rescaling rescaling; // which of the updates up to `next` rescale weights
    float loss_scale;       // loss scale of the update that is completed next
    // Sums over this rank's micro-batches since the last record, and since the start of the epoch.
    ls_micro_result since_report, of_epoch;
    double last_epoch_loss;         // mean loss of the last finished epoch
    ls_train_evaluation evaluation; // the last evaluation
    ls_evaluation *details;         // rank 0: the last detailed evaluation; NULL: no such evaluation. Owned
    // The report of the loss or gradient that was not finite and ended the run (nonfinite_search.h); or NULL. Owned
    struct ls_nonfinite *nonfinite;
    ls_startup_times startup;              // phases up to the end of this process's first update
    double started_s;                      // time at which the run started; 0: it has not started
    double seconds_before;                 // duration of the earlier parts of a resumed run
    double device_wait_s;                  // seconds that the host waited for updates to complete
    ls_train_steady steady, steady_before; // training time and samples of this process; of the earlier parts
} ls_run_progress;

void ls_run_progress_close(ls_run_progress *progress); // {0} is allowed

// Moves the position to the next window, or from an epoch's last window to the next epoch.
void ls_position_move_on(ls_position *position, const ls_batches *batches);
// Ends the run at `done` if the last `patience` evaluations in a row brought no improvement. patience 0: never.
void ls_run_progress_heed_patience(ls_run_progress *progress, int64_t patience);
void ls_micro_result_add(ls_micro_result *sum, const ls_micro_result *more);
// Collective: replaces loss, correct and count by their sums over all ranks. `bad` remains this rank's own.
LS_CHECKED ls_status ls_micro_result_sum(ls_comm *comm, ls_micro_result *result);

#endif
