#include "cli/bench/cost_model.h"

#include <stdlib.h>
#include "base/memory.h"
#include "cli/bench/cost_report.h"

typedef struct {
    const ls_args *args;
    const ls_config *cfg;
    const ls_cost_gpu *gpu; // NULL: the cpu device
    ls_cost_machine machine;
    ls_cost_point points[2 * LS_COST_POINTS_MAX];
    int count;
} model;

static ls_status time_items(const model *m, const ls_cost_update *u, ls_cost_time **out) {
    LS_TRY(LS_NEW(*out, u->item_count, "times of %d operators", u->item_count));
    ls_cost_items(&m->machine, u->items, u->item_count, *out);
    return LS_SUCCESS;
}

// The same training on other ranks: with the same batch in all (strong), or the same for each (weak).
static ls_status configure(const ls_config *cfg, int ranks, int weak, ls_config *out) {
    char assignment[64];
    *out = *cfg;
    if (!weak) return LS_SUCCESS;
    snprintf(assignment, sizeof assignment, "train.global_batch=%lld", (long long)cfg->train_global_batch * ranks);
    return ls_config_set(out, assignment);
}

static ls_status predict(const model *m, ls_cost_place place, int weak, ls_cost_point *out) {
    ls_config cfg;
    ls_cost_update *u = NULL;
    ls_cost_time *times = NULL;
    LS_TRY(configure(m->cfg, place.ranks, weak, &cfg));
    ls_status status = ls_cost_update_new(&cfg, place.ranks, place.hosts, m->gpu, &u);
    LS_THEN(status, time_items(m, u, &times));
    LS_THEN(status, ls_cost_at(u, times, m->gpu, place, out));
    out->weak = weak;
    free(times);
    ls_cost_update_free(u);
    return status;
}

// In a list that was not asked for, places end where a batch does not divide or grows too large.
static ls_status add_curve(model *m, const ls_cost_place *places, int count, int weak) {
    const int first = m->count;
    for (int i = 0; i < count; i++) {
        ls_cost_point *p = &m->points[m->count];
        const ls_status status = predict(m, places[i], weak, p);
        if (ls_failed(status) && status.code == LS_USAGE && !m->args->ranks && m->count > first) return LS_SUCCESS;
        LS_TRY(status);
        p->speed_up = p->images_per_second / m->points[first].images_per_second;
        p->efficiency = p->speed_up * m->points[first].ranks / p->ranks;
        m->count++;
    }
    return LS_SUCCESS;
}

static ls_status add_points(model *m) {
    ls_cost_place places[LS_COST_POINTS_MAX];
    int count;
    LS_TRY(ls_cost_places(m->args->ranks, m->gpu->per_host, places, &count));
    if (m->args->scaling != LS_SCALING_WEAK) LS_TRY(add_curve(m, places, count, 0));
    if (m->args->scaling != LS_SCALING_STRONG) LS_TRY(add_curve(m, places, count, 1));
    return LS_SUCCESS;
}

static ls_status report(model *m, const ls_cost_update *u, const ls_cost_time *times, const ls_cost_point *point) {
    const ls_cost_findings findings = { .word = m->args->model,
        .gpu = m->gpu,
        .machine = &m->machine,
        .update = u,
        .times = times,
        .point = point,
        .points = m->points,
        .point_count = m->count };
    return m->args->json ? ls_cost_print_json(&findings, stdout) : ls_cost_print(&findings, stdout);
}

static ls_status run(model *m) {
    ls_cost_update *u = NULL;
    ls_cost_time *times = NULL;
    ls_cost_point alone;
    LS_TRY(ls_cost_update_new(m->cfg, 1, 1, m->gpu, &u));
    ls_status status = LS_SUCCESS;
    if (m->gpu)
        m->machine = ls_cost_machine_of_gpu(m->gpu, m->cfg->device_tf32);
    else
        status = ls_cost_measure_cpu(u->device, ls_session_threads(m->cfg, 1), &m->machine);
    LS_THEN(status, time_items(m, u, &times));
    LS_THEN(status, ls_cost_at(u, times, m->gpu, (ls_cost_place){ 1, 1 }, &alone));
    if (m->gpu) LS_THEN(status, add_points(m));
    LS_THEN(status, report(m, u, times, &alone));
    free(times);
    ls_cost_update_free(u);
    return status;
}

static ls_status check(const ls_args *args, const ls_comm *comm, const ls_cost_gpu *gpu) {
    if (args->layers || args->sweep_count || args->run_dir)
        return ls_fail(LS_USAGE, "bench --model measures and writes nothing: it goes without %s",
            args->layers        ? "--layers"
            : args->sweep_count ? "--sweep (--ranks has numbers of GPUs; other values: --set)"
                                : "--run-dir (--json prints all figures)");
    if (!gpu && (args->ranks || args->scaling != LS_SCALING_STRONG))
        return ls_fail(LS_USAGE,
            "bench --model cpu is of one rank; 'mpirun -np N train bench' measures links and predicts more of them");
    if (ls_comm_get_info(comm)->world_size > 1)
        return ls_fail(
            LS_USAGE, "bench --model computes on one rank; start it without mpirun, and list GPUs by --ranks");
    return LS_SUCCESS;
}

ls_status ls_bench_cost_model(const ls_args *args, const ls_config *cfg, ls_comm *comm) {
    model *m;
    const ls_cost_gpu *gpu;
    LS_TRY(ls_cost_find_gpu(args->model, &gpu));
    LS_TRY(check(args, comm, gpu));
    LS_TRY(LS_NEW(m, 1, "prediction"));
    m->args = args;
    m->cfg = cfg;
    m->gpu = gpu;
    ls_status status = run(m);
    free(m);
    return status;
}
