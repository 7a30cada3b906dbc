#include "train/picture_results.h"

#include <math.h>
#include <stdlib.h>
#include "base/memory.h"
#include "data/thumbnail.h"

// The integers in the row of a picture. A row of zeros means that another rank has the picture, or no rank, so adding
// the rows of all ranks gathers them.
typedef struct {
    int32_t label, prediction; // classes, counted from 1; 0: not on this rank
    int32_t place, unused;
} row_classes;

typedef struct {
    double probability, loss;
} row_values;

struct ls_picture_results {
    int64_t samples;
    int classes;
    const uint8_t *sets;     // rows of labels; NULL: a picture has one label
    ls_class_counts *counts; // by label, of this rank's pictures until they are gathered; NULL without sets
    row_classes *of;         // by index of the picture
    row_values *values;
};

ls_status ls_picture_results_new(int64_t samples, int classes, const uint8_t *sets, ls_picture_results **out) {
    ls_picture_results *o;
    LS_TRY(ls_try_new(&o, 1, sizeof *o, "outcomes of an evaluation"));
    *o = (ls_picture_results){ .samples = samples, .classes = classes, .sets = sets };
    if (sets) o->counts = ls_new(classes, sizeof *o->counts, "counts of %d labels", classes);
    ls_status status = ls_try_new(&o->of, samples, sizeof *o->of, "outcomes of %lld pictures", (long long)samples);
    LS_THEN(
        status, ls_try_new(&o->values, samples, sizeof *o->values, "outcomes of %lld pictures", (long long)samples));
    return LS_GIVE_OR_FREE(status, o, out, ls_picture_results_free);
}

void ls_picture_results_free(ls_picture_results *o) {
    if (!o) return;
    free(o->of);
    free(o->values);
    free(o->counts);
    free(o);
}

double ls_log_sum(const double *logits, int classes, int *best) {
    double sum = 0;
    *best = 0;
    for (int c = 1; c < classes; c++)
        if (logits[c] > logits[*best]) *best = c;
    for (int c = 0; c < classes; c++) sum += exp(logits[c] - logits[*best]);
    return logits[*best] + log(sum);
}

double ls_label_loss(double logit) {
    return (logit < 0 ? -logit : 0) + log1p(exp(-fabs(logit)));
}

static void add_labels(ls_picture_results *o, int64_t index, int label, const double *logits) {
    const uint8_t *set = o->sets + (int64_t)label * o->classes;
    double loss = 0;
    int is_right = 1;
    for (int k = 0; k < o->classes; k++) {
        const int predicted = logits[k] > 0;
        loss += ls_label_loss(set[k] ? logits[k] : -logits[k]);
        is_right &= predicted == set[k];
        o->counts[k].samples += set[k];
        o->counts[k].predicted += predicted;
        o->counts[k].correct += predicted && set[k];
    }
    o->of[index] = (row_classes){ label + 1, is_right ? label + 1 : 0, 0, 0 };
    o->values[index] = (row_values){ 0, loss / o->classes };
}

// Returns the number of classes that the logits place ahead of the label. A class whose logit is not a number counts as
// ahead.
static int place_of(const double *logits, int classes, int label) {
    const double own = logits[label];
    int place = 0;
    for (int c = 0; c < classes; c++) place += c != label && !(logits[c] < own) && !(logits[c] == own && label < c);
    return place;
}

void ls_picture_results_add(ls_picture_results *o, int64_t index, int label, const double *logits) {
    int best;
    if (o->sets) {
        add_labels(o, index, label, logits);
        return;
    }
    const double log_sum = ls_log_sum(logits, o->classes, &best), probability = exp(logits[best] - log_sum);
    o->of[index] = (row_classes){ label + 1, best + 1, place_of(logits, o->classes, label), 0 };
    o->values[index] = (row_values){ probability >= 0 ? probability : 0, log_sum - logits[label] };
}

ls_status ls_picture_results_gather(ls_picture_results *o, ls_comm *comm) {
    const int64_t numbers = sizeof *o->of / sizeof(int32_t), values = sizeof *o->values / sizeof(double);
    const int64_t counts = o->sets ? o->classes * (int64_t)(sizeof *o->counts / sizeof(int64_t)) : 0;
    if (counts) LS_TRY(ls_comm_allreduce(comm, o->counts, counts, LS_I64, LS_REDUCE_SUM));
    LS_TRY(ls_comm_allreduce(comm, o->of, o->samples * numbers, LS_I32, LS_REDUCE_SUM));
    return ls_comm_allreduce(comm, o->values, o->samples * values, LS_F64, LS_REDUCE_SUM);
}

void ls_picture_results_mean(const ls_picture_results *o, double *loss, double *accuracy) {
    double sum = 0;
    int64_t count = 0, correct = 0;
    for (int64_t i = 0; i < o->samples; i++) {
        if (!o->of[i].label) continue;
        count++;
        correct += o->of[i].label == o->of[i].prediction;
        sum += o->values[i].loss;
    }
    *loss = sum / (double)count;
    *accuracy = (double)correct / (double)count;
}

// --- the evaluation --------------------------------------------------------------------------------

static void count_bin(ls_evaluation *e, double probability, int is_correct) {
    const int last = LS_EVALUATION_BINS - 1, bin = (int)ceil(probability * LS_EVALUATION_BINS) - 1;
    ls_calibration_bin *b = &e->bins[bin < 0 ? 0 : bin > last ? last : bin];
    b->count++;
    b->correct += is_correct;
    b->confidence_sum += probability;
}

// Inserts a mistake into the list of the most confident ones. Among equal probabilities, earlier calls stay ahead.
static void keep_mistake(ls_evaluation *e, const ls_mistake *mistake) {
    int at = e->mistake_count;
    if (at < LS_EVALUATION_MISTAKES) e->mistake_count++;
    for (; at > 0 && mistake->probability > e->mistakes[at - 1].probability; at--)
        if (at < LS_EVALUATION_MISTAKES) e->mistakes[at] = e->mistakes[at - 1];
    if (at < LS_EVALUATION_MISTAKES) e->mistakes[at] = *mistake;
}

static void count(ls_evaluation *e, int64_t index, const row_classes *of, const row_values *values) {
    const int label = of->label - 1, prediction = of->prediction - 1, is_correct = label == prediction;
    e->samples++;
    e->correct += is_correct;
    e->top5 += of->place < LS_EVALUATION_TOP;
    e->loss_sum += values->loss;
    if (e->several) return;
    e->per_class[label].samples++;
    e->per_class[label].correct += is_correct;
    e->per_class[prediction].predicted++;
    count_bin(e, values->probability, is_correct);
    if (is_correct) return;
    keep_mistake(e,
        &(ls_mistake){ .index = index, .label = label, .prediction = prediction, .probability = values->probability });
}

static int compare_confusions(const void *left, const void *right) {
    const ls_confusion *a = left, *b = right;
    if (a->label != b->label) return a->label < b->label ? -1 : 1;
    return (a->prediction > b->prediction) - (a->prediction < b->prediction);
}

// Makes a sorted list of counts, because a matrix of 65536 classes would not fit into memory.
static ls_status count_confusions(const ls_picture_results *o, ls_evaluation *e) {
    int64_t pairs = 0, kept = 0;
    if (e->several) return LS_SUCCESS;
    LS_TRY(ls_try_new(&e->confusion, e->samples, sizeof *e->confusion, "confusion of %d classes", e->classes));
    for (int64_t i = 0; i < o->samples; i++)
        if (o->of[i].label) e->confusion[pairs++] = (ls_confusion){ o->of[i].label - 1, o->of[i].prediction - 1, 1 };
    qsort(e->confusion, (size_t)pairs, sizeof *e->confusion, compare_confusions);
    for (int64_t i = 1; i < pairs; i++) {
        if (compare_confusions(&e->confusion[kept], &e->confusion[i]) == 0)
            e->confusion[kept].count++;
        else
            e->confusion[++kept] = e->confusion[i];
    }
    e->confusion_count = kept + 1;
    return LS_SUCCESS;
}

ls_status ls_picture_results_evaluate(const ls_picture_results *o, ls_evaluation **out) {
    ls_evaluation *e = ls_new(1, sizeof *e, "evaluation");
    *e = (ls_evaluation){ .set = "", .of = "", .classes = o->classes, .several = o->sets != NULL };
    e->per_class = ls_new(o->classes, sizeof *e->per_class, "counts of %d classes", o->classes);
    if (o->sets) memcpy(e->per_class, o->counts, (size_t)o->classes * sizeof *o->counts);
    for (int64_t i = 0; i < o->samples; i++)
        if (o->of[i].label) count(e, i, &o->of[i], &o->values[i]);
    ls_status status = count_confusions(o, e);
    return LS_GIVE_OR_FREE(status, e, out, ls_evaluation_free);
}

// --- names and pictures ----------------------------------------------------------------------------

static ls_status illustrate(const ls_dataset *dataset, ls_mistake *m) {
    char name[LS_TEXT_BYTES];
    ls_dataset_sample_name(dataset, m->index, name, sizeof name);
    if (name[0]) m->path = ls_new_text(name);
    return ls_thumbnail(dataset, m->index, LS_EVALUATION_SIDE, &m->png, &m->png_bytes);
}

ls_status ls_picture_results_illustrate(const ls_dataset *dataset, ls_evaluation *e) {
    e->names = ls_new(e->classes, sizeof *e->names, "names of %d classes", e->classes);
    for (int k = 0; k < e->classes; k++) e->names[k] = ls_new_text(ls_dataset_class(dataset, k));
    for (int i = 0; i < e->mistake_count; i++) LS_TRY(illustrate(dataset, &e->mistakes[i]));
    return LS_SUCCESS;
}
