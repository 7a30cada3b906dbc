// layers.h - `train bench --layers`: compares the time of each instruction of a micro-batch with its floor, the least
// time that the device could need, and the rate of a whole update with the rate of a matrix product.
#ifndef LS_TOOLS_BENCH_LAYERS_H
#define LS_TOOLS_BENCH_LAYERS_H

#include "config/config.h"
#include "dist/comm.h"

// Measures the layers, prints the table, and writes layers.json into the folder unless it is NULL. LS_USAGE: there is
// more than one rank.
LS_CHECKED ls_status ls_bench_layers(const ls_config *cfg, ls_comm *comm, double seconds, const char *folder);

#endif
