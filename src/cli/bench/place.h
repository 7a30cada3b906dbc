// place.h - the processors that ranks have: how many cores several ranks have together, and whether shared.
#ifndef LS_CLI_BENCH_PLACE_H
#define LS_CLI_BENCH_PLACE_H

#include <stddef.h>
#include <stdint.h>
#include "dist/device_assignment.h"

enum { LS_BENCH_MASK_BYTES = 128 };

typedef struct ls_bench_place { // of one rank; plain data, sent between ranks
    char host[64];
    char machine[64];                  // what hosts have in common that are one machine: containers, namespaces
    uint8_t mask[LS_BENCH_MASK_BYTES]; // logical processors that it may use; all 0: unknown
    double cores_of_cpu;               // 1, or less where siblings share a core
    double quota;                      // processors that the control group allows; 0: no limit
} ls_bench_place;

void ls_bench_place_look(const char *host, ls_bench_place *place);
// Of the first `ranks` ranks, with so many threads each: the cores that they can keep busy together, and whether they
// have more threads than cores on any machine.
double ls_bench_place_cores(const ls_bench_place *places, int ranks, int threads, int *shared);
int ls_bench_place_hosts(const ls_bench_place *places, int ranks);
// Different GPUs; a rank whose GPU has no name counts as one of its own.
int ls_bench_place_gpus(const ls_rank_info *places, int ranks);
// Host memory that can be had without swapping; 0: unknown.
size_t ls_bench_place_free_bytes(void);

#endif
