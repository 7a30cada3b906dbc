// open_session.c - opens a session step by step, and closes it.
#include "train/run_session.h"

#include "system/cpus.h"
#include "base/log.h"
#include "dist/reduce/select_backend.h"
#include "train/cross_check.h"
#include "train/diagnose/replicas.h"
#include "train/run_weights.h"
#include "train/startup_check.h"
#include "train/teacher.h"
#include "train/tta.h"

enum { DEPTH = 8 };

void ls_run_session_begin(ls_run_session *session, const ls_run_plan *plan) {
    *session = (ls_run_session){ .plan = plan };
}

// --- device --------------------------------------------------------------------------------------

// Warns if the ranks of this host have more threads than cores. Tells a single rank that is bound to a part of the
// processors that a wider binding lets it use more.
static void check_threads(const ls_run_plan *plan) {
    ls_cpus cpus;
    ls_cpus_detect(&cpus);
    const ls_comm_info *comm = plan->info.comm;
    const int threads = plan->info.threads, unbound = cpus.mask_cpus == cpus.online_cpus;
    const int sharing = unbound ? comm->local_size : 1;
    double limit = cpus.quota_cpus > 0 && cpus.quota_cpus < cpus.mask_cpus ? cpus.quota_cpus : cpus.mask_cpus;
    if (comm->rank == 0 && threads * sharing > limit + 0.01)
        ls_warn("%d ranks of %d threads share %.4g cores on %s: expect less than full speed; start fewer ranks, or set "
                "device.threads",
            sharing, threads, limit, comm->host);
    if (comm->rank == 0 && comm->world_size == 1 && !unbound && !ls_device_assignment_moved(plan->assignment) &&
        cpus.mask_cores < cpus.online_cpus && !plan->cfg->device_threads)
        ls_info(
            "this rank is bound to %d of %d processors; mpirun --bind-to none (or a wider binding) lets it use more",
            cpus.mask_cpus, cpus.online_cpus);
}

static void fill_info(const ls_run_session *session, ls_run_plan *plan) {
    ls_train_info *info = &plan->info;
    ls_device *device = session->compute.device;
    info->why_not_gpu = ls_device_assignment_why_not_gpu(plan->assignment);
    info->places = ls_device_assignment_ranks(plan->assignment);
    info->device = device->api->name;
    info->memory = &session->compute.memory;
    device->api->info(device, &info->device_info);
}

ls_status ls_run_session_open_device(ls_run_session *session, ls_run_plan *plan, ls_status status) {
    LS_TRY(ls_startup_check_programs(plan)); // first, because the following steps depend on the options
    LS_THEN(status, ls_run_session_open_algorithms(session));
    LS_TRY(ls_device_assignment_new(plan->comm, status, plan->cfg, &plan->assignment));
    plan->info.threads = ls_session_threads(plan->cfg, plan->info.comm->local_size);
    check_threads(plan);
    ls_device_options options = ls_session_device_options(plan->cfg, plan->info.threads);
    options.algorithms = session->algorithms;
    // in ordered mode one rank must compute like one of several
    options.alone = plan->info.comm->world_size == 1 && !plan->cfg->run_deterministic;
    LS_TRY(ls_device_assignment_open(plan->assignment, plan->comm, &options, &session->compute.device));
    fill_info(session, plan);
    LS_TRY(ls_startup_check_devices(plan, session));
    return ls_session_start(&session->compute, ls_config_storage(plan->cfg));
}

ls_status ls_run_session_open_sums(ls_run_session *session, ls_run_plan *plan) {
    ls_train_info *info = &plan->info;
    ls_device *device = session->compute.device;
    LS_TRY(ls_select_backend(plan->comm, device, plan->cfg, ls_device_assignment_shares(plan->assignment),
        &session->collective, info->sums, info->why_not_collective));
    if (!session->collective && info->comm->world_size > 1) snprintf(info->sums, sizeof info->sums, "MPI");
    if (session->collective) LS_TRY(ls_comm_watch(plan->comm, device->api->collective, session->collective));
    return LS_SUCCESS;
}

static void close_sums(ls_run_session *session) {
    if (!session->collective) return;
    ls_status unwatched = ls_comm_watch(session->plan->comm, NULL, NULL);
    (void)unwatched; // only the start of a watch can fail
    session->compute.device->api->collective->close(session->collective, session->plan->cfg->dist_timeout);
}

// --- memory --------------------------------------------------------------------------------------

ls_status ls_run_session_place(ls_run_session *session) {
    const ls_run_plan *plan = session->plan;
    const ls_config *cfg = plan->cfg;
    const int several = plan->info.comm->world_size > 1;
    ls_param_store_options options = { .storage = ls_config_storage(cfg),
        .rules = plan->rules,
        .state_tensors = plan->rules->kept,
        .averaged = plan->rules->average != LS_AVERAGE_OFF,
        .ordered = cfg->run_deterministic,
        .wire = cfg->dist_reduce_dtype == LS_REDUCE_DTYPE_BF16 && several,
        .reduced = several || ls_collective_find(ls_config_choice("dist.backend", cfg->dist_backend)) };
    return ls_session_place(&session->compute, plan->graph, &options);
}

static ls_status open_inputs(ls_run_session *session) {
    const struct {
        ls_split split;
        int wanted;
        ls_input_pipeline **pipeline;
    } rows[] = { { LS_SPLIT_TRAIN, !session->plan->evaluates, &session->input },
        { LS_SPLIT_TEST, 1, &session->eval_input },
        { LS_SPLIT_VALIDATION, session->plan->val_data != NULL, &session->val_input } };
    ls_memory_plan *memory = &session->compute.memory;
    memory->ring = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!rows[i].wanted) continue;
        const ls_input_pipeline_options options = ls_run_session_input_options(session, rows[i].split);
        LS_TRY(ls_input_pipeline_new(session->compute.device, &options, rows[i].pipeline));
        memory->ring += ls_input_pipeline_ring_bytes(*rows[i].pipeline);
    }
    return LS_SUCCESS;
}

static ls_status allocate_compute(ls_run_session *session) {
    LS_TRY(ls_session_allocate(&session->compute));
    ls_teacher_load(session);
    return ls_run_make_weights(session);
}

ls_status ls_run_session_allocate(ls_run_session *session) {
    const ls_run_plan *plan = session->plan;
    ls_session *s = &session->compute;
    // the next steps open communicators, so all ranks must get here
    LS_TRY(ls_comm_agree(plan->comm, allocate_compute(session), NULL));
    session->depth = s->device->api->capture_begin ? DEPTH : 1;
    LS_TRY(ls_update_new(
        plan->cfg, s->store, plan->comm, session->collective, s->queue, session->depth, &session->update));
    ls_session_weights_changed(s);
    LS_TRY(ls_input_pipeline_set_table(s, plan->train_data));
    const int64_t label_rows = plan->info.train_data->label_rows;
    if (label_rows) LS_TRY(ls_session_set_label_sets(s, ls_dataset_label_sets(plan->train_data), label_rows));
    if (session->class_weights)
        LS_TRY(ls_session_set_class_weights(s, ls_class_weights_values(session->class_weights)));
    LS_TRY(ls_replicas_new(session, &session->replicas));
    s->memory.control = ls_update_device_bytes(session->update) + s->table->bytes;
    if (s->class_weights) s->memory.control += s->class_weights->bytes;
    if (s->label_sets) s->memory.control += s->label_sets->bytes;
    LS_TRY(ls_tta_upload_views(session));
    LS_TRY(open_inputs(session));
    return ls_cross_check_new(session, &session->cross_check);
}

void ls_run_session_close(ls_run_session *session) {
    ls_input_pipeline_free(session->input);
    ls_input_pipeline_free(session->eval_input);
    ls_input_pipeline_free(session->val_input);
    ls_replicas_free(session->replicas);
    ls_cross_check_free(session->cross_check);
    ls_update_free(session->update); // before sums and programs are closed: captured graphs refer to their memory
    close_sums(session);
    if (session->views) session->compute.device->api->slab_free(session->views);
    ls_run_trace_close(&session->trace);
    ls_session_close(&session->compute);
    ls_teacher_free(session->teacher); // after the plans, which refer to its layers' names
    ls_algorithm_cache_free(session->algorithms);
    ls_class_weights_free(session->class_weights);
    ls_balance_free(session->balance);
}
