// topics.c - the topics of `train help` that are not commands.
#include <string.h>
#include "base/version.h"
#include "command/help/help.h"
#include "config/aliases.h"
#include "config/config.h"
#include "dist/comm.h"
#include "model/layers_help.h"

static const ls_help_row config_rows[] = {
    { "./train help options", "every option, with default and range" },
    { "./train help options SECTION", "options of a section; SECTION.KEY: one option" },
    { "./train help layers", "how a network's file is written" },
    { "--set section.key=value", "sets an option for once" },
    { "--print-config", "prints the options as they are used, as an INI file" },
    { "--dry-run", "checks everything, and prints layers, shapes, memory and plan" },
    { NULL, NULL },
};

static const ls_help_row stopping_rows[] = {
    { "Ctrl-C, SIGINT", "saves, stops, exit 75; a second one ends at once, with the last checkpoint" },
    { "SIGTERM, SIGUSR1", "saves, stops, exit 75" },
    { "run.max_minutes", "the same after so long" },
    { "SLURM_JOB_END_TIME", "the same a minute before it" },
    { "--resume", "behind the same command goes on from the newest good checkpoint, on any number of ranks" },
    { NULL, NULL },
};

static const ls_help_row environment_rows[] = {
    { "NO_COLOR", "not empty: no colours" },
    { "TERM", "dumb, or not set: lines in place of the progress bar" },
    { "COLUMNS", "width of the progress bar, where the terminal does not say it" },
    { "LC_ALL, LC_CTYPE, LANG", "UTF-8 in the first that is set: the bar has a line's shape" },
    { "CUDA_VISIBLE_DEVICES", "the GPUs that are there for the program" },
    { "SLURM_JOB_END_TIME", "a minute before it, in seconds since 1970, the run saves and stops" },
    { "LOCKSTEP_START_TIMEOUT", "seconds that ranks wait for each other at the start (300; 0: without end)" },
    { "XDG_CACHE_HOME", "its folder lockstep keeps what device.autotune has measured (else ~/.cache)" },
    { "TMPDIR", "where audit has its files meanwhile (else /tmp)" },
    { NULL, NULL },
};

static const ls_help_row exit_rows[] = {
#define EXIT_ROW(name, exit_code, meaning) { #exit_code, meaning },
    LS_CODES(EXIT_ROW)
#undef EXIT_ROW
        { NULL, NULL },
};

static ls_status no_such_option(const char *word) {
    char hint[LS_HINT_BYTES];
    const ls_alias *section = ls_alias_find(LS_ALIAS_SECTION, "", word);
    if (section)
        ls_hint_of(section, "", hint);
    else
        ls_config_hint(word, hint);
    return ls_fail(LS_USAGE, "no option or section '%s'%s", word, hint[0] ? hint : "; 'train help options' lists all");
}

static ls_status print_config_options(FILE *file, const char *const *words, int count) {
    return ls_config_list(file, count ? words[0] : NULL) ? LS_SUCCESS : no_such_option(words[0]);
}

static ls_status print_layers(FILE *file, const char *const *words, int count) {
    return ls_layers_help(file, count ? words[0] : NULL);
}

static ls_status print_version(FILE *file, const char *const *words, int count) {
    (void)words;
    (void)count;
    fprintf(file, "lockstep %s\ncompiler   %s\nlibraries  %s, %s\n", ls_version(), ls_version_compiler(),
        ls_version_libraries(), ls_comm_library());
    return LS_SUCCESS;
}

static ls_status print_offers(FILE *file, const char *const *words, int count) {
    ls_help_complete(file, words, count);
    return LS_SUCCESS;
}

static const ls_help_topic topics[] = {
    { .word = "config",
        .usage = "",
        .purpose = "how a configuration is written",
        .text = "An INI file describes a run, and a second one, which its model.file names, the network: [section] "
                "lines with key = value lines "
                "below them; a comment begins with ; or # at the start of a line or behind a space. Options that are "
                "not named have "
                "defaults; an unknown name, a wrong type or an impossible combination is refused before anything is "
                "created.\n"
                "A path in a configuration is relative to that file; on the command line, also behind --set, it is "
                "relative to the "
                "current folder. Configurations and networks that come with the program have names: mnist is a "
                "configuration, and model.file = resnet20 a network.",
        .rows = config_rows },
    { .word = "options",
        .usage = "[SECTION|SECTION.KEY]",
        .purpose = "options of a configuration",
        .print = print_config_options },
    { .word = "layers", .usage = "[KIND]", .purpose = "network files, and kinds of layers", .print = print_layers },
    { .word = "stopping", .usage = "", .purpose = "how a run is stopped, and goes on", .rows = stopping_rows },
    { .word = "exit-codes", .usage = "", .purpose = "what the program ends with", .rows = exit_rows },
    { .word = "environment", .usage = "", .purpose = "variables that it reads", .rows = environment_rows },
    { .word = "complete",
        .usage = "-- WORD...",
        .purpose = "what a shell offers for the last of these words",
        .print = print_offers },
    { .word = "version", .usage = "", .purpose = "version, compiler and libraries", .print = print_version },
};

const ls_help_topic *ls_help_topics(int *count) {
    *count = sizeof topics / sizeof topics[0];
    return topics;
}
