// To renew configs/reference.ini after a change of options.def:
// LOCKSTEP_UPDATE=1 build/.../test_config_config, in the root.
#include <glob.h>

#include "config/config.h"
#include "config/options.h"
#include "support/cmocka.h"
#include "support/must.h"
#include "support/temp.h"

static char *written(const ls_config *cfg, int with_help) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    ls_config_write(cfg, file, with_help);
    fclose(file);
    return text;
}

static void choices_match_the_enums(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int value;
        const char *word;
    } rows[] = {
        { "device.type", LS_DEVICE_TYPE_AUTO, "auto" },
        { "device.type", LS_DEVICE_TYPE_CPU, "cpu" },
        { "device.type", LS_DEVICE_TYPE_REF, "ref" },
        { "device.type", LS_DEVICE_TYPE_CUDA, "cuda" },
        { "data.dataset", LS_DATASET_MNIST, "mnist" },
        { "data.dataset", LS_DATASET_FASHION_MNIST, "fashion-mnist" },
        { "data.dataset", LS_DATASET_CIFAR10, "cifar10" },
        { "data.dataset", LS_DATASET_CIFAR100, "cifar100" },
        { "data.dataset", LS_DATASET_CIFAR100_COARSE, "cifar100-coarse" },
        { "data.dataset", LS_DATASET_FOLDER, "folder" },
        { "data.dataset", LS_DATASET_SYNTHETIC, "synthetic" },
        { "data.pad_mode", LS_PAD_ZERO, "zero" },
        { "data.pad_mode", LS_PAD_REFLECT, "reflect" },
        { "data.flip", LS_FLIP_NEVER, "false" },
        { "data.flip", LS_FLIP_RANDOM, "true" },
        { "data.flip", LS_FLIP_ALTERNATING, "alternating" },
        { "train.precision", LS_PRECISION_FP32, "fp32" },
        { "train.precision", LS_PRECISION_BF16, "bf16" },
        { "train.precision", LS_PRECISION_FP16, "fp16" },
        { "train.recompute", LS_RECOMPUTE_OFF, "off" },
        { "train.recompute", LS_RECOMPUTE_BLOCKS, "blocks" },
        { "train.loss_reduction", LS_LOSS_MEAN, "mean" },
        { "train.loss_reduction", LS_LOSS_SUM, "sum" },
        { "optimizer.kind", LS_OPTIMIZER_SGD, "sgd" },
        { "optimizer.kind", LS_OPTIMIZER_ADAMW, "adamw" },
        { "optimizer.kind", LS_OPTIMIZER_RMSPROP, "rmsprop" },
        { "optimizer.kind", LS_OPTIMIZER_LION, "lion" },
        { "optimizer.kind", LS_OPTIMIZER_MUON, "muon" },
        { "optimizer.kind", LS_OPTIMIZER_LARS, "lars" },
        { "average.kind", LS_AVERAGE_OFF, "off" },
        { "average.kind", LS_AVERAGE_EMA, "ema" },
        { "average.kind", LS_AVERAGE_LOOKAHEAD, "lookahead" },
        { "schedule.kind", LS_SCHEDULE_CONSTANT, "constant" },
        { "schedule.kind", LS_SCHEDULE_LINEAR, "linear" },
        { "schedule.kind", LS_SCHEDULE_COSINE, "cosine" },
        { "schedule.kind", LS_SCHEDULE_EXPONENTIAL, "exponential" },
        { "schedule.kind", LS_SCHEDULE_COSINE_RESTARTS, "cosine-restarts" },
        { "schedule.kind", LS_SCHEDULE_STEP, "step" },
        { "schedule.kind", LS_SCHEDULE_ONE_CYCLE, "one-cycle" },
        { "train.quantise", LS_QUANTISE_OFF, "off" },
        { "train.quantise", LS_QUANTISE_INT8, "int8" },
        { "log.progress", LS_PROGRESS_AUTO, "auto" },
        { "log.progress", LS_PROGRESS_BAR, "bar" },
        { "log.progress", LS_PROGRESS_LINES, "lines" },
        { "log.progress", LS_PROGRESS_OFF, "off" },
        { "data.broken", LS_BROKEN_ERROR, "error" },
        { "data.broken", LS_BROKEN_SKIP, "skip" },
        { "device.autotune", LS_AUTOTUNE_AUTO, "auto" },
        { "device.autotune", LS_AUTOTUNE_TRUE, "true" },
        { "device.autotune", LS_AUTOTUNE_FALSE, "false" },
        { "data.resize", LS_RESIZE_STRETCH, "stretch" },
        { "data.resize", LS_RESIZE_CROP, "crop" },
        { "data.decoder", LS_DECODER_AUTO, "auto" },
        { "data.decoder", LS_DECODER_STB, "stb" },
        { "data.decoder", LS_DECODER_LIBJPEG_TURBO, "libjpeg-turbo" },
        { "data.loader", LS_LOADER_STREAM, "stream" },
        { "data.loader", LS_LOADER_RESIDENT, "resident" },
        { "dist.backend", LS_BACKEND_AUTO, "auto" },
        { "dist.backend", LS_BACKEND_NCCL, "nccl" },
        { "dist.backend", LS_BACKEND_MPI, "mpi" },
        { "dist.backend", LS_BACKEND_SELF, "self" },
        { "data.balance", LS_BALANCE_OFF, "off" },
        { "data.balance", LS_BALANCE_CLASSES, "classes" },
        { "eval.tta", LS_TTA_OFF, "off" },
        { "eval.tta", LS_TTA_FLIP, "flip" },
        { "eval.tta", LS_TTA_FLIP_SHIFT, "flip-shift" },
        { "eval.split", LS_EVAL_TEST, "test" },
        { "eval.split", LS_EVAL_VALIDATION, "validation" },
        { "run.cross_check_action", LS_CROSS_CHECK_STOP, "stop" },
        { "run.cross_check_action", LS_CROSS_CHECK_CONTINUE, "continue" },
        { "run.resume", LS_RESUME_OFF, "off" },
        { "run.resume", LS_RESUME_AUTO, "auto" },
        { "run.resume", LS_RESUME_MUST, "must" },
        { "dist.reduce_dtype", LS_REDUCE_DTYPE_FP32, "fp32" },
        { "dist.reduce_dtype", LS_REDUCE_DTYPE_BF16, "bf16" },
        { "dist.hierarchy", LS_HIERARCHY_AUTO, "auto" },
        { "dist.hierarchy", LS_HIERARCHY_ON, "on" },
        { "dist.hierarchy", LS_HIERARCHY_OFF, "off" },
        { "optimizer.stretch", LS_STRETCH_ORIGINAL, "original" },
        { "optimizer.stretch", LS_STRETCH_MATCH_RMS_ADAMW, "match-rms-adamw" },
        { "optimizer.stretch", LS_STRETCH_OFF, "off" },
        { "device.winograd", 0, "auto" },
        { "device.winograd", 1, "f2" },
        { "device.winograd", 2, "off" },
    };
    int words = 0;
    for (int i = 0; i < LS_OPTION_COUNT; i++)
        for (int w = 0; ls_option_at(i)->words && ls_option_at(i)->words[w]; w++) words++;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(ls_config_choice(rows[i].name, rows[i].value), rows[i].word) != 0)
            fail_msg("%s %d: %s, expected %s", rows[i].name, rows[i].value,
                ls_config_choice(rows[i].name, rows[i].value), rows[i].word);
    assert_int_equal(words, sizeof rows / sizeof *rows); // none is missing above
    assert_string_equal(ls_config_choice("device.type", 99), "?");
    assert_string_equal(ls_config_choice("device.typo", 0), "?");
}

static void defaults_are_valid(void **state) {
    (void)state;
    ls_config cfg;
    ls_config_defaults(&cfg);
    ls_status status = ls_config_check(&cfg);
    if (ls_failed(status)) fail_msg("%s", status.text);
    assert_int_equal(cfg.data_dataset, LS_DATASET_FASHION_MNIST);
    assert_true(cfg.train_global_batch == 128 && cfg.optimizer_eps == 1e-8 && cfg.dist_overlap == 1);
    assert_string_equal(cfg.data_shape, "3x32x32");
    for (int i = 0; i < LS_OPTION_COUNT;
         i++) { // each default is allowed, each option is explained and sections are together
        char assignment[2 * LS_TEXT_BYTES], value[LS_TEXT_BYTES];
        const char *name;
        assert_true(ls_config_value(&cfg, i, &name, value, sizeof value));
        snprintf(assignment, sizeof assignment, "%s=%s", name, value);
        status = ls_config_set(&cfg, assignment);
        if (ls_failed(status)) fail_msg("%s", status.text);
        if (!ls_option_at(i)->what[0]) fail_msg("%s: no explanation", name);
        for (int j = 0; j < i - 1; j++)
            if (!strcmp(ls_option_at(i)->section, ls_option_at(j)->section) &&
                strcmp(ls_option_at(i)->section, ls_option_at(i - 1)->section) != 0)
                fail_msg("%s: its section is in two places", name);
    }
    assert_false(ls_config_value(&cfg, LS_OPTION_COUNT, NULL, NULL, 0));
}

static void reference_is_current(void **state) {
    (void)state;
    ls_config cfg;
    ls_config_defaults(&cfg);
    char *text = written(&cfg, 1), *committed = NULL;
    size_t bytes = 0;
    if (getenv("LOCKSTEP_UPDATE"))
        assert_int_equal(ls_write_file("configs/reference.ini", text, strlen(text)).code, LS_OK);
    ls_status status = ls_read_file("configs/reference.ini", &committed, &bytes);
    if (ls_failed(status)) fail_msg("%s", status.text);
    if (strcmp(text, committed) != 0)
        fail_msg("configs/reference.ini is not what options.def says; LOCKSTEP_UPDATE=1 and this program in the root "
                 "renew it");
    free(text);
    free(committed);
}

// A value for option i that is not its default, `which` being 0 or 1 for its least and its most.
static void other_value(int i, int which, char *dst, size_t bytes) {
    const ls_option *option = ls_option_at(i);
    switch (option->type) {
    case TYPE_INT:
        snprintf(dst, bytes, "%lld", (long long)(which ? option->most : option->least));
        if (option->allows_auto && which) snprintf(dst, bytes, "auto");
        break;
    case TYPE_REAL:
        snprintf(
            dst, bytes, "%.17g", which ? option->maximum : option->minimum + 0.1 * (option->maximum - option->minimum));
        break;
    case TYPE_BOOL:
        snprintf(dst, bytes, which ? "true" : "false");
        break;
    case TYPE_CHOICE:
        snprintf(dst, bytes, "%s", option->words[which]);
        break;
    case TYPE_TEXT:
        memset(dst, 'a' + i % 26, LS_TEXT_BYTES - 1); // as long as it may be
        memcpy(dst, which ? "x;y#z = [a] " : "\xC3\xA4 b;", 5);
        dst[which ? LS_TEXT_BYTES - 1 : 12] = 0;
        break;
    }
}

static void every_option_survives_writing(void **state) {
    (void)state;
    temp_folder folder = temp_folder_new();
    for (int which = 0; which < 2; which++) {
        for (int with_help = 0; with_help < 2; with_help++) {
            ls_config cfg, back;
            ls_config_defaults(&cfg);
            ls_config_defaults(&back);
            for (int i = 0; i < LS_OPTION_COUNT; i++) {
                char value[LS_TEXT_BYTES], assignment[2 * LS_TEXT_BYTES];
                other_value(i, which, value, sizeof value);
                snprintf(assignment, sizeof assignment, "%s=%s", ls_option_at(i)->name, value);
                ls_status status = ls_config_set(&cfg, assignment);
                if (ls_failed(status)) fail_msg("%s", status.text);
            }
            char *text = written(&cfg, with_help);
            ls_status status = ls_config_read_file(&back, temp_file(&folder, "x.ini", text));
            free(text);
            if (ls_failed(status)) fail_msg("%s", status.text);
            for (int i = 0; i < LS_OPTION_COUNT; i++) {
                const ls_option *option = ls_option_at(i);
                char a[LS_TEXT_BYTES], b[LS_TEXT_BYTES];
                ls_config_value(&cfg, i, NULL, a, sizeof a);
                ls_config_value(&back, i, NULL, b, sizeof b);
                size_t bytes = option->type == TYPE_TEXT                               ? strlen(a) + 1
                               : option->type == TYPE_INT || option->type == TYPE_REAL ? 8
                                                                                       : sizeof(int);
                if (strcmp(a, b) != 0 ||
                    memcmp((char *)&cfg + option->offset, (char *)&back + option->offset, bytes) != 0)
                    fail_msg("%s: %s came back as %s", option->name, a, b);
                assert_true(back.line[i] > 0);
            }
        }
    }
    temp_folder_remove(&folder);
}

static void knows_where_values_are_from(void **state) {
    (void)state;
    ls_config cfg;
    ls_config_defaults(&cfg);
    temp_folder folder = temp_folder_new();
    const char *path = temp_file(&folder, "x.ini", "[train]\nepochs = 7\n");
    char where[3 * LS_TEXT_BYTES], expected[3 * LS_TEXT_BYTES];
    assert_int_equal(ls_config_read_file(&cfg, path).code, LS_OK);
    assert_int_equal(ls_config_set(&cfg, " run.seed = 5 ").code, LS_OK);
    assert_string_equal(cfg.file, path);
    assert_string_equal(cfg.folder, folder.path);
    assert_int_equal(cfg.train_epochs, 7);
    assert_int_equal(cfg.run_seed, 5);
    snprintf(expected, sizeof expected, "%s:2: train.epochs = 7", path);
    assert_string_equal(ls_config_where(&cfg, LS_OPTION_train_epochs, where, sizeof where), expected);
    assert_string_equal(ls_config_where(&cfg, LS_OPTION_run_seed, where, sizeof where), "--set run.seed=5");
    assert_string_equal(ls_config_where(&cfg, LS_OPTION_data_pad, where, sizeof where), "data.pad = 0 (default)");
    temp_folder_remove(&folder);
    assert_int_equal(ls_config_read_file(&cfg, "none.ini").code, LS_USAGE);
    assert_string_equal(cfg.folder, "");
    assert_int_equal(ls_config_read_file(&cfg, "/none.ini").code, LS_USAGE);
    assert_string_equal(cfg.folder, "/");
}

// beta2 is auto until it is set, in any order: each kind has its own number then.
static void kinds_have_defaults(void **state) {
    (void)state;
    static const struct {
        const char *set[2];
        double adamw, lion;
    } rows[] = {
        { { "optimizer.kind=adamw", "optimizer.kind=adamw" }, 0.999, 0.99 },
        { { "optimizer.kind=adamw", "optimizer.kind=lion" }, 0.999, 0.99 },
        { { "optimizer.kind=lion", "optimizer.beta2=auto" }, 0.999, 0.99 },
        { { "optimizer.kind=lion", "optimizer.beta2=0.95" }, 0.95, 0.95 },
        { { "optimizer.beta2=0.95", "optimizer.kind=lion" }, 0.95, 0.95 },
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        ls_config cfg;
        ls_config_defaults(&cfg);
        for (int i = 0; i < 2; i++) assert_int_equal(ls_config_set(&cfg, rows[r].set[i]).code, LS_OK);
        const double beta2 = cfg.optimizer_beta2;
        assert_true(ls_config_of_kind(LS_OPTION_optimizer_beta2, beta2, LS_OPTIMIZER_ADAMW) == rows[r].adamw);
        assert_true(ls_config_of_kind(LS_OPTION_optimizer_beta2, beta2, LS_OPTIMIZER_LION) == rows[r].lion);
        assert_true(cfg.optimizer_beta1 == 0.9);
        assert_true(ls_config_has_effect(&cfg, LS_OPTION_optimizer_beta1));
        assert_true(ls_config_has_effect(&cfg, LS_OPTION_optimizer_lr));
        assert_int_equal(ls_config_has_effect(&cfg, LS_OPTION_optimizer_eps), cfg.optimizer_kind == LS_OPTIMIZER_ADAMW);
        assert_false(ls_config_has_effect(&cfg, LS_OPTION_optimizer_momentum));
        assert_false(ls_config_has_effect(&cfg, LS_OPTION_schedule_gamma));
    }
}

static void first_loss_scales(void **state) {
    (void)state;
    static const struct {
        const char *set[3];
        double scale;
    } rows[] = {
        { { "train.loss_reduction=mean", "train.global_batch=1536", "loss_scale.initial=auto" }, 65536 },
        { { "train.loss_reduction=sum", "train.global_batch=1536", "loss_scale.initial=auto" }, 512 },
        { { "train.loss_reduction=sum", "train.global_batch=1024", "loss_scale.initial=auto" }, 1024 },
        { { "train.loss_reduction=sum", "train.global_batch=1024", "loss_scale.initial=8" }, 8 },
        { { "train.loss_reduction=sum", "train.global_batch=1024", "loss_scale.minimum=2048" }, 2048 },
        { { "train.loss_reduction=mean", "loss_scale.maximum=256", "loss_scale.minimum=4" }, 256 },
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        ls_config cfg;
        ls_config_defaults(&cfg);
        for (int i = 0; i < 3; i++) assert_int_equal(ls_config_set(&cfg, rows[r].set[i]).code, LS_OK);
        assert_true(ls_config_first_loss_scale(&cfg) == rows[r].scale);
    }
}

static void shipped_files_are_valid(void **state) {
    (void)state;
    glob_t found;
    assert_int_equal(glob("configs/*.ini", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        ls_config cfg;
        ls_config_defaults(&cfg);
        ls_status status = ls_config_read_file(&cfg, found.gl_pathv[i]);
        if (!ls_failed(status)) status = ls_config_check(&cfg);
        if (ls_failed(status)) fail_msg("%s", status.text);
        char unused[256];
        if (ls_config_unused(&cfg, unused, sizeof unused)[0]) fail_msg("%s: no effect %s", cfg.file, unused);
    }
    globfree(&found);
}

static void lists(void **state) {
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    assert_int_equal(ls_config_list(file, NULL), LS_OPTION_COUNT);
    fclose(file);
    for (int i = 0; i < LS_OPTION_COUNT; i++) {
        assert_non_null(strstr(text, ls_option_at(i)->key));
        assert_non_null(strstr(text, ls_option_at(i)->what));
    }
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        if (strcspn(line, "\n") > 120) fail_msg("longer than a terminal's line: %.130s", line);
    free(text);
}

static void without_effect(void **state) {
    (void)state;
    static const struct {
        const char *set[5], *unused;
    } rows[] = {
        { { NULL }, "" },
        { { "optimizer.momentum=0.9" }, "" },
        { { "optimizer.kind=adamw" }, "" },
        { { "optimizer.kind=adamw", "optimizer.momentum=0.9" },
            "optimizer.momentum (only with optimizer.kind = sgd, rmsprop, muon, lars)" },
        { { "optimizer.beta1=0.8", "optimizer.eps=1e-7" },
            "optimizer.beta1 (only with optimizer.kind = adamw, lion); "
            "optimizer.eps (only with optimizer.kind = adamw, rmsprop, lars)" },
        { { "optimizer.eps=1e-7", "schedule.gamma=0.5", "schedule.final=0.1", "schedule.kind=cosine" },
            "optimizer.eps (only with optimizer.kind = adamw, rmsprop, lars); schedule.gamma (only with schedule.kind "
            "= step)" },
        { { "schedule.warmup_start=0.1" },
            "schedule.warmup_start (only with schedule.warmup_epochs > 0 or schedule.kind = one-cycle)" },
        { { "schedule.warmup_start=0.1", "schedule.kind=one-cycle", "schedule.peak=0.2", "schedule.final=0" }, "" },
        { { "schedule.peak=0.2", "schedule.final=0" },
            "schedule.final (only with schedule.kind = linear, cosine, exponential, cosine-restarts, one-cycle); "
            "schedule.peak (only with schedule.kind = one-cycle)" },
        { { "schedule.floor=0.05", "schedule.kind=cosine", "schedule.final=0.1" },
            "schedule.floor (only with schedule.floor > schedule.final)" },
        { { "schedule.floor=0.05", "schedule.kind=cosine" }, "" },
        { { "schedule.floor=0.05", "schedule.kind=one-cycle", "schedule.final=0.1" }, "" }, // it begins at 0
        { { "optimizer.kind=muon", "optimizer.renormalise_growth=5" },
            "optimizer.renormalise_growth (only with optimizer.renormalise_every > 0)" },
        { { "optimizer.kind=muon", "optimizer.renormalise_growth=5", "optimizer.renormalise_every=1" }, "" },
        { { "loss_scale.initial=2", "loss_scale.max_skips=3" },
            "loss_scale.initial, loss_scale.max_skips (only with train.precision = fp16)" },
        { { "loss_scale.initial=2", "train.precision=fp16" }, "" },
        { { "data.shape=1x8x8", "data.image_size=8x8", "data.path=x" },
            "data.shape (only with data.dataset = synthetic); data.image_size (only with data.dataset = folder)" },
        { { "data.path=x", "data.shape=1x8x8", "data.test_fraction=0", "data.dataset=synthetic" },
            "data.path (only with a data.dataset of files); data.test_fraction (only with data.dataset = folder)" },
        { { "data.pad_mode=reflect" }, "data.pad_mode (only with data.pad > 0)" },
        { { "data.crop_ratio=2", "data.crop_scale=1" }, "data.crop_ratio (only with data.crop_scale > 0 and < 1)" },
        { { "data.crop_ratio=2", "data.crop_scale=0.5" }, "" },
        { { "data.erase_area=0.2" }, "data.erase_area (only with data.erase > 0)" },
        { { "data.erase_area=0.2", "data.erase=0.5" }, "" },
        { { "data.channels=1" }, "data.channels (only with data.dataset = folder)" },
        { { "data.channels=1", "data.dataset=folder" }, "" },
        { { "data.balance=classes", "data.shuffle=false" }, "data.balance (only with data.shuffle = true)" },
        { { "data.balance=classes" }, "" },
        { { "run.cross_check_action=stop" }, "run.cross_check_action (only with run.cross_check > 0)" },
        { { "run.cross_check_action=stop", "run.cross_check=9" }, "" },
        { { "eval.tta_share=0.5" }, "eval.tta_share (only with eval.tta = flip, flip-shift)" },
        { { "eval.tta_share=0.5", "eval.tta=flip" }, "" },
        { { "model.init_rules=new fc.*" }, "model.init_rules (only with model.init)" },
        { { "model.init_rules=new fc.*", "model.init=w.safetensors" }, "" },
        { { "device.tf32=false", "device.winograd=off" }, "" }, // auto: may be either
        { { "device.tf32=false", "device.winograd=off", "device.type=cpu" },
            "device.tf32 (only with device.type = cuda)" },
        { { "device.tf32=false", "device.winograd=off", "device.type=cuda" },
            "device.winograd (only with device.type = cpu)" },
        { { "device.autotune=true", "run.deterministic=true" },
            "device.autotune (only with run.deterministic = false)" },
        { { "device.workspace=64", "device.type=cpu" }, "device.workspace (only with device.type = cuda)" },
        { { "device.workspace=64", "device.type=cuda" }, "" },
        { { "device.autotune=true", "run.deterministic=true", "device.type=cpu" },
            "device.autotune (only with device.type = cuda)" },
    };
    char unused[1024];
    ls_config cfg;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        ls_config_defaults(&cfg);
        for (int i = 0; i < 5 && rows[r].set[i]; i++) must(ls_config_set(&cfg, rows[r].set[i]));
        if (strcmp(ls_config_unused(&cfg, unused, sizeof unused), rows[r].unused) != 0)
            fail_msg("row %zu: '%s', expected '%s'", r, unused, rows[r].unused);
    }
    // A run's own record names every option: what --set says beside it counts, the record does not.
    ls_config_defaults(&cfg);
    must(ls_config_read_file(&cfg, "configs/reference.ini"));
    must(ls_config_set(&cfg, "optimizer.kind=adamw"));
    assert_string_equal(ls_config_unused(&cfg, unused, sizeof unused), "");
    must(ls_config_set(&cfg, "optimizer.momentum=0.5"));
    assert_string_equal(ls_config_unused(&cfg, unused, sizeof unused),
        "optimizer.momentum (only with optimizer.kind = sgd, rmsprop, muon, lars)");
    assert_string_equal(ls_config_unused(&cfg, unused, 10), "optimizer");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_match_the_enums),
        cmocka_unit_test(defaults_are_valid),
        cmocka_unit_test(reference_is_current),
        cmocka_unit_test(every_option_survives_writing),
        cmocka_unit_test(knows_where_values_are_from),
        cmocka_unit_test(kinds_have_defaults),
        cmocka_unit_test(first_loss_scales),
        cmocka_unit_test(shipped_files_are_valid),
        cmocka_unit_test(lists),
        cmocka_unit_test(without_effect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
