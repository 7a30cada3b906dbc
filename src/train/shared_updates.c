#include "train/shared_updates.h"

#include <string.h>
#include "run/manifest.h"
#include "train/schedule.h"

// Returns 1 for options that schedule.h turns into values of single updates. All others may act from the start.
static int acts_by_update(int option, const char *name) {
    return option == LS_OPTION_train_epochs || option == LS_OPTION_train_max_updates ||
           strncmp(name, "schedule.", 9) == 0 ||
           (strncmp(name, "average.", 8) == 0 && option != LS_OPTION_average_kind);
}

static int differs_from_the_start(const ls_config *a, const ls_config *b) {
    char x[LS_TEXT_BYTES], y[LS_TEXT_BYTES];
    const char *name;
    for (int i = 0; ls_config_value(a, i, &name, x, sizeof x); i++) {
        if (!ls_manifest_decides(i) || acts_by_update(i, name)) continue;
        ls_config_value(b, i, NULL, y, sizeof y);
        if (strcmp(x, y) != 0) return 1;
    }
    return 0;
}

int64_t ls_planned_updates(const ls_config *cfg, const ls_batches *batches) {
    const int64_t whole = cfg->train_epochs * batches->windows;
    return cfg->train_max_updates > 0 && cfg->train_max_updates < whole ? cfg->train_max_updates : whole;
}

typedef struct {
    ls_schedule schedule;
    ls_rescaling rescaling;
    int64_t updates;
} side;

// Rates with an end of their own (optimizer.groups) depend on no option that acts_by_update names.
static int same_update(side *a, side *b, int64_t update) {
    const ls_average_step x = ls_schedule_average(&a->schedule, update, a->updates);
    const ls_average_step y = ls_schedule_average(&b->schedule, update, b->updates);
    int same = ls_schedule_factor(&a->schedule, update) == ls_schedule_factor(&b->schedule, update);
    same &= x.starts == y.starts && x.due == y.due && (!x.due || x.decay == y.decay);
    same &= ls_schedule_rescales(&a->schedule, &a->rescaling, update) ==
            ls_schedule_rescales(&b->schedule, &b->rescaling, update);
    return same;
}

ls_status ls_shared_updates(const ls_config *a, const ls_config *b, const ls_batches *batches, int64_t *shared) {
    side x = { .updates = ls_planned_updates(a, batches) }, y = { .updates = ls_planned_updates(b, batches) };
    *shared = 0;
    if (differs_from_the_start(a, b)) return LS_SUCCESS;
    LS_TRY(ls_schedule_new(a, batches, &x.schedule));
    LS_TRY(ls_schedule_new(b, batches, &y.schedule));
    const int64_t end = x.updates < y.updates ? x.updates : y.updates;
    while (*shared < end && same_update(&x, &y, *shared)) ++*shared;
    return LS_SUCCESS;
}
