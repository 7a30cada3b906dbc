// trainer.c - planning a run: data, network, device, memory, programs; everything that can fail before step 0.
#include "train/trainer.h"

#include <pthread.h>
#include <string.h>
#include "base/atomic_file.h"
#include "base/cpus.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/spans.h"
#include "device/algorithm_cache.h"
#include "dist/reduce/select_backend.h"
#include "files/run_parts.h"
#include "train/trainer_internal.h"

enum { EVAL_SLOTS = 3, PATH_BYTES = 2048, DEPTH = 8 };

// --- data: read by threads of their own, while the network and the device are opened -------------

typedef struct {
    const ls_config *cfg;
    ls_split split;
    ls_dataset *dataset;
    ls_status status;
    pthread_t thread;
    int started;
} data_opening;

static void *open_data(void *context) {
    data_opening *o = context;
    o->status = ls_dataset_open(o->cfg, o->split, &o->dataset);
    return NULL;
}

static void start_opening(data_opening *o) {
    o->started = ls_thread_start(&o->thread, open_data, o) == 0;
    if (!o->started) open_data(o); // slower, not wrong
}

static ls_status finish_opening(data_opening *o, ls_dataset **out) {
    if (o->started) pthread_join(o->thread, NULL);
    o->started = 0;
    *out = o->dataset;
    return o->status;
}

static ls_status check_data(const ls_trainer *t) {
    const ls_dataset_info *train = t->facts.train_data, *test = t->facts.test_data;
    const ls_graph *g = t->graph;
    if (!ls_chw_equal(train->shape, g->input))
        return ls_fail(LS_USAGE,
            "%s: the network's input is %dx%dx%d, but pictures of data.dataset = %s are %dx%dx%d; choose another "
            "model.file, or change `input` in [network]",
            g->path, g->input.c, g->input.h, g->input.w, train->name, train->shape.c, train->shape.h, train->shape.w);
    if (train->classes != g->classes)
        return ls_fail(LS_USAGE,
            "%s: the network has %d outputs, but data.dataset = %s has %d classes; change the last layer", g->path,
            g->classes, train->name, train->classes);
    if (!ls_chw_equal(test->shape, train->shape) || test->classes != train->classes)
        return ls_fail(
            LS_DATA, "data.dataset = %s: the training and the test split differ in shape or classes", train->name);
    return LS_SUCCESS;
}

// --- device --------------------------------------------------------------------------------------

static int choose_threads(const ls_trainer *t) {
    ls_cpus cpus;
    ls_cpus_detect(&cpus);
    const ls_comm_info *comm = t->facts.comm;
    int fair = ls_cpus_threads_per_rank(&cpus, comm->local_size);
    int threads = t->cfg->device_threads ? (int)t->cfg->device_threads : fair;
    double limit = cpus.quota_cpus > 0 && cpus.quota_cpus < cpus.mask_cpus ? cpus.quota_cpus : cpus.mask_cpus;
    int unbound = cpus.mask_cpus == cpus.online_cpus;
    int sharing = unbound ? comm->local_size : 1;
    if (comm->rank == 0 && threads * sharing > limit + 0.01)
        ls_warn("%d ranks of %d threads share %.4g cores on %s: expect less than full speed; start fewer ranks, or set "
                "device.threads",
            sharing, threads, limit, comm->host);
    if (comm->rank == 0 && comm->world_size == 1 && !unbound && !ls_device_assignment_moved(t->placement) &&
        cpus.mask_cores < cpus.online_cpus && !t->cfg->device_threads)
        ls_info(
            "this rank is bound to %d of %d processors; mpirun --bind-to none (or a wider binding) lets it use more",
            cpus.mask_cpus, cpus.online_cpus);
    return threads;
}

static ls_dtype storage_of(const ls_config *cfg) {
    return cfg->train_precision == LS_PRECISION_BF16   ? LS_BF16
           : cfg->train_precision == LS_PRECISION_FP16 ? LS_F16
                                                       : LS_F32;
}

// All ranks call it, with their status so far, and do alike.
static ls_status open_device(ls_trainer *t, ls_status status) {
    LS_TRY(ls_startup_check_programs(t)); // first: what follows depends on the options
    if (!ls_failed(status)) status = ls_trainer_open_algorithm_cache(t);
    LS_TRY(ls_device_assignment_new(t->comm, status, t->cfg, &t->placement));
    t->facts.threads = choose_threads(t);
    ls_device_options options = {
        .threads = t->facts.threads,
        .winograd = ls_config_choice("device.winograd", t->cfg->device_winograd),
        .tf32 = t->cfg->device_tf32,
        .plans = t->plans,
    };
    LS_TRY(ls_device_assignment_open(t->placement, t->comm, &options, &t->device));
    t->facts.why_not_cuda = ls_device_assignment_why_not_cuda(t->placement);
    t->facts.places = ls_device_assignment_ranks(t->placement);
    t->facts.device = t->device->api->name;
    t->device->api->facts(t->device, &t->facts.device_facts);
    LS_TRY(ls_startup_check_devices(t));
    LS_TRY(t->device->api->check_precision(t->device, storage_of(t->cfg)));
    return t->device->api->queue_new(t->device, "compute", &t->queue);
}

// --- memory and programs -------------------------------------------------------------------------

// The size of the one short micro-batch of an epoch if it falls to this rank; else 0.
static int tail_size(const ls_batches *b) {
    for (int j = b->rank * b->per_rank; j < (b->rank + 1) * b->per_rank; j++) {
        int samples = ls_batches_micro_samples(b, b->windows - 1, j);
        if (samples > 0 && samples < b->micro_batch) return samples;
    }
    return 0;
}

enum { FULL, TAIL, EVAL, PROGRAMS };

// What the program is compiled for; micro_batch 0: this rank does not need it.
static ls_compile_options options_of(const ls_trainer *t, int program) {
    const ls_config *cfg = t->cfg;
    int training = program != EVAL;
    return (ls_compile_options){ .micro_batch = program == EVAL   ? t->eval_batches.micro_batch
                                                : t->evaluates    ? 0
                                                : program == FULL ? t->facts.batches.micro_batch
                                                                  : tail_size(&t->facts.batches),
        .training = training,
        .label_smoothing = (float)cfg->train_label_smoothing,
        .seed = (uint64_t)cfg->run_seed,
        .pad = training ? (int)cfg->data_pad : 0, // test pictures are taken as they are
        .pad_mode = cfg->data_pad_mode == LS_PAD_MODE_REFLECT ? LS_PAD_REFLECT : LS_PAD_ZERO,
        .indexed = cfg->data_loader == LS_LOADER_RESIDENT,
        .recompute = cfg->train_recompute == LS_RECOMPUTE_BLOCKS,
        .sync_norm = ls_config_syncs_norm(cfg, t->facts.comm->world_size) };
}

static void grow(size_t *most, size_t bytes) {
    if (bytes > *most) *most = bytes;
}

static ls_status measure_programs(ls_trainer *t) {
    for (int p = 0; p < PROGRAMS; p++) {
        ls_compile_options options = options_of(t, p);
        size_t bytes = 0;
        if (options.micro_batch) LS_TRY(ls_compile_measure(t->arenas, &options, &bytes));
        grow(&t->facts.memory.activations, bytes);
    }
    return LS_SUCCESS;
}

static ls_status compile_programs(ls_trainer *t) {
    ls_program **programs[PROGRAMS] = { &t->full, &t->tail, &t->eval };
    for (int p = 0; p < PROGRAMS; p++) {
        ls_compile_options options = options_of(t, p);
        if (!options.micro_batch) continue;
        LS_TRY(ls_compile(t->arenas, &options, programs[p]));
        grow(&t->facts.memory.activations, (*programs[p])->activation_bytes);
        grow(&t->facts.memory.workspace, (*programs[p])->workspace_bytes);
    }
    return LS_SUCCESS;
}

static void free_programs(ls_trainer *t) {
    ls_program **programs[PROGRAMS] = { &t->full, &t->tail, &t->eval };
    for (int p = 0; p < PROGRAMS; p++) {
        ls_program_free(*programs[p]);
        *programs[p] = NULL;
    }
}

// The programs never run at the same time: they share one slab of activations and one workspace.
static ls_status bind_programs(ls_trainer *t) {
    ls_program *programs[PROGRAMS] = { t->full, t->tail, t->eval };
    const ls_device_api *api = t->device->api;
    size_t activations = t->facts.memory.activations, workspace = t->facts.memory.workspace;
    LS_TRY(api->slab_new(t->device, LS_MEMORY_DEVICE, activations, "activations", &t->activations));
    if (workspace) LS_TRY(api->slab_new(t->device, LS_MEMORY_DEVICE, workspace, "workspace", &t->workspace));
    for (int p = 0; p < PROGRAMS; p++)
        if (programs[p]) ls_program_bind(programs[p], t->activations, t->workspace);
    return LS_SUCCESS;
}

static ls_status upload_table(ls_trainer *t) {
    const ls_device_api *api = t->device->api;
    size_t bytes = (size_t)t->graph->input.c * 256 * sizeof(float);
    ls_slab *host;
    LS_TRY(api->slab_new(t->device, LS_MEMORY_DEVICE, bytes, "normalisation table", &t->table));
    LS_TRY(api->slab_new(t->device, LS_MEMORY_PINNED, bytes, "normalisation table (host)", &host));
    ls_dataset_table(t->train_data, ls_buffer_host(ls_buffer_at(host, 0, bytes)));
    api->copy(ls_buffer_at(t->table, 0, bytes), ls_buffer_at(host, 0, bytes), bytes, t->queue);
    ls_status status = api->queue_sync(t->queue);
    api->slab_free(host);
    return status;
}

// One micro-batch a rank, the end of the set whatever is left.
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

static void plan_evaluation(ls_trainer *t) {
    t->eval_batches = without_accumulation(t->facts.comm, t->facts.test_data->count, t->facts.batches.micro_batch);
}

static int64_t planned_updates(const ls_trainer *t) {
    int64_t updates = t->cfg->train_epochs * t->facts.batches.windows;
    return t->cfg->train_max_updates && t->cfg->train_max_updates < updates ? t->cfg->train_max_updates : updates;
}

// Ordered mode adds one fixed-point term for each micro-batch: so many fit (op_update.h).
static ls_status check_fixed_point(const ls_config *cfg, const ls_batches *b) {
    const int limit = 1 << LS_FIXED_RANK_BITS;
    if (!cfg->run_deterministic || b->micro_batches <= limit) return LS_SUCCESS;
    return ls_fail(LS_USAGE,
        "%s: run.deterministic allows %d micro-batches an update, but train.global_batch = %d in micro-batches of "
        "%d are %d; set a larger train.micro_batch",
        cfg->file, limit, b->global_batch, b->micro_batch, b->micro_batches);
}

// Batch norm on a map of 1x1 has as many values of a channel as the micro-batch has samples: one has no variance.
static ls_status check_norms(const ls_graph *g, const ls_batches *b) {
    const int last = ls_batches_window_samples(b, b->windows - 1);
    if (b->micro_batch > 1 && last % b->micro_batch != 1) return LS_SUCCESS;
    for (int l = 0; l < g->layer_count; l++) {
        const ls_layer *layer = &g->layers[l];
        if (layer->kind != LS_LAYER_BATCHNORM2D || layer->out.h * layer->out.w > 1) continue;
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

static ls_input_pipeline_options feed_options(const ls_trainer *t, int training) {
    return (ls_input_pipeline_options){ .queue = t->queue,
        .dataset = training ? t->train_data : t->test_data,
        .micro_batch = training ? t->facts.batches.micro_batch : t->eval_batches.micro_batch,
        .prefetch = training ? (int)t->cfg->data_prefetch : EVAL_SLOTS,
        .resident = t->cfg->data_loader == LS_LOADER_RESIDENT,
        .comm = training ? t->comm : NULL };
}

static ls_status new_feeds(ls_trainer *t) {
    ls_input_pipeline_options training = feed_options(t, 1), evaluation = feed_options(t, 0);
    if (!t->evaluates) LS_TRY(ls_input_pipeline_new(t->device, &training, &t->feed));
    LS_TRY(ls_input_pipeline_new(t->device, &evaluation, &t->eval_feed));
    t->facts.memory.ring = (t->feed ? ls_input_pipeline_bytes(t->feed) : 0) + ls_input_pipeline_bytes(t->eval_feed) -
                           t->facts.memory.inputs;
    return LS_SUCCESS;
}

// What the run needs with the micro-batch of t->facts.batches, without workspaces, which are known when there are
// plans: activations are measured first, which is cheap.
static ls_status try_activations(ls_trainer *t, int32_t *fits) {
    const ls_param_store_sizes *sizes = &t->arenas->sizes;
    free_programs(t);
    plan_evaluation(t);
    ls_input_pipeline_options training = feed_options(t, 1), evaluation = feed_options(t, 0);
    ls_memory_plan *memory = &t->facts.memory;
    *memory = (ls_memory_plan){ .weights = sizes->weight + sizes->copy,
        .gradients = sizes->grad + sizes->fixed,
        .optimizer = sizes->state,
        .inputs = (t->evaluates ? 0 : ls_input_pipeline_device_bytes(t->device, &training)) +
                  ls_input_pipeline_device_bytes(t->device, &evaluation) };
    LS_TRY(ls_memory_plan_look(memory, t->device));
    if (memory->own_memory) LS_TRY(measure_programs(t));
    *fits = ls_memory_plan_fits(memory);
    return LS_SUCCESS;
}

static ls_status try_plans(ls_trainer *t, int32_t *fits) {
    ls_memory_plan *memory = &t->facts.memory;
    LS_TRY(compile_programs(t));
    LS_TRY(ls_memory_plan_look(memory, t->device)); // plans may hold some of it
    *fits = ls_memory_plan_fits(memory);
    return LS_SUCCESS;
}

// Plans the run with that micro-batch, up to its programs, as far as it fits into every rank's device. *mine: into this
// one's. All ranks call it; `status` is this rank's so far.
static ls_status try_micro_batch(ls_trainer *t, ls_status status, int32_t *mine, int32_t *all) {
    if (!ls_failed(status)) status = try_activations(t, mine);
    LS_TRY(ls_comm_agree(t->comm, status, NULL));
    *all = *mine;
    LS_TRY(ls_comm_allreduce(t->comm, all, 1, LS_I32, LS_REDUCE_MIN));
    if (!*all) return LS_SUCCESS;
    const ls_compile_options largest = options_of(t, t->evaluates ? EVAL : FULL);
    if (t->plans) LS_TRY(ls_trainer_autotune(t, &largest));
    LS_TRY(ls_comm_agree(t->comm, try_plans(t, mine), NULL));
    *all = *mine;
    return ls_comm_allreduce(t->comm, all, 1, LS_I32, LS_REDUCE_MIN);
}

// All ranks take the same micro-batch: the largest that fits on each of them. All ranks call it; `status` is this
// rank's so far.
static ls_status choose_micro_batch(ls_trainer *t, ls_status status) {
    ls_batches *batches = &t->facts.batches;
    const int wanted = batches->micro_batch;
    ls_memory_plan first = { 0 };
    for (;;) {
        int32_t mine = 0, all;
        LS_TRY(try_micro_batch(t, status, &mine, &all));
        if (batches->micro_batch == wanted) first = t->facts.memory;
        if (all) break;
        if (t->cfg->train_micro_batch == LS_AUTO && ls_batches_shrink(batches)) continue;
        if (!mine) status = ls_memory_plan_refuse(&t->facts.memory, t->cfg, batches->micro_batch);
        return ls_comm_agree(t->comm, status, NULL);
    }
    if (batches->micro_batch == wanted) return LS_SUCCESS;
    char needs[32], needed[32], unused[32];
    ls_info("memory    train.micro_batch = auto: %d samples and %d accumulation steps need %s; %d samples would need "
            "at least %s of the %s that are free",
        batches->micro_batch, batches->per_rank, ls_text_bytes(needs, ls_memory_plan_bytes(&t->facts.memory)), wanted,
        ls_text_bytes(needed, ls_memory_plan_bytes(&first)), ls_text_bytes(unused, first.free_bytes));
    return LS_SUCCESS;
}

static ls_status plan_batches(ls_trainer *t) {
    const ls_comm_info *comm = t->facts.comm;
    const int64_t samples = t->facts.train_data->count;
    ls_batches *b = &t->facts.batches;
    ls_status status = ls_batches_plan(t->cfg, samples, comm->rank, comm->world_size, b);
    if (!t->evaluates) {
        LS_TRY(status);
        LS_TRY(check_fixed_point(t->cfg, b));
        return check_norms(t->graph, b);
    }
    if (!ls_failed(status)) return LS_SUCCESS; // in the run's own batches, to the run's own bits
    const int64_t given = t->cfg->train_micro_batch, most = LS_MICRO_BATCH_DERIVED_MAX;
    const int64_t share = (t->cfg->train_global_batch + comm->world_size - 1) / comm->world_size;
    *b = without_accumulation(comm, samples, (int)(given > 0 ? given : share < most ? share : most));
    return LS_SUCCESS;
}

// Needs no memory of the device, and no other rank.
static ls_status plan_training(ls_trainer *t) {
    const ls_config *cfg = t->cfg;
    LS_TRY(plan_batches(t));
    t->facts.updates_planned = planned_updates(t);
    LS_TRY(ls_schedule_new(cfg, t->facts.batches.samples, &t->schedule));
    int several = t->facts.comm->world_size > 1;
    ls_param_store_options options = { .storage = storage_of(cfg),
        .state_arenas = ls_optimizer_kept(cfg->optimizer_kind),
        .ordered = cfg->run_deterministic,
        .wire = cfg->dist_reduce_dtype == LS_REDUCE_DTYPE_BF16 && several,
        .reduced = several || cfg->dist_backend == LS_BACKEND_NCCL };
    return ls_param_store_new(t->device, t->graph, &options, &t->arenas);
}

// All slabs, for the programs that choose_micro_batch left.
static ls_status allocate(ls_trainer *t) {
    ls_status status = ls_param_store_allocate(t->arenas);
    if (!ls_failed(status)) status = ls_param_store_init(t->arenas, (uint64_t)t->cfg->run_seed);
    LS_TRY(ls_comm_agree(t->comm, status, NULL)); // what follows opens communicators
    t->depth = t->device->api->capture_begin ? DEPTH : 1;
    t->loss_scale = t->arenas->storage == LS_F16 ? (float)t->cfg->loss_scale_initial : 1.0f;
    LS_TRY(ls_update_new(t->cfg, t->arenas, t->comm, t->collective, t->queue, t->depth, &t->update));
    ls_update_weights_changed(t->update);
    LS_TRY(bind_programs(t));
    LS_TRY(upload_table(t));
    LS_TRY(ls_replicas_new(t, &t->replicas));
    t->facts.memory.control = ls_update_device_bytes(t->update) + t->table->bytes;
    return new_feeds(t);
}

// --- the whole -----------------------------------------------------------------------------------

static ls_status open_network(ls_trainer *t) {
    char path[PATH_BYTES];
    LS_TRY(ls_config_path(t->cfg, LS_OPTION_model_file, path, sizeof path));
    return ls_graph_read(path, &t->graph);
}

static void fill_facts(ls_trainer *t) {
    ls_train_info *f = &t->facts;
    f->graph = t->graph;
    f->parameters = ls_graph_trained_parameters(t->graph);
    for (int l = 0; l < t->graph->layer_count; l++) {
        ls_cost cost = ls_layer_cost(t->graph, l);
        f->flops_per_sample += cost.forward + cost.backward_data + cost.backward_weight;
    }
}

// Everything up to the memory of the device. Data is read meanwhile; its errors come after
// those of configuration and device.
static ls_status prepare(ls_trainer *t) {
    data_opening train = { .cfg = t->cfg, .split = LS_SPLIT_TRAIN }, test = { .cfg = t->cfg, .split = LS_SPLIT_TEST };
    start_opening(&train);
    start_opening(&test);
    ls_status status = open_device(t, open_network(t));
    ls_comm_phase(t->comm, "start-up: data", -1);
    ls_keep_first(&status, finish_opening(&train, &t->train_data));
    ls_keep_first(&status, finish_opening(&test, &t->test_data));
    if (ls_failed(status)) return status;
    t->facts.train_data = ls_dataset_get_info(t->train_data);
    t->facts.test_data = ls_dataset_get_info(t->test_data);
    LS_TRY(check_data(t));
    fill_facts(t);
    ls_comm_phase(t->comm, "start-up: plans", -1);
    return plan_training(t);
}

// Before memory is planned: what NCCL takes of it is then known.
static ls_status open_sums(ls_trainer *t) {
    ls_train_info *f = &t->facts;
    LS_TRY(ls_select_backend(t->comm, t->device, t->cfg, ls_device_assignment_shares(t->placement), &t->collective,
        f->sums, f->why_not_nccl));
    if (!t->collective && f->comm->world_size > 1) snprintf(f->sums, sizeof f->sums, "MPI");
    if (t->collective) LS_TRY(ls_comm_watch(t->comm, t->device->api->collective, t->collective));
    return LS_SUCCESS;
}

// Agreed on by itself: what follows asks the other ranks for their places at once.
static ls_status allocate_trainer(ls_comm *comm, ls_trainer **out) {
    ls_status status = ls_comm_agree(comm, LS_NEW(*out, 1, "trainer"), NULL);
    if (!ls_failed(status)) return LS_SUCCESS;
    free(*out);
    *out = NULL;
    return status;
}

static ls_status open_trainer(const ls_config *cfg, ls_comm *comm, int evaluates, ls_trainer **out) {
    ls_trainer *t = NULL;
    LS_TRY(allocate_trainer(comm, &t));
    t->cfg = cfg;
    t->comm = comm;
    t->evaluates = evaluates;
    t->facts.cfg = cfg;
    t->facts.comm = ls_comm_get_info(comm);
    t->keeping.meet_at = INT64_MAX;
    ls_comm_phase(comm, "start-up: device", -1);
    ls_status status = ls_comm_agree(comm, prepare(t), NULL);
    if (!ls_failed(status)) status = ls_trainer_verify_test_pictures(t);
    if (!ls_failed(status)) status = open_sums(t);
    if (!ls_failed(status)) status = choose_micro_batch(t, status);
    if (!ls_failed(status)) status = ls_comm_agree(comm, allocate(t), NULL);
    if (!ls_failed(status)) status = ls_startup_check_state(t);
    if (ls_failed(status)) {
        ls_trainer_free(t);
        return status;
    }
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
    if (t->queue) (void)t->device->api->queue_sync(t->queue); // what a failed run left under way
    ls_checkpoint_manager_close(t->keeping.files);
    ls_input_pipeline_free(t->feed);
    ls_input_pipeline_free(t->eval_feed);
    ls_replicas_free(t->replicas);
    ls_update_free(t->update); // its recordings hold the programs' buffers, and collectives
    if (t->collective) {
        ls_status unwatched = ls_comm_watch(t->comm, NULL, NULL);
        (void)unwatched; // fails only when it begins
        t->device->api->collective->close(t->collective, t->cfg->dist_timeout);
    }
    if (t->tracing.timeline) ls_spans_close(); // nobody records any more
    ls_timeline_free(t->tracing.timeline);
    free_programs(t);
    ls_param_store_free(t->arenas);
    if (t->device) {
        ls_slab *slabs[] = { t->activations, t->workspace, t->table };
        for (size_t s = 0; s < sizeof slabs / sizeof *slabs; s++)
            if (slabs[s]) t->device->api->slab_free(slabs[s]);
        if (t->queue) t->device->api->queue_free(t->queue);
    }
    ls_device_close(t->device);
    ls_algorithm_cache_free(t->plans);
    ls_device_assignment_free(t->placement);
    ls_dataset_free(t->train_data);
    ls_dataset_free(t->test_data);
    ls_graph_free(t->graph);
    cJSON_Delete(t->parts);
    free(t->nonfinite);
    free(t);
}

const ls_train_info *ls_trainer_get_info(const ls_trainer *t) {
    return &t->facts;
}

size_t ls_trainer_device_bytes(const ls_trainer *t) {
    return ls_memory_plan_bytes(&t->facts.memory);
}

ls_device *ls_trainer_device(const ls_trainer *t) {
    return t->device;
}

ls_status ls_trainer_set_folder(ls_trainer *t, const char *folder) {
    if ((size_t)snprintf(t->folder, sizeof t->folder, "%s", folder) < sizeof t->folder) return LS_SUCCESS;
    t->folder[0] = '\0';
    return ls_fail(LS_USAGE, "run folder %s: name longer than %zu bytes", folder, sizeof t->folder - 1);
}

ls_status ls_trainer_set_run(ls_trainer *t, const ls_run_identity *run) {
    t->facts.run = *run;
    return ls_trainer_set_parts(t, ls_run_parts_new(&t->facts, NULL, NULL, NULL));
}

ls_status ls_trainer_set_parts(ls_trainer *t, cJSON *parts) {
    cJSON_Delete(t->parts);
    t->facts.parts = t->parts = parts;
    return ls_json_is_whole(parts) ? LS_SUCCESS : ls_no_memory(0, "record of the run's parts");
}

const struct ls_nonfinite *ls_trainer_nonfinite(const ls_trainer *t) {
    return t->nonfinite;
}
