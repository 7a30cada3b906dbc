// plan.h - the runs of a sweep: every combination of the values of --set (a setting) with every seed of --seeds. The
// configuration of every setting is checked here, before any run starts; files that it names are not opened.
//
// Runs are numbered from 0: first all settings with the first seed, then all settings with the second seed. So an
// interrupted sweep can already compare settings, and seeds that are added at the end do not change the numbers.
#ifndef LS_SWEEP_PLAN_H
#define LS_SWEEP_PLAN_H

#include "base/status.h"
#include "command/args.h"
#include "config/config.h"

enum { LS_SWEEP_AXES_MAX = 16, LS_SWEEP_SETS_MAX = LS_ARGS_SETS_MAX - 4, LS_SWEEP_RUNS_MAX = 4096 };
enum { LS_SWEEP_NAME_BYTES = 256, LS_SWEEP_FOLDER_BYTES = LS_TEXT_BYTES - LS_SWEEP_NAME_BYTES };

// An option of --set and its values. Values are written as a configuration file would write them (0.01 for 1e-2).
typedef struct {
    const char *name;  // "optimizer.lr"
    const char *label; // of a swept option: "lr", or the whole name if another has the same key
    int option;        // LS_OPTION_...
    char **values;
    int count; // number of values; 1: all runs have the same value
} ls_sweep_axis;

// Updates that several settings share (share.h): a run of its own for each seed.
typedef struct {
    int setting;     // the setting whose options the stem has
    int parent;      // index of the stem whose last checkpoint this stem begins with; -1: begins at update 0
    int64_t updates; // number of updates after which the stem ends
} ls_sweep_stem;

typedef struct {
    const char *config;
    ls_sweep_axis axes[LS_SWEEP_SETS_MAX]; // one for each --set; swept options (several values) come first
    int axis_count, swept;                 // swept: number of swept options
    int64_t *seeds;
    int seed_count;
    int settings; // number of combinations of values
    int runs;     // settings * seed_count
    char folder[LS_SWEEP_FOLDER_BYTES];
    ls_sweep_stem *stems; // made by ls_sweep_share
    int stem_count;       // 0: the runs share nothing
    double work;          // work of all runs and stems, in runs of the settings' mean length
    int *stem_of;         // [settings] the stem whose last checkpoint a setting's runs begin with; -1: no stem
} ls_sweep_plan;

// Makes the plan of a sweep, without stems. The caller frees *out with ls_sweep_plan_free. LS_USAGE, for example: a key
// is unknown, given twice, or set by the sweep itself (run.seed); a value is empty, wrong or given twice; a combination
// is impossible; no run reads a swept option; bad seeds; too many runs.
LS_CHECKED ls_status ls_sweep_plan_new(const ls_args *args, ls_sweep_plan *out);
void ls_sweep_plan_free(ls_sweep_plan *plan);

// The stems follow the runs in the numbering: all stems of the first seed, then those of the second. Functions with an
// argument `run` accept their numbers, too.
static inline int ls_sweep_runs_and_stems(const ls_sweep_plan *plan) {
    return plan->runs + plan->stem_count * plan->seed_count;
}
static inline const ls_sweep_stem *ls_sweep_stem_at(const ls_sweep_plan *plan, int run) { // NULL: a run of the sweep
    return run < plan->runs ? NULL : &plan->stems[(run - plan->runs) % plan->stem_count];
}
static inline int ls_sweep_setting(const ls_sweep_plan *plan, int run) {
    return run < plan->runs ? run % plan->settings : ls_sweep_stem_at(plan, run)->setting;
}
static inline int64_t ls_sweep_seed(const ls_sweep_plan *plan, int run) {
    return plan->seeds[run < plan->runs ? run / plan->settings : (run - plan->runs) / plan->stem_count];
}
// Returns the number of the stem whose last checkpoint the run begins with; -1: it begins at update 0.
int ls_sweep_parent(const ls_sweep_plan *plan, int run);
// Returns the value that the option axes[axis] has in a setting.
const char *ls_sweep_value(const ls_sweep_plan *plan, int axis, int setting);
// Makes and checks the configuration of a run or stem.
LS_CHECKED ls_status ls_sweep_run_config(const ls_sweep_plan *plan, int run, ls_config *cfg);
// Makes and checks the configuration of a setting. seed: run.seed; -1: the seed of the configuration file.
LS_CHECKED ls_status ls_sweep_config(const ls_sweep_plan *plan, int setting, int64_t seed, ls_config *cfg);
// Writes the name of a configuration's file without folder and ending, cut if it is too long, into dst. Returns dst.
char *ls_sweep_config_name(const char *config, char dst[LS_SWEEP_NAME_BYTES]);
// Writes the setting, "lr = 0.05, momentum = 0.9", into dst; "all runs" if no option is swept. Returns dst.
char *ls_sweep_setting_text(const ls_sweep_plan *plan, int setting, char dst[LS_SWEEP_NAME_BYTES]);
// Writes the name of a run's folder, "lr=0.05,momentum=0.9,seed=3", into dst. Characters other than letters, digits and
// "._+-=," become '-', and long names are shortened; such names get a hash, which keeps them distinct. Returns dst.
char *ls_sweep_run_name(const ls_sweep_plan *plan, int run, char dst[LS_SWEEP_NAME_BYTES]);
LS_CHECKED ls_status ls_sweep_run_folder(const ls_sweep_plan *plan, int run, char dst[LS_TEXT_BYTES]);

// Makes the command line of a run, "train CONFIG --set ... --run-dir ...", as an array of words that ends with NULL.
// threads: device.threads; 0: not set. Free with ls_sweep_words_free.
LS_CHECKED ls_status ls_sweep_words(const ls_sweep_plan *plan, int run, int threads, int quiet, char ***words);
void ls_sweep_words_free(char **words); // NULL is allowed

#endif
