#include "run/evaluation.h"

#include <math.h>
#include <stdlib.h>
#include "base/memory.h"
#include "base/text.h"

void ls_evaluation_free(ls_evaluation *e) {
    if (!e) return;
    for (int k = 0; e->names && k < e->classes; k++) free(e->names[k]);
    for (int i = 0; i < e->mistake_count; i++) {
        free(e->mistakes[i].path);
        free(e->mistakes[i].png);
    }
    free(e->names);
    free(e->per_class);
    free(e->confusion);
    free(e);
}

double ls_evaluation_calibration_error(const ls_evaluation *e) {
    double error = 0;
    for (int b = 0; b < LS_EVALUATION_BINS; b++) error += fabs((double)e->bins[b].correct - e->bins[b].confidence_sum);
    return error / (double)e->samples;
}

double ls_evaluation_macro_f1(const ls_evaluation *e) {
    double sum = 0;
    for (int k = 0; k < e->classes; k++) {
        const int64_t all = e->per_class[k].samples + e->per_class[k].predicted;
        if (all > 0) sum += 2 * (double)e->per_class[k].correct / (double)all;
    }
    return sum / e->classes;
}

// Adds the member `name` with value part / all, or with null if all is 0.
static void add_share(cJSON *object, const char *name, double part, int64_t all) {
    ls_json_add_real(object, name, all > 0 ? part / (double)all : NAN);
}

static void add_bins(cJSON *tree, const ls_evaluation *e) {
    cJSON *bins = ls_json_add_array(tree, "bins");
    for (int b = 0; b < LS_EVALUATION_BINS; b++) {
        const ls_calibration_bin *bin = &e->bins[b];
        cJSON *item = ls_json_append(bins, cJSON_CreateObject());
        add_share(item, "confidence", bin->confidence_sum, bin->count);
        add_share(item, "accuracy", (double)bin->correct, bin->count);
        ls_json_add_int(item, "count", bin->count);
    }
}

static void add_matrix(cJSON *tree, const ls_evaluation *e) {
    cJSON *rows = ls_json_add_array(tree, "confusion");
    const ls_confusion *next = e->confusion, *end = next + e->confusion_count;
    for (int label = 0; label < e->classes; label++) {
        cJSON *row = ls_json_append(rows, cJSON_CreateArray());
        for (int prediction = 0; prediction < e->classes; prediction++) {
            const int found = next < end && next->label == label && next->prediction == prediction;
            ls_json_append(row, cJSON_CreateNumber(found ? (double)next->count : 0));
            next += found;
        }
    }
}

static void add_confusions(cJSON *tree, const ls_evaluation *e) {
    cJSON *list = ls_json_add_array(tree, "confusions");
    for (int64_t i = 0; i < e->confusion_count; i++) {
        const ls_confusion *c = &e->confusion[i];
        cJSON *item = ls_json_append(list, cJSON_CreateArray());
        ls_json_append(item, cJSON_CreateNumber(c->label));
        ls_json_append(item, cJSON_CreateNumber(c->prediction));
        ls_json_append(item, cJSON_CreateNumber((double)c->count));
    }
}

static void add_classes(cJSON *tree, const ls_evaluation *e) {
    cJSON *list = ls_json_add_array(tree, "per_class");
    for (int k = 0; k < e->classes; k++) {
        const ls_class_counts *c = &e->per_class[k];
        cJSON *item = ls_json_append(list, cJSON_CreateObject());
        ls_json_add_text(item, "name", e->names[k]);
        ls_json_add_int(item, "samples", c->samples);
        add_share(item, "recall", (double)c->correct, c->samples);
        add_share(item, "precision", (double)c->correct, c->predicted);
    }
}

static void add_picture(cJSON *item, const ls_mistake *m) {
    char *text = m->png ? ls_text_base64(m->png, m->png_bytes) : NULL;
    if (m->png)
        ls_json_add_text(item, "picture", text);
    else
        ls_json_add_null(item, "picture");
    free(text);
}

static void add_mistakes(cJSON *tree, const ls_evaluation *e, int with_pictures) {
    cJSON *list = ls_json_add_array(tree, "mistakes");
    for (int i = 0; i < e->mistake_count; i++) {
        const ls_mistake *m = &e->mistakes[i];
        cJSON *item = ls_json_append(list, cJSON_CreateObject());
        ls_json_add_int(item, "index", m->index);
        if (m->path)
            ls_json_add_text(item, "path", m->path);
        else
            ls_json_add_null(item, "path");
        ls_json_add_int(item, "label", m->label);
        ls_json_add_int(item, "prediction", m->prediction);
        ls_json_add_real(item, "probability", m->probability);
        if (with_pictures) add_picture(item, m);
    }
}

static void add_names(cJSON *tree, const ls_evaluation *e) {
    cJSON *names = ls_json_add_array(tree, "classes");
    for (int k = 0; k < e->classes; k++) ls_json_append(names, ls_json_string(e->names[k]));
}

static cJSON *add_several(cJSON *tree, const ls_evaluation *e) {
    ls_json_add_real(tree, "exact_match", (double)e->correct / (double)e->samples);
    ls_json_add_real(tree, "macro_f1", ls_evaluation_macro_f1(e));
    add_names(tree, e);
    add_classes(tree, e);
    return tree;
}

cJSON *ls_evaluation_json(const ls_evaluation *e, int with_pictures) {
    cJSON *tree = cJSON_CreateObject();
    ls_json_add_text(tree, "set", e->set);
    ls_json_add_text(tree, "of", e->of);
    ls_json_add_int(tree, "samples", e->samples);
    ls_json_add_real(tree, "loss", e->loss_sum / (double)e->samples);
    if (e->several) return add_several(tree, e);
    ls_json_add_real(tree, "top1", (double)e->correct / (double)e->samples);
    if (e->classes > LS_EVALUATION_TOP) ls_json_add_real(tree, "top5", (double)e->top5 / (double)e->samples);
    ls_json_add_real(tree, "calibration_error", ls_evaluation_calibration_error(e));
    add_bins(tree, e);
    add_names(tree, e);
    if (e->classes <= LS_EVALUATION_DENSE_MAX)
        add_matrix(tree, e);
    else
        add_confusions(tree, e);
    add_classes(tree, e);
    add_mistakes(tree, e, with_pictures);
    return tree;
}

ls_status ls_evaluation_write(const char *path, const ls_evaluation *e) {
    cJSON *tree = ls_evaluation_json(e, 1);
    ls_status status = ls_json_write_file(path, tree);
    cJSON_Delete(tree);
    return status;
}
