// plan.h - which arrangements a benchmark measures: the combinations of devices, swept values, kinds
// of scaling and numbers of ranks. Nothing is opened here: what can be refused from the configuration alone
// is refused before anything is measured.
#ifndef LS_TOOLS_BENCH_PLAN_H
#define LS_TOOLS_BENCH_PLAN_H

#include "base/status.h"
#include "config/config.h"

enum { LS_BENCH_CASES_MAX = 64, LS_BENCH_NAME_BYTES = 128 };

typedef struct {
    char name[LS_BENCH_NAME_BYTES];     // "cpu x 2 weak micro_batch=32": no commas
    char settings[LS_BENCH_NAME_BYTES]; // the swept values alone, "" for none
    int ranks;                          // the first ones
    int weak;    // the global batch is that of the configuration times ranks; else that of the configuration
    int setting; // number of (device, swept values): what differs in nothing but ranks and scaling has the same one
    // The case that its efficiency is over: of the same setting and scaling, with the fewest ranks. With one rank
    // strong and weak are the same thing, so it stands for both.
    int base;
    ls_config cfg; // full windows without end
} ls_bench_case;

typedef struct {
    int count;
    ls_bench_case *row;
} ls_bench_plan;

typedef struct {
    const ls_config *cfg;
    const char *const *sweeps; // "ranks=1,2", "micro_batch=32,64", "train.precision=fp32,bf16"
    int sweep_count;
    int strong, weak; // one of them at least
    int world_size;
    const char *gpu; // the word of device.type that every rank could use besides the CPU; NULL: none
} ls_bench_request;

// Without a sweep of ranks: one, and all. Without a sweep of device.type: the configured one; auto: the CPU, and GPUs
// where there are some (the CPU in fp32 where it lacks the configured precision). Order: devices, swept values,
// scaling, ranks. LS_USAGE, naming the swept values: unknown key, value out of range, too many ranks or arrangements,
// a batch that does not divide.
LS_CHECKED ls_status ls_bench_plan_new(const ls_bench_request *request, ls_bench_plan *out);
void ls_bench_plan_free(ls_bench_plan *plan);

#endif
