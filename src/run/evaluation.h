// evaluation.h - an evaluation in detail, as plain data, and evaluation.json: what it says for programs and `train report`.
//
// {"set": "test" | "validation" | "folder",
//  "of": "plain", or "tta": of the outputs that test-time augmentation has averaged (eval.tta)
//  "samples", "loss": mean cross-entropy, "top1",
//  "top5": there are 5 classes at most that the network holds for likelier; absent with fewer than 6 classes
//  "calibration_error": sum over bins of count / samples * |accuracy - confidence|
//  "bins": [{"confidence": mean probability of the prediction, "accuracy", "count"}], 15: the k-th has predictions of a probability in
//      ((k - 1) / 15, k / 15]; confidence and accuracy of an empty one are null
//  "classes": [names],
//  "confusion": [[counts]], a row a true class, a column a predicted one; with more than 200 classes
//  "confusions": [[true, predicted, count]] in its place: those that are not 0, by row
//  "per_class": [{"name", "samples", "recall", "precision"}]; null: of no samples, of no predictions
//  "mistakes": [{"index": in the set, "path": of its file, or null, "label", "prediction": classes by number, "probability": of the
//      prediction, "picture": PNG of at most 64 pixels a side, base64; null where it cannot be one}]: the 24 most confident, of equals
//      the first in the set}
// Sums are of doubles in the order of the set, counts are whole: the same bytes for any number of ranks that compute the same logits.
// Source  Guo et al. 2017, On Calibration of Modern Neural Networks, section 2 (bins and expected calibration error)
#ifndef LS_RUN_EVALUATION_H
#define LS_RUN_EVALUATION_H

#include "base/json.h"
#include "base/status.h"

enum {
    LS_EVALUATION_BINS = 15,
    LS_EVALUATION_TOP = 5,
    LS_EVALUATION_MISTAKES = 24,
    LS_EVALUATION_SIDE = 64,      // of a mistake's picture
    LS_EVALUATION_DENSE_MAX = 200 // classes of a confusion matrix that is written whole
};

typedef struct {
    int64_t count, correct;
    double confidence_sum;
} ls_calibration_bin;

typedef struct {
    int64_t samples, correct, predicted; // pictures of the class; those recognised; pictures taken for it
} ls_class_counts;

typedef struct {
    int label, prediction;
    int64_t count; // more than 0
} ls_confusion;

typedef struct {
    int64_t index;
    int label, prediction;
    double probability;
    char *path;   // NULL: no file
    uint8_t *png; // NULL: none
    size_t png_bytes;
} ls_mistake;

typedef struct {
    const char *set, *of; // constants
    int classes;
    char **names; // of classes
    int64_t samples, correct, top5;
    double loss_sum;
    ls_calibration_bin bins[LS_EVALUATION_BINS];
    ls_class_counts *per_class;
    ls_confusion *confusion; // by label, then prediction
    int64_t confusion_count;
    ls_mistake mistakes[LS_EVALUATION_MISTAKES];
    int mistake_count;
} ls_evaluation;

void ls_evaluation_free(ls_evaluation *evaluation); // NULL is allowed
double ls_evaluation_calibration_error(const ls_evaluation *evaluation);
cJSON *ls_evaluation_json(const ls_evaluation *evaluation, int with_pictures);
LS_CHECKED ls_status ls_evaluation_write(const char *path, const ls_evaluation *evaluation); // atomically

#endif
