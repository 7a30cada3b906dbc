// results.h - reads the folders of a sweep's runs: whether a run is new, begun or complete, and the results of a
// complete run.
#ifndef LS_SWEEP_RESULTS_H
#define LS_SWEEP_RESULTS_H

#include "command/progress.h"
#include "sweep/plan.h"

typedef enum { LS_SWEEP_NEW, LS_SWEEP_BEGUN, LS_SWEEP_COMPLETE } ls_sweep_state;

// The accuracies of a summary, in order of preference: settings are compared by the first accuracy that all complete
// runs have, else by the last. Validation comes first, because settings that are chosen by test accuracy make that
// accuracy look too good.
typedef enum { LS_SWEEP_VALIDATION, LS_SWEEP_TTA, LS_SWEEP_TEST, LS_SWEEP_MEASURES } ls_sweep_measure;
const char *ls_sweep_measure_key(ls_sweep_measure measure);  // "val_accuracy", as in summary.json
const char *ls_sweep_measure_name(ls_sweep_measure measure); // "validation accuracy"

enum { LS_SWEEP_SETS = 4 }; // training, validation and test data of a run, and its teacher

typedef struct {
    ls_sweep_state state;
    double accuracy[LS_SWEEP_MEASURES]; // 0 to 1; NAN: the run has not measured it
    double train_loss, seconds, images_per_second;
    double process_seconds, training_seconds; // by race.h's clocks; NAN: not known. process: NAN if resumed
    int64_t updates;
    char weights_hash[17];
    char data[LS_SWEEP_SETS][17]; // identities of the data sets, as in summary.json; "": not in the summary
} ls_sweep_result;

// Reads the state and the results of one run. LS_USAGE: its folder holds a run with another configuration (the message
// names the differences). LS_STORAGE: a file cannot be read. A run with a damaged summary has begun; an alert names it.
LS_CHECKED ls_status ls_sweep_look(const ls_sweep_plan *plan, int run, ls_sweep_result *out);
// Checks that `path`, the config.ini of the run in `folder`, is that of run number `run`; -1: of the plan's runs,
// whatever the seed and the swept options. LS_USAGE: it is not, or has a wrong value.
LS_CHECKED ls_status ls_sweep_check_config(const ls_sweep_plan *plan, int run, const char *folder, const char *path);
// Checks that all complete runs with the same values of swept options of [data] had the same data; synthetic data may
// differ, because each seed makes its own. LS_DATA: two runs had different data; the message names them.
LS_CHECKED ls_status ls_sweep_check_data(const ls_sweep_plan *plan, const ls_sweep_result *results);
// Calls ls_sweep_look for all runs and stems, then ls_sweep_check_data. The caller frees *results.
LS_CHECKED ls_status ls_sweep_look_all(const ls_sweep_plan *plan, ls_sweep_result **results);
// Writes the progress of a run into dst as a bar of at most `columns` columns (ls_progress_bar); "" if it is not known.
// Reads it from the run's metrics.jsonl. Returns dst.
char *ls_sweep_progress_text(const char *folder, int columns, char dst[LS_PROGRESS_TEXT_BYTES]);

// Returns the last finished line that begins with `begins`, or NULL. Searches only the last 16 KiB of the file. The
// caller frees the line.
char *ls_sweep_last_line(const char *path, const char *begins);

#endif
