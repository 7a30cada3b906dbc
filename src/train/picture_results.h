// picture_results.h - the network's result for each picture of an evaluated set, and the detailed evaluation
// (run/evaluation.h) computed from these results. Each picture is evaluated by one rank. The rows of all ranks are then
// gathered, so that sums are added in the same order for any number of ranks.
//
// The row of a picture has these values:
//   label
//   prediction   the class with the largest logit; among equal logits the lowest class, as for accuracy
//   probability  of the predicted class, by softmax in double; 0 if it is not a number
//   place        number of classes ahead of the label: with a larger logit, or with an equal logit and a lower number
//   loss         -log of the label's probability
// If pictures have several labels (data.labels), the row says whether all labels are right, and its loss is the mean
// binary cross-entropy of the labels. A label is predicted if its logit is positive. Predictions are counted by label.
#ifndef LS_TRAIN_PICTURE_RESULTS_H
#define LS_TRAIN_PICTURE_RESULTS_H

#include "data/dataset.h"
#include "dist/comm.h"
#include "run/evaluation.h"

typedef struct ls_picture_results ls_picture_results;

// Makes room for the results of a set. samples: number of pictures in the set, over all ranks. Not every picture has to
// be added. sets: ls_dataset_label_sets of the data, borrowed.
LS_CHECKED ls_status ls_picture_results_new(
    int64_t samples, int classes, const uint8_t *sets, ls_picture_results **out);
void ls_picture_results_free(ls_picture_results *outcomes); // NULL is allowed
// Adds the result of a picture. index: its number in the set; each picture may be added only once and on one rank.
void ls_picture_results_add(ls_picture_results *outcomes, int64_t index, int label, const double *logits);
// Gives all ranks the rows of all pictures. Collective; call it once.
LS_CHECKED ls_status ls_picture_results_gather(ls_picture_results *outcomes, ls_comm *comm);
// Returns mean loss and accuracy over all gathered rows, added in the order of the set: the same bits for any number of
// ranks.
void ls_picture_results_mean(const ls_picture_results *outcomes, double *loss, double *accuracy);
// Computes the detailed evaluation from all gathered rows (at least one row). The evaluation still lacks the names of
// classes, and the paths and pictures of mistakes (ls_picture_results_illustrate).
LS_CHECKED ls_status ls_picture_results_evaluate(const ls_picture_results *outcomes, ls_evaluation **out);
// Adds the names of the classes, and the path and the picture of each mistake, to the evaluation. dataset: the
// evaluated set.
LS_CHECKED ls_status ls_picture_results_illustrate(const ls_dataset *dataset, ls_evaluation *evaluation);

// Returns log(sum(exp(logits))). *best: the class with the largest logit; among equal logits the lowest class.
double ls_log_sum(const double *logits, int classes, int *best);
// Returns log(1 + exp(-logit)): -log of the probability of a label with this logit.
double ls_label_loss(double logit);

#endif
