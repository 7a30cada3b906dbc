#include "cli/doctor/selftest.h"

#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/text.h"
#include "data/loader.h"
#include "dist/allreduce_times.h"
#include "files/checkpoint.h"
#include "program/param_rules.h"

enum { SUM_BYTES = 1 << 20, SUM_COUNT = SUM_BYTES / 4, REPEATS_MIN = 3, REPEATS_MAX = 200 };
static const double sums_s = 1, meet_s = 30; // of repeated sums; until the ranks have met

static void LS_PRINTF(2, 3) skip(ls_test *out, const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(out->text, sizeof out->text, format, values);
    va_end(values);
    out->result = LS_TEST_SKIPPED;
}

// --- sums over ranks -----------------------------------------------------------------------------

// Whole numbers that fp32 holds exactly, whatever the order of the additions.
static float part_of(int rank, int i) {
    return (float)((rank + 1) * (i % 3 + 1));
}

static ls_status check_sums(const float *sums, int ranks, const char *what) {
    for (int i = 0; i < SUM_COUNT; i++) {
        const float expected = (float)(ranks * (ranks + 1) / 2 * (i % 3 + 1));
        if (sums[i] != expected)
            return ls_fail(LS_COMM,
                "element %d of a sum over %d ranks by %s is %.9g, expected %.9g: the library or the network gives "
                "wrong "
                "bytes; do not train over it before that is found (another version, another transport, another host)",
                i, ranks, what, (double)sums[i], (double)expected);
    }
    return LS_SUCCESS;
}

typedef struct {
    const ls_test_bed *bed;
    float *data; // [SUM_COUNT]
    ls_collective *collective;
    ls_queue *queue;
    ls_slab *slab, *staging;
} sums;

static ls_status sum_on_host(sums *s) {
    return ls_comm_allreduce(s->bed->comm, s->data, SUM_COUNT, LS_F32, LS_REDUCE_SUM);
}

static ls_status sum_on_device(sums *s) {
    const ls_device_api *api = s->bed->device->api;
    api->collective->all_reduce(
        s->collective, ls_buffer_at(s->slab, 0, SUM_BYTES), SUM_COUNT, LS_F32, LS_COLLECT_SUM, 0, s->queue);
    return api->queue_sync(s->queue);
}

// All ranks: the same number of repeats, until about sums_s seconds are over; the slowest rank's time counts.
static ls_status time_sums(sums *s, ls_status (*sum)(sums *s), ls_test *out) {
    const ls_comm_info *info = ls_comm_get_info(s->bed->comm);
    double took = 0;
    int repeats = 1;
    for (int pass = 0; pass < 2; pass++) {
        double since = ls_clock_seconds();
        for (int i = 0; i < repeats; i++) LS_TRY(sum(s));
        took = (ls_clock_seconds() - since) / repeats;
        LS_TRY(ls_comm_allreduce(s->bed->comm, &took, 1, LS_F64, LS_REDUCE_MAX));
        repeats = took * REPEATS_MAX < sums_s ? REPEATS_MAX : (int)(sums_s / took);
        if (repeats < REPEATS_MIN) repeats = REPEATS_MIN;
    }
    const double bandwidth = ls_allreduce_bus_bandwidth(info->world_size, SUM_BYTES, took);
    char text[24];
    ls_text_cut(out->text, sizeof out->text, "1 MiB over %d ranks on %d host%s: exact; %.2f ms each, %sB/s over a link",
        info->world_size, info->hosts, info->hosts == 1 ? "" : "s", took * 1e3, ls_text_si(text, bandwidth));
    out->figure[0].name = "seconds";
    out->figure[0].value = took;
    out->figure[1].name = "bytes_per_second";
    out->figure[1].value = bandwidth;
    return LS_SUCCESS;
}

static ls_status agreed(const ls_test_bed *bed, ls_status mine) {
    return ls_comm_agree(bed->comm, mine, NULL);
}

static ls_status new_data(const ls_test_bed *bed, sums *s) {
    *s = (sums){ .bed = bed };
    LS_TRY(LS_NEW(s->data, SUM_COUNT, "the self-test"));
    for (int i = 0; i < SUM_COUNT; i++) s->data[i] = part_of(ls_comm_get_info(bed->comm)->rank, i);
    return LS_SUCCESS;
}

static ls_status try_allreduce(const ls_test_bed *bed, ls_test *out) {
    const int ranks = ls_comm_get_info(bed->comm)->world_size;
    if (ranks == 1) {
        skip(out, "one rank; started by mpirun or srun, ranks sum here");
        return LS_SUCCESS;
    }
    sums s;
    ls_status status = agreed(bed, new_data(bed, &s));
    LS_THEN(status, sum_on_host(&s));
    LS_THEN(status, agreed(bed, ls_failed(status) ? status : check_sums(s.data, ranks, ls_comm_library())));
    LS_THEN(status, time_sums(&s, sum_on_host, out));
    free(s.data);
    return status;
}

static ls_status open_collective(sums *s) {
    const ls_test_bed *bed = s->bed;
    const ls_device_api *api = bed->device->api;
    const ls_comm_info *info = ls_comm_get_info(bed->comm);
    uint8_t id[LS_COLLECTIVE_ID_BYTES] = { 0 };
    char version[64];
    LS_TRY(agreed(bed, api->collective->probe(version, sizeof version)));
    LS_TRY(agreed(bed, info->rank == 0 ? api->collective->make_id(id) : LS_SUCCESS));
    LS_TRY(ls_comm_broadcast(bed->comm, id, sizeof id, 0));
    LS_TRY(agreed(bed, api->collective->open(bed->device, id, info->rank, info->world_size, meet_s, &s->collective)));
    ls_status status = api->queue_new(bed->device, "self-test", &s->queue);
    LS_THEN(status, api->slab_new(bed->device, LS_MEMORY_REDUCED, SUM_BYTES, "the self-test", &s->slab));
    LS_THEN(status, api->slab_new(bed->device, LS_MEMORY_PINNED, SUM_BYTES, "the self-test", &s->staging));
    return agreed(bed, status);
}

static ls_status sum_once(sums *s, const char *name) {
    const ls_device_api *api = s->bed->device->api;
    ls_buffer device = ls_buffer_at(s->slab, 0, SUM_BYTES), host = ls_buffer_at(s->staging, 0, SUM_BYTES);
    memcpy(s->staging->address, s->data, SUM_BYTES);
    api->copy(device, host, SUM_BYTES, s->queue);
    ls_status status = sum_on_device(s);
    if (!ls_failed(status)) {
        api->copy(host, device, SUM_BYTES, s->queue);
        status = api->queue_sync(s->queue);
    }
    LS_THEN(status,
        check_sums((const float *)(const void *)s->staging->address, ls_comm_get_info(s->bed->comm)->world_size, name));
    return agreed(s->bed, status);
}

static ls_status try_collective(const ls_test_bed *bed, ls_test *out) {
    const ls_collective_api *collective = bed->device ? bed->device->api->collective : NULL;
    if (!collective || ls_comm_get_info(bed->comm)->world_size == 1 || bed->shares) {
        skip(out, "%s", !collective ? "no GPUs" : bed->shares ? "ranks share a GPU" : "one rank");
        return LS_SUCCESS;
    }
    sums s;
    ls_status status = agreed(bed, new_data(bed, &s));
    LS_THEN(status, open_collective(&s));
    LS_THEN(status, sum_once(&s, collective->name));
    LS_THEN(status, time_sums(&s, sum_on_device, out));
    const ls_device_api *api = bed->device->api;
    if (s.collective) collective->close(s.collective, meet_s);
    if (s.slab) api->slab_free(s.slab);
    if (s.staging) api->slab_free(s.staging);
    if (s.queue) api->queue_free(s.queue);
    free(s.data);
    return status;
}

// --- loader --------------------------------------------------------------------------------------

enum { PICTURE = 3 * 16 * 16, SAMPLES = 1000, MICRO = 16, SLOTS = 4, WORKERS = 2 };

typedef struct {
    uint8_t pixels[SLOTS][MICRO * PICTURE];
    int32_t labels[SLOTS][MICRO];
    ls_augment_sample augment[SLOTS][MICRO];
    uint32_t order[SAMPLES];
    ls_slot slots[SLOTS];
} ring;

static void configure(ls_config *cfg, int world_size) {
    ls_config_defaults(cfg);
    cfg->data_dataset = LS_DATASET_SYNTHETIC;
    ls_text_cut(cfg->data_shape, sizeof cfg->data_shape, "3x16x16");
    cfg->data_train_samples = cfg->data_test_samples = SAMPLES;
    cfg->train_micro_batch = MICRO;
    cfg->train_global_batch = MICRO * world_size;
}

// What the loader has put there is what the data set has at that place of the epoch.
static ls_status check_batch(const ls_loader_options *o, const ring *r, const ls_batch *batch) {
    for (int k = 0; k < batch->count; k++) {
        uint8_t pixels[PICTURE];
        int32_t label;
        const int64_t at = batch->window * o->batches.global_batch + (int64_t)batch->position + k;
        if (at < 0 || at >= SAMPLES)
            return ls_fail(LS_DATA, "the loader gives position %lld of %d", (long long)at, SAMPLES);
        LS_TRY(ls_dataset_read(o->dataset, r->order[at], pixels, &label));
        if (label != r->labels[batch->slot][k] || memcmp(pixels, r->pixels[batch->slot] + k * PICTURE, PICTURE) != 0)
            return ls_fail(LS_DATA,
                "sample %u came out of the loader with other bytes than the data set has: this host's memory may be "
                "faulty (memtest), or this is a bug of Lockstep's",
                r->order[at]);
    }
    return LS_SUCCESS;
}

static ls_status load_epoch(const ls_loader_options *o, const ring *r, int *batches, int64_t *samples) {
    ls_loader *loader;
    int64_t expected = 0;
    LS_TRY(ls_loader_new(o, &loader));
    ls_status status = LS_SUCCESS;
    for (int64_t w = 0; w < o->batches.windows; w++)
        for (int j = 0; j < o->batches.per_rank && !ls_failed(status); j++) {
            int count = ls_batches_micro_samples(&o->batches, w, o->batches.rank * o->batches.per_rank + j);
            ls_batch batch;
            if (count == 0) continue; // not this rank's
            expected += count;
            status = ls_loader_acquire(loader, &batch);
            if (ls_failed(status)) break;
            status = check_batch(o, r, &batch);
            *samples += batch.count;
            (*batches)++;
            ls_loader_release(loader, &batch);
        }
    ls_loader_free(loader);
    if (!ls_failed(status) && *samples != expected)
        return ls_fail(LS_DATA, "the loader gave %lld samples of %lld", (long long)*samples, (long long)expected);
    return status;
}

static ls_status load(const ls_config *cfg, int rank, int world_size, ring *r, ls_test *out) {
    ls_dataset *dataset;
    int64_t samples = 0;
    int batches = 0;
    LS_TRY(ls_dataset_open(cfg, LS_SPLIT_TRAIN, &dataset));
    ls_loader_options o = { .dataset = dataset,
        .seed = 1,
        .shuffle = 1,
        .epochs = 1,
        .workers = WORKERS,
        .slots = r->slots,
        .slot_count = SLOTS };
    ls_status status = ls_batches_plan(cfg, SAMPLES, rank, world_size, &o.batches);
    ls_order_shuffle(r->order, SAMPLES, o.seed, 0);
    double since = ls_clock_seconds();
    LS_THEN(status, load_epoch(&o, r, &batches, &samples));
    double took = ls_clock_seconds() - since;
    ls_dataset_free(dataset);
    LS_TRY(status);
    ls_text_cut(out->text, sizeof out->text,
        "%lld synthetic pictures in %d micro-batches by %d threads, each as it should be", (long long)samples, batches,
        WORKERS);
    out->figure[0].name = "images_per_second";
    out->figure[0].value = (double)samples / took;
    return LS_SUCCESS;
}

ls_status ls_test_loader(int rank, int world_size, ls_test *out) {
    ls_config *cfg;
    ring *r = NULL;
    LS_TRY(LS_NEW(cfg, 1, "the self-test"));
    configure(cfg, world_size);
    ls_status status = LS_NEW(r, 1, "the self-test");
    for (int i = 0; i < SLOTS && r; i++)
        r->slots[i] = (ls_slot){ .pixels = r->pixels[i], .labels = r->labels[i], .augment = r->augment[i] };
    LS_THEN(status, load(cfg, rank, world_size, r, out));
    free(r);
    free(cfg);
    return status;
}

// --- checkpoint ----------------------------------------------------------------------------------

static const char network[] = "[network]\ninput = 3x16x16\n"
                              "[conv]\nlayer = conv2d\nout_channels = 16\nkernel = 3\npadding = 1\nbias = false\n"
                              "[norm]\nlayer = batchnorm2d\n[relu]\nlayer = relu\n[flat]\nlayer = flatten\n"
                              "[fc1]\nlayer = linear\nout_features = 64\n[fc2]\nlayer = linear\nout_features = 10\n";

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where) {
    (void)info, (void)where;
    return type == FTW_DP ? rmdir(path) : unlink(path);
}

typedef struct {
    ls_config cfg;
    ls_dataset_info data;
    ls_graph *graph;
    ls_param_rules *rules;
    ls_snapshot *written, *back;
    ls_checkpoint *checkpoint;
} saved;

static ls_status prepare(saved *s) {
    configure(&s->cfg, 1);
    s->data = (ls_dataset_info){ .name = "synthetic", .count = SAMPLES };
    LS_TRY(ls_graph_parse("self-test", network, &s->graph));
    LS_TRY(ls_param_rules_new(&s->cfg, s->graph, &s->rules));
    LS_TRY(ls_snapshot_new(s->graph, s->rules, &s->written));
    LS_TRY(ls_snapshot_new(s->graph, s->rules, &s->back));
    for (size_t i = 0; i < s->written->bytes / sizeof(float); i++)
        s->written->values[i] = ls_unit_float(ls_random_word(1, LS_PURPOSE_INIT, 0, 0, i));
    s->written->counters = (ls_train_counters){ .update = 1, .applied = 1, .loss_scale = 1 };
    return LS_SUCCESS;
}

static ls_status write_and_read(saved *s, const char *folder, ls_test *out) {
    char path[2 * LS_TEXT_BYTES], size[24];
    int64_t bytes = 0;
    const ls_train_info info = { .cfg = &s->cfg,
        .graph = s->graph,
        .rules = s->rules,
        .train_data = &s->data,
        .test_data = &s->data,
        .device = "cpu",
        .batches = { .global_batch = MICRO, .micro_batch = MICRO, .world_size = 1 } };
    LS_TRY(ls_checkpoint_path(folder, 1, path, sizeof path));
    double since = ls_clock_seconds();
    LS_TRY(ls_checkpoint_write(path, s->written, &info, NULL, &bytes));
    double took = ls_clock_seconds() - since;
    LS_TRY(ls_checkpoint_read(path, &s->checkpoint));
    LS_TRY(ls_checkpoint_take(s->checkpoint, s->back));
    if (memcmp(s->written->values, s->back->values, s->written->bytes) != 0)
        return ls_fail(
            LS_STORAGE, "%s: read back, its tensors are not those that were written: do not keep runs there", path);
    ls_text_cut(out->text, sizeof out->text, "%s written and on the disk in %.0f ms, read back, every byte the same",
        ls_text_bytes(size, (uint64_t)bytes), took * 1e3);
    out->figure[0].name = "bytes";
    out->figure[0].value = (double)bytes;
    out->figure[1].name = "seconds";
    out->figure[1].value = took;
    return LS_SUCCESS;
}

static ls_status with_folder(saved *s, const char *where, ls_test *out) {
    char folder[LS_TEXT_BYTES];
    enum { OPEN_FOLDERS = 8 };
    if (snprintf(folder, sizeof folder, "%s/lockstep-doctor-XXXXXX", where) >= (int)sizeof folder)
        return ls_fail(LS_USAGE, "%s: a path too long", where);
    if (!mkdtemp(folder))
        return ls_fail(
            LS_STORAGE, "%s: no folder can be made there: %s; name another place by --run-dir", where, strerror(errno));
    ls_status status = write_and_read(s, folder, out);
    if (nftw(folder, remove_entry, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS) != 0)
        ls_keep_first(&status, ls_fail(LS_STORAGE, "%s: could not be removed again: %s", folder, strerror(errno)));
    return status;
}

ls_status ls_test_checkpoint(const char *folder, ls_test *out) {
    saved *s;
    LS_TRY(LS_NEW(s, 1, "the self-test"));
    ls_status status = prepare(s);
    LS_THEN(status, with_folder(s, folder, out));
    ls_checkpoint_free(s->checkpoint);
    ls_snapshot_free(s->written);
    ls_snapshot_free(s->back);
    ls_param_rules_free(s->rules);
    ls_graph_free(s->graph);
    free(s);
    return status;
}

// --- all of it -----------------------------------------------------------------------------------

static ls_status try_operators(const ls_test_bed *bed, ls_test *out) {
    if (bed->device) return agreed(bed, ls_test_operators(bed->device, out));
    skip(out, "no device opens");
    return LS_SUCCESS;
}

static ls_status try_loader(const ls_test_bed *bed, ls_test *out) {
    const ls_comm_info *info = ls_comm_get_info(bed->comm);
    return agreed(bed, ls_test_loader(info->rank, info->world_size, out));
}

static ls_status try_checkpoint(const ls_test_bed *bed, ls_test *out) { // as in a run, rank 0 writes
    return agreed(bed, ls_comm_get_info(bed->comm)->rank == 0 ? ls_test_checkpoint(bed->folder, out) : LS_SUCCESS);
}

static const struct {
    const char *name;
    ls_status (*run)(const ls_test_bed *bed, ls_test *out);
} tests[] = { { "operators", try_operators }, { "all-reduce", try_allreduce }, { "all-reduce of GPUs", try_collective },
    { "loader", try_loader }, { "checkpoint", try_checkpoint } };
const int ls_test_count = sizeof tests / sizeof *tests;

ls_status ls_test_run(const ls_test_bed *bed, int number, ls_test *out) {
    *out = (ls_test){ .name = tests[number].name };
    ls_status status = tests[number].run(bed, out);
    if (!ls_failed(status)) return LS_SUCCESS;
    if (ls_comm_broken(bed->comm)) return status;
    int failed_rank = 0;
    ls_status everywhere = ls_comm_agree(bed->comm, status, &failed_rank); // with the rank where it happened
    if (ls_comm_get_info(bed->comm)->world_size > 1)
        ls_text_cut(out->text, sizeof out->text, "rank %d: %s", failed_rank, everywhere.text);
    else
        ls_text_cut(out->text, sizeof out->text, "%s", everywhere.text);
    out->result = LS_TEST_FAILED;
    return LS_SUCCESS;
}

const char *ls_test_result_name(ls_test_result result) {
    static const char *const names[] = { "ok", "failed", "skipped" };
    return names[result];
}
