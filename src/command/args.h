// args.h - the command line: strict, by the tables commands.def and command_options.def.
#ifndef LS_COMMAND_ARGS_H
#define LS_COMMAND_ARGS_H

#include <stdint.h>
#include "base/status.h"

typedef enum {
#define COMMAND(ID, ...) LS_COMMAND_##ID,
#include "command/commands.def"
    LS_COMMAND_COUNT
} ls_command;

// The words x|y of a usage and the choices of an option, in their order.
typedef enum { LS_CKPT_VERIFY, LS_CKPT_SHOW } ls_ckpt_action;
typedef enum { LS_SCALING_STRONG, LS_SCALING_WEAK, LS_SCALING_BOTH } ls_scaling;

enum { LS_ARGS_SETS_MAX = 64, LS_ARGS_SWEEPS_MAX = 8 };

enum { LS_ARGS_JOINT_BYTES = 512 };

typedef struct { // texts are borrowed from argv; free by ls_args_free
    int argc;
    char *const *argv; // the command line itself
    ls_command command;
    char joint[LS_ARGS_JOINT_BYTES]; // what all ranks must do alike: "train bench --layers"
    int action;                      // ckpt: ls_ckpt_action
    const char *config, *weights;    // weights: eval, predict, export
    const char *
        *files; // predict: pictures; ckpt: folders, or weights files; report, compare, verdict: runs; help: topic
    int file_count;
    int64_t updates;    // verify-resume: before the checkpoint, and after it
    int logits;         // predict
    const char *output; // export, augment, metrics, report: file
    const char *event;  // metrics: kind; NULL: not set
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
    int scaling;                  // bench: ls_scaling
    const char *seeds;            // sweep: "1-25"; NULL: not set
    int jobs, task, table;        // sweep; task: from 1, 0: not set
    int json;                     // devices, doctor, compare, eval, predict, verdict
    int quick;                    // doctor
    const char *trace;            // file; NULL: not set
    int64_t trace_from, trace_to; // updates; both 0: not set
    const char *files_from;       // predict: file of names; NULL: not set
} ls_args;

// LS_USAGE: unknown option (with the nearest valid one), missing argument, wrong number of files.
LS_CHECKED ls_status ls_args_parse(int argc, char *const *argv, ls_args *args);
void ls_args_free(ls_args *args); // also after a failure

#endif
