#include "tools/bench/bench.h"

#include <math.h>
#include <string.h>
#include "base/clock.h"
#include "system/cpus.h"
#include "base/log.h"
#include "base/memory.h"
#include "tools/bench/place.h"
#include "command/commands.h"

static const double PEAK_SECONDS = 0.2;
static const double WARM_UP_SHARE = 0.25;   // the warm-up takes at least this share of a measurement's time
static const double MEMORY_HEADROOM = 1.25; // free host memory that an arrangement must find, over its planned bytes

// --- setting up ----------------------------------------------------------------------------------

// Finds the word of device.type for GPUs, if device.type is auto and every rank has a GPU. Otherwise *type is NULL.
static ls_status find_gpus(const ls_config *cfg, ls_comm *comm, const char **type) {
    ls_device_gpu first;
    int32_t count = 0;
    *type = NULL;
    if (cfg->device_type == LS_DEVICE_TYPE_AUTO && ls_failed(ls_device_gpus("auto", &first, 1, &count, type)))
        count = 0;
    LS_TRY(ls_comm_allreduce(comm, &count, 1, LS_I32, LS_REDUCE_MIN));
    if (count == 0) *type = NULL;
    return LS_SUCCESS;
}

// Gives each rank the same number of threads in every arrangement. Otherwise a rank that is alone on its host would
// also use the cores that its neighbours have in other arrangements.
static ls_status agree_on_threads(ls_bench *bench) {
    ls_cpus cpus;
    ls_cpus_detect(&cpus);
    int32_t threads = ls_cpus_threads_per_rank(&cpus, ls_comm_get_info(bench->comm)->local_size);
    LS_TRY(ls_comm_allreduce(bench->comm, &threads, 1, LS_I32, LS_REDUCE_MIN));
    bench->threads = threads;
    for (int i = 0; i < bench->plan.count; i++)
        if (bench->plan.row[i].cfg.device_threads == 0) bench->plan.row[i].cfg.device_threads = threads;
    return LS_SUCCESS;
}

static ls_status look_at_places(ls_bench *bench) {
    ls_bench_place mine;
    ls_bench_place_look(ls_comm_get_info(bench->comm)->host, &mine);
    return ls_comm_allgather(bench->comm, &mine, bench->place, sizeof mine);
}

// Makes one communicator for each number of ranks that the plan's arrangements have.
static ls_status make_subsets(ls_bench *bench) {
    LS_TRY(ls_comm_self(&bench->self));
    bench->subset[bench->world_size] = bench->comm;
    for (int i = 0; i < bench->plan.count; i++) {
        int ranks = bench->plan.row[i].ranks, seen = ranks == bench->world_size;
        for (int j = 0; j < i; j++) seen |= bench->plan.row[j].ranks == ranks;
        if (!seen) LS_TRY(ls_comm_first(bench->comm, ranks, &bench->subset[ranks]));
        bench->arrangement[i].takes_part = bench->rank < ranks;
        bench->arrangement[i].comm = bench->subset[ranks];
    }
    return LS_SUCCESS;
}

static ls_status allocate(ls_bench *bench) {
    size_t count = (size_t)bench->plan.count, ranks = (size_t)bench->world_size;
    LS_TRY(LS_NEW(bench->arrangement, count, "%zu arrangements", count));
    LS_TRY(LS_NEW(bench->result, count, "%zu arrangements", count));
    LS_TRY(LS_NEW(bench->subset, ranks + 1, "%zu arrangements", count));
    LS_TRY(LS_NEW(bench->place, ranks, "%zu arrangements", count));
    LS_TRY(LS_NEW(bench->link, count, "%zu arrangements", count));
    for (size_t i = 0; i < count; i++) {
        LS_TRY(LS_NEW(bench->result[i].sample, bench->repeats, "measurements"));
    }
    return LS_SUCCESS;
}

ls_status ls_bench_open(ls_bench *bench, ls_bench_request request, ls_comm *comm, double seconds, int repeats) {
    const ls_comm_info *self = ls_comm_get_info(comm);
    *bench = (ls_bench){
        .comm = comm, .rank = self->rank, .world_size = self->world_size, .seconds = seconds, .repeats = repeats
    };
    request.world_size = self->world_size;
    LS_TRY(ls_command_agree(comm, find_gpus(request.cfg, comm, &request.gpu)));
    LS_TRY(ls_command_agree(comm, ls_bench_plan_new(&request, &bench->plan)));
    LS_TRY(ls_command_agree(comm, allocate(bench)));
    ls_status status = agree_on_threads(bench);
    if (!ls_failed(status)) status = look_at_places(bench);
    if (!ls_failed(status)) status = make_subsets(bench);
    return ls_command_agree(comm, status);
}

// --- opening and closing an arrangement ----------------------------------------------------------

static void close_arrangement(ls_bench_arrangement *a) {
    ls_bench_peak_free(a->peak);
    if (a->alone) ls_trainer_free(a->alone);
    if (a->trainer) ls_trainer_free(a->trainer);
    a->peak = NULL;
    a->alone = a->trainer = NULL;
    a->is_open = 0;
}

void ls_bench_close(ls_bench *bench) {
    for (int i = 0; i < bench->plan.count; i++) {
        if (bench->arrangement) close_arrangement(&bench->arrangement[i]);
        if (bench->result) free(bench->result[i].sample);
    }
    for (int ranks = 1; bench->subset && ranks <= bench->world_size; ranks++)
        if (bench->subset[ranks] && bench->subset[ranks] != bench->comm) ls_comm_finish(bench->subset[ranks]);
    if (bench->self) ls_comm_finish(bench->self);
    free(bench->arrangement);
    free(bench->result);
    free(bench->subset);
    free(bench->place);
    free(bench->link);
    ls_bench_plan_free(&bench->plan);
}

// Opens a trainer of this rank's share of an arrangement, without the other ranks. GPU ranks need no such trainer:
// neighbours do not slow a GPU down.
static ls_status open_alone(ls_bench *bench, ls_bench_arrangement *a, const ls_train_info *info) {
    if (info->comm->world_size == 1 || info->memory->own_memory) return LS_SUCCESS;
    a->alone_cfg = *info->cfg;
    a->alone_cfg.train_global_batch = info->batches.global_batch / info->comm->world_size;
    a->alone_cfg.train_micro_batch = info->batches.micro_batch;
    a->alone_cfg.run_cross_check = 0;
    return ls_trainer_new(&a->alone_cfg, bench->self, &a->alone);
}

static ls_status open_arrangement(ls_bench *bench, int index) {
    ls_bench_arrangement *a = &bench->arrangement[index];
    if (!a->takes_part) return LS_SUCCESS;
    LS_TRY(ls_trainer_new(&bench->plan.row[index].cfg, a->comm, &a->trainer));
    const ls_train_info *info = ls_trainer_get_info(a->trainer);
    LS_TRY(open_alone(bench, a, info));
    return ls_bench_peak_new(ls_trainer_device(a->trainer), ls_config_storage(info->cfg), &a->peak);
}

// Returns the bytes that an arrangement's trainers hold on this rank, in device memory or host memory.
static size_t bytes_of(const ls_bench_arrangement *a) {
    return (a->trainer ? ls_trainer_device_bytes(a->trainer) : 0) + (a->alone ? ls_trainer_device_bytes(a->alone) : 0);
}

// --- failures ------------------------------------------------------------------------------------

// Agrees on the status of a step of arrangement `index`. Ranks outside the arrangement sleep until then. If one rank
// fails during training, the other ranks of the arrangement still wait for it and cannot agree, so the job ends. Three
// kinds of failure are agreed on instead: numerical failures, which all ranks see; failures of a rank that trains
// alone; and failures at opening, on which the trainer has already agreed (`agreed`).
static ls_status settle(ls_bench *bench, int index, ls_status status, int agreed) {
    const char *name = bench->plan.row[index].name;
    if (ls_failed(status)) status = ls_fail(status.code, "arrangement %s: %s", name, status.text);
    if (ls_failed(status) && !agreed && bench->plan.row[index].ranks > 1 && status.code != LS_NUMERIC)
        return ls_command_agree_or_abort(bench->comm, status);
    LS_TRY(ls_comm_barrier_napping(bench->comm));
    int failed_rank;
    return ls_comm_agree(bench->comm, status, &failed_rank);
}

// Leaves an arrangement out after a failure. Returns success if other arrangements may still work, else the failure.
static ls_status leave_out(ls_bench *bench, int index, ls_status status) {
    if (bench->rank == 0) ls_log_status(status);
    close_arrangement(&bench->arrangement[index]);
    ls_bench_result *r = &bench->result[index];
    snprintf(r->failure, sizeof r->failure, "%s", status.text);
    r->failure_code = status.code;
    int may_go_on = status.code == LS_DEVICE || status.code == LS_NUMERIC;
    return may_go_on && bench->plan.count > 1 ? LS_SUCCESS : status;
}

ls_status ls_bench_outcome(const ls_bench *bench) {
    for (int i = 0; i < bench->plan.count; i++)
        if (bench->result[i].failure[0]) return ls_fail(bench->result[i].failure_code, "%s", bench->result[i].failure);
    return LS_SUCCESS;
}

// --- measuring -----------------------------------------------------------------------------------

// Measures the seconds that the slowest rank needs for `updates` updates.
static ls_status time_updates(ls_trainer *trainer, ls_comm *comm, int64_t updates, double *seconds) {
    LS_TRY(ls_comm_barrier(comm));
    double start = ls_clock_seconds();
    LS_TRY(ls_trainer_updates(trainer, updates, NULL));
    *seconds = ls_clock_seconds() - start;
    return ls_comm_allreduce(comm, seconds, 1, LS_F64, LS_REDUCE_MAX);
}

// Decides how many updates fill a measurement: doubles their number until they take long enough to be timed. All ranks
// see the same seconds, so they decide the same number.
static ls_status find_length(ls_bench_arrangement *a, double seconds) {
    double took = 0;
    int64_t updates = 1;
    for (;; updates *= 2) {
        LS_TRY(time_updates(a->trainer, a->comm, updates, &took));
        if (took >= seconds * WARM_UP_SHARE) break;
    }
    a->updates = llround(seconds * (double)updates / took);
    if (a->updates < 1) a->updates = 1;
    return LS_SUCCESS;
}

// Counts the cores or GPUs that the ranks of an arrangement have, and whether the ranks share them.
static void count_units(const ls_bench *bench, const ls_train_info *info, ls_bench_result *r) {
    r->units = ls_bench_place_cores(bench->place, r->ranks, r->threads, &r->shared);
    if (!info->memory->own_memory) return;
    r->units = ls_bench_place_gpus(info->places, r->ranks);
    r->shared = r->units < r->ranks;
}

static void take_facts(const ls_bench *bench, int index, ls_bench_result *r) {
    const ls_bench_case *row = &bench->plan.row[index];
    const ls_train_info *info = ls_trainer_get_info(bench->arrangement[index].trainer);
    snprintf(r->device, sizeof r->device, "%s", info->device);
    snprintf(r->device_name, sizeof r->device_name, "%s", info->device_info.name);
    snprintf(r->model, sizeof r->model, "%s", info->graph->path);
    snprintf(r->dataset, sizeof r->dataset, "%s", info->train_data->name);
    snprintf(r->precision, sizeof r->precision, "%s", ls_config_choice("train.precision", row->cfg.train_precision));
    r->hosts = ls_bench_place_hosts(bench->place, row->ranks);
    r->threads = info->threads;
    r->global_batch = info->batches.global_batch;
    r->micro_batch = info->batches.micro_batch;
    r->accumulation = info->batches.per_rank;
    r->parameters = info->parameters;
    r->flops_per_sample = info->flops_per_sample;
    r->reduced_bytes = (double)ls_trainer_comm_counts(bench->arrangement[index].trainer).bytes;
    count_units(bench, info, r);
}

// Does the first updates of a newly opened arrangement and decides how many updates a measurement has. opened: seconds
// that opening took on this rank.
static ls_status warm_up(ls_bench *bench, int index, double opened) {
    ls_bench_arrangement *a = &bench->arrangement[index];
    ls_bench_result *r = &bench->result[index];
    double first, times[2];
    LS_TRY(time_updates(a->trainer, a->comm, 1, &first));
    take_facts(bench, index, r);
    times[0] = opened + first;
    times[1] = (double)ls_trainer_device_bytes(a->trainer);
    LS_TRY(ls_comm_allreduce(a->comm, times, 2, LS_F64, LS_REDUCE_MAX));
    r->first_update_s = times[0];
    r->memory_bytes = (size_t)times[1];
    LS_TRY(find_length(a, bench->seconds));
    r->updates = a->updates;
    return a->alone ? ls_trainer_updates(a->alone, 1, NULL) : LS_SUCCESS;
}

// Adds the trainer's seconds so far, times `sign`, to three counters: waiting for the loader, exposed communication,
// all communication.
static void read_counters(const ls_trainer *trainer, double sign, double counters[3]) {
    counters[0] += sign * ls_trainer_loader_wait_seconds(trainer);
    ls_reducer_counts sums = ls_trainer_comm_counts(trainer);
    counters[1] += sign * sums.exposed_seconds;
    counters[2] += sign * sums.busy_seconds;
}

// Measures an arrangement once. Before that it does one update, which refills the caches that the previous arrangement
// used and the ring of batches, unless the measurement itself is a single update.
static ls_status measure(const ls_bench *bench, const ls_bench_arrangement *a, ls_bench_sample *s) {
    const int ranks = ls_comm_get_info(a->comm)->world_size;
    double unused, counters[3] = { 0 };
    if (a->updates > 1) LS_TRY(time_updates(a->trainer, a->comm, 1, &unused));
    read_counters(a->trainer, -1, counters);
    LS_TRY(time_updates(a->trainer, a->comm, a->updates, &s->seconds));
    read_counters(a->trainer, 1, counters);
    LS_TRY(ls_comm_allreduce(a->comm, counters, 3, LS_F64, LS_REDUCE_SUM));
    s->loader_wait_s = counters[0] / ranks;
    s->comm_exposed_s = counters[1] / ranks;
    s->comm_busy_s = counters[2] / ranks;
    if (a->alone) {
        if (a->updates > 1) LS_TRY(time_updates(a->alone, a->comm, 1, &unused));
        LS_TRY(time_updates(a->alone, a->comm, a->updates, &s->alone_s));
    }
    LS_TRY(ls_bench_peak_measure(a->peak, fmin(PEAK_SECONDS, bench->seconds), &s->peak_gflops));
    LS_TRY(ls_comm_allreduce(a->comm, &s->peak_gflops, 1, LS_F64, LS_REDUCE_SUM));
    s->images_per_second = (double)(a->updates * ls_trainer_get_info(a->trainer)->batches.global_batch) / s->seconds;
    return LS_SUCCESS;
}

// --- all arrangements ----------------------------------------------------------------------------

static ls_status open_and_settle(ls_bench *bench, int index, double *opened) {
    double start = ls_clock_seconds();
    ls_status status = open_arrangement(bench, index);
    *opened = ls_clock_seconds() - start;
    status = settle(bench, index, status, 1);
    bench->arrangement[index].is_open = !ls_failed(status);
    if (ls_failed(status)) close_arrangement(&bench->arrangement[index]);
    return status;
}

static int close_all(ls_bench *bench) {
    int closed = 0;
    for (int i = 0; i < bench->plan.count; i++) {
        closed += bench->arrangement[i].is_open;
        close_arrangement(&bench->arrangement[i]);
    }
    return closed;
}

// Opens arrangements in turns from now on if memory cannot hold another arrangement as large as this one.
static ls_status look_at_memory(ls_bench *bench, int index) {
    const ls_bench_arrangement *a = &bench->arrangement[index];
    const ls_train_info *info = a->trainer ? ls_trainer_get_info(a->trainer) : NULL;
    int32_t full = 0;
    if (info && info->memory->own_memory) {
        full = info->cfg->train_micro_batch == LS_AUTO; // chosen by free memory: all must find the same
    } else if (info) {
        double wanted = (double)bytes_of(a) * info->comm->local_size * MEMORY_HEADROOM;
        size_t unused = ls_bench_place_free_bytes();
        full = unused > 0 && (double)unused < wanted;
    }
    LS_TRY(ls_comm_allreduce(bench->comm, &full, 1, LS_I32, LS_REDUCE_MAX));
    bench->in_turns |= full && bench->plan.count > 1;
    return LS_SUCCESS;
}

// Opens an arrangement beside the open arrangements. If the device's memory cannot hold them together, closes the
// others first.
static ls_status open_or_make_room(ls_bench *bench, int index, double *opened) {
    ls_status status = open_and_settle(bench, index, opened);
    if (status.code != LS_DEVICE || close_all(bench) == 0) return status;
    bench->in_turns = 1;
    return open_and_settle(bench, index, opened);
}

static ls_status warm_up_and_settle(ls_bench *bench, int index) {
    double opened;
    LS_TRY(open_or_make_room(bench, index, &opened));
    int takes_part = bench->arrangement[index].takes_part;
    LS_TRY(settle(bench, index, takes_part ? warm_up(bench, index, opened) : LS_SUCCESS, 0));
    LS_TRY(look_at_memory(bench, index));
    if (bench->in_turns) (void)close_all(bench);
    return LS_SUCCESS;
}

static void name_results(ls_bench *bench) {
    for (int i = 0; i < bench->plan.count; i++) {
        const ls_bench_case *row = &bench->plan.row[i];
        ls_bench_result *r = &bench->result[i];
        memcpy(r->name, row->name, sizeof r->name);
        memcpy(r->settings, row->settings, sizeof r->settings);
        r->ranks = row->ranks;
        r->weak = row->weak;
        r->base = row->base;
    }
}

ls_status ls_bench_warm_up(ls_bench *bench) {
    name_results(bench);
    for (int i = 0; i < bench->plan.count; i++) {
        ls_status status = warm_up_and_settle(bench, i);
        if (ls_failed(status)) LS_TRY(leave_out(bench, i, status));
    }
    if (bench->in_turns)
        ls_info("the arrangements do not fit into memory together: each is opened anew for every measurement");
    return LS_SUCCESS;
}

static ls_status measure_link(ls_bench *bench, ls_bench_link *link) {
    ls_comm *comm = bench->subset[link->ranks];
    ls_status status = comm ? ls_allreduce_measure(comm, bench->seconds, &link->samples) : LS_SUCCESS;
    if (ls_failed(status)) return ls_command_agree_or_abort(bench->comm, status);
    LS_TRY(ls_comm_barrier_napping(bench->comm));
    link->fit = ls_allreduce_fit_of(&link->samples);
    return LS_SUCCESS;
}

ls_status ls_bench_links(ls_bench *bench) {
    for (int ranks = 2; ranks <= bench->world_size; ranks++) {
        const ls_bench_result *r = NULL;
        for (int i = 0; i < bench->plan.count && !r; i++) {
            const ls_bench_case *row = &bench->plan.row[i];
            if (row->ranks == ranks && !ls_device_is_gpu(ls_config_choice("device.type", row->cfg.device_type)))
                r = &bench->result[i]; // all ranks find a result; only rank 0's is complete
        }
        if (!r) continue;
        ls_bench_link *link = &bench->link[bench->link_count++];
        *link = (ls_bench_link){ .ranks = ranks, .shared = r->shared };
        LS_TRY(measure_link(bench, link));
    }
    return LS_SUCCESS;
}

static ls_status measure_and_settle(ls_bench *bench, int index) {
    ls_bench_arrangement *a = &bench->arrangement[index];
    ls_bench_result *r = &bench->result[index];
    double opened;
    if (bench->in_turns) LS_TRY(open_and_settle(bench, index, &opened));
    LS_TRY(settle(bench, index, a->takes_part ? measure(bench, a, &r->sample[r->count]) : LS_SUCCESS, 0));
    if (a->takes_part) r->count++;
    if (bench->in_turns) close_arrangement(a);
    return LS_SUCCESS;
}

ls_status ls_bench_round(ls_bench *bench) {
    for (int i = 0; i < bench->plan.count; i++) {
        int index = (i + bench->rounds) % bench->plan.count;
        if (bench->result[index].failure[0]) continue;
        ls_status status = measure_and_settle(bench, index);
        if (ls_failed(status)) LS_TRY(leave_out(bench, index, status));
    }
    bench->rounds++;
    return LS_SUCCESS;
}
