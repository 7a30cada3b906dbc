#include "cli/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "cli/commands.h"

enum { EPOCHS_WITHOUT_END = 1000000 };
static const double peak_seconds = 0.2;
static const double warm_up_share = 0.25; // of a measurement's seconds, at least

// What is measured. device: a word of device.type, NULL for the configured one; ranks: 1, or 0 for all that were
// started.
static const struct {
    const char *device;
    int ranks;
} rows[] = { { NULL, 1 }, { NULL, 0 } };

// ---- setting up ----

static ls_dtype storage_of(const ls_config *cfg) {
    switch (cfg->train_precision) {
    case LS_PRECISION_BF16:
        return LS_BF16;
    case LS_PRECISION_FP16:
        return LS_F16;
    default:
        return LS_F32;
    }
}

// Updates as in training, without end, all of full windows.
static ls_status configure(ls_config *cfg, const char *device) {
    cfg->train_epochs = EPOCHS_WITHOUT_END;
    cfg->train_max_updates = 0;
    cfg->data_drop_last = 1;
    if (!device) return LS_SUCCESS;
    char assignment[64];
    snprintf(assignment, sizeof assignment, "device.type=%s", device);
    return ls_config_set(cfg, assignment);
}

// A rank keeps its number of threads in every arrangement: alone on its host, it would otherwise take its neighbours'
// cores too.
static ls_status open_arrangement(ls_bench *bench, ls_bench_arrangement *a, int threads) {
    if (!a->takes_part) return LS_SUCCESS;
    if (threads > 0) a->cfg.device_threads = threads;
    if (a->ranks == bench->world_size) {
        a->comm = bench->comm;
    } else {
        LS_TRY(ls_comm_self(&a->comm));
        a->owns_comm = 1;
    }
    LS_TRY(ls_trainer_new(&a->cfg, a->comm, &a->trainer));
    a->facts = ls_trainer_about(a->trainer);
    snprintf(a->name, sizeof a->name, "%s x %d", a->facts->device, a->ranks);
    ls_device_options options = { .threads = a->facts->threads, .winograd = "off" };
    return ls_bench_peak_new(a->facts->device, &options, storage_of(&a->cfg), &a->peak);
}

ls_status ls_bench_open(ls_bench *bench, const ls_config *cfg, ls_comm *comm) {
    const ls_comm_facts *about = ls_comm_about(comm);
    *bench = (ls_bench){ .comm = comm, .rank = about->rank, .world_size = about->world_size };
    bench->arrangement = calloc(LS_BENCH_ARRANGEMENTS_MAX, sizeof *bench->arrangement);
    LS_TRY(ls_command_agree(
        comm, bench->arrangement ? LS_SUCCESS : ls_fail(LS_DEVICE, "arrangements: out of host memory")));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int ranks = rows[i].ranks ? rows[i].ranks : bench->world_size;
        if (!rows[i].ranks && bench->world_size == 1) continue; // the row of one rank says it all
        ls_bench_arrangement *a = &bench->arrangement[bench->count++];
        *a = (ls_bench_arrangement){ .ranks = ranks, .takes_part = bench->rank < ranks, .cfg = *cfg };
        LS_TRY(ls_command_agree(comm, configure(&a->cfg, rows[i].device)));
    }
    // The last one has all ranks: it says how many threads a rank has here.
    int threads = 0;
    for (int i = bench->count - 1; i >= 0; i--) {
        ls_bench_arrangement *a = &bench->arrangement[i];
        LS_TRY(ls_command_agree(comm, open_arrangement(bench, a, threads)));
        if (i == bench->count - 1) threads = a->facts->threads;
    }
    return LS_SUCCESS;
}

void ls_bench_close(ls_bench *bench) {
    for (int i = 0; i < bench->count; i++) {
        ls_bench_arrangement *a = &bench->arrangement[i];
        ls_bench_peak_free(a->peak);
        if (a->trainer) ls_trainer_free(a->trainer);
        if (a->owns_comm) ls_comm_finish(a->comm);
    }
    free(bench->arrangement);
    bench->arrangement = NULL;
}

// ---- measuring ----

// Seconds that the slowest rank needs for `updates`.
static ls_status time_updates(ls_bench_arrangement *a, int64_t updates, double *seconds) {
    LS_TRY(ls_comm_barrier(a->comm));
    double start = ls_clock_seconds();
    LS_TRY(ls_trainer_updates(a->trainer, updates, NULL));
    *seconds = ls_clock_seconds() - start;
    return ls_comm_allreduce(a->comm, seconds, 1, LS_F64, LS_REDUCE_MAX);
}

// Doubles until the time is worth measuring. All ranks see the same seconds, so they decide alike.
static ls_status warm_up(ls_bench_arrangement *a, double seconds) {
    double took = 0;
    int64_t updates = 1;
    LS_TRY(time_updates(a, 1, &took));
    for (updates = 1;; updates *= 2) {
        LS_TRY(time_updates(a, updates, &took));
        if (took >= seconds * warm_up_share) break;
    }
    a->updates = llround(seconds * (double)updates / took);
    if (a->updates < 1) a->updates = 1;
    return LS_SUCCESS;
}

// One update outside the measurement: the arrangement before has taken the caches, and the ring is refilled.
static ls_status measure(ls_bench_arrangement *a) {
    double seconds, peak;
    LS_TRY(time_updates(a, 1, &seconds));
    double waited[2] = { -ls_trainer_loader_wait_seconds(a->trainer), -ls_trainer_comm_seconds_exposed(a->trainer) };
    LS_TRY(time_updates(a, a->updates, &seconds));
    waited[0] += ls_trainer_loader_wait_seconds(a->trainer);
    waited[1] += ls_trainer_comm_seconds_exposed(a->trainer);
    LS_TRY(ls_comm_allreduce(a->comm, waited, 2, LS_F64, LS_REDUCE_SUM));
    LS_TRY(ls_bench_peak_measure(a->peak, peak_seconds, &peak));
    LS_TRY(ls_comm_allreduce(a->comm, &peak, 1, LS_F64, LS_REDUCE_SUM));

    a->images_per_second[a->count++] = (double)(a->updates * a->facts->batches.global_batch) / seconds;
    a->train_seconds += seconds;
    a->loader_wait_seconds += waited[0] / a->ranks;
    a->comm_exposed_seconds += waited[1] / a->ranks;
    a->peak_gflops = fmax(a->peak_gflops, peak);
    return LS_SUCCESS;
}

// Ranks that take no part sleep until the others are done. A failure of an arrangement of all ranks cannot be agreed
// afterwards, as others may still wait in its midst; one of fewer ranks can, as all meet at the barrier.
static ls_status settle(ls_bench *bench, const ls_bench_arrangement *a, ls_status status) {
    if (a->ranks == bench->world_size) return ls_command_agree_or_abort(bench->comm, status);
    ls_keep_first(&status, ls_comm_barrier_napping(bench->comm));
    return ls_command_agree(bench->comm, status);
}

ls_status ls_bench_warm_up(ls_bench *bench, double seconds) {
    for (int i = 0; i < bench->count; i++) {
        ls_bench_arrangement *a = &bench->arrangement[i];
        LS_TRY(settle(bench, a, a->takes_part ? warm_up(a, seconds) : LS_SUCCESS));
    }
    return LS_SUCCESS;
}

ls_status ls_bench_round(ls_bench *bench) {
    for (int i = 0; i < bench->count; i++) {
        ls_bench_arrangement *a = &bench->arrangement[i];
        LS_TRY(settle(bench, a, a->takes_part ? measure(a) : LS_SUCCESS));
    }
    return LS_SUCCESS;
}
