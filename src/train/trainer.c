// trainer.c - planning a run: data, network, device, memory, programs; everything that can fail before step 0.
#include "train/trainer.h"

#include <math.h>
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
#include "files/weights_map.h"
#include "train/tta.h"

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
    const ls_dataset_info *train = t->plan.info.train_data, *test = t->plan.info.test_data;
    const ls_graph *g = t->plan.graph;
    if (!ls_chw_equal(train->shape, g->input))
        return ls_fail(LS_USAGE,
            "%s: the network's input is %dx%dx%d, but pictures of data.dataset = %s are %dx%dx%d; choose another "
            "model.file, or write `input = data` in [network]",
            g->path, g->input.c, g->input.h, g->input.w, train->name, train->shape.c, train->shape.h, train->shape.w);
    if (train->classes != g->classes)
        return ls_fail(LS_USAGE,
            "%s: the network has %d outputs, but data.dataset = %s has %d classes; write `out_features = classes` in "
            "the last layer",
            g->path, g->classes, train->name, train->classes);
    if (!ls_chw_equal(test->shape, train->shape) || test->classes != train->classes)
        return ls_fail(
            LS_DATA, "data.dataset = %s: the training and the test split differ in shape or classes", train->name);
    if (t->plan.cfg->train_patience == 0 || t->plan.info.val_data || t->plan.evaluates) return LS_SUCCESS;
    char where[LS_STATUS_TEXT_BYTES / 4];
    return ls_fail(LS_USAGE,
        "%s: it goes by validation, for which nothing is held out; set data.validation_fraction, for example to 0.1",
        ls_config_where(t->plan.cfg, LS_OPTION_train_patience, where, sizeof where));
}

// --- device --------------------------------------------------------------------------------------

// Where threads and cores do not go together.
static void remark_on_threads(const ls_trainer *t, int threads) {
    ls_cpus cpus;
    ls_cpus_detect(&cpus);
    const ls_comm_info *comm = t->plan.info.comm;
    double limit = cpus.quota_cpus > 0 && cpus.quota_cpus < cpus.mask_cpus ? cpus.quota_cpus : cpus.mask_cpus;
    int unbound = cpus.mask_cpus == cpus.online_cpus;
    int sharing = unbound ? comm->local_size : 1;
    if (comm->rank == 0 && threads * sharing > limit + 0.01)
        ls_warn("%d ranks of %d threads share %.4g cores on %s: expect less than full speed; start fewer ranks, or set "
                "device.threads",
            sharing, threads, limit, comm->host);
    if (comm->rank == 0 && comm->world_size == 1 && !unbound && !ls_device_assignment_moved(t->plan.assignment) &&
        cpus.mask_cores < cpus.online_cpus && !t->plan.cfg->device_threads)
        ls_info(
            "this rank is bound to %d of %d processors; mpirun --bind-to none (or a wider binding) lets it use more",
            cpus.mask_cpus, cpus.online_cpus);
}

// All ranks call it, with their status so far, and do alike.
static ls_status open_device(ls_trainer *t, ls_status status) {
    LS_TRY(ls_startup_check_programs(t)); // first: what follows depends on the options
    if (!ls_failed(status)) status = ls_trainer_open_algorithm_cache(t);
    LS_TRY(ls_device_assignment_new(t->plan.comm, status, t->plan.cfg, &t->plan.assignment));
    t->plan.info.threads = ls_session_threads(t->plan.cfg, t->plan.info.comm->local_size);
    remark_on_threads(t, t->plan.info.threads);
    ls_device_options options = ls_session_device_options(t->plan.cfg, t->plan.info.threads);
    options.plans = t->session.algorithms;
    options.alone =
        t->plan.info.comm->world_size == 1 && !t->plan.cfg->run_deterministic; // ordered: rounds as several ranks do
    LS_TRY(ls_device_assignment_open(t->plan.assignment, t->plan.comm, &options, &t->session.compute.device));
    t->plan.info.why_not_gpu = ls_device_assignment_why_not_gpu(t->plan.assignment);
    t->plan.info.places = ls_device_assignment_ranks(t->plan.assignment);
    t->plan.info.device = t->session.compute.device->api->name;
    t->session.compute.device->api->info(t->session.compute.device, &t->plan.info.device_info);
    LS_TRY(ls_startup_check_devices(t));
    return ls_session_start(&t->session.compute, ls_config_storage(t->plan.cfg));
}

// --- memory --------------------------------------------------------------------------------------

static int64_t planned_updates(const ls_trainer *t) {
    int64_t updates = t->plan.cfg->train_epochs * t->plan.info.batches.windows;
    return t->plan.cfg->train_max_updates && t->plan.cfg->train_max_updates < updates ? t->plan.cfg->train_max_updates
                                                                                      : updates;
}

// Needs no memory of the device, and no other rank.
static ls_status plan_training(ls_trainer *t) {
    const ls_config *cfg = t->plan.cfg;
    LS_TRY(ls_trainer_plan_batches(t));
    t->plan.info.updates_planned = planned_updates(t);
    const ls_status planned = ls_schedule_new(cfg, &t->plan.info.batches, &t->plan.schedule);
    if (!t->plan.evaluates) LS_TRY(planned); // an evaluation has no use for the schedule
    int several = t->plan.info.comm->world_size > 1;
    ls_param_store_options options = { .storage = ls_config_storage(cfg),
        .rules = t->plan.rules,
        .state_tensors = t->plan.rules->kept,
        .averaged = t->plan.rules->average != LS_AVERAGE_OFF,
        .ordered = cfg->run_deterministic,
        .wire = cfg->dist_reduce_dtype == LS_REDUCE_DTYPE_BF16 && several,
        .reduced = several || ls_collective_find(ls_config_choice("dist.backend", cfg->dist_backend)) };
    return ls_session_place(&t->session.compute, t->plan.graph, &options);
}

ls_input_pipeline_options ls_trainer_input_options(const ls_trainer *t, ls_split split) {
    const int training = split == LS_SPLIT_TRAIN;
    return (ls_input_pipeline_options){ .queue = t->session.compute.queue,
        .dataset = training                 ? t->plan.train_data
                   : split == LS_SPLIT_TEST ? t->plan.test_data
                                            : t->plan.val_data,
        .micro_batch = training ? t->plan.info.batches.micro_batch : t->plan.eval_batches.micro_batch,
        .prefetch = training ? (int)t->plan.cfg->data_prefetch : EVAL_SLOTS,
        .resident = t->plan.cfg->data_loader == LS_LOADER_RESIDENT,
        .comm = training ? t->plan.comm : NULL };
}

static ls_status open_inputs(ls_trainer *t) {
    const struct {
        ls_split split;
        int wanted;
        ls_input_pipeline **pipeline;
    } rows[] = { { LS_SPLIT_TRAIN, !t->plan.evaluates, &t->session.input },
        { LS_SPLIT_TEST, 1, &t->session.eval_input },
        { LS_SPLIT_VALIDATION, t->plan.val_data != NULL, &t->session.val_input } };
    ls_memory_plan *memory = &t->session.compute.memory;
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!rows[i].wanted) continue;
        const ls_input_pipeline_options options = ls_trainer_input_options(t, rows[i].split);
        LS_TRY(ls_input_pipeline_new(t->session.compute.device, &options, rows[i].pipeline));
        bytes += ls_input_pipeline_bytes(*rows[i].pipeline);
    }
    memory->ring = bytes - memory->inputs;
    return LS_SUCCESS;
}

static ls_status allocate_session(ls_trainer *t) {
    LS_TRY(ls_session_allocate(&t->session.compute));
    return ls_trainer_init_weights(t);
}

// Everything that the memory plan has.
static ls_status allocate(ls_trainer *t) {
    ls_session *s = &t->session.compute;
    LS_TRY(ls_comm_agree(t->plan.comm, allocate_session(t), NULL)); // what follows opens communicators
    t->session.depth = s->device->api->capture_begin ? DEPTH : 1;
    t->progress.loss_scale = s->store->storage == LS_F16 ? (float)t->plan.cfg->loss_scale_initial : 1.0f;
    LS_TRY(ls_update_new(
        t->plan.cfg, s->store, t->plan.comm, t->session.collective, s->queue, t->session.depth, &t->session.update));
    ls_session_weights_changed(s);
    LS_TRY(ls_input_pipeline_set_table(s, t->plan.train_data));
    if (t->session.class_weights)
        LS_TRY(ls_session_set_class_weights(s, ls_class_weights_values(t->session.class_weights)));
    LS_TRY(ls_replicas_new(t, &t->session.replicas));
    s->memory.control = ls_update_device_bytes(t->session.update) + s->table->bytes;
    if (s->class_weights) s->memory.control += s->class_weights->bytes;
    LS_TRY(ls_tta_upload_views(t));
    return open_inputs(t);
}

// For the verdict on the run: what other settings would find here.
static void look_at_room(ls_trainer *t) {
    ls_run_room *room = &t->plan.info.room;
    const ls_memory_plan *memory = &t->session.compute.memory;
    const ls_comm_info *comm = t->plan.info.comm;
    const ls_dataset_info *sets[] = { t->plan.info.train_data, t->plan.info.test_data, t->plan.info.val_data };
    ls_cpus cpus;
    ls_cpus_detect(&cpus);
    room->threads = ls_cpus_threads_per_rank(&cpus, comm->local_size);
    room->cores = ls_rank_table_cores(t->plan.info.places, comm->world_size, comm->rank);
    const double quota = cpus.quota_cpus / comm->local_size;
    if (!(room->cores > 0) || (quota > 0 && quota < room->cores)) room->cores = quota; // 0: neither is known
    if (memory->own_memory)
        room->memory_bytes =
            fmax(0, (double)memory->free_bytes - (double)memory->reserve - (double)ls_memory_plan_bytes(memory));
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (sets[i]) room->resident_bytes += (double)sets[i]->count * (double)ls_chw_count(sets[i]->shape);
    room->activation_bytes = (double)memory->activations;
    for (int p = 0; p < LS_RUN_PROGRAMS; p++)
        if (t->session.compute.program[p])
            room->kept_bytes = fmax(room->kept_bytes, (double)t->session.compute.program[p]->all_kept_bytes -
                                                          (double)t->session.compute.program[p]->activation_bytes);
}

// --- the whole -----------------------------------------------------------------------------------

// Waits for the training split: a network that has numbers everywhere does not come here.
static ls_status find_data(void *opening, ls_chw *shape, int *classes) {
    ls_dataset *dataset;
    LS_TRY(finish_opening(opening, &dataset));
    *shape = ls_dataset_get_info(dataset)->shape;
    *classes = ls_dataset_get_info(dataset)->classes;
    return LS_SUCCESS;
}

static ls_status open_network(ls_trainer *t, data_opening *train) {
    char path[PATH_BYTES];
    LS_TRY(ls_config_network(t->plan.cfg, path, sizeof path));
    return ls_graph_read_for(path, &(ls_graph_data){ find_data, train }, &t->plan.graph);
}

static void fill_facts(ls_trainer *t) {
    ls_train_info *f = &t->plan.info;
    f->graph = t->plan.graph;
    f->parameters = ls_graph_trained_parameters(t->plan.graph);
    f->flops_per_sample = ls_graph_training_flops(ls_trainer_graph_at(t, 0));
}

// Everything up to the memory of the device. Data is read meanwhile; its errors come after
// those of configuration and device.
static ls_status prepare(ls_trainer *t) {
    data_opening train = { .cfg = t->plan.cfg, .split = LS_SPLIT_TRAIN },
                 test = { .cfg = t->plan.cfg, .split = LS_SPLIT_TEST };
    start_opening(&train);
    start_opening(&test);
    ls_status status = open_device(t, open_network(t, &train));
    ls_comm_phase(t->plan.comm, "start-up: data", -1);
    ls_keep_first(&status, finish_opening(&train, &t->plan.train_data));
    ls_keep_first(&status, finish_opening(&test, &t->plan.test_data));
    if (ls_failed(status)) return status;
    t->plan.info.train_data = ls_dataset_get_info(t->plan.train_data);
    t->plan.info.test_data = ls_dataset_get_info(t->plan.test_data);
    t->plan.val_data = ls_dataset_held_out(t->plan.train_data);
    if (t->plan.val_data) t->plan.info.val_data = ls_dataset_get_info(t->plan.val_data);
    LS_TRY(check_data(t));
    LS_TRY(ls_param_rules_new(t->plan.cfg, t->plan.graph, &t->plan.rules));
    t->plan.info.rules = t->plan.rules;
    LS_TRY(ls_trainer_open_stages(t));
    if (!t->plan.evaluates) LS_TRY(ls_class_weights_new(t->plan.cfg, t->plan.train_data, &t->session.class_weights));
    fill_facts(t);
    ls_comm_phase(t->plan.comm, "start-up: plans", -1);
    return plan_training(t);
}

// Before memory is planned: what a collective takes of it is then known.
static ls_status open_sums(ls_trainer *t) {
    ls_train_info *f = &t->plan.info;
    LS_TRY(ls_select_backend(t->plan.comm, t->session.compute.device, t->plan.cfg,
        ls_device_assignment_shares(t->plan.assignment), &t->session.collective, f->sums, f->why_not_collective));
    if (!t->session.collective && f->comm->world_size > 1) snprintf(f->sums, sizeof f->sums, "MPI");
    if (t->session.collective)
        LS_TRY(ls_comm_watch(t->plan.comm, t->session.compute.device->api->collective, t->session.collective));
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
    t->plan.cfg = cfg;
    t->plan.comm = comm;
    t->plan.evaluates = evaluates;
    t->plan.info.cfg = cfg;
    t->plan.info.comm = ls_comm_get_info(comm);
    t->plan.info.memory = &t->session.compute.memory;
    t->saving.meet_at = INT64_MAX;
    ls_comm_phase(comm, "start-up: device", -1);
    ls_status status = ls_comm_agree(comm, prepare(t), NULL);
    if (!ls_failed(status)) status = ls_trainer_verify_test_pictures(t);
    if (!ls_failed(status)) status = open_sums(t);
    if (!ls_failed(status)) status = ls_trainer_choose_micro_batch(t);
    if (!ls_failed(status)) status = ls_comm_agree(comm, allocate(t), NULL);
    if (!ls_failed(status)) status = ls_startup_check_state(t);
    if (ls_failed(status)) {
        ls_trainer_free(t);
        return status;
    }
    look_at_room(t);
    *out = t;
    return LS_SUCCESS;
}

ls_status ls_trainer_new(const ls_config *cfg, ls_comm *comm, ls_trainer **out) {
    return open_trainer(cfg, comm, 0, out);
}

ls_status ls_trainer_new_to_evaluate(const ls_config *cfg, ls_comm *comm, ls_trainer **out) {
    return open_trainer(cfg, comm, 1, out);
}

static void close_collective(ls_trainer *t) {
    if (!t->session.collective) return;
    ls_status unwatched = ls_comm_watch(t->plan.comm, NULL, NULL);
    (void)unwatched; // fails only when it begins
    t->session.compute.device->api->collective->close(t->session.collective, t->plan.cfg->dist_timeout);
}

void ls_trainer_free(ls_trainer *t) {
    if (!t) return;
    ls_session_drain(&t->session.compute);
    ls_checkpoint_manager_close(t->saving.files);
    ls_input_pipeline_free(t->session.input);
    ls_input_pipeline_free(t->session.eval_input);
    ls_input_pipeline_free(t->session.val_input);
    ls_replicas_free(t->session.replicas);
    ls_update_free(t->session.update); // its captured graphs hold the programs' buffers, and collectives
    close_collective(t);
    if (t->session.views) t->session.compute.device->api->slab_free(t->session.views);
    if (t->session.trace.timeline) ls_spans_close(); // no thread adds spans any more
    ls_timeline_free(t->session.trace.timeline);
    ls_session_close(&t->session.compute);
    ls_param_rules_free(t->plan.rules);
    ls_algorithm_cache_free(t->session.algorithms);
    ls_device_assignment_free(t->plan.assignment);
    ls_class_weights_free(t->session.class_weights);
    ls_dataset_free(t->plan.train_data);
    ls_dataset_free(t->plan.test_data);
    ls_weights_map_free(t->plan.init_map);
    ls_graph_free(t->plan.graph);
    ls_trainer_close_stages(t);
    cJSON_Delete(t->plan.parts);
    ls_evaluation_free(t->progress.details);
    free(t->progress.nonfinite);
    free(t);
}

const ls_train_info *ls_trainer_get_info(const ls_trainer *t) {
    return &t->plan.info;
}

size_t ls_trainer_device_bytes(const ls_trainer *t) {
    return ls_memory_plan_bytes(&t->session.compute.memory);
}

ls_device *ls_trainer_device(const ls_trainer *t) {
    return t->session.compute.device;
}

ls_status ls_trainer_set_folder(ls_trainer *t, const char *folder) {
    if ((size_t)snprintf(t->saving.folder, sizeof t->saving.folder, "%s", folder) < sizeof t->saving.folder)
        return LS_SUCCESS;
    t->saving.folder[0] = '\0';
    return ls_fail(LS_USAGE, "run folder %s: name longer than %zu bytes", folder, sizeof t->saving.folder - 1);
}

ls_status ls_trainer_set_run(ls_trainer *t, const ls_run_identity *run) {
    t->plan.info.run = *run;
    return ls_trainer_set_parts(t, ls_run_parts_new(&t->plan.info, NULL, NULL, NULL));
}

ls_status ls_trainer_set_parts(ls_trainer *t, cJSON *parts) {
    cJSON_Delete(t->plan.parts);
    t->plan.info.parts = t->plan.parts = parts;
    return ls_json_is_whole(parts) ? LS_SUCCESS : ls_no_memory(0, "record of the run's parts");
}

const ls_evaluation *ls_trainer_details(const ls_trainer *t) {
    return t->progress.details;
}

const struct ls_nonfinite *ls_trainer_nonfinite(const ls_trainer *t) {
    return t->progress.nonfinite;
}
