// args.h - the command line: strict, one table of options for parsing and --help.
#ifndef LS_CLI_ARGS_H
#define LS_CLI_ARGS_H

#include <stdint.h>
#include <stdio.h>
#include "base/status.h"

typedef enum {
    LS_COMMAND_TRAIN,
    LS_COMMAND_BENCH,
    LS_COMMAND_EVAL,
    LS_COMMAND_PREDICT,
    LS_COMMAND_EXPORT,
    LS_COMMAND_AUGMENT,
    LS_COMMAND_REPLAY,
    LS_COMMAND_CKPT,
    LS_COMMAND_VERIFY_RESUME,
    LS_COMMAND_DEVICES,
    LS_COMMAND_LIST,
    LS_COMMAND_HELP,
    LS_COMMAND_VERSION,
} ls_command;

typedef enum { LS_CKPT_NONE, LS_CKPT_VERIFY, LS_CKPT_SHOW, LS_CKPT_DIFF } ls_ckpt_action;

enum { LS_ARGS_SETS_MAX = 64, LS_ARGS_SWEEPS_MAX = 8 };

enum { LS_ARGS_JOINT_BYTES = 512 };

typedef struct { // texts are borrowed from argv; free by ls_args_free
    ls_command command;
    char joint[LS_ARGS_JOINT_BYTES]; // what all ranks must do alike: "train bench --layers"
    const char *config, *weights;    // weights: eval, predict, export
    const char **files;              // predict: pictures; ckpt: folders, or weights files
    int file_count;
    ls_ckpt_action ckpt;
    int64_t updates;    // verify-resume: before the checkpoint, and after it
    int logits;         // predict
    const char *output; // export, augment: file
    int rows, columns;  // augment: pictures, epochs
    int64_t epoch;      // augment: the first one
    const char *batch;  // replay: folder
    const char *sets[LS_ARGS_SETS_MAX];
    int set_count;
    const char *run_dir; // NULL: not set
    int print_config, dry_run, quiet;
    int resume;
    double seconds;                         // bench: of one measurement
    int repeats;                            // bench
    int layers;                             // bench
    const char *sweeps[LS_ARGS_SWEEPS_MAX]; // bench: "KEY=VALUE,VALUE"
    int sweep_count;
    int weak, strong;             // bench: the kinds of scaling that are measured
    int json;                     // devices
    const char *trace;            // file; NULL: not set
    int64_t trace_from, trace_to; // updates; both 0: not set
} ls_args;

// LS_USAGE: unknown option (with the nearest valid one), missing argument, wrong number of files.
LS_CHECKED ls_status ls_args_parse(int argc, char *const *argv, ls_args *args);
void ls_args_free(ls_args *args); // also after a failure
void ls_args_help(FILE *file);

#endif
