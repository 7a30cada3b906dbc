// plan.h - which arrangements a benchmark measures: the combinations of devices, swept values, kinds of scaling and
// numbers of ranks. Planning opens no device or data set. Errors that the configuration alone shows are refused here,
// before anything is measured.
#ifndef LS_TOOLS_BENCH_PLAN_H
#define LS_TOOLS_BENCH_PLAN_H

#include "base/status.h"
#include "config/config.h"

enum { LS_BENCH_CASES_MAX = 64, LS_BENCH_NAME_BYTES = 128 };

typedef struct {
    char name[LS_BENCH_NAME_BYTES];     // "cpu x 2 weak micro_batch=32"; without commas
    char settings[LS_BENCH_NAME_BYTES]; // only the swept values, "micro_batch=32"; "" without a sweep
    int ranks;                          // number of ranks: the lowest ranks of the job take part
    int weak;    // 1 (weak scaling): global batch = configured global batch * ranks; 0 (strong): as configured
    int setting; // number of its combination of device and swept values; cases that share it differ in ranks or weak
    // Index of the case that efficiency compares with: same setting and scaling, fewest ranks. With one rank, strong
    // and weak scaling are the same, so a case of one rank is the base of both.
    int base;
    ls_config cfg; // trains without end, in full batches only
} ls_bench_case;

typedef struct {
    int count;
    ls_bench_case *row;
} ls_bench_plan;

typedef struct {
    const ls_config *cfg;
    const char *const *sweeps; // "ranks=1,2", "micro_batch=32,64", "train.precision=fp32,bf16"
    int sweep_count;
    int strong, weak; // which kinds of scaling to measure; at least one of the two is 1
    int world_size;
    const char *gpu; // word of device.type for the GPU that every rank could use; NULL: no such GPU
} ls_bench_request;

// Makes the plan of a benchmark. Without a sweep of ranks, it has one rank and all ranks. Without a sweep of
// device.type, it has the configured device; for auto, the CPU and request->gpu (then fp16 becomes fp32 on the CPU,
// which has no fp16). Cases are ordered by device, swept values, scaling, ranks. LS_USAGE with the sweep or arrangement
// in the text: unknown key, value out of range, too many ranks or arrangements, a batch that cannot be divided among
// the ranks.
LS_CHECKED ls_status ls_bench_plan_new(const ls_bench_request *request, ls_bench_plan *out);
void ls_bench_plan_free(ls_bench_plan *plan);

#endif
