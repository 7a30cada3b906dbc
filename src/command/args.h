// args.h - the command line, parsed strictly by the tables commands.def and command_options.def.
#ifndef LS_COMMAND_ARGS_H
#define LS_COMMAND_ARGS_H

#include <stdint.h>
#include "base/status.h"
#include "deploy/calibrate.h"

typedef enum {
#define COMMAND(ID, ...) LS_COMMAND_##ID,
#include "command/commands.def"
    LS_COMMAND_COUNT
} ls_command;

// Actions of `train ckpt` and kinds of --scaling, in the order of their words in the usage: verify|show,
// strong|weak|both.
typedef enum { LS_CKPT_VERIFY, LS_CKPT_SHOW } ls_ckpt_action;
typedef enum { LS_SCALING_STRONG, LS_SCALING_WEAK, LS_SCALING_BOTH } ls_scaling;

enum { LS_ARGS_SETS_MAX = 64, LS_ARGS_SWEEPS_MAX = 8 };

enum { LS_ARGS_JOINT_BYTES = 512, LS_ARGS_CALIBRATE = LS_CALIBRATE_PICTURES };

// The words and options of a command line. The texts point into argv. A comment that begins with names of commands
// ("bench:") describes a field that only these commands use. Free with ls_args_free.
typedef struct {
    int argc;
    char *const *argv; // the command line as main got it
    ls_command command;
    char joint[LS_ARGS_JOINT_BYTES]; // the command and its options that must be the same on all ranks:
                                     // "train bench --layers" (compared by ls_comm_start)
    int action;                      // ckpt: an ls_ckpt_action
    const char *config, *weights;    // config: the configuration; weights: eval, predict, export
    const char **files; // words of the command line. predict: pictures; ckpt: folders; report, audit, compare, metrics
                        // and verdict: runs; help: the topic and its words
    int file_count;
    // audit: number of stretches, first and last update, update to inspect. NULL: not set. all: --all
    const char *segments, *from, *to, *inspect; // from, to: also find-lr's first and last rate
    int updates;                                // find-lr: --updates
    int all;
    int logits;                         // predict: --logits
    const char *name;                   // export: --name; NULL: not set
    int test, report;                   // export: --test, --report
    int int8, calibrate;                // export, eval: --int8; --calibrate: number of training pictures taken for it
    const char *output;                 // export, augment, metrics, report: path of the file to write
    const char *event;                  // metrics: kind of event to export; NULL: not set
    int rows, columns;                  // augment: number of pictures, number of epochs
    int64_t epoch;                      // augment: first epoch shown
    const char *sets[LS_ARGS_SETS_MAX]; // each --set, "section.key=value"
    int set_count;
    const char *run_dir; // --run-dir; NULL: not set
    int print_config, dry_run, quiet;
    int resume;
    double seconds;                         // bench: length of one measurement
    int repeats;                            // bench: measurements of each arrangement
    int layers;                             // bench: --layers
    const char *sweeps[LS_ARGS_SWEEPS_MAX]; // bench: each --sweep, "KEY=VALUE,VALUE"
    int sweep_count;
    int scaling;                  // bench: an ls_scaling
    const char *seeds;            // sweep, race: --seeds, "1-25"; NULL: not set
    int jobs, task, table;        // sweep: processes at a time (0: not set); number of the only run, from 1 (0: all
                                  // runs); --table
    int share, prove;             // sweep: --share, --prove
    const char *against;          // race: the rival's configuration; NULL: no rival
    double gate;                  // race: --gate, in percent; 0: no test
    const char *together;         // sweep: runs at a time in one process, or "auto"; NULL: not set
    int json;                     // devices, doctor, compare, eval, predict, verdict, find-lr: --json
    int quick;                    // doctor: --quick
    const char *trace;            // train: file for the timeline; NULL: not set
    int64_t trace_from, trace_to; // train: updates in the timeline, [from, to); both 0: not set
    const char *files_from;       // predict: file with names of pictures, "-": standard input; NULL: not set
} ls_args;

// Parses the command line into args. LS_USAGE: an unknown command or option (the message suggests the nearest one), a
// missing or invalid argument, or a wrong number of files.
LS_CHECKED ls_status ls_args_parse(int argc, char *const *argv, ls_args *args);
void ls_args_free(ls_args *args); // also after ls_args_parse has failed

#endif
