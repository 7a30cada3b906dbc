// place.h - where ranks run: how many cores several ranks have together, and whether they share cores.
#ifndef LS_TOOLS_BENCH_PLACE_H
#define LS_TOOLS_BENCH_PLACE_H

#include <stddef.h>
#include "system/cpu_mask.h"
#include "dist/device_assignment.h"

typedef struct ls_bench_place { // where one rank runs; plain data, exchanged between ranks
    char host[64];
    char machine[64];    // name of the machine, shared by all its hosts (containers, namespaces)
    ls_cpu_mask mask;    // logical processors that the rank may use; empty: unknown
    double cores_of_cpu; // cores per logical processor: 1, or less if siblings share a core
    double quota;        // number of processors that the control group allows; 0: no limit
} ls_bench_place;

void ls_bench_place_look(const char *host, ls_bench_place *place); // finds out where this rank runs
// Returns how many cores the first `ranks` ranks can keep busy together, with `threads` threads each. *shared: whether
// they have more threads than cores on any machine.
double ls_bench_place_cores(const ls_bench_place *places, int ranks, int threads, int *shared);
int ls_bench_place_hosts(const ls_bench_place *places, int ranks); // the number of different hosts
// Returns the number of different GPUs of the first `ranks` ranks. A GPU without a UUID counts as different from all
// others.
int ls_bench_place_gpus(const ls_rank_info *places, int ranks);
// Returns the host memory that is available without swapping; 0: unknown.
size_t ls_bench_place_free_bytes(void);

#endif
