#include "sweep/share.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/dataset.h"
#include "run/checkpoint_manager.h"
#include "train/shared_updates.h"

static const double LEAST_SHARE = 0.02; // of a run: a shorter stem would not be worth its start

typedef struct {
    ls_sweep_plan *plan;
    ls_config *cfg;     // [settings]
    ls_batches batches; // of setting 0
    ls_status status;
} search;

// Returns the number of updates that two settings share.
static int64_t shared(search *s, const ls_config *a, const ls_config *b) {
    int64_t updates = 0;
    LS_THEN(s->status, ls_shared_updates(a, b, &s->batches, &updates));
    return updates;
}

// Returns 1 if a run of the setting that ends after `updates` computes the same as the whole run does until then.
static int may_end_after(search *s, int setting, int64_t updates) {
    ls_config stem = s->cfg[setting];
    stem.train_max_updates = updates;
    return shared(s, &stem, &s->cfg[setting]) == updates;
}

// Returns the updates that all settings of the list share.
static int64_t shared_by_all(search *s, const int *list, int count) {
    int64_t least = ls_planned_updates(&s->cfg[list[0]], &s->batches);
    for (int i = 1; i < count; i++) {
        const int64_t updates = shared(s, &s->cfg[list[0]], &s->cfg[list[i]]);
        if (updates < least) least = updates;
    }
    return least;
}

static int add_stem(ls_sweep_plan *plan, int setting, int parent, int64_t updates) {
    plan->stems = ls_grow(plan->stems, plan->stem_count, sizeof *plan->stems, "stems of a sweep");
    plan->stems[plan->stem_count] = (ls_sweep_stem){ setting, parent, updates };
    return plan->stem_count++;
}

// Moves the settings that share more than `updates` updates with list[0] to the front. Returns the number of settings
// at the front, list[0] included.
static int gather(search *s, int *list, int count, int64_t updates) {
    int front = 1;
    for (int i = 1; i < count; i++) {
        if (shared(s, &s->cfg[list[0]], &s->cfg[list[i]]) <= updates) continue;
        const int setting = list[i];
        memmove(&list[front + 1], &list[front], (size_t)(i - front) * sizeof *list);
        list[front++] = setting;
    }
    return front;
}

// Splits a list of settings at the update where they first differ. Adds a stem for the updates before it, if they are
// enough and a run may end there. All settings of the list begin with the stem `parent` (-1: no stem). Sharing more
// than t updates is an equivalence relation, so the split does not depend on the setting that others are compared with.
static void divide(search *s, int *list, int count, int parent) {
    ls_sweep_plan *plan = s->plan;
    const int64_t begin = parent < 0 ? 0 : plan->stems[parent].updates;
    const int64_t end = shared_by_all(s, list, count), whole = ls_planned_updates(&s->cfg[list[0]], &s->batches);
    if (count > 1 && (double)(end - begin) >= LEAST_SHARE * (double)whole && may_end_after(s, list[0], end))
        parent = add_stem(plan, list[0], parent, end);
    for (int i = 0; i < count && !ls_failed(s->status);) {
        const int part = gather(s, list + i, count - i, end);
        if (part > 1)
            divide(s, list + i, part, parent);
        else
            plan->stem_of[list[i]] = parent;
        i += part;
    }
}

static ls_status count_updates(search *s) {
    ls_dataset *data;
    LS_TRY(ls_dataset_open_shared(&s->cfg[0], LS_SPLIT_TRAIN, &data));
    const ls_status status = ls_batches_plan(&s->cfg[0], ls_dataset_get_info(data)->count, 0, 1, &s->batches);
    ls_dataset_free(data);
    return status;
}

// Computes the work of one seed's runs and stems, in runs of the settings' mean length.
static double work_of(const search *s) {
    const ls_sweep_plan *plan = s->plan;
    int64_t all = 0, left = 0;
    for (int i = 0; i < plan->settings; i++) {
        const int64_t updates = ls_planned_updates(&s->cfg[i], &s->batches);
        all += updates;
        left += updates - (plan->stem_of[i] < 0 ? 0 : plan->stems[plan->stem_of[i]].updates);
    }
    for (int i = 0; i < plan->stem_count; i++) {
        const ls_sweep_stem *stem = &plan->stems[i];
        left += stem->updates - (stem->parent < 0 ? 0 : plan->stems[stem->parent].updates);
    }
    return (double)left * plan->settings / (double)all;
}

static ls_status check_axes(const ls_sweep_plan *plan) {
    for (int i = 0; i < plan->swept; i++)
        if (strncmp(plan->axes[i].name, "data.", 5) == 0 || strstr(plan->axes[i].name, "_batch"))
            return ls_fail(LS_USAGE, "--share: not with several values of %s, which changes what an update is",
                plan->axes[i].name);
    return LS_SUCCESS;
}

static ls_status read_settings(search *s) {
    for (int i = 0; i < s->plan->settings; i++) {
        LS_TRY(ls_sweep_config(s->plan, i, -1, &s->cfg[i]));
        if (s->cfg[i].train_patience > 0)
            return ls_fail(LS_USAGE, "--share: not with train.patience, because a run may then end before it parts");
    }
    return LS_SUCCESS;
}

static ls_status find_stems(search *s) {
    ls_sweep_plan *plan = s->plan;
    int *list = ls_new(plan->settings, sizeof *list, "settings");
    for (int i = 0; i < plan->settings; i++) list[i] = i;
    s->status = read_settings(s);
    LS_THEN(s->status, count_updates(s));
    if (!ls_failed(s->status)) divide(s, list, plan->settings, -1);
    free(list);
    LS_TRY(s->status);
    if (plan->stem_count == 0)
        return ls_fail(LS_USAGE,
            "--share: these settings share no updates: they must differ only in options that act later: schedule.*, "
            "average.*, train.epochs or train.max_updates");
    plan->work = work_of(s) * plan->seed_count;
    return LS_SUCCESS;
}

ls_status ls_sweep_share(ls_sweep_plan *plan) {
    search s = { .plan = plan, .status = LS_SUCCESS };
    LS_TRY(check_axes(plan));
    s.cfg = ls_new(plan->settings, sizeof *s.cfg, "%d settings", plan->settings);
    plan->stem_of = ls_new(plan->settings, sizeof *plan->stem_of, "%d settings", plan->settings);
    const ls_status status = find_stems(&s);
    free(s.cfg);
    return status;
}

ls_status ls_sweep_begin_with_stem(const ls_sweep_plan *plan, int run) {
    char run_folder[LS_TEXT_BYTES], folder[LS_TEXT_BYTES], name[LS_SWEEP_NAME_BYTES], from[2 * LS_TEXT_BYTES],
        to[2 * LS_TEXT_BYTES];
    char target[LS_TEXT_BYTES];
    int64_t *updates;
    int count;
    const int parent = ls_sweep_parent(plan, run);
    if (parent < 0) return LS_SUCCESS;
    LS_TRY(ls_sweep_run_folder(plan, run, run_folder));
    LS_TRY(ls_path_join(folder, sizeof folder, run_folder, "checkpoints"));
    LS_TRY(ls_checkpoint_manager_list(folder, &updates, &count));
    free(updates);
    if (count > 0) return LS_SUCCESS;
    ls_text_cut(target, sizeof target, "../../%s/checkpoints", ls_sweep_run_name(plan, parent, name));
    LS_TRY(ls_checkpoint_path(target, ls_sweep_stem_at(plan, parent)->updates, from, sizeof from));
    LS_TRY(ls_checkpoint_path(folder, ls_sweep_stem_at(plan, parent)->updates, to, sizeof to));
    LS_TRY(ls_make_folders(folder));
    if (symlink(from, to) != 0) return ls_fail_io("be made", to, "symlink");
    return ls_path_exists(to) ? LS_SUCCESS : ls_fail(LS_STORAGE, "%s: leads to no checkpoint (%s)", to, from);
}
