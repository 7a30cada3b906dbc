#include "sweep/plan.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/files.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"

enum { NAME_LENGTH = 120 }; // longest part of a run folder's name that the setting takes up; the seed follows it

static const int64_t SEED_MAX = 9007199254740991; // the largest run.seed

// --- reading --set -------------------------------------------------------------------------------

// Refuses options that the sweep decides itself.
static ls_status check_own(const char *set, int option) {
    static const struct {
        int option;
        const char *instead;
    } rows[] = {
        { LS_OPTION_run_seed, "the seeds of a sweep are given by --seeds" },
        { LS_OPTION_run_name, "the runs of a sweep are named by what they are set to; --run-dir names its folder" },
        { LS_OPTION_run_resume, "a sweep goes on with what is there in any case" },
        { LS_OPTION_run_adopt, "a sweep's runs are its own" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].option == option) return ls_fail(LS_USAGE, "--set %s: %s", set, rows[i].instead);
    return LS_SUCCESS;
}

// Finds the option `key` ("section.key") for axis, and writes the value into text as a configuration file would.
static ls_status look_up(const char *key, const char *value, ls_sweep_axis *axis, char text[LS_TEXT_BYTES]) {
    char assignment[2 * LS_TEXT_BYTES];
    ls_config cfg;
    ls_config_defaults(&cfg);
    if ((size_t)snprintf(assignment, sizeof assignment, "%s=%s", key, value) >= sizeof assignment)
        return ls_fail(LS_USAGE, "--set %.100s...: too long", key);
    LS_TRY(ls_config_set(&cfg, assignment));
    axis->option = 0;
    while (cfg.line[axis->option] == 0) axis->option++;
    ls_config_value(&cfg, axis->option, &axis->name, text, LS_TEXT_BYTES);
    return LS_SUCCESS;
}

static ls_status add_value(const char *set, const char *key, const char *value, ls_sweep_axis *axis) {
    char text[LS_TEXT_BYTES];
    LS_TRY(look_up(key, value, axis, text));
    for (int i = 0; i < axis->count; i++)
        if (strcmp(axis->values[i], text) == 0)
            return ls_fail(LS_USAGE, "--set %s: the value %s stands there twice", set, text);
    axis->values = ls_grow(axis->values, axis->count, sizeof *axis->values, "--set %s", set);
    axis->values[axis->count++] = ls_new_text(text);
    return LS_SUCCESS;
}

// Cuts the next value out of the list at *at: up to a comma, or all that is inside double quotes (*quoted is then 1).
// Moves *at to the rest of the list; NULL: it was the last value.
static ls_status next_value(const char *set, char **at, char **value, int *quoted) {
    char *text = *at + strspn(*at, " \t"), *end;
    *quoted = *text == '"';
    if (*quoted) {
        end = strchr(++text, '"');
        if (!end) return ls_fail(LS_USAGE, "--set %s: a value begins with \" and does not end with one", set);
        *end++ = 0;
        end += strspn(end, " \t");
        if (*end && *end != ',')
            return ls_fail(LS_USAGE, "--set %s: expected a comma or the end behind \"%s\"", set, text);
    } else {
        end = text + strcspn(text, ",");
    }
    *at = *end ? end + 1 : NULL;
    *end = 0;
    *value = text;
    return LS_SUCCESS;
}

// Refuses a list without quotes for an option of type text, because such a value may contain commas itself.
static ls_status check_text(const char *set, const ls_sweep_axis *axis, const char *value) {
    if (!ls_config_is_text(axis->option)) return LS_SUCCESS;
    return ls_fail(LS_USAGE,
        "--set %s: is this one value of %s, or several? Put each in double quotes: --set '%s=\"%s\"' or --set "
        "'%s=\"...\",\"...\"'",
        set, axis->name, axis->name, value, axis->name);
}

static ls_status split(const char *set, const char *key, char *list, ls_sweep_axis *axis) {
    char *whole = list + strspn(list, " \t"), copy[LS_TEXT_BYTES];
    snprintf(copy, sizeof copy, "%s", whole);
    for (char *rest = list; rest;) {
        char *value = rest;
        int quoted;
        LS_TRY(next_value(set, &rest, &value, &quoted));
        if (!quoted && value[0] == '0' && isdigit((unsigned char)value[1]))
            return ls_fail(
                LS_USAGE, "--set %s: the value '%s' begins with 0; a decimal point is a dot: 0.%s", set, value, value);
        if (!*value && !quoted && (rest || axis->count))
            return ls_fail(LS_USAGE, "--set %s: value %d is empty", set, axis->count + 1);
        LS_TRY(add_value(set, key, value, axis));
        if (!quoted && (rest || axis->count > 1)) LS_TRY(check_text(set, axis, copy));
    }
    return LS_SUCCESS;
}

static ls_status read_set(const char *set, ls_sweep_axis *axis) {
    char copy[2 * LS_TEXT_BYTES];
    const char *equals = strchr(set, '=');
    if (!equals) return ls_fail(LS_USAGE, "--set %s: expected section.key=value", set);
    if (strlen(set) >= sizeof copy)
        return ls_fail(LS_USAGE, "--set %.60s...: longer than %zu bytes", set, sizeof copy - 1);
    strcpy(copy, set);
    copy[equals - set] = 0;
    LS_TRY(split(set, copy, copy + (equals - set) + 1, axis));
    return check_own(set, axis->option);
}

static ls_status read_sets(const ls_args *args, ls_sweep_plan *plan) {
    if (args->set_count > LS_SWEEP_SETS_MAX)
        return ls_fail(LS_USAGE, "--set: more than %d times; write them into the configuration", LS_SWEEP_SETS_MAX);
    for (int i = 0; i < args->set_count; i++) {
        ls_sweep_axis *axis = &plan->axes[plan->axis_count++];
        LS_TRY(read_set(args->sets[i], axis));
        for (int j = 0; j < i; j++)
            if (plan->axes[j].option == axis->option)
                return ls_fail(
                    LS_USAGE, "--set %s: %s is set twice; give all its values in one --set", args->sets[i], axis->name);
    }
    return LS_SUCCESS;
}

// Moves the swept options to the front of the axes and gives them labels. The order of the swept options stays, and so
// does that of the others. Refuses too many swept options.
static ls_status order_axes(ls_sweep_plan *plan) {
    for (int i = 0; i < plan->axis_count; i++) {
        const ls_sweep_axis axis = plan->axes[i];
        if (axis.count < 2) continue;
        memmove(&plan->axes[plan->swept + 1], &plan->axes[plan->swept], (size_t)(i - plan->swept) * sizeof axis);
        plan->axes[plan->swept++] = axis;
    }
    if (plan->swept > LS_SWEEP_AXES_MAX)
        return ls_fail(LS_USAGE, "--set: more than %d options with several values", LS_SWEEP_AXES_MAX);
    for (int i = 0; i < plan->swept; i++) {
        const char *key = strchr(plan->axes[i].name, '.') + 1;
        plan->axes[i].label = key;
        for (int j = 0; j < plan->swept; j++)
            if (j != i && strcmp(strchr(plan->axes[j].name, '.') + 1, key) == 0)
                plan->axes[i].label = plan->axes[i].name;
    }
    return LS_SUCCESS;
}

// --- seeds ---------------------------------------------------------------------------------------

static ls_status add_seed(const char *text, int64_t seed, ls_sweep_plan *plan) {
    for (int i = 0; i < plan->seed_count; i++)
        if (plan->seeds[i] == seed) return ls_fail(LS_USAGE, "--seeds %s: %" PRId64 " stands there twice", text, seed);
    plan->seeds = ls_grow(plan->seeds, plan->seed_count, sizeof *plan->seeds, "--seeds %s", text);
    plan->seeds[plan->seed_count++] = seed;
    return LS_SUCCESS;
}

// Reads a whole number at *at and moves *at past it. Returns -1 if there is no number or it is too large.
static int64_t read_seed(const char **at) {
    char *end;
    if (!isdigit((unsigned char)**at)) return -1;
    errno = 0;
    const long long value = strtoll(*at, &end, 10);
    *at = end;
    return errno || value > SEED_MAX ? -1 : value;
}

// Reads the text of --seeds, numbers and ranges such as "1-25", "3" or "1-5,9,20-22".
static ls_status read_seeds(const char *text, ls_sweep_plan *plan) {
    for (const char *at = text;; at++) {
        const int64_t first = read_seed(&at);
        int64_t last = first;
        if (first >= 0 && *at == '-') {
            at++;
            last = read_seed(&at);
        }
        if (first < 0 || last < first || (*at && *at != ','))
            return ls_fail(LS_USAGE,
                "--seeds %s: whole numbers from 0 to %" PRId64 " are allowed, and ranges of them, as in 1-25 or 1-5,9",
                text, SEED_MAX);
        if (last - first >= LS_SWEEP_RUNS_MAX)
            return ls_fail(LS_USAGE, "--seeds %s: a sweep has %d runs at most", text, LS_SWEEP_RUNS_MAX);
        for (int64_t seed = first; seed <= last; seed++) LS_TRY(add_seed(text, seed, plan));
        if (!*at) return LS_SUCCESS;
    }
}

// --- settings ------------------------------------------------------------------------------------

// Returns the index of the value that a swept option has in a setting. Settings are numbered like the digits of an
// odometer: the last option changes fastest.
static int pick(const ls_sweep_plan *plan, int axis, int setting) {
    for (int i = plan->swept - 1; i > axis; i--) setting /= plan->axes[i].count;
    return setting % plan->axes[axis].count;
}

const char *ls_sweep_value(const ls_sweep_plan *plan, int axis, int setting) {
    return plan->axes[axis].values[axis < plan->swept ? pick(plan, axis, setting) : 0];
}

static ls_status set_all(const ls_sweep_plan *plan, int setting, ls_config *cfg) {
    char assignment[2 * LS_TEXT_BYTES];
    for (int i = 0; i < plan->axis_count; i++) {
        ls_text_cut(assignment, sizeof assignment, "%s=%s", plan->axes[i].name, ls_sweep_value(plan, i, setting));
        LS_TRY(ls_config_set(cfg, assignment));
    }
    return LS_SUCCESS;
}

ls_status ls_sweep_config(const ls_sweep_plan *plan, int setting, int64_t seed, ls_config *cfg) {
    char text[LS_SWEEP_NAME_BYTES];
    ls_config_defaults(cfg);
    LS_TRY(ls_config_read_file(cfg, plan->config));
    LS_TRY(set_all(plan, setting, cfg));
    if (seed >= 0) cfg->run_seed = seed;
    ls_status status = ls_config_check(cfg);
    if (!ls_failed(status) || plan->swept == 0) return status;
    return ls_fail(status.code, "%s: %s", ls_sweep_setting_text(plan, setting, text), status.text);
}

ls_status ls_sweep_run_config(const ls_sweep_plan *plan, int run, ls_config *cfg) {
    const ls_sweep_stem *stem = ls_sweep_stem_at(plan, run);
    LS_TRY(ls_sweep_config(plan, ls_sweep_setting(plan, run), ls_sweep_seed(plan, run), cfg));
    if (stem) cfg->train_max_updates = stem->updates;
    return LS_SUCCESS;
}

int ls_sweep_parent(const ls_sweep_plan *plan, int run) {
    if (plan->stem_count == 0) return -1;
    const ls_sweep_stem *stem = ls_sweep_stem_at(plan, run);
    const int parent = stem ? stem->parent : plan->stem_of[run % plan->settings];
    const int seed = stem ? (run - plan->runs) / plan->stem_count : run / plan->settings;
    return parent < 0 ? -1 : plan->runs + seed * plan->stem_count + parent;
}

static int is_listed(const char *list, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += length)
        if ((at == list || at[-1] == ' ') && (!at[length] || strchr(" ,;", at[length]))) return 1;
    return 0;
}

// Refuses impossible settings and swept options that no setting reads. Without --seeds, adds the configuration's seed.
static ls_status check_settings(ls_sweep_plan *plan) {
    int unread[LS_SWEEP_AXES_MAX] = { 0 };
    char unused[LS_STATUS_TEXT_BYTES / 2] = "";
    ls_config cfg;
    for (int s = 0; s < plan->settings; s++) {
        LS_TRY(ls_sweep_config(plan, s, -1, &cfg));
        ls_config_unused(&cfg, unused, sizeof unused);
        for (int i = 0; i < plan->swept; i++) unread[i] += is_listed(unused, plan->axes[i].name);
    }
    for (int i = 0; i < plan->swept; i++)
        if (unread[i] == plan->settings)
            return ls_fail(LS_USAGE, "--set %s=%s,...: no run of the sweep would read it: %s", plan->axes[i].name,
                plan->axes[i].values[0], unused);
    if (plan->seed_count == 0) LS_TRY(add_seed("", cfg.run_seed, plan));
    return LS_SUCCESS;
}

static ls_status count_runs(ls_sweep_plan *plan) {
    plan->settings = 1;
    for (int i = 0; i < plan->swept; i++) {
        plan->settings *= plan->axes[i].count;
        if (plan->settings > LS_SWEEP_RUNS_MAX) break;
    }
    if (plan->seed_count > LS_SWEEP_RUNS_MAX / plan->settings)
        return ls_fail(LS_USAGE, "%d seeds and %d or more combinations of values: a sweep has %d runs at most",
            plan->seed_count, plan->settings, LS_SWEEP_RUNS_MAX);
    return LS_SUCCESS;
}

char *ls_sweep_config_name(const char *config, char dst[LS_SWEEP_NAME_BYTES]) {
    const char *slash = strrchr(config, '/'), *base = slash ? slash + 1 : config, *dot = strrchr(base, '.');
    snprintf(dst, LS_SWEEP_NAME_BYTES, "%.*s", dot && dot != base ? (int)(dot - base) : (int)strlen(base), base);
    return dst;
}

static ls_status name_folder(const char *run_dir, ls_sweep_plan *plan) {
    char name[LS_SWEEP_NAME_BYTES];
    struct stat info;
    if (run_dir && (stat(run_dir, &info) == 0 ? !S_ISDIR(info.st_mode) : errno == ENOTDIR))
        return ls_fail(LS_USAGE, "--run-dir %s: is a file, or is below one: name a folder", run_dir);
    const int all = run_dir ? snprintf(plan->folder, sizeof plan->folder, "%s", run_dir)
                            : snprintf(plan->folder, sizeof plan->folder, "runs/%s-sweep",
                                  ls_sweep_config_name(plan->config, name));
    if ((size_t)all < sizeof plan->folder) return LS_SUCCESS;
    return ls_fail(LS_USAGE, "%s %s: a path longer than %zu characters", run_dir ? "--run-dir" : "the folder for",
        run_dir ? run_dir : plan->config, sizeof plan->folder - 1);
}

static ls_status make(const ls_args *args, ls_sweep_plan *plan) {
    plan->config = args->config;
    LS_TRY(name_folder(args->run_dir, plan));
    LS_TRY(read_sets(args, plan));
    LS_TRY(order_axes(plan));
    if (args->seeds) LS_TRY(read_seeds(args->seeds, plan));
    LS_TRY(count_runs(plan));
    LS_TRY(check_settings(plan));
    plan->runs = plan->settings * plan->seed_count;
    return LS_SUCCESS;
}

ls_status ls_sweep_plan_new(const ls_args *args, ls_sweep_plan *out) {
    *out = (ls_sweep_plan){ 0 };
    ls_status status = make(args, out);
    if (ls_failed(status)) ls_sweep_plan_free(out);
    return status;
}

void ls_sweep_plan_free(ls_sweep_plan *plan) {
    for (int i = 0; i < plan->axis_count; i++) {
        for (int v = 0; v < plan->axes[i].count; v++) free(plan->axes[i].values[v]);
        free(plan->axes[i].values);
    }
    free(plan->seeds);
    free(plan->stems);
    free(plan->stem_of);
    *plan = (ls_sweep_plan){ 0 };
}

// --- names ---------------------------------------------------------------------------------------

char *ls_sweep_setting_text(const ls_sweep_plan *plan, int setting, char dst[LS_SWEEP_NAME_BYTES]) {
    ls_text_room room = { dst, LS_SWEEP_NAME_BYTES };
    dst[0] = 0;
    for (int i = 0; i < plan->swept; i++)
        ls_text_put(&room, "%s%s = %s", i ? ", " : "", plan->axes[i].label, ls_sweep_value(plan, i, setting));
    if (plan->swept == 0) ls_text_put(&room, "all runs");
    return dst;
}

static int is_plain(char c) {
    return isalnum((unsigned char)c) || (c && strchr("._+-=,", c));
}

char *ls_sweep_run_name(const ls_sweep_plan *plan, int run, char dst[LS_SWEEP_NAME_BYTES]) {
    char whole[LS_SWEEP_AXES_MAX * (LS_TEXT_BYTES + 64)];
    ls_text_room room = { whole, sizeof whole };
    whole[0] = 0;
    if (ls_sweep_stem_at(plan, run)) ls_text_put(&room, "until=%" PRId64 ",", ls_sweep_stem_at(plan, run)->updates);
    for (int i = 0; i < plan->swept; i++)
        ls_text_put(&room, "%s=%s,", plan->axes[i].label, ls_sweep_value(plan, i, ls_sweep_setting(plan, run)));
    size_t length = strlen(whole), changed = length > NAME_LENGTH;
    const uint64_t hash = ls_hash(whole, length);
    if (changed) length = NAME_LENGTH;
    for (size_t i = 0; i < length; i++) {
        changed |= !is_plain(whole[i]);
        if (!is_plain(whole[i])) whole[i] = '-';
    }
    if (changed) // length - 1 drops the last comma
        snprintf(dst, LS_SWEEP_NAME_BYTES, "%.*s~%08x,seed=%" PRId64, (int)length - 1, whole, (unsigned)hash,
            ls_sweep_seed(plan, run));
    else
        snprintf(dst, LS_SWEEP_NAME_BYTES, "%.*sseed=%" PRId64, (int)length, whole, ls_sweep_seed(plan, run));
    return dst;
}

ls_status ls_sweep_run_folder(const ls_sweep_plan *plan, int run, char dst[LS_TEXT_BYTES]) {
    char name[LS_SWEEP_NAME_BYTES];
    return ls_path_join(dst, LS_TEXT_BYTES, plan->folder, ls_sweep_run_name(plan, run, name));
}

// --- command lines -------------------------------------------------------------------------------

typedef struct {
    char **words;
    int count;
} word_list;

static void add_word(word_list *list, const char *word) {
    list->words[list->count++] = ls_new_text(word);
}

static void add_set(word_list *list, const char *name, const char *value) {
    add_word(list, "--set");
    list->words[list->count++] = ls_new_textf("%s=%s", name, value);
}

static ls_status fill(const ls_sweep_plan *plan, int run, int threads, int quiet, word_list *list) {
    char folder[LS_TEXT_BYTES], number[32];
    LS_TRY(ls_sweep_run_folder(plan, run, folder));
    add_word(list, "train");
    add_word(list, plan->config);
    for (int i = 0; i < plan->axis_count; i++)
        add_set(list, plan->axes[i].name, ls_sweep_value(plan, i, ls_sweep_setting(plan, run)));
    snprintf(number, sizeof number, "%" PRId64, ls_sweep_seed(plan, run));
    add_set(list, "run.seed", number);
    add_set(list, "run.resume", "auto");
    if (ls_sweep_stem_at(plan, run)) {
        snprintf(number, sizeof number, "%" PRId64, ls_sweep_stem_at(plan, run)->updates);
        add_set(list, "train.max_updates", number);
        add_set(list, "checkpoint.every_updates", number);
    }
    if (ls_sweep_parent(plan, run) >= 0) add_set(list, "run.adopt", "true");
    if (threads) snprintf(number, sizeof number, "%d", threads);
    if (threads) add_set(list, "device.threads", number);
    if (quiet) add_word(list, "--quiet");
    add_word(list, "--run-dir");
    add_word(list, folder);
    return LS_SUCCESS;
}

ls_status ls_sweep_words(const ls_sweep_plan *plan, int run, int threads, int quiet, char ***words) {
    word_list list = { .count = 0 };
    list.words = ls_new(2 * plan->axis_count + 24, sizeof *list.words, "a command line");
    ls_status status = fill(plan, run, threads, quiet, &list);
    return LS_GIVE_OR_FREE(status, list.words, words, ls_sweep_words_free);
}

void ls_sweep_words_free(char **words) {
    for (int i = 0; words && words[i]; i++) free(words[i]);
    free(words);
}
