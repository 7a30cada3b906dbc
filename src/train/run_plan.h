// run_plan.h - what is decided about a run before its first update: options, ranks, network, data, stages, batches,
// rules, schedule.
//
// trainer.c opens it: ls_run_plan_begin, ls_run_plan_open_network, ls_run_plan_take_data, ls_run_plan_complete. Two
// steps need the device of the session, too, and change the plan before it is final: opening the device fills in its
// facts, and ls_run_choose_micro_batch (run_session.h) may make the batches smaller until the programs fit into every
// rank's device. Until the first update, the caller may still set the run's identity, the file of the first weights
// and the checkpoint to go on from. After that the plan does not change, and any thread may read it.
#ifndef LS_TRAIN_RUN_PLAN_H
#define LS_TRAIN_RUN_PLAN_H

#include "dist/device_assignment.h"
#include "run/run_info.h"
#include "program/session.h"
#include "train/data_reading.h"
#include "train/schedule.h"

// Epochs from `epoch` on that have programs of their own (stages.c).
typedef struct {
    int64_t epoch;     // the first
    int h, w;          // resolution, pixels
    int ended;         // learning rates that have come to their end
    ls_graph *resized; // NULL: at the data's resolution, or as an earlier stage. Owned
} ls_stage;

struct ls_weights_map;

typedef struct ls_run_plan {
    const ls_config *cfg; // borrowed
    ls_comm *comm;        // borrowed
    int evaluates;        // no training: neither a training program nor a training input is opened
    ls_train_info info;   // the same facts as plain data, for observers and files
    ls_graph *graph;      // owned, as all that follows
    ls_stage stage[LS_STAGE_LIMIT];
    int stage_count;
    ls_param_rules *rules;
    ls_dataset *train_data, *test_data, *val_data; // val_data: held out of train_data, which owns it; NULL: none is
    ls_device_assignment *assignment;
    ls_batches eval_batches, val_batches; // of an evaluation; those of training are info.batches
    ls_schedule schedule;
    struct ls_weights_map *init_map; // rank 0: what the first weights come from; NULL: the seed
    cJSON *parts;                    // info.parts, of which this is the owner
} ls_run_plan;

// cfg and comm must outlive the plan.
void ls_run_plan_begin(ls_run_plan *plan, const ls_config *cfg, ls_comm *comm, int evaluates);
// LS_USAGE: the network's file. It may wait for the training data, whose shape a network can ask for.
LS_CHECKED ls_status ls_run_plan_open_network(ls_run_plan *plan, ls_data_reading *train);
// Waits for the data. LS_DATA: it cannot be read.
LS_CHECKED ls_status ls_run_plan_take_data(ls_run_plan *plan, ls_data_reading *train, ls_data_reading *test);
// Call when network, data and device are known: rules, stages, batches and schedule. LS_USAGE: they do not go together.
LS_CHECKED ls_status ls_run_plan_complete(ls_run_plan *plan);
void ls_run_plan_close(ls_run_plan *plan); // {0} is allowed
LS_CHECKED ls_status ls_run_plan_set_parts(
    ls_run_plan *plan, cJSON *parts); // takes ownership of parts, also if it fails

// stages.c. Call when the network, its rules and the shape of the data are known. LS_USAGE: train.resolution asks for a
// resolution that the network cannot take.
LS_CHECKED ls_status ls_run_plan_open_stages(ls_run_plan *plan);
void ls_run_plan_close_stages(ls_run_plan *plan);
int ls_run_plan_stage_of(const ls_run_plan *plan, int64_t epoch); // index of the first stage with the same programs
int ls_run_plan_has_stage(const ls_run_plan *plan, int stage); // there is such a stage, and it has programs of its own
const ls_graph *ls_run_plan_graph_of(const ls_run_plan *plan, int stage);

// micro_batch.c: sets info.batches as the configuration says. LS_USAGE: the run cannot be trained in such batches.
LS_CHECKED ls_status ls_run_plan_cut_batches(ls_run_plan *plan);

// verify_pictures.c: reads and decodes every training picture of a set of files once, unless it is packed from an
// earlier start. LS_DATA on all ranks if some cannot be read; with data.broken = skip, other pictures take their
// places. Collective.
LS_CHECKED ls_status ls_run_plan_verify_pictures(ls_run_plan *plan);
// The same for the test and validation pictures. Pictures that are left out reduce info.test_data->count.
LS_CHECKED ls_status ls_run_plan_verify_test_pictures(ls_run_plan *plan);

#endif
