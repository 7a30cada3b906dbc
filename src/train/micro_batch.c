// micro_batch.c - decides how the samples of an update are divided into micro-batches: as configured, or into the
// largest micro-batches that fit into the device of every rank.
#include "base/log.h"
#include "base/text.h"
#include "train/cross_check.h"
#include "train/run_session.h"
#include "train/views.h"

// --- possible micro-batches ----------------------------------------------------------------------

// Refuses too many micro-batches in an update for ordered mode, which adds a fixed-point term for each of them
// (op_update.h).
static ls_status check_fixed_point(const ls_config *cfg, const ls_batches *b) {
    const int limit = 1 << LS_FIXED_RANK_BITS;
    if (!cfg->run_deterministic || b->micro_batches <= limit) return LS_SUCCESS;
    return ls_fail(LS_USAGE,
        "%s: run.deterministic allows %d micro-batches an update, but train.global_batch = %d in micro-batches of "
        "%d are %d; set a larger train.micro_batch",
        cfg->file, limit, b->global_batch, b->micro_batch, b->micro_batches);
}

// Refuses a micro-batch of one sample if a batch norm works on maps of 1x1: the batch norm then has a single value of
// each channel, which has no variance. Layers that normalise with stored statistics have no such limit.
static ls_status check_norms(const ls_graph *g, const ls_param_rules *rules, const ls_batches *b) {
    const int last = ls_batches_window_samples(b, b->windows - 1);
    if (b->micro_batch > 1 && last % b->micro_batch != 1) return LS_SUCCESS;
    for (int l = 0; l < g->layer_count; l++) {
        const ls_layer *layer = &g->layers[l];
        if (layer->kind != LS_LAYER_BATCHNORM2D || layer->out.h * layer->out.w > 1) continue;
        if (ls_param_rules_stored(rules, layer)) continue;
        if (b->micro_batch == 1)
            return ls_fail(LS_USAGE,
                "%s:%d: layer '%s' normalises a map of 1x1, for which a micro-batch needs 2 samples at least: it has "
                "1 of train.global_batch = %d on %d rank%s; set a larger train.micro_batch or train.global_batch",
                g->path, layer->line, layer->name, b->global_batch, b->world_size, b->world_size == 1 ? "" : "s");
        return ls_fail(LS_USAGE,
            "%s:%d: layer '%s' normalises a map of 1x1, for which a micro-batch needs 2 samples at least: the last "
            "window of an epoch has %d sample%s (of train.global_batch = %d), which leaves 1 to its last micro-batch "
            "(of %d); set data.drop_last = true, which leaves that window out, or another train.global_batch",
            g->path, layer->line, layer->name, last, last == 1 ? "" : "s", b->global_batch, b->micro_batch);
    }
    return LS_SUCCESS;
}

// Refuses mixup and cutmix if micro-batches have one sample, because a sample's partner comes from its micro-batch.
static ls_status check_mixing(const ls_config *cfg, const ls_batches *b) {
    const ls_augmentation augmentation = ls_config_augmentation(cfg);
    const int option = cfg->data_mixup > 0 ? LS_OPTION_data_mixup : LS_OPTION_data_cutmix;
    char where[LS_STATUS_TEXT_BYTES / 4];
    if (!ls_augment_mixes(&augmentation) || (b->micro_batch > 1 && b->samples > 1)) return LS_SUCCESS;
    return ls_fail(LS_USAGE,
        "%s: mixes pictures of a micro-batch, which has 1 of train.global_batch = %d on %d rank%s and of %lld training "
        "pictures: nothing would be mixed; set a larger train.micro_batch or train.global_batch",
        ls_config_where(cfg, option, where, sizeof where), b->global_batch, b->world_size,
        b->world_size == 1 ? "" : "s", (long long)b->samples);
}

// Refuses checks of neighbours' gradients if a rank has no neighbour, or no window has work for all ranks.
static ls_status check_neighbours(const ls_config *cfg, const ls_batches *b) {
    char where[LS_STATUS_TEXT_BYTES / 4];
    if (cfg->run_cross_check == 0) return LS_SUCCESS;
    ls_config_where(cfg, LS_OPTION_run_cross_check, where, sizeof where);
    if (b->world_size == 1)
        return ls_fail(LS_USAGE,
            "%s: a neighbour checks each rank's gradients, and one rank has none; start at least 2 ranks, or set it to "
            "0",
            where);
    if (ls_batches_window_samples(b, 0) == b->global_batch) return LS_SUCCESS;
    return ls_fail(LS_USAGE,
        "%s: only updates of train.global_batch = %d samples are checked, and an epoch has %lld; set a smaller "
        "train.global_batch, or run.cross_check = 0",
        where, b->global_batch, (long long)b->samples);
}

// Fails if the run cannot be trained in these micro-batches.
static ls_status check_batches(const ls_run_plan *plan, const ls_batches *b) {
    LS_TRY(check_fixed_point(plan->cfg, b));
    LS_TRY(check_mixing(plan->cfg, b));
    LS_TRY(check_neighbours(plan->cfg, b));
    for (int s = 0; s < plan->stage_count; s++) LS_TRY(check_norms(ls_run_plan_graph_of(plan, s), plan->rules, b));
    return LS_SUCCESS;
}

// Changes *b to the next smaller micro-batch in which the run can be trained. Returns 0 if no smaller one exists.
static int shrink(const ls_run_plan *plan, ls_batches *b) {
    ls_batches smaller = *b;
    do
        if (!ls_batches_shrink(&smaller)) return 0;
    while (!plan->evaluates && ls_failed(check_batches(plan, &smaller)));
    *b = smaller;
    return 1;
}

// Returns batches in which each rank has one micro-batch per window. The last window has the samples that are left.
static ls_batches without_accumulation(const ls_comm_info *comm, int64_t samples, int micro) {
    const int global = micro * comm->world_size;
    return (ls_batches){ .samples = samples,
        .windows = (samples + global - 1) / global,
        .global_batch = global,
        .micro_batch = micro,
        .micro_batches = comm->world_size,
        .per_rank = 1,
        .rank = comm->rank,
        .world_size = comm->world_size };
}

ls_status ls_run_plan_cut_batches(ls_run_plan *plan) {
    const ls_comm_info *comm = plan->info.comm;
    const int64_t samples = plan->info.train_data->count;
    ls_batches *b = &plan->info.batches;
    ls_status status = ls_batches_plan(plan->cfg, samples, comm->rank, comm->world_size, b);
    if (!plan->evaluates) {
        LS_TRY(status);
        return check_batches(plan, b);
    }
    // evaluates in the batches of the training run, so that results have the same bits
    if (!ls_failed(status)) return LS_SUCCESS;
    const int64_t given = plan->cfg->train_micro_batch, most = LS_MICRO_BATCH_DERIVED_MAX;
    const int64_t share = (plan->cfg->train_global_batch + comm->world_size - 1) / comm->world_size;
    *b = without_accumulation(comm, samples, (int)(given > 0 ? given : share < most ? share : most));
    return LS_SUCCESS;
}

// --- micro-batches that fit ----------------------------------------------------------------------

// Returns the size of the short micro-batch of an epoch if this rank has it, otherwise 0.
static int tail_size(const ls_batches *b) {
    for (int j = b->rank * b->per_rank; j < (b->rank + 1) * b->per_rank; j++) {
        int samples = ls_batches_micro_samples(b, b->windows - 1, j);
        if (samples > 0 && samples < b->micro_batch) return samples;
    }
    return 0;
}

static ls_compile_options program_options(const ls_run_plan *plan, int micro_batch) {
    ls_compile_options options = ls_compile_options_of(plan->cfg, micro_batch);
    options.indexed = plan->cfg->data_loader == LS_LOADER_RESIDENT;
    options.sync_norm = ls_config_syncs_norm(plan->cfg, plan->info.batches.world_size);
    return options;
}

static size_t input_bytes(const ls_run_session *session, ls_split split) {
    const ls_input_pipeline_options options = ls_run_session_input_options(session, split);
    return ls_input_pipeline_device_bytes(session->compute.device, &options);
}

// A forward pass reads each activation soon after it was written. On the CPU, small micro-batches find it in a cache
// (bench/results/2026-11-30-evaluation.md).
enum { EVAL_BYTES = 6 << 20, EVAL_SAMPLES_MIN = 8 };

// Reduces the micro-batch of the program that evaluates until its activations have EVAL_BYTES. The result depends on
// the network, the micro-batch and the layout of activations, not on threads, so that evaluations keep their bits.
static ls_status shrink_evaluation(const ls_session *s, ls_compile_options *eval) {
    size_t bytes;
    if (s->device->api->memory) return LS_SUCCESS; // a GPU
    LS_TRY(ls_compile_measure(s->store, eval, &bytes));
    const int64_t fit = (int64_t)EVAL_BYTES * eval->micro_batch / (int64_t)bytes;
    const int micro = fit > EVAL_SAMPLES_MIN ? (int)fit : EVAL_SAMPLES_MIN;
    if (micro < eval->micro_batch) eval->micro_batch = micro;
    return LS_SUCCESS;
}

// Fills in the options of all programs for the micro-batch of plan->info.batches, and the size of the memory for their
// inputs.
static ls_status plan_programs(ls_run_session *session, ls_run_plan *plan) {
    const ls_batches *b = &plan->info.batches;
    const int micro_batch[2] = { b->micro_batch, tail_size(b) };
    for (int p = 0; p < 2 * plan->stage_count && !plan->evaluates; p++) {
        const ls_stage *stage = &plan->stage[p / 2];
        ls_compile_options *options = &session->compute.options[p];
        *options = program_options(plan, ls_run_plan_has_stage(plan, p / 2) ? micro_batch[p % 2] : 0);
        options->graph = stage->resized;
        options->teacher = session->compute.teacher;
        options->epoch = stage->epoch;
    }
    ls_compile_options *eval = &session->compute.options[LS_RUN_EVAL_PROGRAM];
    *eval = program_options(plan, b->micro_batch);
    eval->training = 0;
    eval->augmentation = ls_views_augmentation(plan->cfg);
    LS_TRY(shrink_evaluation(&session->compute, eval));
    plan->eval_batches = without_accumulation(plan->info.comm, plan->info.test_data->count, eval->micro_batch);
    if (plan->val_data)
        plan->val_batches = without_accumulation(plan->info.comm, plan->info.val_data->count, eval->micro_batch);
    const ls_dataset_info *data = plan->info.train_data;
    session->compute.memory.control = (size_t)data->label_rows * (size_t)data->classes; // the table of label sets
    session->compute.memory.inputs = input_bytes(session, LS_SPLIT_TEST);
    if (!plan->evaluates) session->compute.memory.inputs += input_bytes(session, LS_SPLIT_TRAIN);
    if (plan->val_data) session->compute.memory.inputs += input_bytes(session, LS_SPLIT_VALIDATION);
    session->compute.memory.inputs += ls_cross_check_device_bytes(session);
    return LS_SUCCESS;
}

// Finds whether the plans so far fit into this rank's device (*mine) and into the devices of all ranks (*all).
// Collective.
static ls_status agree_on_fit(const ls_run_session *session, ls_status status, int32_t *mine, int32_t *all) {
    LS_TRY(ls_comm_agree(session->plan->comm, status, NULL));
    *all = *mine = ls_memory_plan_fits(&session->compute.memory);
    return ls_comm_allreduce(session->plan->comm, all, 1, LS_I32, LS_REDUCE_MIN);
}

// Plans the run, including its programs, with the micro-batch of plan->info.batches, and stops when it does not fit.
// *mine, *all: whether it fits into this rank's device, and into all ranks' devices. Activations are measured first,
// because that needs no plans and is fast. Collective.
static ls_status try_micro_batch(ls_run_session *session, ls_run_plan *plan, int32_t *mine, int32_t *all) {
    ls_status status = plan_programs(session, plan);
    LS_THEN(status, ls_session_measure(&session->compute));
    LS_TRY(agree_on_fit(session, status, mine, all));
    if (!*all) return LS_SUCCESS;
    if (session->algorithms) LS_TRY(ls_run_session_autotune(session));
    return agree_on_fit(session, ls_session_compile(&session->compute), mine, all);
}

ls_status ls_run_choose_micro_batch(ls_run_session *session, ls_run_plan *plan) {
    ls_batches *batches = &plan->info.batches;
    const ls_memory_plan *memory = &session->compute.memory;
    const int wanted = batches->micro_batch;
    ls_memory_plan first = { 0 };
    for (;;) {
        int32_t mine, all;
        LS_TRY(try_micro_batch(session, plan, &mine, &all));
        if (batches->micro_batch == wanted) first = *memory;
        if (all) break;
        if (plan->cfg->train_micro_batch == LS_AUTO && shrink(plan, batches)) continue;
        ls_status status = mine ? LS_SUCCESS : ls_memory_plan_refuse(memory, plan->cfg, batches->micro_batch);
        return ls_comm_agree(plan->comm, status, NULL);
    }
    if (batches->micro_batch == wanted) return LS_SUCCESS;
    char needs[32], needed[32], unused[32];
    ls_info("memory    train.micro_batch = auto: %d samples and %d accumulation steps need %s; %d samples would need "
            "at least %s of the %s that are free",
        batches->micro_batch, batches->per_rank, ls_text_bytes(needs, ls_memory_plan_bytes(memory)), wanted,
        ls_text_bytes(needed, ls_memory_plan_bytes(&first)), ls_text_bytes(unused, first.free_bytes));
    return LS_SUCCESS;
}
