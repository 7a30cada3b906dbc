// evaluation.h - the detailed results of an evaluation, as data and as evaluation.json for programs and `train report`.
//
// {"set": "test" | "validation" | "folder",
//  "of": "plain", "tta" if the outputs are averages of test-time augmentation (eval.tta), or "int8" (train eval --int8)
//  "samples", "loss": mean cross-entropy, "top1": share of pictures whose class got the highest probability,
//  "top5": share of pictures whose class got one of the five highest; absent with fewer than 6 classes
//  "calibration_error": sum over bins of count / samples * |accuracy - confidence|
//  "bins": [{"confidence": mean probability of the prediction, "accuracy", "count"}]: 15 bins; bin k has the pictures
//      whose prediction has a probability in ((k - 1) / 15, k / 15]; confidence and accuracy of an empty bin are null
//  "classes": [names],
//  "confusion": [[counts]]: a row for each true class, a column for each predicted class; with more than 200 classes
//  "confusions": [[true, predicted, count]] instead: the counts that are not 0, by row
//  "per_class": [{"name", "samples", "recall", "precision"}]; null: the class has no samples, or no predictions
//  "mistakes": [{"index": number in the set, "path": of its file, or null, "label", "prediction": classes by number,
//      "probability": of the prediction, "picture": PNG of at most 64 pixels a side in base64, or null if it cannot be
//      made}]: the 24 mistakes with the highest probability; of equal ones the first in the set}
// Pictures with several labels (data.labels) have these instead: {"set", "of", "samples",
//  "loss": mean binary cross-entropy over pictures and labels,
//  "exact_match": share of pictures whose labels are all right; a label is predicted if its probability is above 0.5
//  "macro_f1": mean over the labels of F1 = 2 * right / (pictures with the label + predictions); 0 where both are 0
//  "classes", "per_class": as above, of the labels}
// Sums are computed in double, in the order of the set, and counts are integers. Any number of ranks that compute the
// same logits therefore writes the same bytes.
// Source  Guo et al. 2017, On Calibration of Modern Neural Networks, section 2 (bins and expected calibration error)
#ifndef LS_RUN_EVALUATION_H
#define LS_RUN_EVALUATION_H

#include "base/json.h"
#include "base/status.h"

enum {
    LS_EVALUATION_BINS = 15,
    LS_EVALUATION_TOP = 5,
    LS_EVALUATION_MISTAKES = 24,
    LS_EVALUATION_SIDE = 64,      // longest side of a mistake's picture
    LS_EVALUATION_DENSE_MAX = 200 // most classes for which the whole confusion matrix is written
};

typedef struct {
    int64_t count, correct;
    double confidence_sum;
} ls_calibration_bin;

typedef struct {
    int64_t samples, correct, predicted; // pictures of the class; correct ones of these; pictures predicted as it
} ls_class_counts;

typedef struct {
    int label, prediction;
    int64_t count; // greater than 0
} ls_confusion;

typedef struct {
    int64_t index;
    int label, prediction;
    double probability;
    char *path;   // path of the picture's file; NULL: the picture is not a file
    uint8_t *png; // the picture as PNG; NULL: it could not be made
    size_t png_bytes;
} ls_mistake;

typedef struct {
    const char *set, *of; // string constants, see above
    int classes, several; // several: pictures have several labels; bins, confusion and mistakes are then empty
    char **names;         // names of the classes
    int64_t samples, correct, top5;
    double loss_sum;
    ls_calibration_bin bins[LS_EVALUATION_BINS];
    ls_class_counts *per_class;
    ls_confusion *confusion; // sorted by label, then by prediction
    int64_t confusion_count;
    ls_mistake mistakes[LS_EVALUATION_MISTAKES];
    int mistake_count;
} ls_evaluation;

void ls_evaluation_free(ls_evaluation *evaluation); // NULL is allowed
double ls_evaluation_calibration_error(const ls_evaluation *evaluation);
double ls_evaluation_macro_f1(const ls_evaluation *evaluation);
cJSON *ls_evaluation_json(const ls_evaluation *evaluation, int with_pictures);
// Writes evaluation.json, with pictures, atomically.
LS_CHECKED ls_status ls_evaluation_write(const char *path, const ls_evaluation *evaluation);

#endif
