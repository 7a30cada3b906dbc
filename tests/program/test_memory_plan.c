// Memory is planned before it is allocated: what fits, what does not, and which micro-batch `auto` takes, on ref behind
// a memory of its own that has a limit.
//
//   test_program_memory_plan              the tests
//   test_program_memory_plan ranks SHORT  under mpirun: rank SHORT has less memory than the others; prints the choice
#include <math.h>
#include "dist/device_assignment.h"
#include "train/trainer_internal.h"
#include "program/fixture.h"

// --- the device ----------------------------------------------------------------------------------

static struct {
    size_t limit, used; // bytes of device slabs
    int lies;           // memory() says that all is free
} small;

static ls_device_api small_api;

static ls_status small_slab_new(ls_device *device, ls_memory_kind kind, size_t bytes, const char *what, ls_slab **out) {
    if (kind == LS_MEMORY_DEVICE && bytes > small.limit - small.used)
        return ls_fail(LS_DEVICE, "no memory for %s of %zu bytes", what, bytes);
    LS_TRY(ls_device_ref.slab_new(device, kind, bytes, what, out));
    if (kind == LS_MEMORY_DEVICE) small.used += bytes;
    return LS_SUCCESS;
}

static void small_slab_free(ls_slab *slab) {
    if (slab->kind == LS_MEMORY_DEVICE) small.used -= slab->bytes;
    ls_device_ref.slab_free(slab);
}

static ls_status small_memory(ls_device *device, size_t *free_bytes, size_t *all_bytes) {
    (void)device;
    *all_bytes = small.limit;
    *free_bytes = small.lies ? (size_t)1 << 40 : small.limit - small.used;
    return LS_SUCCESS;
}

static ls_status small_open(
    ls_device_assignment *placement, ls_comm *comm, const ls_device_options *options, ls_device **out) {
    LS_TRY(ls_device_assignment_open(placement, comm, options, out));
    small_api = ls_device_ref;
    small_api.slab_new = small_slab_new;
    small_api.slab_free = small_slab_free;
    small_api.memory = small_memory;
    (*out)->api = &small_api;
    return LS_SUCCESS;
}

// The session, with this device in place of ref.
#define ls_device_assignment_open small_open
#include "../../src/train/open_session.c"
#undef ls_device_assignment_open

// --- runs ----------------------------------------------------------------------------------------

static const char network[] =
    "[network]\ninput = 3x8x8\n"
    "[c0]\nlayer = conv2d\nout_channels = 16\nkernel = 3\npadding = 1\nbias = false\n"
    "[n0]\nlayer = batchnorm2d\n[r0]\nlayer = relu\n"
    "[c1]\nlayer = conv2d\nout_channels = 16\nkernel = 3\npadding = 1\nbias = false\n"
    "[n1]\nlayer = batchnorm2d\n[r1]\nlayer = relu\n"
    "[c2]\nlayer = conv2d\nout_channels = 16\nkernel = 3\npadding = 1\nbias = false\n"
    "[n2]\nlayer = batchnorm2d\n[a2]\nlayer = add\ninputs = n2, r0\n[r2]\nlayer = relu\n"
    "[c3]\nlayer = conv2d\nout_channels = 16\nkernel = 3\npadding = 1\nbias = false\n"
    "[n3]\nlayer = batchnorm2d\n[r3]\nlayer = relu\n"
    "[p]\nlayer = globalavgpool\n[f]\nlayer = flatten\n[l]\nlayer = linear\nout_features = 10\n";
static char model[] = "/tmp/lockstep_memory_XXXXXX";

static int write_network(void **state) {
    (void)state;
    int fd = mkstemp(model);
    if (fd < 0 || write(fd, network, sizeof network - 1) != (ssize_t)sizeof network - 1) return -1;
    return close(fd);
}

static int remove_network(void **state) {
    (void)state;
    return unlink(model);
}

typedef struct {
    ls_config cfg;
    ls_trainer *trainer;
} run;

enum { OPTIONS_MAX = 4 };

static ls_status open_run(run *r, ls_comm *comm, size_t limit, const char *const *options) {
    static const char *const common[] = { "device.type=ref", "data.dataset=synthetic", "data.shape=3x8x8",
        "data.train_samples=256", "data.test_samples=32", "train.global_batch=64", "train.epochs=1", "device.threads=1",
        "optimizer.lr=0.05" };
    r->trainer = NULL;
    small.limit = limit;
    ls_config_defaults(&r->cfg);
    snprintf(r->cfg.model_file, sizeof r->cfg.model_file, "%s", model);
    for (size_t i = 0; i < sizeof common / sizeof *common; i++) must(ls_config_set(&r->cfg, common[i]));
    for (int i = 0; i < OPTIONS_MAX && options[i]; i++) must(ls_config_set(&r->cfg, options[i]));
    must(ls_config_check(&r->cfg));
    return ls_trainer_new(&r->cfg, comm, &r->trainer);
}

static const size_t PLENTY = (size_t)1 << 30;

// What a run with this micro-batch takes of the device.
static size_t needs(ls_comm *comm, const char *micro_batch, const char *more) {
    run r;
    const char *options[OPTIONS_MAX] = { micro_batch, more };
    must(open_run(&r, comm, PLENTY, options));
    size_t bytes = ls_trainer_device_bytes(r.trainer);
    ls_trainer_free(r.trainer);
    return bytes;
}

// The limit at which `bytes` just fit beside the reserve, which is a 32nd;
// at which they do without it; or which is far below.
typedef enum { FIT, FIT_WITHOUT_RESERVE, FAR } fitting;

static size_t limit_for(size_t bytes, fitting fit) {
    return fit == FIT ? bytes + bytes / 31 + 64 : fit == FIT_WITHOUT_RESERVE ? bytes + bytes / 64 : bytes / 2;
}

// The plan's total is what the slabs take, to the byte; nothing is left behind.
static void the_plan_is_what_is_allocated(void **state) {
    (void)state;
    static const char *const variants[][OPTIONS_MAX] = {
        { "train.micro_batch=0" },
        { "train.micro_batch=16", "train.precision=bf16" },
        { "train.micro_batch=16", "run.deterministic=true", "optimizer.kind=adamw" },
        { "train.recompute=blocks" },
        { "data.loader=resident" },
    };
    ls_comm *comm;
    must(ls_comm_self(&comm));
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
        run r;
        must(open_run(&r, comm, PLENTY, variants[v]));
        if (ls_trainer_device_bytes(r.trainer) != small.used)
            fail_msg(
                "variant %zu: planned %zu bytes, allocated %zu", v, ls_trainer_device_bytes(r.trainer), small.used);
        ls_train_summary summary;
        must(ls_trainer_run(r.trainer, NULL, 0, &summary));
        assert_int_equal(summary.peak_device_bytes, small.used);
        ls_trainer_free(r.trainer);
        assert_int_equal(small.used, 0);
    }
    ls_comm_finish(comm);
}

static const struct {
    const char *name;
    const char *sized_for, *sized_more; // the limit is for such a run ...
    fitting fit;                        // ... which fits or not
    const char *options[OPTIONS_MAX];
    int micro_batch; // taken; 0: refused
    const char *says[5], *not_says;
} rows[] = {
    { "derived, fits", "train.micro_batch=64", NULL, FIT, { NULL }, 64, { NULL }, NULL },
    { "derived, does not fit", "train.micro_batch=64", NULL, FIT_WITHOUT_RESERVE, { NULL }, 0,
        { "micro-batches of 64", "activations", "free on the device", "train.micro_batch (auto", "train.recompute" },
        "data.loader" },
    { "given, does not fit", "train.micro_batch=32", NULL, FIT_WITHOUT_RESERVE,
        { "train.micro_batch=32", "train.recompute=blocks" }, 32, { NULL }, NULL }, // but its blocks do
    { "given, in blocks, does not fit", "train.micro_batch=32", "train.recompute=blocks", FIT_WITHOUT_RESERVE,
        { "train.micro_batch=32", "train.recompute=blocks", "train.precision=fp32" }, 0,
        { "micro-batches of 32", "train.micro_batch (auto", "train.precision = bf16" }, "train.recompute" },
    { "auto, all fits", "train.micro_batch=64", NULL, FIT, { "train.micro_batch=auto" }, 64, { NULL }, NULL },
    { "auto, half fits", "train.micro_batch=32", NULL, FIT, { "train.micro_batch=auto" }, 32, { NULL }, NULL },
    { "auto, a quarter fits", "train.micro_batch=32", NULL, FIT_WITHOUT_RESERVE, { "train.micro_batch=auto" }, 16,
        { NULL }, NULL },
    { "auto, in blocks", "train.micro_batch=32", "train.recompute=blocks", FIT,
        { "train.micro_batch=auto", "train.recompute=blocks" }, 32, { NULL }, NULL },
    { "auto, nothing fits", "train.micro_batch=1", NULL, FAR,
        { "train.micro_batch=auto", "train.precision=fp32", "data.loader=resident" }, 0,
        { "micro-batches of 1 ", "train.recompute", "data.loader = stream" }, "auto" },
    { "auto, down to what can be mixed", "train.micro_batch=1", NULL, FAR,
        { "train.micro_batch=auto", "train.precision=fp32", "data.loader=resident", "data.mixup=1" }, 0,
        { "micro-batches of 2 " }, "auto" },
};

static void chooses_and_refuses(void **state) {
    (void)state;
    ls_comm *comm;
    must(ls_comm_self(&comm));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t limit = limit_for(needs(comm, rows[i].sized_for, rows[i].sized_more), rows[i].fit);
        run r;
        ls_status status = open_run(&r, comm, limit, rows[i].options);
        if (status.code != (rows[i].micro_batch ? LS_OK : LS_DEVICE))
            fail_msg("%s: code %d: %s", rows[i].name, status.code, status.text ? status.text : "it fits");
        for (int s = 0; s < 5 && rows[i].says[s]; s++)
            if (!strstr(status.text, rows[i].says[s]))
                fail_msg("%s: the message lacks '%s': %s", rows[i].name, rows[i].says[s], status.text);
        if (rows[i].not_says && strstr(status.text, rows[i].not_says))
            fail_msg("%s: the message says '%s': %s", rows[i].name, rows[i].not_says, status.text);
        if (rows[i].micro_batch) {
            const ls_batches *b = &ls_trainer_get_info(r.trainer)->batches;
            if (b->micro_batch != rows[i].micro_batch)
                fail_msg("%s: micro-batches of %d, expected %d", rows[i].name, b->micro_batch, rows[i].micro_batch);
            assert_int_equal(b->micro_batch * b->per_rank, 64);
            assert_true(small.used <= limit);
            must(ls_trainer_updates(r.trainer, 2, NULL));
            ls_trainer_free(r.trainer);
        }
        assert_int_equal(small.used, 0);
    }
    ls_comm_finish(comm);
}

// The run that `auto` chose is the run with that number in the configuration.
static void auto_is_the_number(void **state) {
    (void)state;
    ls_comm *comm;
    must(ls_comm_self(&comm));
    const char *variants[2][OPTIONS_MAX] = { { "train.micro_batch=auto" }, { "train.micro_batch=16" } };
    size_t limits[] = { limit_for(needs(comm, "train.micro_batch=16", NULL), FIT), PLENTY };
    uint64_t hash[2];
    for (int v = 0; v < 2; v++) {
        run r;
        must(open_run(&r, comm, limits[v], variants[v]));
        must(ls_trainer_updates(r.trainer, 5, NULL));
        must(ls_param_store_hash(r.trainer->session.compute.store, &hash[v]));
        ls_trainer_free(r.trainer);
    }
    assert_true(hash[0] == hash[1]);
    ls_comm_finish(comm);
}

// What is free can change between the plan and the slabs.
static void a_slab_that_fails_says_which(void **state) {
    (void)state;
    ls_comm *comm;
    must(ls_comm_self(&comm));
    size_t bytes = needs(comm, "train.micro_batch=64", NULL);
    small.lies = 1;
    for (int part = 1; part < 8; part++) {
        run r;
        ls_status status = open_run(&r, comm, bytes * (size_t)part / 8, (const char *[OPTIONS_MAX]){ NULL });
        assert_int_equal(status.code, LS_DEVICE);
        if (!strstr(status.text, "no memory for ")) fail_msg("%d eighths: %s", part, status.text);
        assert_int_equal(small.used, 0);
    }
    small.lies = 0;
    ls_comm_finish(comm);
}

static int run_ranks(ls_comm *comm, int short_of_memory) {
    int rank = ls_comm_get_info(comm)->rank;
    if (rank == 0 && write_network(NULL)) ls_comm_abort(comm, LS_STORAGE);
    must(ls_comm_broadcast(comm, model, sizeof model, 0));
    ls_log_setup(rank, ls_comm_get_info(comm)->world_size, LS_LOG_INFO);
    size_t half = limit_for(needs(comm, "train.micro_batch=16", NULL), FIT);
    run r;
    const char *options[OPTIONS_MAX] = { "train.micro_batch=auto" };
    ls_status status = open_run(&r, comm, rank == short_of_memory ? half : PLENTY, options);
    if (rank == 0) unlink(model);
    if (ls_failed(status)) {
        ls_log_status(status);
        ls_comm_abort(comm, status.code);
    }
    printf("rank %d: %d\n", rank, ls_trainer_get_info(r.trainer)->batches.micro_batch);
    fflush(stdout);
    must(ls_trainer_updates(r.trainer, 2, NULL));
    ls_trainer_free(r.trainer);
    ls_comm_finish(comm);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "ranks") == 0) {
        ls_comm *comm;
        if (ls_failed(ls_comm_start(&argc, &argv, "test", &comm))) return 1;
        return run_ranks(comm, atoi(argv[2]));
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plan_is_what_is_allocated),
        cmocka_unit_test(chooses_and_refuses),
        cmocka_unit_test(auto_is_the_number),
        cmocka_unit_test(a_slab_that_fails_says_which),
    };
    return cmocka_run_group_tests(tests, write_network, remove_network);
}
