// trainer.c - opens and closes a run. The other functions only call the trainer's parts.
#include <math.h>
#include "system/cpus.h"
#include "base/memory.h"
#include "run/run_parts.h"
#include "train/diagnose/inspect.h"
#include "train/diagnose/replicas.h"
#include "train/evaluate.h"
#include "train/layer_times.h"
#include "train/run.h"
#include "train/run_weights.h"
#include "train/snapshots.h"
#include "train/startup_check.h"
#include "train/teacher.h"
#include "train/trainer_internal.h"

// --- opening -------------------------------------------------------------------------------------

// Opens everything that comes before device memory. The data sets are read meanwhile; their errors are reported last.
static ls_status prepare(ls_trainer *t) {
    ls_startup_times *times = &t->progress.startup;
    ls_run_plan *plan = &t->plan;
    ls_data_reading train, test;
    ls_data_reading_start(&train, plan->cfg, LS_SPLIT_TRAIN);
    ls_data_reading_start(&test, plan->cfg, LS_SPLIT_TEST);
    ls_status status = ls_run_session_open_device(&t->session, plan, ls_run_plan_open_network(plan, &train));
    ls_comm_phase(plan->comm, "start-up: data", -1);
    ls_startup_enter(times, "data");
    ls_keep_first(&status, ls_run_plan_take_data(plan, &train, &test));
    LS_TRY(status);
    ls_comm_phase(plan->comm, "start-up: plans", -1);
    ls_startup_enter(times, "plans");
    LS_TRY(ls_run_plan_complete(plan));
    if (!plan->evaluates) {
        ls_run_session *session = &t->session;
        LS_TRY(ls_balance_new(plan->cfg, plan->train_data, &session->balance));
        LS_TRY(ls_class_weights_new(plan->cfg, plan->train_data, session->balance, &session->class_weights));
    }
    return ls_run_session_place(&t->session);
}

// Records the room for other settings (threads, cores, memory), for the verdict on the run.
static void find_room(ls_run_plan *plan, const ls_session *compute) {
    ls_run_room *room = &plan->info.room;
    const ls_memory_plan *memory = &compute->memory;
    const ls_comm_info *comm = plan->info.comm;
    ls_cpus cpus;
    ls_cpus_detect(&cpus);
    room->threads = ls_cpus_threads_per_rank(&cpus, comm->local_size);
    room->cores = ls_rank_table_cores(plan->info.places, comm->world_size, comm->rank);
    const double quota = cpus.quota_cpus / comm->local_size;
    // becomes 0 if neither the cores nor the quota is known
    if (!(room->cores > 0) || (quota > 0 && quota < room->cores)) room->cores = quota;
    if (memory->own_memory)
        room->memory_bytes =
            fmax(0, (double)memory->free_bytes - (double)memory->reserve - (double)ls_memory_plan_bytes(memory));
    room->activation_bytes = (double)memory->activations;
}

static void start_progress(ls_run_progress *progress, const ls_run_plan *plan) {
    progress->last = plan->info.updates_planned;
    progress->loss_scale = ls_config_storage(plan->cfg) == LS_F16 ? (float)ls_config_first_loss_scale(plan->cfg) : 1.0f;
}

static ls_status open_trainer(const ls_config *cfg, ls_comm *comm, int evaluates, ls_trainer **out) {
    ls_trainer *t = ls_new(1, sizeof *t, "trainer");
    ls_run_plan_begin(&t->plan, cfg, comm, evaluates);
    ls_run_session_begin(&t->session, &t->plan);
    ls_run_saving_begin(&t->saving);
    ls_startup_times *times = &t->progress.startup;
    ls_comm_phase(comm, "start-up: device", -1);
    ls_startup_enter(times, "device");
    ls_status status = ls_comm_agree(comm, prepare(t), NULL);
    LS_THEN(status, ls_teacher_open(&t->plan, &t->session));
    ls_startup_enter(times, "pictures");
    LS_THEN(status, ls_run_plan_verify_test_pictures(&t->plan));
    ls_startup_enter(times, "sums");
    LS_THEN(status, ls_run_session_open_sums(&t->session, &t->plan));
    ls_startup_enter(times, "memory");
    LS_THEN(status, ls_run_choose_micro_batch(&t->session, &t->plan));
    LS_THEN(status, ls_comm_agree(comm, ls_run_session_allocate(&t->session), NULL));
    LS_THEN(status, ls_startup_check_state(&t->plan, &t->session));
    if (ls_failed(status)) {
        ls_trainer_free(t);
        return status;
    }
    start_progress(&t->progress, &t->plan);
    find_room(&t->plan, &t->session.compute);
    *out = t;
    return LS_SUCCESS;
}

ls_status ls_trainer_new(const ls_config *cfg, ls_comm *comm, ls_trainer **out) {
    return open_trainer(cfg, comm, 0, out);
}

ls_status ls_trainer_new_to_evaluate(const ls_config *cfg, ls_comm *comm, ls_trainer **out) {
    return open_trainer(cfg, comm, 1, out);
}

void ls_trainer_free(ls_trainer *t) {
    if (!t) return;
    ls_session_drain(&t->session.compute);
    ls_run_saving_close(&t->saving);
    ls_run_session_close(&t->session);
    ls_run_plan_close(&t->plan);
    ls_run_progress_close(&t->progress);
    free(t);
}

// --- before the first update ---------------------------------------------------------------------

ls_status ls_trainer_verify_pictures(ls_trainer *t) {
    ls_startup_enter(&t->progress.startup, "pictures");
    ls_status status = ls_run_plan_verify_pictures(&t->plan);
    ls_startup_enter(&t->progress.startup, "folder");
    return status;
}

ls_status ls_trainer_read_ahead(ls_trainer *t) {
    return ls_run_session_read_ahead(&t->session, &t->progress.next);
}

ls_status ls_trainer_set_folder(ls_trainer *t, const char *folder) {
    return ls_run_saving_set_folder(&t->saving, folder);
}

ls_status ls_trainer_set_run(ls_trainer *t, const ls_run_identity *run) {
    t->plan.info.run = *run;
    return ls_run_plan_set_parts(&t->plan, ls_run_parts_new(&t->plan.info, NULL, NULL, NULL));
}

ls_status ls_trainer_save_into(ls_trainer *t, const char *folder) {
    return ls_run_saving_open(&t->saving, &t->plan, &t->progress, folder);
}

ls_status ls_trainer_init_from_file(ls_trainer *t) {
    ls_startup_enter(&t->progress.startup, "weights");
    return ls_run_init_weights(&t->plan, &t->session);
}

ls_status ls_trainer_load_weights(ls_trainer *t, const char *path) {
    return ls_run_load_weights(&t->session, path);
}

ls_status ls_trainer_restore(ls_trainer *t, ls_snapshot *snapshot) {
    LS_TRY(ls_run_restore(&t->session, &t->progress, snapshot));
    ls_replicas_equal(t->session.replicas, t->progress.done.updates);
    t->plan.info.updates_planned = t->progress.last;
    t->plan.info.stopped_early = t->progress.stopped_early;
    t->plan.info.seconds_before = t->progress.seconds_before;
    return LS_SUCCESS;
}

ls_status ls_trainer_resume(ls_trainer *t, const char *folder, int *resumed) {
    ls_snapshot *snapshot = NULL;
    ls_status status = ls_run_find_checkpoint(&t->plan, folder, &snapshot, resumed);
    if (*resumed) LS_THEN(status, ls_trainer_restore(t, snapshot));
    if (*resumed && !ls_failed(status)) t->plan.info.resumed_at = t->progress.done.updates;
    ls_snapshot_free(snapshot);
    return status;
}

ls_status ls_trainer_trace(ls_trainer *t, int64_t from, int64_t to) {
    return ls_run_trace_open(&t->session, &t->progress, from, to);
}

// --- the run -------------------------------------------------------------------------------------

ls_status ls_trainer_run(
    ls_trainer *t, const ls_train_observer *observers, int observer_count, ls_train_summary *summary) {
    return ls_run_to_end(&t->session, &t->progress, &t->saving, observers, observer_count, summary);
}

ls_status ls_trainer_run_until(
    ls_trainer *t, int64_t update, const ls_train_observer *observers, int observer_count, ls_train_summary *summary) {
    t->progress.pause = update;
    return ls_trainer_run(t, observers, observer_count, summary);
}

ls_status ls_trainer_inspect(ls_trainer *t, FILE *file) {
    return ls_run_inspect(&t->session, &t->progress, file);
}

ls_status ls_trainer_updates(ls_trainer *t, int64_t updates, double *loss) {
    return ls_run_updates(&t->session, &t->progress, &t->saving, updates, loss);
}

ls_status ls_trainer_evaluate(ls_trainer *t, int in_detail, ls_train_evaluation *evaluation) {
    return ls_run_evaluate(&t->session, &t->progress, in_detail, evaluation);
}

ls_status ls_trainer_validate(ls_trainer *t, int in_detail, ls_train_evaluation *evaluation) {
    return ls_run_validate(&t->session, &t->progress, in_detail, evaluation);
}

ls_status ls_trainer_save_weights(ls_trainer *t, const char *path) {
    return ls_run_save_weights(&t->session, t->progress.done.updates, path);
}

ls_status ls_trainer_snapshot_new(const ls_trainer *t, ls_snapshot **out) {
    return ls_run_snapshot_new(&t->plan, out);
}

ls_status ls_trainer_snapshot(ls_trainer *t, ls_snapshot *snapshot) {
    return ls_run_snapshot(&t->session, &t->progress, snapshot);
}

ls_status ls_trainer_layer_times(ls_trainer *t, double seconds, ls_layer_time **rows, int *count) {
    return ls_run_layer_times(&t->session, &t->progress.next, seconds, rows, count);
}

ls_status ls_trainer_write_trace(ls_trainer *t, const char *path) {
    return ls_run_trace_write(&t->session, &t->progress, path);
}

// --- facts about the run -------------------------------------------------------------------------

const ls_train_info *ls_trainer_get_info(const ls_trainer *t) {
    return &t->plan.info;
}

void ls_trainer_print_plan(const ls_trainer *t, FILE *file) {
    ls_run_session_print(&t->session, file);
}

const ls_evaluation *ls_trainer_details(const ls_trainer *t) {
    return t->progress.details;
}

const struct ls_nonfinite *ls_trainer_nonfinite(const ls_trainer *t) {
    return t->progress.nonfinite;
}

ls_device *ls_trainer_device(const ls_trainer *t) {
    return t->session.compute.device;
}

double ls_trainer_loader_wait_seconds(const ls_trainer *t) {
    return ls_run_session_loader_wait_seconds(&t->session);
}

ls_reducer_counts ls_trainer_comm_counts(const ls_trainer *t) {
    return ls_run_session_comm_counts(&t->session);
}

size_t ls_trainer_device_bytes(const ls_trainer *t) {
    return ls_memory_plan_bytes(&t->session.compute.memory);
}
