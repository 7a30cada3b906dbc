#include "command/args.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/memory.h"
#include "base/text.h"
#include "command/command_table.h"
#include "command/paths.h"
#include "config/aliases.h"
#include "config/config.h"
#include "config/shipped.h"

enum { NAME_BYTES = 64, NEAREST_MAX = 128 };

// Writes the command line's usage, "train bench CONFIG.ini" (the command and its words), into dst. Returns dst.
static char *usage(ls_command command, char *dst, size_t bytes) {
    char text[LS_COMMAND_TEXT_BYTES];
    const char *words = ls_command_at(command)->usage;
    snprintf(dst, bytes, "%s %s", ls_command_text(command, text), words[0] ? words : "takes none");
    return dst;
}

// ---- values ----

static void *field(ls_args *args, size_t offset) {
    return (char *)args + offset;
}

static ls_status parse_real(const ls_command_option *option, const char *text, double *out) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= option->least && value <= option->most))
        return ls_fail(
            LS_USAGE, "%s %s: a number from %.9g to %.9g is allowed", option->name, text, option->least, option->most);
    *out = value;
    return LS_SUCCESS;
}

static void put_whole(const ls_command_option *option, ls_args *args, long long value) {
    if (option->size == sizeof(int))
        *(int *)field(args, option->offset) = (int)value;
    else
        *(int64_t *)field(args, option->offset) = value;
}

static ls_status parse_whole(const ls_command_option *option, const char *text, ls_args *args) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || (double)value < option->least || (double)value > option->most)
        return ls_fail(LS_USAGE, "%s %s: a whole number from %.0f to %.0f is allowed", option->name, text,
            option->least, option->most);
    put_whole(option, args, value);
    return LS_SUCCESS;
}

// Writes the words "strong|weak|both" as "strong, weak or both" into dst. last: " or " or " and ". Returns dst.
static char *alternatives(const char *words, const char *last, char *dst, size_t bytes) {
    ls_text_room room = { dst, bytes };
    for (const char *cut; (cut = strchr(words, '|')); words = cut + 1)
        ls_text_put(&room, "%.*s%s", (int)(cut - words), words, strchr(cut + 1, '|') ? ", " : last);
    ls_text_put(&room, "%s", words);
    return dst;
}

static ls_status parse_choice(const ls_command_option *option, const char *text, int *out) {
    char allowed[NAME_BYTES * 2];
    const int index = ls_word_index(option->argument, '|', text);
    if (index < 0)
        return ls_fail(LS_USAGE, "%s %s: %s are allowed", option->name, text,
            alternatives(option->argument, " or ", allowed, sizeof allowed));
    *out = index;
    return LS_SUCCESS;
}

static ls_status parse_range(const ls_command_option *option, const char *text, ls_args *args) {
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
            "%s %s: two whole numbers FROM:TO are allowed, the first update and the first one left out, as in 10:30",
            option->name, text);
    *(int64_t *)field(args, option->offset) = from;
    *(int64_t *)field(args, option->second) = to;
    return LS_SUCCESS;
}

static ls_status put_text(const ls_command_option *option, const char *text, const char **out) {
    if (*out) return ls_fail(LS_USAGE, "%s given twice: %s and %s", option->name, *out, text);
    *out = text;
    return LS_SUCCESS;
}

static ls_status put_one_more(const ls_command_option *option, const char *text, ls_args *args) {
    int *count = field(args, option->second);
    if (*count >= (int)option->most)
        return ls_fail(LS_USAGE, "%s: more than %d times%s", option->name, (int)option->most, option->text);
    ((const char **)field(args, option->offset))[(*count)++] = text;
    return LS_SUCCESS;
}

// Appends a word to args->files. The first call allocates the list with room for all words of the command line.
static void put_file(ls_args *args, const char *word, int argc) {
    if (!args->files) args->files = ls_new(argc, sizeof *args->files, "words of the command line");
    args->files[args->file_count++] = word;
}

// Turns the command line into a `help` command: about the option's topic, or without a topic (--help) about the
// command.
static ls_status put_topic(const ls_command_option *option, ls_args *args, int argc) {
    const char *topic = option->text[0] ? option->text : args->command ? ls_command_at(args->command)->word : NULL;
    args->command = LS_COMMAND_HELP;
    args->file_count = 0;
    if (topic) put_file(args, topic, argc);
    return LS_SUCCESS;
}

static ls_status put_value(const ls_command_option *option, const char *text, ls_args *args, int argc) {
    switch (option->kind) {
    case LS_VALUE_FLAG:
        *(int *)field(args, option->offset) = 1;
        return LS_SUCCESS;
    case LS_VALUE_TEXT:
        return put_text(option, text, field(args, option->offset));
    case LS_VALUE_LIST:
        return put_one_more(option, text, args);
    case LS_VALUE_WHOLE:
        return parse_whole(option, text, args);
    case LS_VALUE_REAL:
        return parse_real(option, text, field(args, option->offset));
    case LS_VALUE_CHOICE:
        return parse_choice(option, text, field(args, option->offset));
    case LS_VALUE_RANGE:
        return parse_range(option, text, args);
    case LS_VALUE_TOPIC:
        return put_topic(option, args, argc);
    }
    return LS_SUCCESS;
}

static void put_presets(ls_args *args) {
    for (int i = 0; i < ls_command_option_count(); i++) {
        const ls_command_option *option = ls_command_option_at(i);
        if (option->kind == LS_VALUE_REAL) *(double *)field(args, option->offset) = option->preset;
        if (option->kind == LS_VALUE_WHOLE) put_whole(option, args, (long long)option->preset);
    }
}

// ---- options ----

static const ls_command_option *find_option(const char *name) {
    if (strcmp(name, "-h") == 0) name = "--help";
    if (strcmp(name, "-o") == 0) name = "--out";
    for (int i = 0; i < ls_command_option_count(); i++)
        if (strcmp(ls_command_option_at(i)->name, name) == 0) return ls_command_option_at(i);
    return NULL;
}

// If `name` is an option of another program (config/aliases.def), writes the end of a message, "; did you mean --out
// FILE?" or "; NOTE", into dst. Otherwise, or if our counterpart is no option of this command, writes "". Returns dst.
static char *hint_argument(const char *name, ls_command command, char *dst) {
    const ls_alias *alias;
    *dst = 0;
    for (int i = 0; !*dst && (alias = ls_alias_at(i)); i++) {
        char ours[NAME_BYTES];
        if (alias->kind != LS_ALIAS_ARGUMENT || !ls_alias_names(alias, name)) continue;
        snprintf(ours, sizeof ours, "%.*s", (int)strcspn(alias->ours, " "), alias->ours);
        const ls_command_option *option = find_option(ours);
        if (!*ours || (option && ls_command_takes(command, option))) ls_hint_of(alias, "", dst);
    }
    return dst;
}

// Fails with LS_USAGE and suggests the option that the user may have meant. value: the value that the user gave to the
// unknown option, or the word after it; NULL: the user gave no value.
static ls_status unknown_option(const char *name, const char *value, ls_command command) {
    const char *known[NEAREST_MAX];
    int count = 0;
    for (int i = 0; i < ls_command_option_count() && count < NEAREST_MAX; i++)
        if (ls_command_takes(command, ls_command_option_at(i))) known[count++] = ls_command_option_at(i)->name;
    char text[LS_COMMAND_TEXT_BYTES], hint[LS_HINT_BYTES];
    const char *nearest = ls_text_nearest(name, known, count), *key = name + strspn(name, "-");
    const char *meant = ls_command_takes(command, find_option("--set")) ? ls_config_meant(key) : NULL;
    if (*hint_argument(name, command, hint)) return ls_fail(LS_USAGE, "unknown option %s%s", name, hint);
    if (nearest) return ls_fail(LS_USAGE, "unknown option %s; did you mean %s?", name, nearest);
    if (meant)
        return ls_fail(LS_USAGE, "unknown option %s; did you mean --set %s=%s?", name, meant, value ? value : "VALUE");
    return ls_fail(LS_USAGE, "unknown option %s%s; '%s --help' lists all", name, ls_config_hint(key, hint),
        ls_command_text(command, text));
}

// Parses the option argv[*at], "--name" or "--name=value", and moves *at to the last argument that belongs to it.
static ls_status parse_option(int argc, char *const *argv, int *at, ls_args *args, const ls_command_option **out) {
    const char *word = argv[*at], *equals = strchr(word, '=');
    char name[NAME_BYTES], text[LS_COMMAND_TEXT_BYTES], hint[LS_HINT_BYTES];
    const size_t length = equals ? (size_t)(equals - word) : strlen(word);
    if (length >= sizeof name) return unknown_option(word, NULL, args->command);
    snprintf(name, sizeof name, "%.*s", (int)length, word);
    const ls_command_option *option = *out = find_option(name);
    const char *value = equals ? equals + 1 : NULL;
    if (!option) {
        const char *next = *at + 1 < argc && argv[*at + 1][0] != '-' ? argv[*at + 1] : NULL;
        return unknown_option(name, value ? value : next, args->command);
    }
    if (!ls_command_takes(args->command, option)) {
        ls_command_text(args->command, text);
        return ls_fail(LS_USAGE, "%s: not an option of '%s'%s; '%s --help' lists them", name, text,
            hint_argument(name, args->command, hint), text);
    }

    const int takes_value = option->argument[0] != '\0';
    if (!takes_value && value) return ls_fail(LS_USAGE, "%s: takes no value, but got '%s'", name, value);
    if (takes_value && !value && *at + 1 < argc) value = argv[++*at];
    if (takes_value && (!value || !*value))
        return ls_fail(LS_USAGE, "%s: needs a value: %s %s", name, name, option->argument);
    if (!option->alone) {
        const size_t used = strlen(args->joint);
        ls_text_room room = { args->joint + used, sizeof args->joint - used };
        ls_text_put(&room, value ? " %s %s" : " %s", option->name, value);
    }
    return put_value(option, value, args, argc);
}

// ---- words ----

// Returns 1 if the word names a configuration: it has a dot or a slash, or a configuration of that name exists. Any
// other word is taken for a command, perhaps misspelt.
static int is_configuration(const char *word) {
    char path[LS_TEXT_BYTES];
    return strpbrk(word, "./") || ls_named_nearby(LS_SHIPPED_CONFIGURATION, "", word, path, sizeof path) ||
           ls_named_shipped(LS_SHIPPED_CONFIGURATION, word, path, sizeof path);
}

static ls_status unknown_command(const char *word) {
    char list[512] = "", hint[LS_HINT_BYTES], shipped[LS_SHIPPED_NAME_BYTES];
    const char *words[LS_COMMAND_COUNT];
    ls_text_room room = { list, sizeof list };
    for (int i = 0; i < LS_COMMAND_COUNT; i++) {
        words[i] = ls_command_at((ls_command)i)->word;
        if (i) ls_text_put(&room, "%s%s", i == 1 ? "" : i < LS_COMMAND_COUNT - 1 ? ", " : " and ", words[i]);
    }
    if (*ls_hint(LS_ALIAS_COMMAND, "", word, words, LS_COMMAND_COUNT, "''", hint))
        return ls_fail(LS_USAGE, "unknown command '%s'%s", word, hint);
    if (ls_shipped_nearest(LS_SHIPPED_CONFIGURATION, word, shipped))
        return ls_fail(
            LS_USAGE, "unknown command '%s'; did you mean the configuration '%s'? train %s", word, shipped, shipped);
    return ls_fail(LS_USAGE, "unknown command '%s'; commands are %s (if it is a configuration file, write ./%s)", word,
        list, word);
}

static ls_status too_many(const ls_args *args, const char *word, int taken) {
    char text[128];
    const char *dot = strrchr(word, '.');
    if (taken == 1 && args->config && dot && strcmp(dot, ".ini") == 0)
        return ls_fail(LS_USAGE,
            "two configuration files, %s and %s: a run has one (single options: --set section.key=value)", args->config,
            word);
    if (args->command == LS_COMMAND_TRAIN)
        return ls_fail(LS_USAGE,
            "'%s' is one word too many: train CONFIG.ini (a folder for the run: --run-dir %s; weights to start from: "
            "--set "
            "model.init=%s)",
            word, word, word);
    return ls_fail(LS_USAGE, "'%s' is one file too many: %s", word, usage(args->command, text, sizeof text));
}

static ls_status take_action(ls_args *args, const ls_usage_word *place, const char *word) {
    const char *words[8];
    char list[64], all[128], text[LS_COMMAND_TEXT_BYTES];
    int count = 0;
    args->action = ls_word_index(place->name, '|', word);
    if (args->action >= 0) return LS_SUCCESS;
    snprintf(list, sizeof list, "%s", place->name);
    for (char *next, *at = strtok_r(list, "|", &next); at && count < 8; at = strtok_r(NULL, "|", &next))
        words[count++] = at;
    const char *nearest = ls_text_nearest(word, words, count);
    const ls_alias *command = nearest ? NULL : ls_alias_find(LS_ALIAS_COMMAND, "", word); // "diff": `train compare`
    if (command) nearest = command->ours;
    return ls_fail(LS_USAGE, "%s has no '%s'%s%s%s%s (%s are what it does)", ls_command_text(args->command, text), word,
        nearest ? "; did you mean '" : "", command ? "train " : "", nearest ? nearest : "", nearest ? "'?" : "",
        alternatives(place->name, " and ", all, sizeof all));
}

// Takes the word number `taken`, counted from 0 after the command.
static ls_status take_word(ls_args *args, const char *word, int taken, int argc) {
    ls_usage_word place;
    if (!ls_usage_word_at(args->command, taken, &place)) return too_many(args, word, taken);
    if (place.is_action) return take_action(args, &place, word);
    if (place.is_files) {
        put_file(args, word, argc);
        return LS_SUCCESS;
    }
    if (args->command == LS_COMMAND_TRAIN && !is_configuration(word)) return unknown_command(word);
    *(const char **)field(args, place.offset) = word;
    return LS_SUCCESS;
}

static ls_status missing(ls_command command, const char *what) {
    char text[128], name[LS_COMMAND_TEXT_BYTES];
    return ls_fail(LS_USAGE, "no %s: %s ('%s --help' says more)", what, usage(command, text, sizeof text),
        ls_command_text(command, name));
}

// Says whether `export` writes such a file: its ending says the format, or it is no regular file, such as a pipe.
static int takes_export(const char *path) {
    struct stat info;
    return ls_path_is_export(path) || (lstat(path, &info) == 0 && !S_ISREG(info.st_mode));
}

// Refuses an output of `export` with another ending; the message gives advice. may_be_weights: only an ending that
// belongs to another format, such as .pt, is refused.
static ls_status check_export(const ls_args *args, const char *path, int may_be_weights) {
    char hint[LS_HINT_BYTES];
    if (!path || args->command != LS_COMMAND_EXPORT) return LS_SUCCESS;
    const char *dot = strrchr(path, '.');
    const ls_alias *alias = dot ? ls_alias_find(LS_ALIAS_OUTPUT, "", dot) : NULL;
    if (!alias && (may_be_weights || takes_export(path))) return LS_SUCCESS;
    return ls_fail(LS_USAGE, "%s: export writes ONNX (OUT.onnx) or C (OUT.c): train export WEIGHTS OUT%s",
        *path ? path : "''", alias ? ls_hint_of(alias, "", hint) : "");
}

static ls_status check_words(const ls_args *args, int taken) {
    ls_usage_word place;
    const int has_files = args->file_count > 0 || args->files_from;
    if (taken == 1 && !strstr(args->weights ? args->weights : "", ".safetensors"))
        LS_TRY(check_export(args, args->weights, 1));
    LS_TRY(check_export(args, args->output, 0));
    if (ls_usage_word_at(args->command, taken, &place) && !place.optional && !(place.many && has_files))
        return missing(args->command, place.noun);
    return LS_SUCCESS;
}

static ls_status check_options(ls_args *args) {
    for (int i = 0; i < ls_command_option_count(); i++) {
        const ls_command_option *option = ls_command_option_at(i);
        char what[2 * NAME_BYTES];
        snprintf(what, sizeof what, "%s %s", option->name, option->argument);
        if (ls_command_needs(args->command, option) && !*(const char **)field(args, option->offset))
            return missing(args->command, what);
    }
    if (args->trace_to && !args->trace)
        return ls_fail(LS_USAGE, "--trace-updates: only with --trace FILE, where the timeline goes");
    if (args->calibrate != LS_ARGS_CALIBRATE && !args->int8)
        return ls_fail(LS_USAGE, "--calibrate %d: only with --int8", args->calibrate);
    return LS_SUCCESS;
}

ls_status ls_args_parse(int argc, char *const *argv, ls_args *args) {
    *args = (ls_args){ .argc = argc, .argv = argv, .command = LS_COMMAND_TRAIN };
    put_presets(args);
    int at = 1, taken = 0, words_only = 0; // words_only: 1 after "--"
    ls_command named = argc > 1 ? ls_command_find(argv[1]) : LS_COMMAND_COUNT;
    if (named != LS_COMMAND_COUNT) {
        args->command = named;
        at = 2;
    }
    ls_command_text(args->command, args->joint);
    for (; at < argc; at++) {
        const ls_command_option *option = NULL;
        if (!words_only && strcmp(argv[at], "--") == 0) {
            words_only = 1;
        } else if (words_only || argv[at][0] != '-' || !argv[at][1]) {
            LS_TRY(take_word(args, argv[at], taken++, argc));
        } else {
            LS_TRY(parse_option(argc, argv, &at, args, &option));
            if (option->kind == LS_VALUE_TOPIC) return LS_SUCCESS; // print help, whatever follows
        }
    }
    LS_TRY(check_words(args, taken));
    return check_options(args);
}

void ls_args_free(ls_args *args) {
    free(args->files);
    args->files = NULL;
}
