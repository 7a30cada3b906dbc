// layers.h - `train bench --layers`: the time of each instruction of a micro-batch, beside the least that the device
// could take for it (its floor), and how a whole update compares with a matrix product.
#ifndef LS_TOOLS_BENCH_LAYERS_H
#define LS_TOOLS_BENCH_LAYERS_H

#include "config/config.h"
#include "dist/comm.h"

// Prints the table, and writes layers.json into the folder, if it is not NULL. One rank only: LS_USAGE for several.
LS_CHECKED ls_status ls_bench_layers(const ls_config *cfg, ls_comm *comm, double seconds, const char *folder);

#endif
