// cost_scale.h - an update of a configuration on some GPUs of some hosts, predicted: computation by cost.h, sums over ranks by
// dist/allreduce_model.h.
//   update = largest of (computation + exposed sums + optimizer's end, copy of the next pictures from the host)
#ifndef LS_CLI_BENCH_COST_SCALE_H
#define LS_CLI_BENCH_COST_SCALE_H

#include "cli/bench/cost_machine.h"
#include "cli/bench/cost_update.h"

enum { LS_COST_RANKS_MAX = 1024, LS_COST_POINTS_MAX = 64 };

typedef struct {
    int ranks, hosts, weak;
    int global_batch, micro_batch, accumulation;
    double compute_s; // all micro-batches, and what begins the update
    double end_s;     // behind the sums
    double sums_s, exposed_s;
    double copy_s; // pictures from the host's memory
    double update_s, images_per_second;
    double speed_up, efficiency; // over the first point
    int buckets;
    double bucket_bytes, reduced_bytes;
} ls_cost_point;

// Where a figure is asked for: "8" GPUs, "4x8", hosts times GPUs of each.
typedef struct {
    int ranks, hosts;
} ls_cost_place;

// "1,2,4x8" into places, at most LS_COST_POINTS_MAX; NULL: 1, 2, 4, ... 1024. A number alone fills hosts of per_host. LS_USAGE: no such list.
LS_CHECKED ls_status ls_cost_places(const char *list, int per_host, ls_cost_place *places, int *count);

// update: of place->ranks ranks with this batch; times: of its items. gpu NULL: the cpu device, one rank.
LS_CHECKED ls_status ls_cost_at(
    ls_cost_update *update, const ls_cost_time *times, const ls_cost_gpu *gpu, ls_cost_place place, ls_cost_point *out);

#endif
