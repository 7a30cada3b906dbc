// run_plan.h - what is decided about a run before its first update: options, ranks, network, data, stages, batches, rules,
// schedule.
//
// The plan is built in three steps, between which the device is opened (trainer.c): ls_run_plan_open, ls_run_plan_read, and
// ls_run_choose_micro_batch (run_session.h), which may shrink the batches until the programs fit into every rank's device.
// Until the first update the run's identity, its record of parts, the file of first weights and the place to go on from may
// still be set. After that nothing changes. Any thread may read it.
#ifndef LS_TRAIN_RUN_PLAN_H
#define LS_TRAIN_RUN_PLAN_H

#include "dist/device_assignment.h"
#include "files/run_info.h"
#include "program/session.h"
#include "train/schedule.h"

struct ls_weights_fit;
struct ls_weights_map;
struct ls_safetensors;

// Epochs from `epoch` on that have programs of their own (stages.c).
typedef struct {
    int64_t epoch;     // the first
    int h, w;          // resolution, pixels
    int ended;         // learning rates that have come to their end
    ls_graph *resized; // NULL: at the data's resolution, or as an earlier stage. Owned
} ls_stage;

typedef struct {
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

#endif
