// train.recompute = blocks: the same bits as off, over several updates, with less memory.
#include <math.h>
#include "program/fixture.h"
#include "train/trainer_internal.h"
#include "support/shipped.h"

// As resnet20, small: identity and projected residuals.
static const char residual[] =
    "[network]\ninput = 3x8x8\n"
    "[c0]\nlayer = conv2d\nout_channels = 8\nkernel = 3\npadding = 1\nbias = false\n"
    "[n0]\nlayer = batchnorm2d\n[r0]\nlayer = relu\n"
    "[c1]\nlayer = conv2d\nout_channels = 8\nkernel = 3\npadding = 1\nbias = false\n"
    "[n1]\nlayer = batchnorm2d\n[r1]\nlayer = relu\n"
    "[c2]\nlayer = conv2d\nout_channels = 8\nkernel = 3\npadding = 1\nbias = false\n"
    "[n2]\nlayer = batchnorm2d\n[a2]\nlayer = add\ninputs = n2, r0\n[r2]\nlayer = relu\n"
    "[c3]\nlayer = conv2d\nout_channels = 12\nkernel = 3\nstride = 2\npadding = 1\nbias = false\n"
    "[n3]\nlayer = batchnorm2d\n[r3]\nlayer = relu\n"
    "[c4]\nlayer = conv2d\nout_channels = 12\nkernel = 3\npadding = 1\nbias = false\n"
    "[n4]\nlayer = batchnorm2d\n"
    "[s4]\nlayer = conv2d\ninputs = r2\nout_channels = 12\nkernel = 1\nstride = 2\nbias = false\n"
    "[m4]\nlayer = batchnorm2d\n[a4]\nlayer = add\ninputs = n4, m4\n[r4]\nlayer = relu\n"
    "[p]\nlayer = globalavgpool\n[f]\nlayer = flatten\n[l]\nlayer = linear\nout_features = 10\n";

static const char bent[] = // as airbench94, small
    "[network]\ninput = 3x8x8\n"
    "[c0]\nlayer = conv2d\nout_channels = 12\nkernel = 2\n[g0]\nlayer = gelu\n"
    "[c1]\nlayer = conv2d\nout_channels = 16\nkernel = 3\npadding = 1\nbias = false\n"
    "[p1]\nlayer = maxpool2d\nkernel = 2\n[n1]\nlayer = batchnorm2d\n[g1]\nlayer = gelu\n"
    "[c2]\nlayer = conv2d\nout_channels = 16\nkernel = 3\npadding = 1\nbias = false\n"
    "[n2]\nlayer = batchnorm2d\n[g2]\nlayer = gelu\n"
    "[c3]\nlayer = conv2d\nout_channels = 16\nkernel = 3\npadding = 1\nbias = false\n"
    "[n3]\nlayer = batchnorm2d\n[a3]\nlayer = add\ninputs = n3, g2\n[g3]\nlayer = gelu\n"
    "[p]\nlayer = globalmaxpool\n[l]\nlayer = linear\nout_features = 10\n";

// Every operator inside of some block: dropout, scale, adds without batch norm, relus that work in place and beside
// another reader, poolings of both kinds, batch norm without relu.
static const char mixed[] =
    "[network]\ninput = 3x8x8\n"
    "[c1]\nlayer = conv2d\nout_channels = 16\nkernel = 3\npadding = 1\n[r1]\nlayer = relu\n"
    "[d1]\nlayer = dropout2d\np = 0.2\n"
    "[c2]\nlayer = conv2d\nout_channels = 16\nkernel = 3\npadding = 1\n[r2]\nlayer = relu\n"
    "[c3]\nlayer = conv2d\nout_channels = 16\nkernel = 3\npadding = 1\n[r3]\nlayer = relu\n"
    "[a3]\nlayer = add\ninputs = r3, c3\n[b3]\nlayer = add\ninputs = a3, r2\n[s3]\nlayer = scale\nfactor = 0.5\n"
    "[d3]\nlayer = droppath\np = 0.1\n"
    "[n4]\nlayer = batchnorm2d\n"
    "[c4]\nlayer = conv2d\nout_channels = 16\nkernel = 3\npadding = 1\n[r4]\nlayer = relu\n"
    "[p4]\nlayer = maxpool2d\nkernel = 2\n[a4]\nlayer = avgpool2d\nkernel = 2\nstride = 1\npadding = 1\n"
    "[n5]\nlayer = batchnorm2d\n[r5]\nlayer = relu\n[d5]\nlayer = dropout\np = 0.3\n[p5]\nlayer = maxpool2d\nkernel = "
    "2\n"
    "[c6]\nlayer = conv2d\nout_channels = 8\nkernel = 1\n[n6]\nlayer = batchnorm2d\n[r6]\nlayer = relu\n"
    "[f]\nlayer = flatten\n[l1]\nlayer = linear\nout_features = 20\n[r7]\nlayer = relu\n[d7]\nlayer = dropout\np = "
    "0.5\n"
    "[l2]\nlayer = linear\nout_features = 10\n";

// A dense block with gates and group norms: operators of one kind several times in a layer, and values that many read.
static const char dense[] =
    "[network]\ninput = 3x8x8\n"
    "[c0]\nlayer = conv2d\nout_channels = 12\nkernel = 3\npadding = 1\n[n0]\nlayer = groupnorm\ngroups = 3\n"
    "[r0]\nlayer = relu\n"
    "[c1]\nlayer = conv2d\nout_channels = 12\nkernel = 3\npadding = 1\n[q1]\nlayer = globalavgpool\n"
    "[e1]\nlayer = linear\nout_features = 12\n[g1]\nlayer = sigmoid\n[m1]\nlayer = multiply\ninputs = g1, c1\n"
    "[d1]\nlayer = concat\ninputs = r0, m1, r0\n[n1]\nlayer = groupnorm\ngroups = 4\n[r1]\nlayer = relu\n"
    "[c2]\nlayer = conv2d\nout_channels = 20\nkernel = 3\nstride = 2\npadding = 1\n[r2]\nlayer = silu\n"
    "[s2]\nlayer = shortcut\ninputs = r0\nout_channels = 20\n[a2]\nlayer = multiply\ninputs = r2, s2\n"
    "[c3]\nlayer = conv2d\nout_channels = 16\nkernel = 3\npadding = 1\n[n3]\nlayer = batchnorm2d\n[r3]\nlayer = relu\n"
    "[c4]\nlayer = conv2d\nout_channels = 16\nkernel = 3\npadding = 1\n[n4]\nlayer = groupnorm\ngroups = 16\n"
    "[n5]\nlayer = layernorm\n[s5]\nlayer = layerscale\nvalue = 0.5\n"
    "[h4]\nlayer = sigmoid\n[d4]\nlayer = concat\ninputs = h4, r3\n"
    "[p]\nlayer = globalavgpool\n[l]\nlayer = linear\nout_features = 10\n";

typedef struct {
    const char *name, *text; // text: NULL for a shipped network
    const char *device, *precision, *shape;
    int updates, batch;
} row;

static const row rows[] = {
    { "residual", residual, "ref", "fp32", "3x8x8", 6, 12 },
    { "residual", residual, "ref", "bf16", "3x8x8", 6, 12 },
    { "residual", residual, "cpu", "fp32", "3x8x8", 6, 12 },
    { "mixed", mixed, "ref", "fp32", "3x8x8", 6, 12 },
    { "mixed", mixed, "cpu", "fp32", "3x8x8", 6, 12 },
    { "bent", bent, "ref", "bf16", "3x8x8", 6, 12 },
    { "bent", bent, "cpu", "fp32", "3x8x8", 6, 12 },
    { "dense", dense, "ref", "bf16", "3x8x8", 6, 12 },
    { "dense", dense, "cpu", "fp32", "3x8x8", 6, 12 },
    { "lenet", NULL, "ref", "fp32", "1x28x28", 3, 8 },
    { "lenet", NULL, "cpu", "fp32", "1x28x28", 6, 12 },
    { "resnet20", NULL, "cpu", "fp32", "3x32x32", 3, 8 },
    { "resnet9", NULL, "cpu", "fp32", "3x32x32", 2, 4 },
};

static void set(ls_config *cfg, const char *key, const char *value) {
    char assignment[640];
    snprintf(assignment, sizeof assignment, "%s=%s", key, value);
    must(ls_config_set(cfg, assignment));
}

static void set_int(ls_config *cfg, const char *key, int value) {
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    set(cfg, key, text);
}

// Two micro-batches an update, the last window short: its tail has a program of its own.
static void configure(ls_config *cfg, const row *r, const char *model, const char *recompute) {
    ls_config_defaults(cfg);
    set(cfg, "model.file", model);
    set(cfg, "device.type", r->device);
    set(cfg, "device.threads", "2");
    set(cfg, "train.precision", r->precision);
    set(cfg, "data.dataset", "synthetic");
    set(cfg, "data.shape", r->shape);
    set_int(cfg, "data.train_samples", r->batch * r->updates - r->batch / 4);
    set(cfg, "data.test_samples", "10");
    set_int(cfg, "train.global_batch", r->batch);
    set_int(cfg, "train.micro_batch", r->batch / 2);
    set(cfg, "optimizer.lr", "0.01");
    set(cfg, "train.recompute", recompute);
    must(ls_config_check(cfg));
}

// Of weights and running statistics after the updates.
static uint64_t weights_after(const row *r, const char *model, const char *recompute, int *blocks) {
    ls_config cfg;
    configure(&cfg, r, model, recompute);
    ls_comm *comm;
    must(ls_comm_self(&comm));
    ls_trainer *t;
    must(ls_trainer_new(&cfg, comm, &t));
    must(ls_trainer_updates(t, r->updates, NULL));
    *blocks = ls_run_session_full_program(&t->session, 0)->blocks;
    uint64_t hash;
    must(ls_param_store_hash(t->session.compute.store, &hash));
    ls_trainer_free(t);
    ls_comm_finish(comm);
    return hash;
}

static void same_bits_as_off(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const row *r = &rows[i];
        char model[128] = "/tmp/lockstep_recompute_XXXXXX";
        if (r->text) {
            int fd = mkstemp(model);
            assert_int_equal(write(fd, r->text, strlen(r->text)), (ssize_t)strlen(r->text));
            close(fd);
        } else {
            snprintf(model, sizeof model, "configs/models/%s.ini", r->name);
        }
        int off_blocks, blocks;
        uint64_t off = weights_after(r, model, "off", &off_blocks), again = weights_after(r, model, "blocks", &blocks);
        if (r->text) unlink(model);
        assert_int_equal(off_blocks, 1);
        int gains = strcmp(r->name, "lenet") != 0; // see below
        if ((blocks > 1) != gains) fail_msg("%s on %s: %d blocks", r->name, r->device, blocks);
        if (off != again)
            fail_msg("%s on %s, %s: weights %016llx after %d updates in %d blocks, %016llx without", r->name, r->device,
                r->precision, (unsigned long long)again, r->updates, blocks, (unsigned long long)off);
    }
}

// Peak of the activations at 128 samples, and the most that recomputation may leave of it. lenet's peak is its first
// convolution's output beside its gradient: no block makes that smaller, so nothing is computed again.
static const struct {
    const char *name;
    double share;
    int again; // instructions: nothing that is kept, and nothing that no backward operator reads
} shipped[] = { { "lenet", 1.0, 0 }, { "resnet20", 0.45, 20 }, { "resnet9", 0.65, 6 } };

static void needs_less_memory(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof shipped / sizeof *shipped; i++) {
        char path[128];
        snprintf(path, sizeof path, "configs/models/%s.ini", shipped[i].name);
        ls_graph *graph;
        ls_device *device;
        ls_param_store *store;
        const char *why;
        ls_device_options device_options = { .threads = 1 };
        must(read_shipped(path, &graph));
        must(ls_device_open("ref", &device_options, &device, &why));
        must(ls_param_store_new(
            device, graph, &(ls_param_store_options){ .storage = LS_F32, .state_tensors = 1 }, &store));
        ls_compile_options options = { .micro_batch = 128, .training = 1, .recompute = 1 };
        ls_program *program;
        must(ls_compile(store, &options, &program));
        size_t bytes, measured, all_kept = program->all_kept_bytes;
        bytes = program->activation_bytes;
        must(ls_compile_measure(store, &options, &measured));
        print_message("%-10s %7.1f MiB of activations, in %2d blocks %7.1f MiB (%.0f %%)\n", shipped[i].name,
            (double)all_kept / 1048576, program->blocks, (double)bytes / 1048576,
            100.0 * (double)bytes / (double)all_kept);
        assert_int_equal(measured, bytes);
        int again = 0;
        for (int n = 0; n < program->count; n++) again += program->instructions[n].plan_is_shared;
        if (again != shipped[i].again)
            fail_msg("%s: %d instructions again, expected %d", shipped[i].name, again, shipped[i].again);
        if ((double)bytes > shipped[i].share * (double)all_kept)
            fail_msg("%s: %zu bytes of %zu, expected at most a share of %g", shipped[i].name, bytes, all_kept,
                shipped[i].share);
        options.recompute = 0;
        must(ls_compile_measure(store, &options, &measured));
        assert_int_equal(measured, all_kept);
        options.training = 0;
        options.recompute = 1; // evaluation has no backward pass
        must(ls_compile_measure(store, &options, &measured));
        assert_true(measured < bytes);
        ls_program_free(program);
        ls_param_store_free(store);
        ls_device_close(device);
        ls_graph_free(graph);
    }
}

// Every gradient goes on completing in the store's order, and nothing runs twice in the forward pass.
static void instructions(void **state) {
    (void)state;
    fixture off, on;
    fixture_make(&off, &(fixture_setup){ .device = "ref", .network = mixed, .batch = 4, .training = 1 });
    fixture_make(&on, &(fixture_setup){ .device = "ref", .network = mixed, .batch = 4, .training = 1, .recompute = 1 });
    int loss_at = 0, again = 0, last = 0;
    for (int i = 0; i < on.program->count; i++) {
        const ls_instruction *at = &on.program->instructions[i];
        if (at->plan->desc.op == LS_OP_LOSS) loss_at = i;
        again += at->plan_is_shared;
        if (at->plan_is_shared && !loss_at) fail_msg("instruction %d is computed again before the loss", i);
        if (!at->completes) continue;
        assert_true(at->completes > last);
        last = at->completes;
    }
    assert_int_equal(last, on.store->trained_params);
    assert_true(again > 0);
    assert_int_equal(on.program->count - again, off.program->count);
    assert_true(fixture_run(&on) == fixture_run(&off));
    assert_memory_equal(on.store->grad->address, off.store->grad->address, off.store->grad->bytes);
    fixture_free(&on);
    fixture_free(&off);
}

// 1500 residual blocks: planning once took a high power of their number, which was hours.
static void many_blocks(void **state) {
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    fputs("[network]\ninput = 1x8x8\n[a0]\nlayer = conv2d\nout_channels = 4\nkernel = 1\n", file);
    for (int i = 1; i <= 1500; i++)
        fprintf(file,
            "[r%d]\nlayer = conv2d\nout_channels = 4\nkernel = 3\npadding = 1\n[a%d]\nlayer = add\ninputs = r%d, a%d\n",
            i, i, i, i - 1);
    fputs("[g]\nlayer = globalavgpool\n[f]\nlayer = flatten\n[l]\nlayer = linear\nout_features = 4\n", file);
    assert_int_equal(fclose(file), 0);
    fixture f;
    fixture_make(&f, &(fixture_setup){ .device = "ref", .network = text, .batch = 1, .training = 1, .recompute = 1 });
    assert_true(f.program->blocks > 10 && f.program->blocks < 400);
    assert_true(f.program->activation_bytes < f.program->all_kept_bytes / 8); // about 2/sqrt(1500)
    fixture_free(&f);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_as_off),
        cmocka_unit_test(needs_less_memory),
        cmocka_unit_test(instructions),
        cmocka_unit_test(many_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
