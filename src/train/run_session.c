#include "train/run_session.h"

#include "train/views.h"

enum { EVAL_SLOTS = 3 };

// --- programs ------------------------------------------------------------------------------------

const ls_program *ls_run_session_full_program(const ls_run_session *session, int64_t epoch) {
    return session->compute.program[2 * ls_run_plan_stage_of(session->plan, epoch)];
}

const ls_program *ls_run_session_program_for(const ls_run_session *session, int64_t epoch, int samples) {
    const int is_short = samples < session->plan->info.batches.micro_batch;
    return session->compute.program[2 * ls_run_plan_stage_of(session->plan, epoch) + is_short];
}

ls_status ls_run_session_run_view(ls_run_session *session, int view, ls_program_inputs *inputs) {
    if (session->views) ls_views_choose(session->views, session->plan->eval_batches.micro_batch, view, inputs);
    return ls_update_evaluate(session->update, session->compute.program[LS_RUN_EVAL_PROGRAM], inputs, view);
}

ls_status ls_run_session_read_logits(ls_run_session *session, float *logits) {
    const ls_session *s = &session->compute;
    LS_TRY(s->device->api->queue_sync(s->queue));
    ls_program_export_logits(s->program[LS_RUN_EVAL_PROGRAM], logits);
    return LS_SUCCESS;
}

int ls_run_session_shows_average(const ls_run_session *session, int64_t updates) {
    const ls_run_plan *plan = session->plan;
    return plan->rules && plan->rules->average == LS_AVERAGE_EMA && updates > plan->schedule.average_start;
}

void ls_run_session_swap_average(ls_run_session *session, int64_t updates) {
    if (ls_run_session_shows_average(session, updates)) ls_update_swap_average(session->update);
}

// --- inputs --------------------------------------------------------------------------------------

ls_input_pipeline_options ls_run_session_input_options(const ls_run_session *session, ls_split split) {
    const ls_run_plan *plan = session->plan;
    const int training = split == LS_SPLIT_TRAIN;
    return (ls_input_pipeline_options){ .queue = session->compute.queue,
        .dataset = training                 ? plan->train_data
                   : split == LS_SPLIT_TEST ? plan->test_data
                                            : plan->val_data,
        .micro_batch = training ? plan->info.batches.micro_batch : plan->eval_batches.micro_batch,
        .prefetch = training ? (int)plan->cfg->data_prefetch : EVAL_SLOTS,
        .resident = plan->cfg->data_loader == LS_LOADER_RESIDENT,
        .comm = training ? plan->comm : NULL };
}

static ls_loader_options loader_options(const ls_run_session *session, const ls_position *at) {
    const ls_config *cfg = session->plan->cfg;
    return (ls_loader_options){
        .batches = session->plan->info.batches,
        .seed = (uint64_t)cfg->run_seed,
        .shuffle = cfg->data_shuffle,
        .balance = session->balance,
        .augmentation = ls_config_augmentation(cfg),
        .first_epoch = at->epoch,
        .first_window = at->window,
        .epochs = INT32_MAX, // the run decides when it ends, not the loader
        .workers = (int)cfg->data_workers,
        .traced = 1,
    };
}

ls_status ls_run_session_start_input(ls_run_session *session, const ls_position *at) {
    const ls_loader_options options = loader_options(session, at);
    return ls_input_pipeline_start(session->input, &options, -1);
}

ls_status ls_run_session_read_as(
    const ls_run_session *session, ls_input_pipeline *input, const ls_position *at, int rank, int micros) {
    ls_loader_options options = loader_options(session, at);
    options.batches.rank = rank;
    options.epochs = 1;
    options.workers = 1;
    options.traced = 0;
    ls_input_pipeline_stop(input);
    return ls_input_pipeline_start(input, &options, micros);
}

ls_status ls_run_session_read_ahead(ls_run_session *session, const ls_position *at) {
    return ls_input_pipeline_started(session->input) ? LS_SUCCESS : ls_run_session_start_input(session, at);
}

// --- counters ------------------------------------------------------------------------------------

double ls_run_session_loader_wait_seconds(const ls_run_session *session) {
    return ls_input_pipeline_wait_seconds(session->input);
}

ls_reducer_counts ls_run_session_comm_counts(const ls_run_session *session) {
    return ls_update_comm_counts(session->update);
}
