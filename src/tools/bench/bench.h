// bench.h - measures the training throughput of the arrangements of a plan (plan.h) in turns. Every round measures
// every arrangement once, and each round begins with another arrangement. Ranks outside an arrangement sleep meanwhile.
//
// An arrangement of several CPU ranks is measured twice per round: first as it is, then with every rank training its
// share by itself, all at the same time. The second measurement has the same computation on the same shared cores,
// caches and memory, but no communication.
#ifndef LS_TOOLS_BENCH_BENCH_H
#define LS_TOOLS_BENCH_BENCH_H

#include "tools/bench/figures.h"
#include "tools/bench/peak.h"
#include "tools/bench/plan.h"
#include "dist/comm.h"
#include "train/trainer.h"

typedef struct {
    int takes_part; // whether this rank is in the arrangement
    ls_comm *comm;  // joins the ranks of the arrangement; NULL on all other ranks; borrowed
    int is_open;
    ls_trainer *trainer; // NULL while the arrangement is closed
    ls_trainer *alone;   // trains this rank's share without communication; NULL for one rank and for GPUs
    ls_config alone_cfg;
    ls_bench_peak *peak;
    int64_t updates; // number of updates in one measurement
} ls_bench_arrangement;

typedef struct {
    ls_comm *comm, *self; // all ranks; this rank alone
    int rank, world_size;
    double seconds; // intended length of one measurement
    int repeats;    // intended number of rounds
    ls_bench_plan plan;
    ls_bench_arrangement *arrangement; // [plan.count]
    ls_bench_result *result;           // [plan.count]; complete on rank 0
    ls_comm **subset;                  // subset[n] joins the first n ranks; NULL if unused or without this rank
    struct ls_bench_place *place;      // [world_size]: where each rank runs
    ls_bench_link *link;               // [link_count], by rising number of ranks
    int link_count;
    int threads;  // threads of each rank, in arrangements that do not set device.threads
    int in_turns; // memory does not hold all arrangements together, so each is opened anew for every measurement
    int rounds;   // finished rounds
} ls_bench;

// Opens a benchmark: makes the plan, collects where the ranks run, and makes a communicator for each smaller number of
// ranks. It sets request.world_size and request.gpu itself. All ranks call all functions of this file. All ranks get
// the same status, and one of them has printed its message (commands.h).
LS_CHECKED ls_status ls_bench_open(
    ls_bench *bench, ls_bench_request request, ls_comm *comm, double seconds, int repeats);
void ls_bench_close(ls_bench *bench);
// Opens every arrangement, does its first updates, and decides how many updates fill a measurement. If an arrangement
// fails and no rank is left waiting (out of memory, numerical failure), it is left out from then on and its result has
// the message. Every other failure ends the benchmark.
LS_CHECKED ls_status ls_bench_warm_up(ls_bench *bench);
// Measures every arrangement once, except those that were left out.
LS_CHECKED ls_status ls_bench_round(ls_bench *bench);
// Measures all-reduces of host memory for `seconds` with each number of ranks that a CPU arrangement has.
LS_CHECKED ls_status ls_bench_links(ls_bench *bench);
// Returns the failure of the first arrangement that was left out, or success.
LS_CHECKED ls_status ls_bench_outcome(const ls_bench *bench);

#endif
