// bench.h - training throughput of several arrangements of devices and ranks, measured in turns and put side by side.
//
// An arrangement is a row of a table in bench.c: a kind of device, and one rank or all. A rank that takes no part in
// one sleeps.
#ifndef LS_CLI_BENCH_H
#define LS_CLI_BENCH_H

#include "base/json.h"
#include "cli/bench_peak.h"
#include "config/config.h"
#include "dist/comm.h"
#include "train/trainer.h"

enum { LS_BENCH_ARRANGEMENTS_MAX = 8, LS_BENCH_REPEATS_MAX = 1000 };

typedef struct {
    char name[48]; // "cpu x 2"
    int ranks;
    int takes_part; // this rank
    ls_config cfg;
    ls_comm *comm; // of the ranks that take part; NULL on others
    int owns_comm;
    ls_trainer *trainer; // NULL on ranks that do not take part, as are the next two
    ls_bench_peak *peak;
    const ls_train_facts *facts;
    int64_t updates; // of one measurement
    // results, on rank 0
    int count;
    double images_per_second[LS_BENCH_REPEATS_MAX];
    double train_seconds, loader_wait_seconds, comm_exposed_seconds; // sums over measurements and mean over ranks
    double peak_gflops;                                              // of its ranks together, the best seen
} ls_bench_arrangement;

typedef struct {
    ls_comm *comm;
    int rank, world_size;
    int count;
    ls_bench_arrangement *arrangement; // LS_BENCH_ARRANGEMENTS_MAX
} ls_bench;

// The statuses are agreed, and their messages printed, as those of commands.h.
LS_CHECKED ls_status ls_bench_open(ls_bench *bench, const ls_config *cfg, ls_comm *comm);
void ls_bench_close(ls_bench *bench);
// Warms every arrangement up and decides how many updates fill `seconds`.
LS_CHECKED ls_status ls_bench_warm_up(ls_bench *bench, double seconds);
// Measures every arrangement once.
LS_CHECKED ls_status ls_bench_round(ls_bench *bench);

// What is derived from the results of an arrangement, beside the first as the base.
typedef struct {
    double median, lowest, highest;   // images/s
    double spread;                    // (highest - lowest) / median
    double speed_up, efficiency;      // over the first arrangement; divided by the ratio of ranks
    double loader_wait, comm_exposed; // shares of the time
    double gflops, share_of_peak;
} ls_bench_figures;

ls_bench_figures ls_bench_figures_of(const ls_bench *bench, int index);
LS_CHECKED ls_status ls_bench_print(const ls_bench *bench, FILE *file);
// bench.json and bench.csv into folder ("" or a path).
LS_CHECKED ls_status ls_bench_write(const ls_bench *bench, const char *folder);

#endif
