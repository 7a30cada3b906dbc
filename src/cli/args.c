#include "cli/args.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"

enum { FOR_TRAIN = 1 << LS_COMMAND_TRAIN, FOR_BENCH = 1 << LS_COMMAND_BENCH, FOR_EVAL = 1 << LS_COMMAND_EVAL };
enum { FOR_DEVICES = 1 << LS_COMMAND_DEVICES, FOR_PREDICT = 1 << LS_COMMAND_PREDICT };
enum { FOR_EXPORT = 1 << LS_COMMAND_EXPORT, FOR_WEIGHTS = FOR_PREDICT | FOR_EXPORT };
enum { FOR_REPLAY = 1 << LS_COMMAND_REPLAY, FOR_CKPT = 1 << LS_COMMAND_CKPT };
enum { FOR_VERIFY = 1 << LS_COMMAND_VERIFY_RESUME, FOR_AUGMENT = 1 << LS_COMMAND_AUGMENT };
enum {
    FOR_CONFIGURED = FOR_TRAIN | FOR_BENCH | FOR_EVAL | FOR_VERIFY | FOR_AUGMENT,
    FOR_ALL = FOR_CONFIGURED | FOR_WEIGHTS | FOR_REPLAY | FOR_DEVICES | FOR_CKPT
};
enum { ALONE = 1 << 30 }; // of an option: changes nothing in what ranks exchange, or they compare its effect later
enum { NAME_BYTES = 64 };

static const struct {
    const char *word;  // the first argument; NULL: no word needed
    const char *files; // "": takes none
    const char *help;
} commands[] = {
    [LS_COMMAND_TRAIN] = { NULL, "CONFIG.ini", "train the network that CONFIG.ini describes" },
    [LS_COMMAND_BENCH] = { "bench", "CONFIG.ini",
        "measure training throughput: on one rank, and on all ranks started, on the CPU and on GPUs; writes\n"
        "      bench.json, bench.csv, bench.svg and bench.html into the --run-dir folder, or else into the current "
        "one,\n"
        "      replacing older ones" },
    [LS_COMMAND_EVAL] = { "eval", "CONFIG.ini [WEIGHTS]",
        "accuracy and loss of saved weights on the test data; WEIGHTS: a .safetensors file, or the folder of a\n"
        "      run or a checkpoint; without it those of model.init, by model.init_rules" },
    [LS_COMMAND_PREDICT] = { "predict", "WEIGHTS IMAGE...",
        "the likeliest classes of JPEG or PNG pictures, with probabilities; a line each, cut by tabs; IMAGE may\n"
        "      be a folder of pictures" },
    [LS_COMMAND_EXPORT] = { "export", "WEIGHTS OUT.onnx",
        "the network with its weights as an ONNX model that takes pixels from 0 to 255" },
    [LS_COMMAND_AUGMENT] = { "augment", "CONFIG.ini",
        "a contact sheet of what the network sees: training pictures as they are, and in one epoch after another" },
    [LS_COMMAND_REPLAY] = { "replay", "FOLDER",
        "compute a micro-batch that was not finite again, instruction by instruction: FOLDER is the\n"
        "      nonfinite-update-N that a run left; --set device.type=ref or train.precision=fp32 compares" },
    [LS_COMMAND_CKPT] = { "ckpt", "verify|show|diff PATH...",
        "checkpoints: verify each below PATH (a checkpoint, a folder of them, a run's folder), show one or\n"
        "      list those of a run, or name what differs between two (or two weights files): exit 0 for the same\n"
        "      state, 6 where it differs" },
    [LS_COMMAND_VERIFY_RESUME] = { "verify-resume", "CONFIG.ini",
        "is a run that goes on from a checkpoint, on the ranks started, bit for bit the uninterrupted one? exit 6\n"
        "      where it is not, naming the first tensor; leaves nothing behind" },
    [LS_COMMAND_DEVICES] = { "devices", "",
        "this machine's devices, the GPUs' libraries and their versions, what is missing and how to get it,\n"
        "      and what device.type = auto takes" },
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

typedef enum {
    SET,
    CONFIG,
    LOGITS,
    RUN_DIR,
    RESUME,
    PRINT_CONFIG,
    DRY_RUN,
    QUIET,
    SECONDS,
    REPEATS,
    LAYERS,
    SWEEP,
    SCALING,
    JSON,
    TRACE,
    TRACE_UPDATES,
    UPDATES,
    OUT,
    ROWS,
    COLUMNS,
    EPOCH,
    LIST,
    HELP,
    VERSION
} option_id;

// An option without an argument name is a switch. `commands`: those that take it; ALONE.
static const struct {
    const char *name, *argument;
    option_id id;
    int commands;
    const char *help;
} options[] = {
    { "--set", "section.key=value", SET, FOR_CONFIGURED | FOR_WEIGHTS | FOR_REPLAY | ALONE,
        "override an option of CONFIG.ini; may be repeated" },
    { "--run-dir", "DIR", RUN_DIR, FOR_TRAIN | FOR_BENCH | ALONE,
        "folder for the results (else runs/<run.name>, or a new number)" },
    { "--resume", NULL, RESUME, FOR_TRAIN,
        "go on with the run of the run folder, which must be there (run.resume = must)" },
    { "--config", "CONFIG.ini", CONFIG, FOR_WEIGHTS | ALONE,
        "network, normalisation and classes, for weights that do not say them" },
    { "--logits", NULL, LOGITS, FOR_PREDICT | ALONE,
        "print the network's output for all classes, in their order, instead" },
    { "--print-config", NULL, PRINT_CONFIG, FOR_TRAIN, "print the effective configuration and stop" },
    { "--dry-run", NULL, DRY_RUN, FOR_TRAIN,
        "check everything, print layers, memory and plan, and stop; creates nothing" },
    { "--quiet", NULL, QUIET, FOR_CONFIGURED | FOR_WEIGHTS | ALONE,
        "print errors, changes at a resume, and the result of eval, bench and predict" },
    { "--seconds", "S", SECONDS, FOR_BENCH, "of one measurement (default 3)" },
    { "--repeats", "N", REPEATS, FOR_BENCH, "measurements of each arrangement (default 5)" },
    { "--sweep", "key=value,...", SWEEP, FOR_BENCH,
        "measure these values of an option, or of `ranks`; repeated: all combinations" },
    { "--scaling", "KIND", SCALING, FOR_BENCH,
        "train.global_batch is of all ranks (strong, default), of each (weak), or both" },
    { "--layers", NULL, LAYERS, FOR_BENCH,
        "time each instruction of an update instead, for a thirtieth of --seconds each;\n"
        "                             layers.json only with --run-dir" },
    { "--json", NULL, JSON, FOR_DEVICES | ALONE, "print the devices as one JSON object" },
    { "--trace", "FILE", TRACE, FOR_TRAIN,
        "write a timeline of some updates on all ranks, for Perfetto or chrome://tracing" },
    { "--trace-updates", "FROM:TO", TRACE_UPDATES, FOR_TRAIN,
        "which ones: from number FROM (0 is the first) up to TO - 1 (default: 10:30)" },
    { "--updates", "K", UPDATES, FOR_VERIFY, "before the checkpoint, and as many after it (default 10)" },
    { "--out", "FILE.png", OUT, FOR_AUGMENT | ALONE, "the contact sheet" },
    { "--rows", "N", ROWS, FOR_AUGMENT | ALONE, "of a contact sheet: so many training pictures (default 8)" },
    { "--cols", "N", COLUMNS, FOR_AUGMENT | ALONE, "of a contact sheet: in so many epochs (default 8)" },
    { "--epoch", "E", EPOCH, FOR_AUGMENT | ALONE, "of a contact sheet: the first one (default 0)" },
    { "--list", NULL, LIST, FOR_ALL, "print every option of the configuration, with default and range" },
    { "--help", NULL, HELP, FOR_ALL, "print this" },
    { "--version", NULL, VERSION, FOR_ALL, "print version, compiler and libraries" },
};
enum { OPTION_COUNT = sizeof options / sizeof options[0] };

static const char *command_text(ls_command command) {
    switch (command) {
    case LS_COMMAND_BENCH:
        return "train bench";
    case LS_COMMAND_EVAL:
        return "train eval";
    case LS_COMMAND_PREDICT:
        return "train predict";
    case LS_COMMAND_EXPORT:
        return "train export";
    case LS_COMMAND_AUGMENT:
        return "train augment";
    case LS_COMMAND_REPLAY:
        return "train replay";
    case LS_COMMAND_CKPT:
        return "train ckpt";
    case LS_COMMAND_VERIFY_RESUME:
        return "train verify-resume";
    case LS_COMMAND_DEVICES:
        return "train devices";
    default:
        return "train";
    }
}

static ls_status unknown_option(const char *name, ls_command command) {
    const char *known[OPTION_COUNT];
    int count = 0;
    for (int i = 0; i < OPTION_COUNT; i++)
        if (options[i].commands & 1 << command) known[count++] = options[i].name;
    const char *nearest = ls_text_nearest(name, known, count);
    if (nearest) return ls_fail(LS_USAGE, "unknown option %s; did you mean %s?", name, nearest);
    return ls_fail(LS_USAGE, "unknown option %s; 'train --help' lists all", name);
}

static ls_status parse_seconds(const char *text, double *out) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0.1 && value <= 3600))
        return ls_fail(LS_USAGE, "--seconds %s: a number from 0.1 to 3600 is allowed", text);
    *out = value;
    return LS_SUCCESS;
}

static ls_status parse_whole(const char *name, const char *text, int64_t least, int64_t most, int64_t *out) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < least || value > most)
        return ls_fail(LS_USAGE, "%s %s: a whole number from %lld to %lld is allowed", name, text, (long long)least,
            (long long)most);
    *out = value;
    return LS_SUCCESS;
}

static ls_status parse_count(const char *name, const char *text, int64_t most, int *out) {
    int64_t value = 0;
    LS_TRY(parse_whole(name, text, 1, most, &value));
    *out = (int)value;
    return LS_SUCCESS;
}

static ls_status parse_scaling(const char *text, ls_args *args) {
    args->strong = strcmp(text, "strong") == 0 || strcmp(text, "both") == 0;
    args->weak = strcmp(text, "weak") == 0 || strcmp(text, "both") == 0;
    if (args->strong || args->weak) return LS_SUCCESS;
    return ls_fail(LS_USAGE, "--scaling %s: strong, weak or both are allowed", text);
}

static ls_status parse_updates(const char *text, ls_args *args) {
    char *middle, *end;
    errno = 0;
    long long from = strtoll(text, &middle, 10), to = 0;
    int good = isdigit((unsigned char)text[0]) && *middle == ':' && isdigit((unsigned char)middle[1]);
    if (good) {
        to = strtoll(middle + 1, &end, 10);
        good = *end == 0 && errno == 0 && to > from;
    }
    if (!good)
        return ls_fail(LS_USAGE,
            "--trace-updates %s: two whole numbers FROM:TO are allowed, the first update and the first one left out, "
            "as in 10:30",
            text);
    args->trace_from = from;
    args->trace_to = to;
    return LS_SUCCESS;
}

static ls_status apply_option(ls_args *args, option_id id, const char *value) {
    switch (id) {
    case SET:
        if (args->set_count == LS_ARGS_SETS_MAX)
            return ls_fail(LS_USAGE, "--set: more than %d times; write them into the configuration", LS_ARGS_SETS_MAX);
        args->sets[args->set_count++] = value;
        break;
    case CONFIG:
        if (args->config) return ls_fail(LS_USAGE, "--config given twice: %s and %s", args->config, value);
        args->config = value;
        break;
    case LOGITS:
        args->logits = 1;
        break;
    case RUN_DIR:
        if (args->run_dir) return ls_fail(LS_USAGE, "--run-dir given twice: %s and %s", args->run_dir, value);
        args->run_dir = value;
        break;
    case RESUME:
        args->resume = 1;
        break;
    case PRINT_CONFIG:
        args->print_config = 1;
        break;
    case DRY_RUN:
        args->dry_run = 1;
        break;
    case QUIET:
        args->quiet = 1;
        break;
    case SECONDS:
        return parse_seconds(value, &args->seconds);
    case REPEATS:
        return parse_count("--repeats", value, 1000, &args->repeats);
    case LAYERS:
        args->layers = 1;
        break;
    case SWEEP:
        if (args->sweep_count == LS_ARGS_SWEEPS_MAX)
            return ls_fail(LS_USAGE, "--sweep: more than %d times", LS_ARGS_SWEEPS_MAX);
        args->sweeps[args->sweep_count++] = value;
        break;
    case SCALING:
        return parse_scaling(value, args);
    case JSON:
        args->json = 1;
        break;
    case TRACE:
        if (args->trace) return ls_fail(LS_USAGE, "--trace given twice: %s and %s", args->trace, value);
        args->trace = value;
        break;
    case TRACE_UPDATES:
        return parse_updates(value, args);
    case UPDATES:
        return parse_whole("--updates", value, 1, 1000000, &args->updates);
    case OUT:
        if (args->output) return ls_fail(LS_USAGE, "--out given twice: %s and %s", args->output, value);
        args->output = value;
        break;
    case ROWS:
        return parse_count("--rows", value, 1000, &args->rows);
    case COLUMNS:
        return parse_count("--cols", value, 1000, &args->columns);
    case EPOCH:
        return parse_whole("--epoch", value, 0, 1000000, &args->epoch);
    case LIST:
        args->command = LS_COMMAND_LIST;
        break;
    case HELP:
        args->command = LS_COMMAND_HELP;
        break;
    case VERSION:
        args->command = LS_COMMAND_VERSION;
        break;
    }
    return LS_SUCCESS;
}

// argv[*at] is an option, "--name" or "--name=value"; *at moves to the last argument used.
static ls_status parse_option(int argc, char *const *argv, int *at, ls_command command, ls_args *args) {
    const char *word = argv[*at], *equals = strchr(word, '=');
    char name[NAME_BYTES];
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    if (length >= sizeof name) return ls_fail(LS_USAGE, "unknown option %s; 'train --help' lists all", word);
    memcpy(name, word, length);
    name[length] = '\0';

    if (strcmp(name, "-h") == 0) strcpy(name, "--help");
    int i = 0;
    while (i < OPTION_COUNT && strcmp(options[i].name, name) != 0) i++;
    if (i == OPTION_COUNT) return unknown_option(name, command);
    if (!(options[i].commands & 1 << command))
        return ls_fail(LS_USAGE, "%s: not an option of '%s'; 'train --help' lists them", name, command_text(command));

    const char *value = equals ? equals + 1 : NULL;
    if (!options[i].argument && value) return ls_fail(LS_USAGE, "%s: takes no value, but got '%s'", name, value);
    if (options[i].argument && !value && *at + 1 < argc) value = argv[++*at];
    if (options[i].argument && (!value || !*value))
        return ls_fail(LS_USAGE, "%s: needs a value: %s %s", name, name, options[i].argument);
    if (!(options[i].commands & ALONE)) {
        size_t used = strlen(args->joint);
        ls_text_room room = { args->joint + used, sizeof args->joint - used };
        ls_text_put(&room, value ? " %s %s" : " %s", name, value);
    }
    return apply_option(args, options[i].id, value);
}

static int is_answered_at_once(ls_command command) {
    return command == LS_COMMAND_LIST || command == LS_COMMAND_HELP || command == LS_COMMAND_VERSION;
}

// A configuration's name has a dot or a slash: a bare word is a command, right or misspelt.
static ls_status unknown_command(const char *word) {
    const char *words[COMMAND_COUNT];
    char list[256] = "";
    int count = 0;
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (commands[i].word) words[count++] = commands[i].word;
    const char *nearest = ls_text_nearest(word, words, count);
    if (nearest) return ls_fail(LS_USAGE, "unknown command '%s'; did you mean '%s'?", word, nearest);
    for (int i = 0; i < count; i++) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i == 0 ? "" : i < count - 1 ? ", " : " and ", words[i]);
    }
    return ls_fail(LS_USAGE, "unknown command '%s'; commands are %s (if it is a configuration file, write ./%s)", word,
        list, word);
}

static ls_status too_many(ls_command command, const char *word) {
    const char *files = commands[command].files;
    return ls_fail(
        LS_USAGE, "'%s' is one file too many: %s %s", word, command_text(command), files[0] ? files : "takes none");
}

static ls_status take_config(ls_args *args, const char *word) {
    if (args->config)
        return ls_fail(LS_USAGE,
            "two configuration files, %s and %s: a run has one (single options: --set section.key=value)", args->config,
            word);
    if (!strpbrk(word, "./")) return unknown_command(word);
    args->config = word;
    return LS_SUCCESS;
}

// Room for all words of the command line.
static ls_status take_one_more(ls_args *args, const char *word, int argc) {
    if (!args->files) LS_TRY(LS_NEW(args->files, argc, "names of files"));
    args->files[args->file_count++] = word;
    return LS_SUCCESS;
}

static ls_status take_action(ls_args *args, const char *word) {
    static const char *const words[] = { "verify", "show", "diff" }; // as ls_ckpt_action, from 1
    for (int i = 0; i < 3; i++)
        if (strcmp(word, words[i]) == 0) args->ckpt = (ls_ckpt_action)(i + 1);
    if (args->ckpt) return LS_SUCCESS;
    const char *nearest = ls_text_nearest(word, words, 3);
    return ls_fail(LS_USAGE, "train ckpt has no '%s'%s%s%s (verify, show and diff are what it does)", word,
        nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

static ls_status take_file(ls_args *args, const char *word, int argc) {
    switch (args->command) {
    case LS_COMMAND_DEVICES:
        return too_many(args->command, word);
    case LS_COMMAND_EVAL:
        if (!args->config) return take_config(args, word);
        if (args->weights) return too_many(args->command, word);
        args->weights = word;
        return LS_SUCCESS;
    case LS_COMMAND_PREDICT:
        if (args->weights) return take_one_more(args, word, argc);
        args->weights = word;
        return LS_SUCCESS;
    case LS_COMMAND_EXPORT:
        if (args->weights && args->output) return too_many(args->command, word);
        *(args->weights ? &args->output : &args->weights) = word;
        return LS_SUCCESS;
    case LS_COMMAND_CKPT:
        if (!args->ckpt) return take_action(args, word);
        if (args->ckpt == LS_CKPT_DIFF && args->file_count == 2)
            return ls_fail(LS_USAGE, "'%s' is one too many: train ckpt diff A B", word);
        return take_one_more(args, word, argc);
    case LS_COMMAND_REPLAY:
        if (args->batch) return too_many(args->command, word);
        args->batch = word;
        return LS_SUCCESS;
    default:
        return take_config(args, word);
    }
}

// What the command needs and the words do not give; NULL: nothing.
static const char *missing_file(const ls_args *args) {
    switch (args->command) {
    case LS_COMMAND_DEVICES:
        return NULL;
    case LS_COMMAND_EVAL:
        return !args->config ? "configuration file" : NULL;
    case LS_COMMAND_PREDICT:
        return !args->weights ? "weights file" : !args->file_count ? "picture file" : NULL;
    case LS_COMMAND_EXPORT:
        return !args->weights ? "weights file" : !args->output ? "output file" : NULL;
    case LS_COMMAND_CKPT:
        return !args->ckpt ? "action" : args->file_count < (args->ckpt == LS_CKPT_DIFF ? 2 : 1) ? "folder" : NULL;
    case LS_COMMAND_AUGMENT:
        return !args->config ? "configuration file" : !args->output ? "--out FILE.png" : NULL;
    case LS_COMMAND_REPLAY:
        return !args->batch ? "folder" : NULL;
    default:
        return !args->config ? "configuration file" : NULL;
    }
}

ls_status ls_args_parse(int argc, char *const *argv, ls_args *args) {
    *args = (ls_args){
        .command = LS_COMMAND_TRAIN, .seconds = 3, .repeats = 5, .strong = 1, .updates = 10, .rows = 8, .columns = 8
    };
    int at = 1;
    for (int i = 0; argc > 1 && i < COMMAND_COUNT; i++) {
        if (commands[i].word && strcmp(argv[1], commands[i].word) == 0) {
            args->command = (ls_command)i;
            at = 2;
        }
    }
    const ls_command command = args->command;
    snprintf(args->joint, sizeof args->joint, "%s", command_text(command));
    for (; at < argc; at++) {
        if (argv[at][0] == '-' && argv[at][1]) {
            LS_TRY(parse_option(argc, argv, &at, command, args));
        } else {
            LS_TRY(take_file(args, argv[at], argc));
        }
        if (is_answered_at_once(args->command)) return LS_SUCCESS;
    }
    if (args->trace_to && !args->trace)
        return ls_fail(LS_USAGE, "--trace-updates: only with --trace FILE, where the timeline goes");
    const char *missing = missing_file(args);
    if (!missing) return LS_SUCCESS;
    return ls_fail(
        LS_USAGE, "no %s: %s %s ('train --help' says more)", missing, command_text(command), commands[command].files);
}

void ls_args_free(ls_args *args) {
    free(args->files);
    args->files = NULL;
}

void ls_args_help(FILE *file) {
    fputs("Lockstep trains convolutional networks in step on many devices: one process (rank) per device.\n\n"
          "  mpirun -np N ./train CONFIG.ini     N ranks; alone, ./train CONFIG.ini is one\n\n"
          "Commands\n",
        file);
    for (int i = 0; i < COMMAND_COUNT; i++)
        fprintf(file, "  %s%s%s\n      %s\n", command_text((ls_command)i), commands[i].files[0] ? " " : "",
            commands[i].files, commands[i].help);
    fputs("\nOptions\n", file);
    for (int i = 0; i < OPTION_COUNT; i++) {
        char left[NAME_BYTES];
        snprintf(left, sizeof left, "%s %s", options[i].name, options[i].argument ? options[i].argument : "");
        fprintf(file, "  %-26s %s\n", left, options[i].help);
    }
    fputs("\nExit codes\n", file);
#define EXIT_LINE(name, exit_code, meaning) fprintf(file, "  %2d  %s\n", exit_code, meaning);
    LS_CODES(EXIT_LINE)
#undef EXIT_LINE
}
