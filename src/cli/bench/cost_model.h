// cost_model.h - `train bench CONFIG --model DEVICE`: an update's time and where it goes, by figures.
#ifndef LS_CLI_BENCH_COST_MODEL_H
#define LS_CLI_BENCH_COST_MODEL_H

#include "cli/args.h"
#include "config/config.h"
#include "dist/comm.h"

LS_CHECKED ls_status ls_bench_cost_model(const ls_args *args, const ls_config *cfg, ls_comm *comm);

#endif
