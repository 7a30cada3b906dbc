// cmd_bench.c - `train bench CONFIG.ini`: measures training throughput, in turns, of one rank and of all ranks, of the
// CPU and of GPUs, and of each value of --sweep; with --layers, the time of each layer instead.

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "base/atomic_file.h"
#include "base/log.h"
#include "tools/bench/bench.h"
#include "tools/bench/layers.h"
#include "tools/bench/report.h"
#include "command/commands.h"

// Rank 0: makes the folder of the report and checks that it is writable, before minutes of measuring.
static ls_status check_folder(const char *folder, int rank) {
    if (rank != 0) return LS_SUCCESS;
    LS_TRY(ls_make_folders(folder));
    if (access(folder, W_OK | X_OK) == 0) return LS_SUCCESS;
    return ls_fail(LS_STORAGE, "%s: the report cannot be written there: %s; choose a folder by --run-dir", folder,
        strerror(errno));
}

static ls_status measure_all(const ls_args *args, ls_bench *bench) {
    ls_info("warming up");
    LS_TRY(ls_bench_warm_up(bench));
    LS_TRY(ls_bench_links(bench));
    for (int i = 0; i < args->repeats; i++) {
        ls_info("round %d of %d: %.3g s for each of %d arrangement%s", i + 1, args->repeats, args->seconds,
            bench->plan.count, bench->plan.count == 1 ? "" : "s");
        LS_TRY(ls_bench_round(bench));
    }
    return LS_SUCCESS;
}

static ls_status report(const ls_bench *bench, const ls_config *cfg, const char *folder) {
    if (bench->rank != 0) return LS_SUCCESS;
    // Print the tables even if the files could not be written.
    ls_status status = ls_bench_write(bench, cfg, folder);
    int written = !ls_failed(status);
    ls_keep_first(&status, ls_bench_print(bench, stdout));
    if (written) ls_info("report    %s/bench.html; its figures in bench.json", folder);
    return status;
}

ls_status ls_cmd_bench(const ls_args *args, ls_comm *comm) {
    const char *folder = args->run_dir ? args->run_dir : args->layers ? NULL : ".";
    ls_config cfg;
    LS_TRY(ls_command_agree(comm, ls_command_configure(args, comm, &cfg)));
    cfg.train_resolution[strcspn(cfg.train_resolution, ",")] = '\0'; // only the resolution of epoch 0 is measured
    if (folder) LS_TRY(ls_command_agree(comm, check_folder(folder, ls_comm_get_info(comm)->rank)));
    if (args->layers) return ls_command_agree(comm, ls_bench_layers(&cfg, comm, args->seconds / 30, folder));
    ls_bench_request request = { .cfg = &cfg,
        .sweeps = args->sweeps,
        .sweep_count = args->sweep_count,
        .strong = args->scaling != LS_SCALING_WEAK,
        .weak = args->scaling != LS_SCALING_STRONG };
    ls_bench bench;
    ls_status status = ls_bench_open(&bench, request, comm, args->seconds, args->repeats);
    LS_THEN(status, measure_all(args, &bench));
    LS_THEN(status, ls_command_agree(comm, report(&bench, &cfg, folder)));
    LS_THEN(status, ls_bench_outcome(&bench));
    ls_bench_close(&bench);
    return status;
}
