#include "cli/eval_report.h"

#include <stdio.h>
#include <string.h>
#include "base/text.h"

enum { SHOWN = 5 };

const char *ls_eval_prefix(const ls_evaluation *e) {
    if (strcmp(e->of, "tta") == 0) return "tta";
    return strcmp(e->set, "validation") == 0 ? "val" : e->set;
}

static double recall(const ls_evaluation *e, int k) {
    return (double)e->per_class[k].correct / (double)e->per_class[k].samples;
}

// Finds up to SHOWN classes with the lowest recall, the worst first, and returns their number. Classes without pictures
// are left out; of equal classes the lower number comes first.
static int find_worst(const ls_evaluation *e, int worst[SHOWN]) {
    int count = 0;
    for (int k = 0; k < e->classes; k++) {
        if (e->per_class[k].samples == 0) continue;
        int at = count < SHOWN ? count++ : SHOWN;
        for (; at > 0 && recall(e, k) < recall(e, worst[at - 1]); at--)
            if (at < SHOWN) worst[at] = worst[at - 1];
        if (at < SHOWN) worst[at] = k;
    }
    return count;
}

// Returns the class that pictures of class k are most often taken for, or NULL if all are recognised.
static const ls_confusion *find_rival(const ls_evaluation *e, int k) {
    const ls_confusion *rival = NULL;
    for (int64_t i = 0; i < e->confusion_count; i++) {
        const ls_confusion *c = &e->confusion[i];
        if (c->label == k && c->prediction != k && (!rival || c->count > rival->count)) rival = c;
    }
    return rival;
}

static void print_class(const ls_evaluation *e, int k) {
    const ls_class_counts *c = &e->per_class[k];
    const ls_confusion *rival = find_rival(e, k);
    char precision[24] = "-";
    if (c->predicted > 0) snprintf(precision, sizeof precision, "%.4f", (double)c->correct / (double)c->predicted);
    printf("%6.4f  %9s  %7lld  ", recall(e, k), precision, (long long)c->samples);
    ls_text_print(stdout, e->names[k]);
    if (rival) {
        printf(", %lld taken for ", (long long)rival->count);
        ls_text_print(stdout, e->names[rival->prediction]);
    }
    putchar('\n');
}

void ls_eval_print(const ls_evaluation *e) {
    const char *prefix = ls_eval_prefix(e);
    int worst[SHOWN];
    if (e->several) printf("%s_macro_f1 %.6f\n", prefix, ls_evaluation_macro_f1(e));
    if (!e->several && e->classes > LS_EVALUATION_TOP)
        printf("%s_top5 %.6f\n", prefix, (double)e->top5 / (double)e->samples);
    if (!e->several) printf("%s_calibration_error %.6f\n", prefix, ls_evaluation_calibration_error(e));
    const int count = find_worst(e, worst);
    puts("\nrecall  precision  samples  class");
    for (int i = 0; i < count; i++) print_class(e, worst[i]);
}

ls_status ls_eval_print_json(const ls_evaluation *e) {
    cJSON *tree = ls_evaluation_json(e, 0);
    ls_status status = ls_json_write_line(stdout, "standard output", tree);
    cJSON_Delete(tree);
    return status;
}
