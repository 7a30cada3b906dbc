// run_plan.h - facts fixed before the first update: ranks, network, data, stages, batches, rules, schedule.
//
// trainer.c makes the plan with ls_run_plan_begin, ls_run_plan_open_network, ls_run_plan_take_data and
// ls_run_plan_complete. Two steps of the session also change the plan before it is final. Opening the device fills in
// the device's facts. ls_run_choose_micro_batch (run_session.h) may make the batches smaller until the programs fit
// into the device of every rank. Until the first update, the caller may also set the identity of the run, the file of
// the first weights, and the checkpoint to resume from. From then on the plan is constant, and any thread may read it.
#ifndef LS_TRAIN_RUN_PLAN_H
#define LS_TRAIN_RUN_PLAN_H

#include "dist/device_assignment.h"
#include "run/run_info.h"
#include "program/session.h"
#include "train/data_reading.h"
#include "train/schedule.h"

// A stage of a run: a range of epochs, from `epoch` to the next stage, which use the same programs (stages.c).
typedef struct {
    int64_t epoch; // first epoch of the stage
    int h, w;      // resolution in pixels
    int ended;     // number of learning rates that have already ended
    // The network at this resolution, owned. NULL: the stage has the data's resolution or an earlier stage's programs.
    ls_graph *resized;
} ls_stage;

struct ls_weights_map;

typedef struct ls_run_plan {
    const ls_config *cfg; // borrowed
    ls_comm *comm;        // borrowed
    int evaluates;        // 1: the run only evaluates; no training program and no training input are opened
    ls_train_info info;   // the facts of the plan as plain data, for observers and files
    ls_graph *graph;      // owned, like all pointers below
    ls_stage stage[LS_STAGE_LIMIT];
    int stage_count;
    ls_param_rules *rules;
    // val_data: pictures held out for validation; train_data owns it. NULL: none are held out.
    ls_dataset *train_data, *test_data, *val_data;
    ls_device_assignment *assignment;
    ls_batches eval_batches, val_batches; // for evaluations; the batches of training are info.batches
    ls_schedule schedule;
    // Rank 0: which file tensor each first weight comes from; NULL: weights come from the seed
    struct ls_weights_map *init_map;
    cJSON *parts; // the same object as info.parts; the plan owns it
} ls_run_plan;

// Begins a plan. cfg and comm must outlive it. evaluates: 1 if the run only evaluates.
void ls_run_plan_begin(ls_run_plan *plan, const ls_config *cfg, ls_comm *comm, int evaluates);
// Reads the network. Waits for the training data if the network's file refers to its shape. LS_USAGE: the network's
// file is not valid.
LS_CHECKED ls_status ls_run_plan_open_network(ls_run_plan *plan, ls_data_reading *train);
// Waits until the data sets are open, and takes them over. LS_DATA: a data set cannot be read.
LS_CHECKED ls_status ls_run_plan_take_data(ls_run_plan *plan, ls_data_reading *train, ls_data_reading *test);
// Call after network, data and device are known. Makes rules, stages, batches and schedule. LS_USAGE: options conflict.
// LS_DATA: the splits have different shapes or classes.
LS_CHECKED ls_status ls_run_plan_complete(ls_run_plan *plan);
void ls_run_plan_close(ls_run_plan *plan); // a plan of {0} is allowed
// Sets the record of the run's parts. Takes ownership of `parts`, even if it fails.
LS_CHECKED ls_status ls_run_plan_set_parts(ls_run_plan *plan, cJSON *parts);

// Divides the run into stages. Implemented in stages.c. Call after the network, its rules and the shape of the data are
// known. LS_USAGE: train.resolution has a resolution that the network cannot take.
LS_CHECKED ls_status ls_run_plan_open_stages(ls_run_plan *plan);
void ls_run_plan_close_stages(ls_run_plan *plan);
// Returns the stage whose programs this epoch uses: the first stage with the same resolution and ended rates.
int ls_run_plan_stage_of(const ls_run_plan *plan, int64_t epoch);
int ls_run_plan_has_stage(const ls_run_plan *plan, int stage); // whether the stage exists and has its own programs
const ls_graph *ls_run_plan_graph_of(const ls_run_plan *plan, int stage);

// Sets info.batches, the sizes of batches and micro-batches, from the configuration. Implemented in micro_batch.c.
// LS_USAGE: the run cannot be trained in such batches.
LS_CHECKED ls_status ls_run_plan_cut_batches(ls_run_plan *plan);

// Implemented in verify_pictures.c. Reads and decodes every training picture once if the data set consists of picture
// files, except pictures that an earlier start has packed. LS_DATA on all ranks: some pictures cannot be read. With
// data.broken = skip, other pictures replace them instead. Collective.
LS_CHECKED ls_status ls_run_plan_verify_pictures(ls_run_plan *plan);
// Reads and decodes every test and validation picture once, like ls_run_plan_verify_pictures. data.broken = skip leaves
// broken pictures out of the sets. Collective.
LS_CHECKED ls_status ls_run_plan_verify_test_pictures(ls_run_plan *plan);

#endif
