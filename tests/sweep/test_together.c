// `train sweep --together`: runs in one process have the bits of runs alone, a failure stays with its run, and a data set
// of several runs is one.
#include <pthread.h>
#include <unistd.h>

#include "base/json.h"
#include "base/scope.h"
#include "base/thread.h"
#include "command/commands.h"
#include "device/cuda_device.h"
#include "support/cmocka.h"
#include "support/must.h"
#include "support/temp.h"
#include "train/resident.h"
#include "data/dataset.h"

static temp_folder home;
static int has_cuda;

static void write_files(void **state) {
    (void)state;
    home = temp_folder_new();
    temp_file(&home, "net.ini",
        "[network]\ninput = 1x12x12\n[conv1]\nlayer = conv2d\nout_channels = 4\nkernel = 3\npadding = 1\n[norm1]\n"
        "layer = batchnorm2d\n[relu1]\nlayer = relu\n[pool1]\nlayer = maxpool2d\nkernel = 2\n[flat]\nlayer = flatten\n"
        "[drop]\nlayer = dropout\n[fc]\nlayer = linear\nout_features = 4\n");
    temp_file(&home, "c.ini",
        "[data]\ndataset = synthetic\nshape = 1x12x12\nclasses = 4\ntrain_samples = 80\ntest_samples = 40\n[model]\n"
        "file = net.ini\n[train]\nepochs = 2\nglobal_batch = 32\n[checkpoint]\nevery_updates = 2\n");
    if (chdir(home.path) != 0) abort();
}

// Runs a command with words that end with NULL. Returns its code.
static ls_code command(const char *const *words) {
    ls_args args;
    ls_comm *comm;
    int count = 0;
    while (words[count]) count++;
    must(ls_args_parse(count, (char *const *)(uintptr_t)words, &args));
    must(ls_comm_self(&comm));
    ls_status status = args.command == LS_COMMAND_SWEEP ? ls_cmd_sweep(&args, comm) : ls_cmd_train(&args, comm);
    ls_comm_finish(comm);
    ls_args_free(&args);
    return status.code;
}

// Returns the hash of the weights of a complete run, in a buffer that the fourth next call uses again.
static const char *hash_of(const char *folder) {
    static char texts[4][32];
    static int next;
    char path[600], *text = texts[next++ % 4];
    cJSON *summary;
    snprintf(path, sizeof path, "%s/summary.json", folder);
    must(ls_json_read_file(path, &summary));
    snprintf(text, sizeof texts[0], "%s", ls_json_get_text(summary, "weights_hash"));
    cJSON_Delete(summary);
    return text;
}

enum { BY_SEED, BY_RATE, RUNS = 3 };
static const struct {
    const char *options[2]; // of the sweep
    const char *folders[RUNS], *sets[RUNS];
} sweeps[] = {
    [BY_SEED] = { { "log.every=3", "1-3" }, { "seed=1", "seed=2", "seed=3" },
        { "run.seed=1", "run.seed=2", "run.seed=3" } },
    [BY_RATE] = { { "optimizer.lr=0.01,0.02,0.03", "1" }, // one data set
        { "lr=0.01,seed=1", "lr=0.02,seed=1", "lr=0.03,seed=1" },
        { "optimizer.lr=0.01", "optimizer.lr=0.02", "optimizer.lr=0.03" } },
};

static void same_bits(void **state) {
    (void)state;
    static const struct {
        const char *device, *mode, *more; // more: another option
        int sweep;
    } rows[] = {
        { "cpu", "run.deterministic=false", "average.kind=ema", BY_SEED },
        { "cpu", "run.deterministic=true", "data.mixup=0.3", BY_RATE },
        { "ref", "run.deterministic=false", "data.cutout=4", BY_SEED },
        { "cuda", "run.deterministic=false", "data.loader=stream", BY_SEED },
        { "cuda", "run.deterministic=false", "data.loader=resident", BY_RATE },
        { "cuda", "run.deterministic=true", "train.precision=fp16", BY_SEED },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char type[32], folder[64], alone[64], beside[128];
        const char *const *options = sweeps[rows[i].sweep].options;
        if (strcmp(rows[i].device, "cuda") == 0 && !has_cuda) continue;
        snprintf(type, sizeof type, "device.type=%s", rows[i].device);
        snprintf(folder, sizeof folder, "bits%zu", i);
        assert_int_equal(command((const char *const[]){ "train", "sweep", "c.ini", "--seeds", options[1], "--together",
                             "3", "--quiet", "--set", options[0], "--set", type, "--set", rows[i].mode, "--set",
                             rows[i].more, "--run-dir", folder, NULL }),
            LS_OK);
        for (int r = 0; r < RUNS; r++) {
            const char *set = sweeps[rows[i].sweep].sets[r];
            snprintf(alone, sizeof alone, "alone%zu-%d", i, r);
            snprintf(beside, sizeof beside, "%s/%s", folder, sweeps[rows[i].sweep].folders[r]);
            assert_int_equal(command((const char *const[]){ "train", "c.ini", "--quiet", "--set", type, "--set",
                                 rows[i].mode, "--set", rows[i].more, "--set", set, "--run-dir", alone, NULL }),
                LS_OK);
            if (strcmp(hash_of(beside), hash_of(alone)) != 0)
                fail_msg("%s, %s, %s, %s: together %s, alone %s", type, rows[i].mode, rows[i].more, set,
                    hash_of(beside), hash_of(alone));
        }
    }
}

// One of three cannot even begin (a file is in its folder's place), one fails later (its values are not finite).
static void one_fails(void **state) {
    (void)state;
    temp_file(&home, "failing/lr=0.001,seed=2", "a file\n");
    assert_int_equal(command((const char *const[]){ "train", "sweep", "c.ini", "--seeds", "1-2", "--together", "3",
                         "--quiet", "--set", "optimizer.lr=0.001,1000", "--set", "optimizer.weight_decay=1000", "--set",
                         "train.epochs=8", "--set", "device.type=cpu", "--run-dir", "failing", NULL }),
        LS_NUMERIC);
    assert_int_equal(command((const char *const[]){ "train", "c.ini", "--quiet", "--set", "optimizer.lr=0.001", "--set",
                         "optimizer.weight_decay=1000", "--set", "train.epochs=8", "--set", "device.type=cpu", "--set",
                         "run.seed=1", "--run-dir", "failing-alone", NULL }),
        LS_OK);
    assert_string_equal(hash_of("failing/lr=0.001,seed=1"), hash_of("failing-alone"));
    assert_int_equal(access("failing/lr=1000,seed=1/summary.json", F_OK), -1);
}

static ls_config data_config(const char *one, const char *other) {
    const char *const options[] = { "data.dataset=synthetic", "data.shape=1x4x4", "data.train_samples=50", one, other };
    ls_config cfg;
    ls_config_defaults(&cfg);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) must(ls_config_set(&cfg, options[i]));
    return cfg;
}

static void one_data_set(void **state) {
    (void)state;
    static const struct {
        const char *one, *other;
        ls_split split;
        int same; // as the first row's set
    } rows[] = {
        { "run.seed=1", "optimizer.lr=0.1", LS_SPLIT_TRAIN, 1 },
        { "run.seed=1", "optimizer.lr=0.2", LS_SPLIT_TRAIN, 1 },
        { "run.seed=1", "optimizer.lr=0.1", LS_SPLIT_TEST, 0 },
        { "run.seed=2", "optimizer.lr=0.1", LS_SPLIT_TRAIN, 0 }, // synthetic data depend on the seed
        { "run.seed=1", "data.test_samples=9", LS_SPLIT_TRAIN, 0 },
    };
    ls_dataset *sets[5];
    for (int i = 0; i < 5; i++) {
        const ls_config cfg = data_config(rows[i].one, rows[i].other);
        must(ls_dataset_open_shared(&cfg, rows[i].split, &sets[i]));
        if ((sets[i] == sets[0]) != rows[i].same) fail_msg("row %d: %s", i, rows[i].same ? "another" : "the same");
    }
    ls_dataset_free(sets[0]);
    assert_int_equal(ls_dataset_get_info(sets[1])->count, 50); // still open
    for (int i = 1; i < 5; i++) ls_dataset_free(sets[i]);
}

// Two runs on one kind of device have one copy of a data set there. It stays when the run that made it has gone.
static void one_resident_copy(void **state) {
    (void)state;
    enum { PICTURE = 16, SAMPLE = 33 };
    const char *const types[] = { "ref", "cuda" };
    const ls_config cfg = data_config("run.seed=1", "optimizer.lr=0.1");
    for (int t = 0; t < 1 + has_cuda; t++) {
        ls_device *devices[2];
        ls_queue *queues[2];
        const ls_resident *copies[2];
        ls_dataset *set;
        ls_slab *back;
        uint8_t pixels[PICTURE];
        int32_t label;
        must(ls_dataset_open_shared(&cfg, LS_SPLIT_TRAIN, &set));
        for (int i = 0; i < 2; i++) {
            must(ls_device_open(types[t], &(ls_device_options){ .threads = 1 }, &devices[i], NULL));
            must(devices[i]->api->queue_new(devices[i], "test", &queues[i]));
            must(ls_resident_get(devices[i], queues[i], set, &copies[i]));
        }
        assert_ptr_equal(copies[0], copies[1]);
        const ls_device_api *api = devices[1]->api;
        ls_resident_release(devices[0], copies[0]);
        api->queue_free(queues[0]);
        api->close(devices[0]);
        must(api->slab_new(devices[1], LS_MEMORY_PINNED, PICTURE, "picture", &back));
        api->copy(ls_buffer_at(back, 0, PICTURE), ls_buffer_at(copies[1]->pixels, (size_t)SAMPLE * PICTURE, PICTURE),
            PICTURE, queues[1]);
        must(api->queue_sync(queues[1]));
        must(ls_dataset_read(set, SAMPLE, pixels, &label));
        assert_memory_equal(back->address, pixels, PICTURE);
        assert_int_equal(copies[1]->labels[SAMPLE], label);
        api->slab_free(back);
        ls_resident_release(devices[1], copies[1]);
        api->queue_free(queues[1]);
        api->close(devices[1]);
        ls_dataset_free(set);
    }
}

// A failure stays a failure for all who waited for the set.
static void a_set_that_fails(void **state) {
    (void)state;
    ls_config cfg = data_config("run.seed=1", "data.std=0");
    for (int i = 0; i < 2; i++) {
        ls_dataset *set = NULL;
        assert_int_equal(ls_dataset_open_shared(&cfg, LS_SPLIT_TRAIN, &set).code, LS_USAGE);
    }
}

static void *look_at_scope(void *context) {
    *(ls_scope **)context = ls_scope_now();
    return NULL;
}

static void threads_keep_their_scope(void **state) {
    (void)state;
    ls_scope *process = ls_scope_now(), *run = ls_scope_new(STDERR_FILENO), *seen[2];
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        if (i) ls_scope_enter(run);
        assert_int_equal(ls_thread_start(&thread, look_at_scope, &seen[i]), 0);
        pthread_join(thread, NULL);
    }
    ls_status of_run = ls_fail(LS_DATA, "of the run");
    ls_scope_enter(NULL);
    for (int i = 0; i < LS_STATUS_RING; i++) (void)ls_fail(LS_USAGE, "of the process");
    assert_string_equal(of_run.text, "of the run");
    assert_ptr_equal(seen[0], process);
    assert_ptr_equal(seen[1], run);
    free(run);
}

int main(void) {
#ifndef __SANITIZE_THREAD__ // the emulation's fibers would take hours
    has_cuda = cuda_choose() == 0;
#endif
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_keep_their_scope),
        cmocka_unit_test(one_data_set),
        cmocka_unit_test(a_set_that_fails),
        cmocka_unit_test(one_resident_copy),
        cmocka_unit_test(same_bits),
        cmocka_unit_test(one_fails),
    };
    write_files(NULL);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    temp_folder_remove(&home);
    return failed;
}
