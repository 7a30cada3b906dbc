// place.h - the processors of the ranks: how many cores several ranks have together, and whether they share them.
#ifndef LS_TOOLS_BENCH_PLACE_H
#define LS_TOOLS_BENCH_PLACE_H

#include <stddef.h>
#include "system/cpu_mask.h"
#include "dist/device_assignment.h"

typedef struct ls_bench_place { // of one rank; plain data, sent between ranks
    char host[64];
    char machine[64];    // the same for all hosts (containers, namespaces) of one machine
    ls_cpu_mask mask;    // logical processors that it may use; empty: unknown
    double cores_of_cpu; // 1, or less if siblings share a core
    double quota;        // processors that the control group allows; 0: no limit
} ls_bench_place;

void ls_bench_place_look(const char *host, ls_bench_place *place);
// The cores that the first `ranks` ranks can keep busy together with so many threads each. *shared: whether they have
// more threads than cores on any machine.
double ls_bench_place_cores(const ls_bench_place *places, int ranks, int threads, int *shared);
int ls_bench_place_hosts(const ls_bench_place *places, int ranks);
// The number of different GPUs. A GPU without a name counts as different from all others.
int ls_bench_place_gpus(const ls_rank_info *places, int ranks);
// Host memory that is available without swapping; 0: unknown.
size_t ls_bench_place_free_bytes(void);

#endif
