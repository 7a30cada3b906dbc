// picture_results.h - what the network makes of each picture of a set that is evaluated, and the evaluation in detail
// (run/evaluation.h) that comes of it. Each picture is one rank's; the rows of all ranks are gathered, so that
// every sum has one order.
//
// A picture's row: label; prediction, the class of the largest logit, of equals the lowest, as accuracy has it; its
// probability, by softmax in double, 0 where that is not a number; the label's place, the number of classes that are
// likelier or as likely and lower; its loss, -log of the label's probability.
#ifndef LS_TRAIN_PICTURE_RESULTS_H
#define LS_TRAIN_PICTURE_RESULTS_H

#include "data/dataset.h"
#include "dist/comm.h"
#include "run/evaluation.h"

typedef struct ls_picture_results ls_picture_results;

// samples: of the set, over all ranks; not all of them need be added.
LS_CHECKED ls_status ls_picture_results_new(int64_t samples, int classes, ls_picture_results **out);
void ls_picture_results_free(ls_picture_results *outcomes); // NULL is allowed
// index: in the set, on this rank alone and once.
void ls_picture_results_add(ls_picture_results *outcomes, int64_t index, int label, const double *logits);
// All rows are on all ranks then. All ranks; once.
LS_CHECKED ls_status ls_picture_results_gather(ls_picture_results *outcomes, ls_comm *comm);
// Mean loss and accuracy over all gathered rows, summed in the order of the set: the same bits for any number of ranks.
void ls_picture_results_mean(const ls_picture_results *outcomes, double *loss, double *accuracy);
// Of all rows, of which there is one at least; without names, paths and pictures.
LS_CHECKED ls_status ls_picture_results_evaluate(const ls_picture_results *outcomes, ls_evaluation **out);
// Names of classes, and of mistakes path and picture, of the set that was evaluated.
LS_CHECKED ls_status ls_picture_results_illustrate(const ls_dataset *dataset, ls_evaluation *evaluation);

// log(sum(exp(logits))); *best: the class of the largest, the first one.
double ls_log_sum(const double *logits, int classes, int *best);

#endif
