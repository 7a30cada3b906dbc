// cost_update.h - all that an update of a configuration enqueues on one of `ranks` ranks, as items of cost.h: the compiled program's
// instructions, and what comes before and after them (train/update.c). Nothing is allocated on a device, no data is read unless only
// they say what pictures are like, and no GPU is needed: programs for one are compiled for the null device with a GPU's layouts.
#ifndef LS_CLI_BENCH_COST_UPDATE_H
#define LS_CLI_BENCH_COST_UPDATE_H

#include "cli/bench/cost_machine.h"
#include "config/config.h"
#include "data/sampler.h"
#include "device/gpu/norm_rule.h"
#include "model/graph.h"
#include "program/optimizer.h"
#include "program/session.h"

typedef struct {
    double bytes;
    int after; // complete when so many items are done
} ls_cost_bucket;

typedef struct {
    const ls_config *cfg; // borrowed
    int ranks, hosts, is_gpu;
    ls_cuda_norm_gpu norm_gpu; // is_gpu
    ls_batches batches;
    int64_t parameters;
    ls_chw picture; // as it comes to the device
    ls_cost_item *items;
    int item_count;
    ls_cost_bucket *buckets; // what several ranks sum, in launch order
    int bucket_count;
    double bucket_bytes; // about so many, where tensors are not larger
    int first;           // item: the program's first instruction
    // what the items are of
    ls_graph *graph, *resized; // resized: of train.resolution's first epoch; NULL: it is the data's
    ls_param_rules *rules;
    ls_device *device;
    ls_device_api layouts; // the null device's with a GPU's
    ls_param_store *store;
    ls_program *program;
    ls_optimizer *optimizer;
} ls_cost_update;

// gpu: NULL for the cpu device, which is opened (and is `device`). LS_USAGE: what the configuration cannot be on so many ranks, or on
// that device.
LS_CHECKED ls_status ls_cost_update_new(
    const ls_config *cfg, int ranks, int hosts, const ls_cost_gpu *gpu, ls_cost_update **out);
void ls_cost_update_free(ls_cost_update *update); // NULL is allowed

#endif
