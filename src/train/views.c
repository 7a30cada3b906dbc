#include "train/views.h"

#include "base/memory.h"

enum { VIEWS_MAX = 6 };

typedef struct {
    ls_augmentation augmentation; // the augmentation that can produce all views
    int count;
    struct {
        double weight;
        ls_augment_sample drawn; // the same for all samples
    } view[VIEWS_MAX];
} view_list;

static const view_list lists[] = {
    [LS_TTA_OFF] = { { 0 }, 1, { { 1, { 0 } } } },
    [LS_TTA_FLIP] = { { .flip = LS_FLIP_RANDOM }, 2, { { 0.5, { .flip = 0 } }, { 0.5, { .flip = 1 } } } },
    [LS_TTA_FLIP_SHIFT] = { { .pad = 1, .pad_mode = LS_PAD_REFLECT, .flip = LS_FLIP_RANDOM }, 6,
        { { 0.25, { .dy = 1, .dx = 1, .flip = 0 } }, { 0.25, { .dy = 1, .dx = 1, .flip = 1 } },
            { 0.125, { .dy = 0, .dx = 0, .flip = 0 } }, { 0.125, { .dy = 0, .dx = 0, .flip = 1 } },
            { 0.125, { .dy = 2, .dx = 2, .flip = 0 } }, { 0.125, { .dy = 2, .dx = 2, .flip = 1 } } } },
};

int ls_views_count(const ls_config *cfg) {
    return lists[cfg->eval_tta].count;
}

double ls_views_weight(const ls_config *cfg, int view) {
    return lists[cfg->eval_tta].view[view].weight;
}

ls_augmentation ls_views_augmentation(const ls_config *cfg) {
    return lists[cfg->eval_tta].augmentation;
}

ls_status ls_views_new(ls_session *session, const ls_config *cfg, int n, ls_slab **out) {
    const view_list *list = &lists[cfg->eval_tta];
    ls_augment_sample *drawn = ls_new(list->count * n, sizeof *drawn, "views of %d samples", n);
    for (int i = 0; i < list->count * n; i++) drawn[i] = list->view[i / n].drawn;
    const size_t bytes = (size_t)(list->count * n) * sizeof *drawn;
    ls_status status = ls_session_upload(session, "views of test-time augmentation", drawn, bytes, out);
    free(drawn);
    return status;
}

void ls_views_choose(const ls_slab *views, int n, int view, ls_program_inputs *inputs) {
    const size_t bytes = (size_t)n * sizeof(ls_augment_sample);
    inputs->buffer[LS_INPUT_AUGMENT] = ls_buffer_at((ls_slab *)views, (size_t)view * bytes, bytes);
}
