// trainer_internal.h - a trainer's parts, shared by trainer.c (planning), run.c (updates), evaluate.c, weights.c,
// describe.c.
#ifndef LS_TRAIN_TRAINER_INTERNAL_H
#define LS_TRAIN_TRAINER_INTERNAL_H

#include "data/loader.h"
#include "train/compile.h"
#include "train/schedule.h"
#include "train/trainer.h"
#include "train/update.h"

// A prefetch ring in pinned memory, and the device's view of each slot.
typedef struct {
    ls_slab *slab;
    ls_slot *slots;
    ls_buffer *pixels, *labels, *placement; // by slot
    int count;
} ls_trainer_ring;

struct ls_trainer {
    const ls_config *cfg;
    ls_comm *comm;
    ls_train_facts facts;
    ls_graph *graph;
    ls_dataset *train_data, *test_data;
    ls_device *device;
    ls_queue *queue;
    ls_arenas *arenas;
    ls_update *update;
    ls_program *full, *tail, *eval; // tail: the one short micro-batch of an epoch, where this rank has one; else NULL
    ls_slab *activations, *workspace, *table;
    ls_trainer_ring ring, eval_ring;
    ls_loader *loader; // NULL until the first update
    ls_batches eval_batches;
    ls_schedule schedule;
    // where the run stands
    int64_t epoch, window, updates, samples;
    int64_t skipped;
    double loader_wait_seconds; // of loaders that are gone
    // since the last report, and of this epoch: sums over this rank's micro-batches
    ls_micro_result since_report, of_epoch;
};

// One update at the current position, which moves on. LS_NUMERIC on all ranks alike when too many updates in a row were
// skipped.
LS_CHECKED ls_status ls_trainer_update(ls_trainer *t, ls_train_state *state);
LS_CHECKED ls_status ls_trainer_ring_new(ls_trainer *t, int slots, int micro_batch, ls_trainer_ring *ring);
void ls_trainer_ring_free(ls_trainer *t, ls_trainer_ring *ring);
void ls_trainer_slot_inputs(const ls_trainer *t, const ls_trainer_ring *ring, int slot, ls_program_inputs *inputs);

#endif
