// bench.h - measures the training throughput of the arrangements of a plan (plan.h) in turns. Every round measures
// every arrangement once, and each round begins with another arrangement. Ranks that take no part sleep.
//
// An arrangement on CPU ranks is measured twice per round: as it is, and with every rank training its share by itself
// at the same time. The second measurement has the same computation on the same shared cores, caches and memory, but no
// communication.
#ifndef LS_TOOLS_BENCH_BENCH_H
#define LS_TOOLS_BENCH_BENCH_H

#include "tools/bench/figures.h"
#include "tools/bench/peak.h"
#include "tools/bench/plan.h"
#include "dist/comm.h"
#include "train/trainer.h"

typedef struct {
    int takes_part; // this rank
    ls_comm *comm;  // of the ranks that take part; NULL on others; borrowed
    int is_open;
    ls_trainer *trainer; // while it is open
    ls_trainer *alone;   // this rank's share by itself; NULL: one rank, or on a device with memory of its own
    ls_config alone_cfg;
    ls_bench_peak *peak;
    int64_t updates; // of one measurement
} ls_bench_arrangement;

typedef struct {
    ls_comm *comm, *self;
    int rank, world_size;
    double seconds; // of one measurement
    int repeats;
    ls_bench_plan plan;
    ls_bench_arrangement *arrangement; // plan.count
    ls_bench_result *result;           // plan.count; complete on rank 0
    ls_comm **subset;                  // by number of ranks; NULL: not made, or this rank is not in it
    struct ls_bench_place *place;      // by rank
    ls_bench_link *link;               // plan.count at most, by number of ranks
    int link_count;
    int threads;  // of a rank in every arrangement, where the configuration does not say
    int in_turns; // the arrangements do not fit into memory together: each is opened for every measurement
    int rounds;   // done
} ls_bench;

// Plans, collects the places of the ranks, and makes the communicators of fewer ranks. Fills in the request's
// world_size and gpu. All ranks call all functions of this file. Their statuses are agreed and printed (commands.h).
LS_CHECKED ls_status ls_bench_open(
    ls_bench *bench, ls_bench_request request, ls_comm *comm, double seconds, int repeats);
void ls_bench_close(ls_bench *bench);
// Opens every arrangement, does its first updates, and decides how many updates fill a measurement. An arrangement
// whose failure leaves no rank waiting (memory, numerics) is left out from then on, with its message in the result.
// Every other failure ends the benchmark.
LS_CHECKED ls_status ls_bench_warm_up(ls_bench *bench);
// Measures every arrangement once.
LS_CHECKED ls_status ls_bench_round(ls_bench *bench);
// Measures all-reduces of host memory for every number of ranks, `seconds` for each.
LS_CHECKED ls_status ls_bench_links(ls_bench *bench);
// The first failure among the results, as a status.
LS_CHECKED ls_status ls_bench_outcome(const ls_bench *bench);

#endif
