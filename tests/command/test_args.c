// The command line: what is accepted, and every refusal with its exact message and exit code.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "command/args.h"
#include "support/cmocka.h"

enum { WORDS_MAX = 12 };

static const struct {
    const char *words[WORDS_MAX]; // after the program's name
    const char *message;
} refused[] = {
    { { NULL }, "no configuration file: train CONFIG.ini ('train --help' says more)" },
    { { "--quiet" }, "no configuration file: train CONFIG.ini ('train --help' says more)" },
    { { "bench" }, "no configuration file: train bench CONFIG.ini ('train bench --help' says more)" },
    { { "eval" }, "no configuration file: train eval CONFIG.ini [WEIGHTS] ('train eval --help' says more)" },
    { { "eval", "a.ini", "w", "x" }, "'x' is one file too many: train eval CONFIG.ini [WEIGHTS]" },
    { { "a.ini", "b.ini" },
        "two configuration files, a.ini and b.ini: a run has one (single options: --set section.key=value)" },
    { { "benhc", "a.ini" }, "unknown command 'benhc'; did you mean 'bench'?" },
    { { "resume", "a.ini" },
        "unknown command 'resume'; the command of the run goes on with its run, with --resume and its --run-dir" },
    { { "xyzzy", "a.ini" },
        "unknown command 'xyzzy'; commands are bench, report, sweep, find-lr, race, compare, eval, predict, "
        "export, augment, ckpt, metrics, audit, doctor, verdict, devices and help "
        "(if it is a configuration file, write ./xyzzy)" },
    { { "predict" }, "no weights file: train predict WEIGHTS IMAGE... ('train predict --help' says more)" },
    { { "predict", "w" }, "no picture file: train predict WEIGHTS IMAGE... ('train predict --help' says more)" },
    { { "predict", "w", "a.png", "--run-dir", "d" },
        "--run-dir: not an option of 'train predict'; 'train predict --help' lists them" },
    { { "predict", "w", "a.png", "--config", "a.ini", "--config=b.ini" }, "--config given twice: a.ini and b.ini" },
    { { "report" }, "no run folder: train report RUN... ('train report --help' says more)" },
    { { "report", "a", "-o", "b.html", "-o", "c.html" }, "--out given twice: b.html and c.html" },
    { { "export", "w" }, "no output file: train export WEIGHTS OUT ('train export --help' says more)" },
    { { "export", "w", "o", "x" }, "'x' is one file too many: train export WEIGHTS OUT" },
    { { "export", "w", "o", "--logits" },
        "--logits: not an option of 'train export'; 'train export --help' lists them" },
    { { "a.ini", "--config", "b.ini" },
        "--config: not an option of 'train'; a configuration is a word: train CONFIG.ini; 'train --help' lists them" },
    { { "augment", "--out", "a.png" },
        "no configuration file: train augment CONFIG.ini --out FILE ('train augment --help' says more)" },
    { { "augment", "a.ini" }, "no --out FILE: train augment CONFIG.ini --out FILE ('train augment --help' says more)" },
    { { "augment", "a.ini", "--out", "a.png", "--out=b.png" }, "--out given twice: a.png and b.png" },
    { { "augment", "a.ini", "--rows", "0" }, "--rows 0: a whole number from 1 to 1000 is allowed" },
    { { "augment", "a.ini", "--cols=x" }, "--cols x: a whole number from 1 to 1000 is allowed" },
    { { "augment", "a.ini", "--epoch", "-1" }, "--epoch -1: a whole number from 0 to 1000000 is allowed" },
    { { "ckpt" }, "no action: train ckpt verify|show PATH... ('train ckpt --help' says more)" },
    { { "ckpt", "verify" }, "no folder: train ckpt verify|show PATH... ('train ckpt --help' says more)" },
    { { "ckpt", "diff", "a", "b" },
        "train ckpt has no 'diff'; did you mean 'train compare'? (verify and show are what it does)" },
    { { "ckpt", "shwo", "a" }, "train ckpt has no 'shwo'; did you mean 'show'? (verify and show are what it does)" },
    { { "ckpt", "xyzzy", "a" }, "train ckpt has no 'xyzzy' (verify and show are what it does)" },
    { { "ckpt", "verify", "a", "--set", "a.b=c" },
        "--set: not an option of 'train ckpt'; 'train ckpt --help' lists them" },
    { { "audit" }, "no run folder: train audit RUN ('train audit --help' says more)" },
    { { "audit", "a", "b" }, "'b' is one file too many: train audit RUN" },
    { { "audit", "a", "--json" }, "--json: not an option of 'train audit'; 'train audit --help' lists them" },
    { { "a.ini", "--inspect", "3" }, "--inspect: not an option of 'train'; 'train --help' lists them" },
    { { "device" }, "unknown command 'device'; did you mean 'devices'?" },
    { { "doktor" }, "unknown command 'doktor'; did you mean 'doctor'?" },
    { { "devices", "--quick" }, "--quick: not an option of 'train devices'; 'train devices --help' lists them" },
    { { "devices", "a.ini" }, "'a.ini' is one file too many: train devices takes none" },
    { { "devices", "--set", "a.b=c" }, "--set: not an option of 'train devices'; 'train devices --help' lists them" },
    { { "a.ini", "--json" }, "--json: not an option of 'train'; 'train --help' lists them" },
    { { "--rundir", "x", "a.ini" }, "unknown option --rundir; did you mean --run-dir?" },
    { { "--rundir=x", "a.ini" }, "unknown option --rundir; did you mean --run-dir?" },
    { { "--verbosity", "a.ini" }, "unknown option --verbosity; 'train --help' lists all" },
    { { "-q", "a.ini" }, "unknown option -q; did you mean --quiet?" },
    { { "bench", "a.ini", "--dry-run" }, "--dry-run: not an option of 'train bench'; 'train bench --help' lists them" },
    { { "a.ini", "--seconds", "3" }, "--seconds: not an option of 'train'; 'train --help' lists them" },
    { { "eval", "a.ini", "w", "--run-dir", "d" },
        "--run-dir: not an option of 'train eval'; 'train eval --help' lists them" },
    { { "a.ini", "--set" }, "--set: needs a value: --set section.key=value" },
    { { "a.ini", "--run-dir" }, "--run-dir: needs a value: --run-dir DIR" },
    { { "a.ini", "--run-dir=" }, "--run-dir: needs a value: --run-dir DIR" },
    { { "a.ini", "--run-dir", "d", "--run-dir", "e" }, "--run-dir given twice: d and e" },
    { { "a.ini", "--dry-run=yes" }, "--dry-run: takes no value, but got 'yes'" },
    { { "a.ini", "--trace", "t", "--trace", "u" }, "--trace given twice: t and u" },
    { { "a.ini", "--trace-updates", "1:2" }, "--trace-updates: only with --trace FILE, where the timeline goes" },
    { { "a.ini", "--trace", "t", "--trace-updates", "5:5" },
        "--trace-updates 5:5: two whole numbers FROM:TO are allowed, the first update and the first one left out, as "
        "in 10:30" },
    { { "a.ini", "--trace", "t", "--trace-updates", "-1:5" },
        "--trace-updates -1:5: two whole numbers FROM:TO are allowed, the first update and the first one left out, as "
        "in 10:30" },
    { { "a.ini", "--trace", "t", "--trace-updates", "5" }, "--trace-updates 5: two whole numbers FROM:TO are allowed, "
                                                           "the first update and the first one left out, as in 10:30" },
    { { "a.ini", "--trace", "t", "--trace-updates", "1:99999999999999999999" },
        "--trace-updates 1:99999999999999999999: two whole numbers FROM:TO are allowed, the first update and the first "
        "one left out, as in 10:30" },
    { { "bench", "a.ini", "--seconds", "fast" }, "--seconds fast: a number from 0.1 to 3600 is allowed" },
    { { "bench", "a.ini", "--seconds", "nan" }, "--seconds nan: a number from 0.1 to 3600 is allowed" },
    { { "bench", "a.ini", "--seconds=0" }, "--seconds 0: a number from 0.1 to 3600 is allowed" },
    { { "bench", "a.ini", "--scaling", "week" }, "--scaling week: strong, weak or both are allowed" },
    { { "a.ini", "--sweep", "ranks=1" }, "--sweep: not an option of 'train'; 'train --help' lists them" },
    { { "bench", "a.ini", "--repeats", "2.5" }, "--repeats 2.5: a whole number from 1 to 1000 is allowed" },
    { { "bench", "a.ini", "--repeats", "1001" }, "--repeats 1001: a whole number from 1 to 1000 is allowed" },
};

static ls_status parse(const char *const *words, ls_args *args) {
    char *argv[WORDS_MAX + 2] = { (char *)"train" };
    int argc = 1;
    for (; words[argc - 1]; argc++) argv[argc] = (char *)(uintptr_t)words[argc - 1];
    return ls_args_parse(argc, argv, args);
}

static void refusals(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        ls_args args;
        ls_status status = parse(refused[i].words, &args);
        ls_args_free(&args);
        if (status.code == LS_USAGE && strcmp(status.text, refused[i].message) == 0) continue;
        fail_msg("row %zu: code %d, text '%s'; expected code 2, text '%s'", i, status.code,
            status.text ? status.text : "", refused[i].message);
    }
}

#define TOPIC(word) \
    (const char *[]) { \
        word \
    }
static const struct {
    const char *words[WORDS_MAX];
    ls_args expected;
} accepted[] = {
    { { "help", "bench" },
        { .command = LS_COMMAND_HELP, .files = TOPIC("bench"), .file_count = 1, .seconds = 3, .repeats = 5 } },
    { { "help", "--", "--quiet" },
        { .command = LS_COMMAND_HELP, .files = TOPIC("--quiet"), .file_count = 1, .seconds = 3, .repeats = 5 } },
    { { "--", "./--set" }, { .command = LS_COMMAND_TRAIN, .config = "./--set", .seconds = 3, .repeats = 5 } },
    { { "help" }, { .command = LS_COMMAND_HELP, .seconds = 3, .repeats = 5 } },
    { { "a.ini", "--help" }, { .command = LS_COMMAND_HELP, .config = "a.ini", .seconds = 3, .repeats = 5 } },
    { { "a.ini" }, { .command = LS_COMMAND_TRAIN, .config = "a.ini", .seconds = 3, .repeats = 5 } },
    { { "./bench" }, { .command = LS_COMMAND_TRAIN, .config = "./bench", .seconds = 3, .repeats = 5 } },
    { { "--set", "a.b=c", "a.ini", "--set=d.e=f=g", "--run-dir", "r", "--quiet" }, { .command = LS_COMMAND_TRAIN,
                                                                                       .config = "a.ini",
                                                                                       .sets = { "a.b=c", "d.e=f=g" },
                                                                                       .set_count = 2,
                                                                                       .run_dir = "r",
                                                                                       .quiet = 1,
                                                                                       .seconds = 3,
                                                                                       .repeats = 5 } },
    { { "a.ini", "--print-config", "--dry-run" }, { .command = LS_COMMAND_TRAIN,
                                                      .config = "a.ini",
                                                      .print_config = 1,
                                                      .dry_run = 1,
                                                      .seconds = 3,
                                                      .repeats = 5 } },
    { { "bench", "a.ini", "--seconds=0.5", "--repeats", "7" },
        { .command = LS_COMMAND_BENCH, .config = "a.ini", .seconds = 0.5, .repeats = 7 } },
    { { "eval", "a.ini" }, { .command = LS_COMMAND_EVAL, .config = "a.ini", .seconds = 3, .repeats = 5 } },
    { { "eval", "a.ini", "weights" },
        { .command = LS_COMMAND_EVAL, .config = "a.ini", .weights = "weights", .seconds = 3, .repeats = 5 } },
    { { "eval", "w", "--json" }, { .command = LS_COMMAND_EVAL, .config = "w", .json = 1, .seconds = 3, .repeats = 5 } },
    { { "predict", "w", "--files-from", "-" },
        { .command = LS_COMMAND_PREDICT, .weights = "w", .files_from = "-", .seconds = 3, .repeats = 5 } },
    { { "bench", "a.ini", "--layers" },
        { .command = LS_COMMAND_BENCH, .config = "a.ini", .layers = 1, .seconds = 3, .repeats = 5 } },
    { { "bench", "a.ini", "--sweep", "ranks=1,2", "--scaling=both", "--sweep=micro_batch=8" },
        { .command = LS_COMMAND_BENCH,
            .config = "a.ini",
            .sweeps = { "ranks=1,2", "micro_batch=8" },
            .sweep_count = 2,
            .scaling = LS_SCALING_BOTH,
            .seconds = 3,
            .repeats = 5 } },
    { { "bench", "a.ini", "--scaling", "weak" },
        { .command = LS_COMMAND_BENCH, .config = "a.ini", .scaling = LS_SCALING_WEAK, .seconds = 3, .repeats = 5 } },
    { { "a.ini", "--trace", "t.json" },
        { .command = LS_COMMAND_TRAIN, .config = "a.ini", .seconds = 3, .repeats = 5, .trace = "t.json" } },
    { { "a.ini", "--trace=t.json", "--trace-updates=0:12" }, { .command = LS_COMMAND_TRAIN,
                                                                 .config = "a.ini",
                                                                 .seconds = 3,
                                                                 .repeats = 5,
                                                                 .trace = "t.json",
                                                                 .trace_to = 12 } },
    { { "a.ini", "--trace-updates", "3:5", "--trace", "t.json" }, { .command = LS_COMMAND_TRAIN,
                                                                      .config = "a.ini",
                                                                      .seconds = 3,
                                                                      .repeats = 5,
                                                                      .trace = "t.json",
                                                                      .trace_from = 3,
                                                                      .trace_to = 5 } },
    { { "devices" }, { .command = LS_COMMAND_DEVICES, .seconds = 3, .repeats = 5 } },
    { { "devices", "--json" }, { .command = LS_COMMAND_DEVICES, .json = 1, .seconds = 3, .repeats = 5 } },
    { { "doctor", "--quick", "--run-dir", "x" },
        { .command = LS_COMMAND_DOCTOR, .quick = 1, .run_dir = "x", .seconds = 3, .repeats = 5 } },
    { { "devices", "--help" },
        { .command = LS_COMMAND_HELP, .files = TOPIC("devices"), .file_count = 1, .seconds = 3, .repeats = 5 } },
    { { "--help" }, { .command = LS_COMMAND_HELP, .seconds = 3, .repeats = 5 } },
    { { "-h" }, { .command = LS_COMMAND_HELP, .seconds = 3, .repeats = 5 } },
    { { "bench", "--help" },
        { .command = LS_COMMAND_HELP, .files = TOPIC("bench"), .file_count = 1, .seconds = 3, .repeats = 5 } },
    { { "--list" },
        { .command = LS_COMMAND_HELP, .files = TOPIC("options"), .file_count = 1, .seconds = 3, .repeats = 5 } },
    { { "--version" },
        { .command = LS_COMMAND_HELP, .files = TOPIC("version"), .file_count = 1, .seconds = 3, .repeats = 5 } },
};

static int same_text(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static int same_args(const ls_args *a, const ls_args *b) {
    int same = a->command == b->command && same_text(a->config, b->config) && same_text(a->weights, b->weights) &&
               a->set_count == b->set_count && same_text(a->run_dir, b->run_dir) &&
               a->print_config == b->print_config && a->dry_run == b->dry_run && a->quiet == b->quiet &&
               a->scaling == b->scaling && a->sweep_count == b->sweep_count && a->seconds == b->seconds &&
               a->repeats == b->repeats && a->layers == b->layers && a->json == b->json && a->quick == b->quick &&
               same_text(a->files_from, b->files_from) && same_text(a->trace, b->trace) &&
               a->trace_from == b->trace_from && a->trace_to == b->trace_to;
    same = same && a->file_count == b->file_count;
    for (int i = 0; same && i < a->file_count; i++) same = same_text(a->files[i], b->files[i]);
    for (int i = 0; same && i < a->sweep_count; i++) same = same_text(a->sweeps[i], b->sweeps[i]);
    for (int i = 0; same && i < a->set_count; i++) same = same_text(a->sets[i], b->sets[i]);
    return same;
}

static void acceptance(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof accepted / sizeof accepted[0]; i++) {
        ls_args args;
        ls_status status = parse(accepted[i].words, &args);
        if (ls_failed(status)) fail_msg("row %zu: refused: %s", i, status.text);
        if (!same_args(&args, &accepted[i].expected)) fail_msg("row %zu: arguments taken otherwise than expected", i);
        ls_args_free(&args);
    }
}

// Pictures are all words after the weights, wherever options stand.
static void words_of_predict(void **state) {
    (void)state;
    static const char *const words[WORDS_MAX] = { "predict", "--quiet", "w", "a.png", "--logits", "b", "--set", "c.d=e",
        "./c", "--config", "x.ini" };
    static const char *const images[] = { "a.png", "b", "./c" };
    ls_args args;
    assert_false(ls_failed(parse(words, &args)));
    assert_int_equal(args.command, LS_COMMAND_PREDICT);
    assert_string_equal(args.weights, "w");
    assert_string_equal(args.config, "x.ini");
    assert_string_equal(args.sets[0], "c.d=e");
    assert_true(args.quiet && args.logits && args.set_count == 1);
    assert_int_equal(args.file_count, 3);
    for (int i = 0; i < 3; i++) assert_string_equal(args.files[i], images[i]);
    ls_args_free(&args);
    static const char *const others[WORDS_MAX] = { "export", "w", "--set", "c.d=e", "o.onnx" };
    assert_false(ls_failed(parse(others, &args)));
    assert_int_equal(args.command, LS_COMMAND_EXPORT);
    assert_string_equal(args.weights, "w");
    assert_string_equal(args.output, "o.onnx");
    ls_args_free(&args);
}

static void words_of_ckpt(void **state) {
    (void)state;
    static const char *const words[WORDS_MAX] = { "ckpt", "show", "a", "verify" };
    static const char *const more[WORDS_MAX] = { "audit", "a", "--from", "7", "--all", "--set", "c.d=e" };
    ls_args args;
    assert_false(ls_failed(parse(words, &args)));
    assert_int_equal(args.command, LS_COMMAND_CKPT);
    assert_int_equal(args.action, LS_CKPT_SHOW);
    assert_int_equal(args.file_count, 2);
    assert_string_equal(args.files[1], "verify");
    ls_args_free(&args);
    assert_false(ls_failed(parse(more, &args)));
    assert_int_equal(args.command, LS_COMMAND_AUDIT);
    assert_true(args.all && args.set_count == 1 && !args.to);
    assert_string_equal(args.from, "7");
    assert_string_equal(args.files[0], "a");
    ls_args_free(&args);
}

static void too_many_sets(void **state) {
    (void)state;
    char *argv[2 * LS_ARGS_SETS_MAX + 4] = { (char *)"train", (char *)"a.ini" };
    int argc = 2;
    for (int i = 0; i < LS_ARGS_SETS_MAX + 1; i++) {
        argv[argc++] = (char *)"--set";
        argv[argc++] = (char *)"a.b=c";
    }
    ls_args args;
    assert_false(ls_failed(ls_args_parse(argc - 2, argv, &args)));
    ls_status status = ls_args_parse(argc, argv, &args);
    assert_int_equal(status.code, LS_USAGE);
    assert_string_equal(status.text, "--set: more than 64 times; write them into the configuration");
}

// What ranks compare: the command, and the options that change what they exchange.
static void tells_what_ranks_share(void **state) {
    (void)state;
    static const struct {
        const char *words[WORDS_MAX], *joint;
    } rows[] = {
        { { "a.ini" }, "train" },
        { { "--quiet", "a.ini", "--run-dir", "r", "--set", "a.b=c" }, "train" },
        { { "b.ini", "--trace", "t.json", "--trace-updates=3:5" }, "train --trace t.json --trace-updates 3:5" },
        { { "a.ini", "--dry-run" }, "train --dry-run" },
        { { "a.ini", "--resume" }, "train --resume" },
        { { "bench", "a.ini", "--layers", "--sweep", "ranks=1,2" }, "train bench --layers --sweep ranks=1,2" },
        { { "eval", "a.ini", "w" }, "train eval" },
        { { "devices", "--json" }, "train devices" },
        { { "doctor", "--json", "--quick", "--run-dir", "x" }, "train doctor --quick" },
        { { "-h" }, "train --help" },
        { { "--version" }, "train --version" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *argv[WORDS_MAX + 1] = { (char *)(uintptr_t) "train" };
        int argc = 1;
        for (; argc < WORDS_MAX && rows[i].words[argc - 1]; argc++)
            argv[argc] = (char *)(uintptr_t)rows[i].words[argc - 1];
        ls_args args;
        assert_int_equal(ls_args_parse(argc, argv, &args).code, LS_OK);
        assert_string_equal(args.joint, rows[i].joint);
        ls_args_free(&args);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_what_ranks_share),
        cmocka_unit_test(refusals),
        cmocka_unit_test(acceptance),
        cmocka_unit_test(words_of_predict),
        cmocka_unit_test(words_of_ckpt),
        cmocka_unit_test(too_many_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
