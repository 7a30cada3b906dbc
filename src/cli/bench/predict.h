// predict.h - efficiency as the model of links (dist/allreduce_model.h) predicts it, beside what was measured, and for
// more ranks than there are. Pure functions of what was measured. docs/scaling.md has the formulas.
//
// Computation is measured, not modelled: for numbers of ranks that were measured it is their training without
// communication (on the cores that they shared); for others that of one rank, which is to say that every further rank
// has cores of its own. Only communication is modelled.
#ifndef LS_CLI_BENCH_PREDICT_H
#define LS_CLI_BENCH_PREDICT_H

#include "cli/bench/figures.h"

// All-reduces as measured over the first `ranks` ranks.
typedef struct {
    int ranks;
    int shared; // ranks that shared cores
    ls_allreduce_samples samples;
    ls_allreduce_model model;
} ls_bench_link;

enum { LS_BENCH_PREDICTED_RANKS_MAX = 1024, LS_BENCH_REMARK_BYTES = 160 };

typedef struct {
    int base; // result of one rank that efficiency is over
    int weak;
    int ranks, hosts;
    int result;      // that measured it; -1: none
    double update_s; // by the algorithm that fits what was measured, as the next one
    double efficiency;
    double ring, tree;                  // efficiency by these algorithms
    double measured;                    // efficiency; NAN: not measured
    double difference;                  // measured / predicted - 1
    int notable;                        // it is more than LS_BENCH_NOTABLE
    char remark[LS_BENCH_REMARK_BYTES]; // its likely reason
} ls_bench_prediction;

extern const double LS_BENCH_NOTABLE; // 0.15

// For every result of one rank on a device whose sums go through host memory: 2, 4, ... 1024 ranks and what was
// measured, of strong and of weak scaling as far as each was measured; strong only while the global batch divides.
// *rows: to be freed by the caller; *count may be 0. links: in any order.
LS_CHECKED ls_status ls_bench_predict(const ls_bench_result *results, int result_count, const ls_bench_link *links,
    int link_count, ls_bench_prediction **rows, int *count);

#endif
