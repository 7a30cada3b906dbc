#include "cli/eval_folder.h"

#include "base/log.h"
#include "base/memory.h"
#include "data/picture_list.h"
#include "train/picture_results.h"
#include "train/predict.h"

enum { NAMED = 20 }; // most unreadable pictures that are named; more are only counted

typedef struct {
    const ls_config *cfg;
    const ls_weights_info *info;
    const ls_picture_list *pictures;
    const char *folder;
    double *logits; // [classes] of the current picture
    ls_picture_results *outcomes;
    int64_t unread;
} folder_run;

static ls_status look_at(folder_run *f, int64_t index, const ls_prediction *prediction) {
    if (ls_failed(prediction->status)) {
        if (f->unread++ < NAMED) ls_warn("%s", prediction->status.text);
        return LS_SUCCESS;
    }
    for (int k = 0; k < f->info->graph->classes; k++) f->logits[k] = (double)prediction->logits[k];
    ls_picture_results_add(f->outcomes, index, f->pictures->labels[index], f->logits);
    return LS_SUCCESS;
}

static ls_status check_unread(const folder_run *f) {
    const int64_t all = f->pictures->count;
    if (f->unread == 0) return LS_SUCCESS;
    if (f->unread == all)
        return ls_fail(LS_DATA, "%s: none of its %lld pictures can be read", f->folder, (long long)all);
    if (f->cfg->data_broken == LS_BROKEN_SKIP) {
        ls_info("%lld of %lld pictures cannot be read and are left out", (long long)f->unread, (long long)all);
        return LS_SUCCESS;
    }
    return ls_fail(LS_DATA,
        "%lld of %lld pictures cannot be read; replace them, move them away, or go on without them by data.broken = "
        "skip",
        (long long)f->unread, (long long)all);
}

static ls_status look_at_all(folder_run *f, ls_predictor *predictor) {
    const char *why = ls_predictor_why_not_gpu(predictor);
    if (why) ls_info("%s", why);
    for (int64_t i = 0; i < f->pictures->count; i++) {
        ls_prediction prediction;
        LS_TRY(ls_predictor_next(predictor, &prediction));
        LS_TRY(look_at(f, i, &prediction));
    }
    return check_unread(f);
}

static void name_all(const folder_run *f, ls_evaluation *e) {
    size_t folder = strlen(f->folder);
    while (folder > 1 && f->folder[folder - 1] == '/') folder--;
    e->names = ls_new(e->classes, sizeof *e->names, "names of %d classes", e->classes);
    for (int k = 0; k < e->classes; k++) e->names[k] = ls_new_text(f->info->classes[k]);
    for (int i = 0; i < e->mistake_count; i++) {
        const char *path = f->pictures->paths[e->mistakes[i].index] + folder;
        e->mistakes[i].path = ls_new_text(path + strspn(path, "/"));
    }
}

static ls_status evaluate(folder_run *f, const ls_safetensors *file, ls_evaluation **out) {
    const int classes = f->info->graph->classes;
    const ls_predictor_options options = { .cfg = f->cfg,
        .facts = f->info,
        .file = file,
        .paths = (const char *const *)f->pictures->paths,
        .count = f->pictures->count };
    ls_predictor *predictor = NULL;
    ls_evaluation *e = NULL;
    f->logits = ls_new(classes, sizeof *f->logits, "logits");
    ls_status status = ls_picture_results_new(f->pictures->count, classes, NULL, &f->outcomes);
    LS_THEN(status, ls_predictor_new(&options, &predictor));
    LS_THEN(status, look_at_all(f, predictor));
    LS_THEN(status, ls_picture_results_evaluate(f->outcomes, &e));
    if (!ls_failed(status)) {
        name_all(f, e);
        e->set = "folder";
        e->of = f->cfg->eval_tta == LS_TTA_OFF ? "plain" : "tta";
    }
    ls_predictor_free(predictor);
    ls_picture_results_free(f->outcomes);
    free(f->logits);
    return LS_GIVE_OR_FREE(status, e, out, ls_evaluation_free);
}

// Class folders cannot say several labels of a picture.
static ls_status check_labels(const ls_args *args, const ls_weights_info *info) {
    if (!info->several) return LS_SUCCESS;
    return ls_fail(LS_USAGE,
        "%s: its pictures have several labels each, and a folder of class folders has one; evaluate it by a "
        "configuration with data.labels: train eval CONFIG.ini WEIGHTS",
        args->weights);
}

ls_status ls_eval_folder(const ls_args *args, ls_config *cfg, const char *folder, ls_evaluation **out) {
    ls_safetensors *file;
    ls_weights_info *info;
    ls_picture_list pictures = { 0 };
    LS_TRY(ls_command_weights(args, cfg, &file, &info));
    folder_run f = { .cfg = cfg, .info = info, .pictures = &pictures, .folder = folder };
    ls_status status = check_labels(args, info);
    LS_THEN(status,
        ls_picture_list_add_classes(&pictures, folder, (const char *const *)info->classes, info->graph->classes));
    LS_THEN(status, evaluate(&f, file, out));
    ls_picture_list_free(&pictures);
    ls_weights_info_free(info);
    ls_safetensors_free(file);
    return status;
}
