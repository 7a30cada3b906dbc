// distill.weights: a teacher that is the network itself has no loss, a share of 0 changes nothing, the whole loss is
// the sum of both parts, and a session's plan has the teacher's memory.
#include <math.h>
#include "whole_run.h"

#define NETWORK(layers, classes) \
    "[network]\ninput = 3x6x6\n" layers "[p]\nlayer = globalavgpool\n[l]\nlayer = linear\nout_features = " classes "\n"

// Without batch norm, whose statistics in training are not those of the teacher.
static const char plain[] = NETWORK("[c]\nlayer = conv2d\nout_channels = 8\nkernel = 3\n[r]\nlayer = relu\n", "4");
// A teacher of other layers. Its first layer may not write over the pictures, which the network reads after it. It has
// dropout, which is none here.
static const char other[] =
    NETWORK("[r0]\nlayer = relu\n[c]\nlayer = conv2d\nout_channels = 12\nkernel = 3\nbias = false\n"
            "[n]\nlayer = batchnorm2d\n[r]\nlayer = relu\n[d]\nlayer = dropout\np = 0.5\n",
        "4");

static const char *const common[] = { "data.dataset=synthetic", "data.shape=3x6x6", "data.classes=4",
    "data.train_samples=54", "data.test_samples=20", "train.global_batch=16", "train.micro_batch=8", "train.epochs=2",
    "optimizer.lr=0.1", "device.threads=1", "data.flip=true", "data.pad=1", NULL };

static char folder[] = "/tmp/lockstep_distill_XXXXXX";
static char plain_ini[64], other_ini[64], as_plain[96], as_other[96];

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void make_teacher(const char *network, const char *path) {
    static const char *const options[] = { "device.type=ref", NULL };
    run r = { 0 };
    ls_train_summary summary;
    must(run_open(&r, network, (const char *const *const[RUN_LISTS_MAX]){ common, options }));
    must(ls_trainer_run(r.trainer, NULL, 0, &summary));
    must(ls_trainer_save_weights(r.trainer, path));
    run_close(&r);
}

static int set_up(void **state) {
    (void)state;
    if (!mkdtemp(folder)) return -1;
    snprintf(plain_ini, sizeof plain_ini, "%s/plain.ini", folder);
    snprintf(other_ini, sizeof other_ini, "%s/other.ini", folder);
    write_text(plain_ini, plain);
    write_text(other_ini, other);
    snprintf(as_plain, sizeof as_plain, "distill.weights=%s/plain.safetensors", folder);
    snprintf(as_other, sizeof as_other, "distill.weights=%s/other.safetensors", folder);
    make_teacher(plain_ini, strchr(as_plain, '=') + 1);
    make_teacher(other_ini, strchr(as_other, '=') + 1);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    unlink(plain_ini);
    unlink(other_ini);
    unlink(strchr(as_plain, '=') + 1);
    unlink(strchr(as_other, '=') + 1);
    return rmdir(folder);
}

static ls_train_summary train(const char *const *options) {
    run r = { 0 };
    ls_train_summary summary;
    must(run_open(&r, plain_ini, (const char *const *const[RUN_LISTS_MAX]){ common, options }));
    must(ls_trainer_init_from_file(r.trainer));
    must(ls_trainer_run(r.trainer, NULL, 0, &summary));
    run_close(&r);
    return summary;
}

static void a_share_of_0_changes_nothing(void **state) {
    (void)state;
    static const char *const devices[] = { "device.type=ref", "device.type=cpu" };
    for (int d = 0; d < 2; d++) {
        const ls_train_summary alone = train((const char *[]){ devices[d], NULL });
        const ls_train_summary taught = train((const char *[]){ devices[d], as_other, "distill.share=0", NULL });
        assert_true(alone.weights_hash == taught.weights_hash);
        assert_true(alone.train_loss == taught.train_loss);
        const ls_train_summary half = train((const char *[]){ devices[d], as_other, NULL });
        assert_true(alone.weights_hash != half.weights_hash);
    }
}

// The network starts as the teacher and stays so, because its rate is 0: both see the same augmented pictures.
static void a_network_has_nothing_to_learn_from_itself(void **state) {
    (void)state;
    static const char *const devices[] = { "device.type=ref", "device.type=cpu" };
    char init[96];
    snprintf(init, sizeof init, "model.init=%s", strchr(as_plain, '=') + 1);
    for (int d = 0; d < 2; d++) {
        const ls_train_summary whole =
            train((const char *[]){ devices[d], init, as_plain, "distill.share=1", "optimizer.lr=0", NULL });
        if (!(fabs(whole.train_loss) < 1e-6))
            fail_msg("%s: loss %.9g of a teacher alone", devices[d], whole.train_loss);
        const ls_train_summary labels = train((const char *[]){ devices[d], init, "optimizer.lr=0", NULL });
        const ls_train_summary half =
            train((const char *[]){ devices[d], init, as_plain, "distill.share=0.25", "optimizer.lr=0", NULL });
        if (!(fabs(half.train_loss - 0.75 * labels.train_loss) < 1e-6))
            fail_msg("%s: loss %.9g, expected 0.75 of %.9g", devices[d], half.train_loss, labels.train_loss);
        assert_true(half.evaluation.test_loss == labels.evaluation.test_loss); // without the teacher
    }
}

// In the first update, where no weight has changed yet: (1 - share) * labels + share * teacher.
static void the_loss_is_the_sum_of_both(void **state) {
    (void)state;
    static const char *const devices[] = { "device.type=ref", "device.type=cpu" };
    static const char *const precisions[] = { "train.precision=fp32", "train.precision=bf16" };
    for (int i = 0; i < 4; i++) {
        static const char *const shares[] = { "distill.share=0", "distill.share=1", "distill.share=0.3" };
        double loss[3];
        for (int s = 0; s < 3; s++)
            loss[s] = train((const char *[]){ devices[i / 2], precisions[i % 2], as_other, shares[s],
                                "train.max_updates=1", "train.resolution=0:4", NULL })
                          .train_loss;
        assert_true(loss[1] > 0.01);
        if (!(fabs(loss[2] - 0.7 * loss[0] - 0.3 * loss[1]) < 1e-6))
            fail_msg("%s, %s: %.9g, expected 0.7 * %.9g + 0.3 * %.9g", devices[i / 2], precisions[i % 2], loss[2],
                loss[0], loss[1]);
    }
}

static void the_gradient_reduces_the_loss(void **state) {
    (void)state;
    const ls_train_summary before = train(
        (const char *[]){ "device.type=cpu", as_other, "distill.share=1", "train.epochs=1", "optimizer.lr=0", NULL });
    const ls_train_summary after =
        train((const char *[]){ "device.type=cpu", as_other, "distill.share=1", "train.epochs=30", NULL });
    if (!(after.train_loss < 0.5 * before.train_loss))
        fail_msg("the teacher's loss is %.6g after training, %.6g before", after.train_loss, before.train_loss);
}

static void recomputation_and_micro_batches(void **state) {
    (void)state;
    const char *const ordered = "run.deterministic=true";
    const ls_train_summary one = train((const char *[]){ "device.type=cpu", as_other, ordered, NULL });
    const ls_train_summary blocks =
        train((const char *[]){ "device.type=cpu", as_other, ordered, "train.recompute=blocks", NULL });
    assert_true(one.weights_hash == blocks.weights_hash);
}

static void the_plan_has_the_teachers_memory(void **state) {
    (void)state;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        run r = { 0 };
        const char *const options[] = { "device.type=ref", as_other, bf16 ? "train.precision=bf16" : NULL, NULL };
        must(run_open(&r, plain_ini, (const char *const *const[RUN_LISTS_MAX]){ common, options }));
        const ls_session *s = &r.trainer->session.compute;
        assert_int_equal(s->teacher->trained_params, 0);
        assert_true(s->teacher->sizes.grad == 0);
        assert_int_equal(s->memory.teacher, s->teacher->weight->bytes + (bf16 ? s->teacher->copy->bytes : 0));
        const size_t with = ls_memory_plan_bytes(&s->memory);
        run_close(&r);
        r = (run){ 0 };
        const char *const alone[] = { "device.type=ref", bf16 ? "train.precision=bf16" : NULL, NULL };
        must(run_open(&r, plain_ini, (const char *const *const[RUN_LISTS_MAX]){ common, alone }));
        assert_int_equal(r.trainer->session.compute.memory.teacher, 0);
        assert_true(with > ls_memory_plan_bytes(&r.trainer->session.compute.memory));
        run_close(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_share_of_0_changes_nothing),
        cmocka_unit_test(a_network_has_nothing_to_learn_from_itself),
        cmocka_unit_test(the_loss_is_the_sum_of_both),
        cmocka_unit_test(the_gradient_reduces_the_loss),
        cmocka_unit_test(recomputation_and_micro_batches),
        cmocka_unit_test(the_plan_has_the_teachers_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
