// cmd_bench.c - `train bench CONFIG.ini`: training throughput of one rank and of all, in turns.

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "base/atomic_file.h"
#include "base/log.h"
#include "cli/bench.h"
#include "cli/bench_layers.h"
#include "cli/commands.h"

// Before minutes of measuring, not after.
static ls_status check_folder(const char *folder, int rank) {
    if (rank != 0) return LS_SUCCESS;
    if (folder[0]) LS_TRY(ls_make_folders(folder));
    const char *path = folder[0] ? folder : ".";
    if (access(path, W_OK | X_OK) == 0) return LS_SUCCESS;
    return ls_fail(
        LS_STORAGE, "%s: bench.json cannot be written there: %s; choose a folder by --run-dir", path, strerror(errno));
}

static ls_status measure_all(const ls_args *args, ls_bench *bench) {
    ls_info("warming up");
    LS_TRY(ls_bench_warm_up(bench, args->seconds));
    for (int i = 0; i < args->repeats; i++) {
        ls_info("measurement %d of %d: %.3g s for each of %d arrangement%s", i + 1, args->repeats, args->seconds,
            bench->count, bench->count == 1 ? "" : "s");
        LS_TRY(ls_bench_round(bench));
    }
    return LS_SUCCESS;
}

static ls_status report(const ls_bench *bench, const char *folder) {
    if (bench->rank != 0) return LS_SUCCESS;
    const ls_train_facts *facts = bench->arrangement[0].facts;
    printf("%s on %s, %s, batch %d, %s\n", facts->graph->path, facts->device_facts.name, facts->train_data->name,
        facts->batches.global_batch, ls_config_choice("train.precision", facts->cfg->train_precision));
    LS_TRY(ls_bench_print(bench, stdout));
    puts("GFLOP/s as direct convolution counts them: Winograd needs fewer, so the share of the matmul rate may pass "
         "100 %");
    if (fflush(stdout) != 0) return ls_fail(LS_STORAGE, "standard output: cannot be written");
    return ls_bench_write(bench, folder);
}

ls_status ls_cmd_bench(const ls_args *args, ls_comm *comm) {
    const char *folder = args->run_dir ? args->run_dir : "";
    ls_config cfg;
    LS_TRY(ls_command_agree(comm, ls_command_configure(args, comm, &cfg)));
    LS_TRY(ls_command_agree(comm, check_folder(folder, ls_comm_about(comm)->rank)));
    if (args->layers) return ls_command_agree(comm, ls_bench_layers(&cfg, comm, args->seconds / 30, folder));
    ls_bench bench;
    ls_status status = ls_bench_open(&bench, &cfg, comm);
    if (!ls_failed(status)) status = measure_all(args, &bench);
    if (!ls_failed(status)) status = ls_command_agree(comm, report(&bench, folder));
    ls_bench_close(&bench);
    return status;
}
