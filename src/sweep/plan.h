// plan.h - the runs of a sweep: every combination of the values of --set with every seed of --seeds. Nothing is opened
// here but the configuration: what can be refused from it alone is refused before any run starts.
//
// Runs are numbered from 0, all settings of the first seed first: so an interrupted sweep has pairs to compare, and more
// seeds later leave the numbers as they are.
#ifndef LS_SWEEP_PLAN_H
#define LS_SWEEP_PLAN_H

#include "base/status.h"
#include "command/args.h"
#include "config/config.h"

enum { LS_SWEEP_AXES_MAX = 16, LS_SWEEP_SETS_MAX = LS_ARGS_SETS_MAX - 4, LS_SWEEP_RUNS_MAX = 4096 };
enum { LS_SWEEP_NAME_BYTES = 256, LS_SWEEP_FOLDER_BYTES = LS_TEXT_BYTES - LS_SWEEP_NAME_BYTES };

// An option with its values as the configuration writes them (1e-2 is 0.01).
typedef struct {
    const char *name;  // "optimizer.lr"
    const char *label; // "lr"; the name where two swept options have the same key
    int option;        // LS_OPTION_...
    char **values;
    int count; // 1: the same in all runs
} ls_sweep_axis;

typedef struct {
    const char *config;
    ls_sweep_axis axes[LS_SWEEP_SETS_MAX]; // one for each --set; the swept ones first
    int axis_count, swept;
    int64_t *seeds;
    int seed_count;
    int settings; // combinations
    int runs;     // settings * seed_count
    char folder[LS_SWEEP_FOLDER_BYTES];
} ls_sweep_plan;

// LS_USAGE: a key that is unknown, given twice or the sweep's own (run.seed); a value that is empty, wrong or given twice;
// a combination that is impossible; a swept option that nothing reads; seeds that are none.
LS_CHECKED ls_status ls_sweep_plan_new(const ls_args *args, ls_sweep_plan *out);
void ls_sweep_plan_free(ls_sweep_plan *plan);

static inline int ls_sweep_setting(const ls_sweep_plan *plan, int run) {
    return run % plan->settings;
}
static inline int64_t ls_sweep_seed(const ls_sweep_plan *plan, int run) {
    return plan->seeds[run / plan->settings];
}
// The value of a swept option in a setting.
const char *ls_sweep_value(const ls_sweep_plan *plan, int axis, int setting);
// The configuration of a setting, with that seed; checked.
LS_CHECKED ls_status ls_sweep_config(const ls_sweep_plan *plan, int setting, int64_t seed, ls_config *cfg);
// "lr = 0.05, momentum = 0.9"; where nothing is swept "all runs". Returns dst.
char *ls_sweep_setting_text(const ls_sweep_plan *plan, int setting, char dst[LS_SWEEP_NAME_BYTES]);
// The name of a run's folder in the sweep's: "lr=0.05,momentum=0.9,seed=3". Characters that a shell takes for its own are
// replaced, and long names cut; a hash then keeps them apart. Returns dst.
char *ls_sweep_run_name(const ls_sweep_plan *plan, int run, char dst[LS_SWEEP_NAME_BYTES]);
LS_CHECKED ls_status ls_sweep_run_folder(const ls_sweep_plan *plan, int run, char dst[LS_TEXT_BYTES]);

// The command line of a run: config, --set ..., --run-dir; a word each, up to NULL. Free by ls_sweep_words_free.
LS_CHECKED ls_status ls_sweep_words(const ls_sweep_plan *plan, int run, int threads, int quiet, char ***words);
void ls_sweep_words_free(char **words); // NULL is allowed

#endif
