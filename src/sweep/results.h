// results.h - what the folders of a sweep's runs hold: nothing yet, a run on its way, a complete one and what came of it.
#ifndef LS_SWEEP_RESULTS_H
#define LS_SWEEP_RESULTS_H

#include "sweep/plan.h"

typedef enum { LS_SWEEP_NEW, LS_SWEEP_BEGUN, LS_SWEEP_COMPLETE } ls_sweep_state;

// Accuracies of a summary, in the order in which settings are compared by them: what was held out for validation has seen
// no choice of a setting before.
typedef enum { LS_SWEEP_VALIDATION, LS_SWEEP_TTA, LS_SWEEP_TEST, LS_SWEEP_MEASURES } ls_sweep_measure;
const char *ls_sweep_measure_key(ls_sweep_measure measure);  // "val_accuracy", as in summary.json
const char *ls_sweep_measure_name(ls_sweep_measure measure); // "validation accuracy"

enum { LS_SWEEP_SETS = 3 }; // of data: for training, validation, test

typedef struct {
    ls_sweep_state state;
    double accuracy[LS_SWEEP_MEASURES]; // 0 to 1; NAN: the run has none
    double train_loss, seconds, images_per_second;
    int64_t updates;
    char weights_hash[17];
    char data[LS_SWEEP_SETS][17]; // identities of the sets, as in summary.json; "": not there
} ls_sweep_result;

// LS_USAGE: a run with another configuration is in its place, and what differs; LS_STORAGE: a file cannot be read.
LS_CHECKED ls_status ls_sweep_look(const ls_sweep_plan *plan, int run, ls_sweep_result *out);
// Were all complete runs trained and tested on the same data, as far as no swept option of [data] asks for others?
// LS_DATA naming two that were not.
LS_CHECKED ls_status ls_sweep_check_data(const ls_sweep_plan *plan, const ls_sweep_result *results);
// Of all runs, with ls_sweep_check_data; *results to be freed by the caller.
LS_CHECKED ls_status ls_sweep_look_all(const ls_sweep_plan *plan, ls_sweep_result **results);
// How far a run is by the end of its metrics: "update 130 of 469  loss 1.2314  3201 images/s" into dst; "" where nothing is
// known. Returns dst.
char *ls_sweep_progress_text(const char *folder, char *dst, size_t bytes);

// The last line near the end of a file that begins so, to be freed by the caller; NULL: none.
char *ls_sweep_last_line(const char *path, const char *begins);

#endif
