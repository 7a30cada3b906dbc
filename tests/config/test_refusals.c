// Every class of configuration error: what the file or --set says, and the whole message.
#include "config/config.h"
#include "support/cmocka.h"
#include "support/temp.h"

typedef struct {
    const char *text;    // of the file; or NULL
    const char *set;     // of --set; or NULL
    const char *message; // "@" stands for the file's path
} refusal;

static const refusal rows[] = {
    // names
    { "[train]\nepohcs = 5\n", NULL,
        "@:2: train.epohcs = 5: no such key in [train]; did you mean train.epochs? (train --list shows all)" },
    { "[train]\nlr = 5\n", NULL,
        "@:2: train.lr = 5: no such key in [train]; did you mean optimizer.lr? (train --list shows all)" },
    { "[schedule]\nkinds = step\n", NULL,
        "@:2: schedule.kinds = step: no such key in [schedule]; did you mean schedule.kind? (train --list shows all)" },
    { "[train]\nxyzzy = 5\n", NULL, "@:2: train.xyzzy = 5: no such key in [train] (train --list shows all)" },
    { "\n[trian]\nepochs = 5\n", NULL,
        "@:2: [trian]: no such section; did you mean [train]? (train --list shows all)" },
    { "[xyzzy]\n", NULL, "@:1: [xyzzy]: no such section (train --list shows all)" },
    { NULL, "train.epohcs=5",
        "--set train.epohcs=5: no such key in [train]; did you mean train.epochs? (train --list shows all)" },
    { NULL, "trian.epochs=5", "--set trian.epochs=5: no such section; did you mean [train]? (train --list shows all)" },
    { NULL, "epochs=5", "--set epochs=5: expected section.key=value; did you mean train.epochs?" },
    { NULL, "train.epochs", "--set train.epochs: expected section.key=value" },
    { NULL, "", "--set : expected section.key=value" },
    // form of the file
    { "epochs = 5\n", NULL, "@:1: 'epochs = 5': outside any section; put a [section] line before it" },
    { "[train]\nepochs 5\n", NULL, "@:2: 'epochs 5': expected [section] or key = value" },
    { "[train]\nepochs = 5\nepochs = 6\n", NULL,
        "@:3: train.epochs = 6: this key is already set at line 2; keep one of them" },
    { "[train]\n[run]\n[train]\n", NULL, "@:3: [train]: this section is already at line 1; put its keys together" },
    // types and ranges
    { "[train]\nepochs = five\n", NULL, "@:2: train.epochs = five: expected an integer from 1 to 1000000" },
    { "[train]\nepochs = 0\n", NULL, "@:2: train.epochs = 0: expected an integer from 1 to 1000000" },
    { "[train]\nepochs = 5.0\n", NULL, "@:2: train.epochs = 5.0: expected an integer from 1 to 1000000; write 5" },
    { "[train]\nepochs =\n", NULL, "@:2: train.epochs = : expected an integer from 1 to 1000000" },
    { NULL, "train.epochs=1000001", "--set train.epochs=1000001: expected an integer from 1 to 1000000" },
    { "[optimizer]\nlr = fast\n", NULL, "@:2: optimizer.lr = fast: expected a number from 0 to 1000" },
    { "[optimizer]\nlr = -1\n", NULL, "@:2: optimizer.lr = -1: expected a number from 0 to 1000" },
    { "[train]\nlabel_smoothing = 1\n", NULL, "@:2: train.label_smoothing = 1: expected a number from 0 to 0.999" },
    { "[dist]\ntimeout = inf\n", NULL, "@:2: dist.timeout = inf: expected a number from 1 to 86400" },
    { "[data]\nflip = yes\n", NULL, "@:2: data.flip = yes: expected false | true | alternating; did you mean true?" },
    { "[train]\nprecision = fp61\n", NULL,
        "@:2: train.precision = fp61: expected fp32 | bf16 | fp16; did you mean fp16?" },
    { "[train]\nprecision = double\n", NULL, "@:2: train.precision = double: expected fp32 | bf16 | fp16" },
    { NULL, "device.type=gpu", "--set device.type=gpu: expected auto | cpu | ref | cuda; did you mean cuda?" },
    { NULL, "data.path=a #b",
        "--set data.path=a #b: '#' would start a comment; write it without white space before it" },
    { NULL, "data.path=;b", "--set data.path=;b: ';' would start a comment; write it without white space before it" },
    { NULL, "data.path=a\nb", "--set data.path=a?b: character 2 is a control character; expected text of one line" },
    // texts with a form
    { "[data]\nshape = 3x32\n", NULL,
        "@:2: data.shape = 3x32: expected channels x height x width, each from 1 to 65535, as 3x32x32" },
    { "[data]\nimage_size = 64\n", NULL,
        "@:2: data.image_size = 64: expected height x width, each from 1 to 65535, as 64x64" },
    { "[data]\nmean = 0.1; 0.2\n", NULL,
        "@:2: data.mean = 0.1; 0.2: '0.1; 0.2' is no number; expected numbers with commas between, as 0.5, 1, 2e-3" },
    { "[data]\nmean = 0.1, 0.2\n", NULL,
        "@:2: data.mean = 0.1, 0.2: 2 numbers; expected 1, one a channel of fashion-mnist" },
    { "[data]\nstd = 0.1, 0.2\ndataset = cifar10\n", NULL,
        "@:2: data.std = 0.1, 0.2: 2 numbers; expected 3, one a channel of cifar10" },
    { "[data]\nstd = 0\n", NULL,
        "@:2: data.std = 0: 0; expected numbers above 0 and at most 1, for pixels are divided by 255 before" },
    { "[data]\nstd = -0.5\n", NULL,
        "@:2: data.std = -0.5: -0.5; expected numbers above 0 and at most 1, for pixels are divided by 255 before" },
    { "[data]\nstd = 58.395\n", NULL,
        "@:2: data.std = 58.395: 58.395; expected numbers above 0 and at most 1, for pixels are divided by 255 before; "
        "divide it by 255, too" },
    { "[data]\ndataset = cifar10\nmean = 0.5, 116.28, 0.5\n", NULL,
        "@:3: data.mean = 0.5, 116.28, 0.5: 116.28; expected numbers from 0 to 1, for pixels are divided by "
        "255 "
        "before; divide it by 255, too" },
    { "[data]\nmean = -0.1\n", NULL,
        "@:2: data.mean = -0.1: -0.1; expected numbers from 0 to 1, for pixels are divided by 255 before" },
    { "[data]\nmean = nan\n", NULL,
        "@:2: data.mean = nan: 'nan' is no number; expected numbers with commas between, as 0.5, 1, 2e-3" },
    { "[data]\nstd = inf\n", NULL,
        "@:2: data.std = inf: 'inf' is no number; expected numbers with commas between, as 0.5, 1, 2e-3" },
    { "[train]\npatience = 3\neval_every = 0\n", NULL,
        "@:2: train.patience = 3: it counts evaluations, and with train.eval_every = 0 there is none before the end" },
    { "[train]\nresolution = 24\n", NULL,
        "@:2: train.resolution = 24: expected epoch:pixels with commas between, as 0:24, 3:28, 6:32x40" },
    { "[train]\nresolution = 0:24, 3:28x\n", NULL,
        "@:2: train.resolution = 0:24, 3:28x: expected epoch:pixels with commas between, as 0:24, 3:28, 6:32x40" },
    { "[train]\nresolution = 0:24,\n", NULL,
        "@:2: train.resolution = 0:24,: expected epoch:pixels with commas between, as 0:24, 3:28, 6:32x40" },
    { "[train]\nresolution = 0:0\n", NULL,
        "@:2: train.resolution = 0:0: expected epoch:pixels with commas between, as 0:24, 3:28, 6:32x40" },
    { "[train]\nresolution = 0:24, 3:8x32769\n", NULL,
        "@:2: train.resolution = 0:24, 3:8x32769: pictures of 8 x 32769; expected sides of at most 32768 pixels" },
    { "[data]\ndataset = synthetic\nshape = 1x8x40000\n", "train.resolution=0:8",
        "--set train.resolution=0:8: the data's pictures of 8 x 40000 are too large to be resized; expected sides of "
        "at "
        "most 32768 pixels" },
    { "[train]\nresolution = 1:24\n", NULL,
        "@:2: train.resolution = 1:24: epoch 1; expected the first to be 0, and each to be above the one before" },
    { "[train]\nresolution = 0:24, 3:28, 3:32\n", NULL,
        "@:2: train.resolution = 0:24, 3:28, 3:32: epoch 3; expected the first to be 0, and each to be above the one "
        "before" },
    { "[train]\nresolution = 0:1,1:2,2:3,3:4,4:5,5:6,6:7,7:8,8:9\n", NULL,
        "@:2: train.resolution = 0:1,1:2,2:3,3:4,4:5,5:6,6:7,7:8,8:9: expected at most 8 resolutions" },
    { "[schedule]\nkind = step\nmilestones = 1, x\n", NULL,
        "@:3: schedule.milestones = 1, x: 'x' is no number; expected numbers with commas between, as 0.5, 1, 2e-3" },
    { "[schedule]\nkind = step\nmilestones = 2, 2\n", NULL,
        "@:3: schedule.milestones = 2, 2: expected numbers above 0, each larger than the one before" },
    { "[schedule]\nkind = step\nmilestones = 0, 2\n", NULL,
        "@:3: schedule.milestones = 0, 2: expected numbers above 0, each larger than the one before" },
    { "[optimizer]\ngroups = *.bias lr\n", NULL,
        "@:2: optimizer.groups = *.bias lr: 'lr' after '*.bias': expected lr=, decay=, momentum=, end= or "
        "frozen_after= with "
        "a number, kind= with an optimizer, or frozen" },
    { "[optimizer]\nlr = 0.1\nrate = 0.2\n", NULL,
        "@:3: optimizer.rate = 0.2: no such key in [optimizer]; did you mean optimizer.lr? (train --list shows all)" },
    { "[run]\nname = a/b\n", NULL, "@:2: run.name = a/b: expected a name, not a path; --run-dir takes a path" },
    { "[run]\nname = ..\n", NULL, "@:2: run.name = ..: expected a name, not a path; --run-dir takes a path" },
    { "[model]\nfile =\n", NULL, "@:2: model.file = : expected a network file, as models/lenet.ini" },
    { "[train]\nmicro_batch = automatic\n", NULL,
        "@:2: train.micro_batch = automatic: expected an integer from 0 to 65536, or auto" },
    { NULL, "train.micro_batch=-1", "--set train.micro_batch=-1: expected an integer from 0 to 65536, or auto" },
    { NULL, "data.pad=auto", "--set data.pad=auto: expected an integer from 0 to 127" },
    // combinations
    { "[run]\ndeterministic = true\n[train]\nmicro_batch = auto\n", NULL,
        "@:4: train.micro_batch = auto: it would depend on what memory is free, and run.deterministic = true on it; "
        "expected a number, or 0" },
    { "[run]\ndeterministic = true\n[dist]\nreduce_dtype = bf16\n", NULL,
        "@:4: dist.reduce_dtype = bf16: its sums depend on the number of ranks, and run.deterministic = true allows "
        "none "
        "that do; expected fp32" },
    { "[run]\ncross_check = 100\n[train]\nsync_batchnorm = true\n", NULL,
        "@:2: run.cross_check = 100: with train.sync_batchnorm = true a gradient depends on the micro-batches of all "
        "ranks, so a neighbour cannot check it; set run.cross_check = 0 or train.sync_batchnorm = false" },
    { "[run]\ndeterministic = true\n[train]\nsync_batchnorm = true\n", NULL,
        "@:4: train.sync_batchnorm = true: statistics would depend on how many ranks compute at a time, and "
        "run.deterministic = true promises the same weights for any number of ranks; set one of the two to false" },
    { "[schedule]\nkind = step\n", NULL,
        "@:2: schedule.kind = step: needs schedule.milestones, the epochs at which the factor drops, as 30, 60" },
    { "[schedule]\nmilestones = 1, 2\n", NULL,
        "@:2: schedule.milestones = 1, 2: only schedule.kind = step has them, this is constant" },
    { "[optimizer]\nns_coefficients = 1, 2\n", NULL,
        "@:2: optimizer.ns_coefficients = 1, 2: 2 numbers; expected 3, as 3.4445, -4.7750, 2.0315" },
    { "[schedule]\nkind = linear\nepochs = 2.5\nwarmup_epochs = 3\n", NULL,
        "@:4: schedule.warmup_epochs = 3: longer than the schedule, which has 2.5 epochs" },
    { "[schedule]\nwarmup_epochs = 6\n", NULL,
        "@:2: schedule.warmup_epochs = 6: longer than the schedule, which has 5 epochs" },
    { "[schedule]\nkind = exponential\n", NULL,
        "@:2: schedule.kind = exponential: equal factors never reach 0; set schedule.final, as 0.01" },
    { "[schedule]\nkind = one-cycle\nwarmup_epochs = 1\n", NULL,
        "@:3: schedule.warmup_epochs = 1: one-cycle has its own warm-up; set schedule.peak instead" },
    { "[train]\nmicro_batch = 256\n", NULL,
        "@:2: train.micro_batch = 256: larger than train.global_batch = 128, of which it is a part" },
    { "[train]\nmicro_batch = 48\n", NULL,
        "@:2: train.micro_batch = 48: does not divide train.global_batch = 128; expected one of its divisors" },
    { "[data]\ndataset = synthetic\nshape = 1x1x4\n[eval]\ntta = flip-shift\n", NULL,
        "@:5: eval.tta = flip-shift: pictures of 1 x 4 have nothing beside the edge that a shift by a pixel could "
        "show; "
        "expected off or flip" },
    { "[eval]\ntta_share = 0\n", NULL, "@:2: eval.tta_share = 0: expected a number from 0.001 to 1" },
    { "[data]\npad = 28\npad_mode = reflect\n", NULL,
        "@:2: data.pad = 28: pictures of 28 x 28 reflect at most 27 pixels; lower it, or data.pad_mode = zero" },
    { "[data]\ndataset = synthetic\nshape = 1x8x4\npad_mode = reflect\n", "data.pad=4",
        "--set data.pad=4: pictures of 8 x 4 reflect at most 3 pixels; lower it, or data.pad_mode = zero" },
    { "[data]\ncutout = 29\n", NULL,
        "@:2: data.cutout = 29: pictures of 28 x 28 hold a square of at most 28 pixels; lower it" },
    { "[data]\ndataset = folder\nimage_size = 8x40\n", "data.cutout=9",
        "--set data.cutout=9: pictures of 8 x 40 hold a square of at most 8 pixels; lower it" },
    { "[data]\ncutout = -1\n", NULL, "@:2: data.cutout = -1: expected an integer from 0 to 65535" },
    { "[data]\ndataset = synthetic\nshape = 2x8x4\n", "data.trivial_augment=true",
        "--set data.trivial_augment=true: pictures of 2 channels; TrivialAugment changes pictures of 1 channel (gray) "
        "or "
        "3 (red, green, blue)" },
    { "[data]\nerase_area = 0.01\n", NULL, "@:2: data.erase_area = 0.01: expected a number from 0.02 to 1" },
    { "[data]\ndataset = folder\nchannels = 2\n", NULL,
        "@:3: data.channels = 2: a picture has 1 channel (gray) or 3 (red, green, blue)" },
    { "[data]\ndataset = folder\nchannels = 1\nmean = 0.1, 0.2, 0.3\n", NULL,
        "@:4: data.mean = 0.1, 0.2, 0.3: 3 numbers; expected 1, one a channel of folder" },
    { "[data]\ndataset = folder\nlabels = l.csv\nbalance = classes\n", NULL,
        "@:4: data.balance = classes: with data.labels a picture is in several classes, which cannot all be drawn "
        "equally "
        "often; train.class_weights = balanced lets rare labels count more" },
    { "[distill]\nweights = w\n[train]\nfocal_gamma = 2\n", NULL,
        "@:2: distill.weights = w: the teacher's part of the loss is a softmax over classes; leave out "
        "train.focal_gamma" },
    { "[distill]\nweights = w\n[data]\ndataset = folder\nlabels = l.csv\n", NULL,
        "@:2: distill.weights = w: the teacher's part of the loss is a softmax over classes; leave out data.labels" },
    { "[train]\nfocal_gamma = -1\n", NULL, "@:2: train.focal_gamma = -1: expected a number from 0 to 16" },
    { "[data]\nbalance = classes\n[train]\nclass_weights = balanced\n", NULL,
        "@:2: data.balance = classes: beside train.class_weights = balanced, rare classes would count more than common "
        "ones; expected one of the two" },
    { "[data]\ntrain_samples = 100\ndrop_last = true\n", NULL,
        "@:3: data.drop_last = true: an epoch of data.train_samples = 100 samples has no full window of "
        "train.global_batch = "
        "128; lower train.global_batch, or data.drop_last = false" },
    { "[optimizer]\nkind = adamw\nnesterov = true\n", NULL,
        "@:3: optimizer.nesterov = true: only optimizer.kind = sgd, muon, lars has it, this is adamw" },
    { "[optimizer]\nmomentum = 0\nnesterov = true\n", NULL,
        "@:3: optimizer.nesterov = true: needs a momentum; set optimizer.momentum, for example to 0.9" },
    { "[loss_scale]\ninitial = 1000\n", NULL,
        "@:2: loss_scale.initial = 1000: expected a power of two: other factors would round the gradients" },
    { "[loss_scale]\ngrowth = 3\n", NULL,
        "@:2: loss_scale.growth = 3: expected a power of two: other factors would round the gradients" },
    { "[loss_scale]\nbackoff = 0.3\n", NULL,
        "@:2: loss_scale.backoff = 0.3: expected a power of two: other factors would round the gradients" },
    { "[loss_scale]\nminimum = 128\ninitial = 64\n", NULL,
        "@:2: loss_scale.minimum = 128: above loss_scale.initial = 64" },
    { "[loss_scale]\nmaximum = 1024\ninitial = 2048\n", NULL,
        "@:2: loss_scale.maximum = 1024: below loss_scale.initial = 2048" },
    { "[loss_scale]\nmaximum = 1024\nminimum = 2048\n", NULL,
        "@:2: loss_scale.maximum = 1024: below loss_scale.minimum = 2048" },
};

static ls_status apply(const refusal *row, const char *path) {
    ls_config cfg;
    ls_config_defaults(&cfg);
    if (row->text) LS_TRY(ls_config_read_file(&cfg, path));
    if (row->set) LS_TRY(ls_config_set(&cfg, row->set));
    return ls_config_check(&cfg);
}

static void each_has_its_message(void **state) {
    (void)state;
    temp_folder folder = temp_folder_new();
    int wrong = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *path = rows[i].text ? temp_file(&folder, "x.ini", rows[i].text) : "";
        ls_status status = apply(&rows[i], path);
        char expected[1024];
        int at = rows[i].message[0] == '@';
        snprintf(expected, sizeof expected, "%s%s", at ? path : "", rows[i].message + at);
        if (status.code == LS_USAGE && !strcmp(status.text, expected)) continue;
        print_error("row %zu, %s\n  got      %s\n  expected %s\n", i, rows[i].set ? rows[i].set : rows[i].text,
            status.text ? status.text : "accepted", expected);
        wrong++;
    }
    temp_folder_remove(&folder);
    assert_int_equal(wrong, 0);
}

static void too_long(void **state) {
    (void)state;
    char longer[3 * LS_TEXT_BYTES], expected[512], begin[101] = "";
    ls_config cfg;
    ls_config_defaults(&cfg);
    memset(longer, 'p', sizeof longer);
    longer[LS_TEXT_BYTES] = 0;
    memset(begin, 'p', 100);
    ls_status status = ls_config_read_file(&cfg, longer);
    snprintf(expected, sizeof expected, "%s...: a path of 1024 characters; expected at most 1023", begin);
    assert_int_equal(status.code, LS_USAGE);
    assert_string_equal(status.text, expected);

    memcpy(longer, "data.path=", 10);
    longer[LS_TEXT_BYTES] = 'p';
    longer[10 + LS_TEXT_BYTES] = 0;
    status = ls_config_set(&cfg, longer);
    snprintf(expected, sizeof expected, "--set %.94s...: 1024 characters; expected at most 1023", longer);
    assert_string_equal(status.text, expected);
    longer[9 + LS_TEXT_BYTES] = 0;
    assert_int_equal(ls_config_set(&cfg, longer).code, LS_OK);
    strcpy(cfg.folder, "folder");
    cfg.line[LS_OPTION_data_path] = 1; // as if from the file
    status = ls_config_check(&cfg);
    assert_int_equal(status.code, LS_USAGE);
    assert_non_null(strstr(status.text, "p: with its folder, a path of more than 1023 characters"));
    memset(longer + 10, 'p', sizeof longer - 11);
    longer[3 * LS_TEXT_BYTES - 1] = 0;
    status = ls_config_set(&cfg, longer);
    snprintf(expected, sizeof expected, "--set %.100s...: 3071 characters; expected at most 2047", longer);
    assert_string_equal(status.text, expected);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_has_its_message),
        cmocka_unit_test(too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
