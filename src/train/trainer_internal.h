// trainer_internal.h - a trainer's parts, shared by trainer.c (planning), compare.c, run.c (updates), evaluate.c,
// weights.c, describe.c.
#ifndef LS_TRAIN_TRAINER_INTERNAL_H
#define LS_TRAIN_TRAINER_INTERNAL_H

#include "train/compile.h"
#include "train/feed.h"
#include "train/schedule.h"
#include "train/trace_events.h"
#include "train/trainer.h"
#include "train/update.h"

// Where a run stands: the update that comes next.
typedef struct {
    int64_t epoch, window, updates, samples;
} ls_position;

// A trace of some updates; nothing in a run without one.
typedef struct {
    int64_t from, to;      // updates
    int64_t next;          // update before which the trace begins or ends; INT64_MAX: none
    ls_timeline *timeline; // NULL: not traced
    ls_trace_facts facts;
    double start_s;
} ls_trainer_tracing;

struct ls_trainer {
    const ls_config *cfg;
    ls_comm *comm;
    ls_train_facts facts;
    ls_graph *graph;
    ls_dataset *train_data, *test_data;
    ls_placing *placement;
    ls_device *device;
    ls_queue *queue;
    ls_collective *collective; // NULL: sums go through comm
    ls_arenas *arenas;
    ls_update *update;
    ls_program *full, *tail, *eval; // tail: the one short micro-batch of an epoch, where this rank has one; else NULL
    ls_slab *activations, *workspace, *table;
    ls_feed *feed, *eval_feed;
    ls_batches eval_batches;
    ls_schedule schedule;
    ls_trainer_tracing tracing;
    int depth;              // updates that may be under way: 1 on a device in host memory
    ls_position done, next; // updates that are retired; those that the device was given
    int64_t skipped;
    float loss_scale;               // of the update that is retired next
    struct ls_nonfinite *nonfinite; // why the run ended; NULL: it did not, or not for that (forensics.h)
    char folder[LS_TEXT_BYTES];     // the run's; "": it has none, or this is not rank 0
    // since the last report, and of this epoch: sums over this rank's micro-batches
    ls_micro_result since_report, of_epoch;
};

// All ranks compare what must be the same (compare.c): LS_COMM with a table where it is not.
LS_CHECKED ls_status ls_trainer_compare_programs(ls_trainer *t); // program and options
LS_CHECKED ls_status ls_trainer_compare_devices(ls_trainer *t);  // when the device is open
LS_CHECKED ls_status ls_trainer_compare_state(ls_trainer *t);    // data and initial weights

LS_CHECKED ls_status ls_trainer_start_feed(ls_trainer *t);                      // at the next update's place
LS_CHECKED ls_status ls_trainer_write_weights(ls_trainer *t, const char *path); // this rank alone
// Gives the device updates while fewer than `depth` are under way and before update number `end`; then retires the
// oldest. LS_NUMERIC on all ranks alike when too many updates in a row were skipped.
LS_CHECKED ls_status ls_trainer_advance(ls_trainer *t, int64_t end, ls_train_state *state);
// One update, given and retired.
LS_CHECKED ls_status ls_trainer_update(ls_trainer *t, ls_train_state *state);

// Update tracing.next comes next and nothing is under way: the trace begins or ends. All ranks.
LS_CHECKED ls_status ls_trainer_turn_trace(ls_trainer *t);

#endif
