// class_weights.h - train.class_weights: class weights in the loss, and the divisor of a window's mean loss.
//
// Like torch.nn.CrossEntropyLoss(weight, reduction="mean"), the mean over the samples of a window is
//   sum of loss[n] / sum of w[n]
// with loss[n], m and partner as in device/op_loss.h and w[n] = (1-m) * weights[label] + m * weights[partner]. Both
// sums cover the whole window, on all ranks. Every rank computes the sum of w[n] by itself and in the same order: the
// samples of a window follow from (seed, epoch), and their labels are known. A sum of 0 becomes 1; the gradient is then
// 0.
//
// With several labels a picture (data.labels), weights are those of positive targets (device/op_loss.h), as pos_weight
// of torch.nn.BCEWithLogitsLoss. The divisor is the number of samples, and balanced means (N - N[k]) / N[k].
//
// With train.class_weights = balanced, weights[k] = N / (C * N[k]). N[k] is the number of training samples of class k,
// N their sum, and C the number of classes with samples. A class without samples has weight 0.
#ifndef LS_TRAIN_CLASS_WEIGHTS_H
#define LS_TRAIN_CLASS_WEIGHTS_H

#include "data/loader.h"

typedef struct ls_class_weights ls_class_weights;

// Makes the class weights of train.class_weights; *out is NULL without that option. `dataset` holds the training
// pictures; both it and `balance`, which may be NULL, are borrowed. LS_USAGE: the list does not have one number from 0
// to 1e6 for each class, or all are 0.
LS_CHECKED ls_status ls_class_weights_new(
    const ls_config *cfg, const ls_dataset *dataset, const ls_balance *balance, ls_class_weights **out);
void ls_class_weights_free(ls_class_weights *weights);                 // NULL is allowed
const float *ls_class_weights_values(const ls_class_weights *weights); // one weight for each class
// Returns the sum of the weights w[n] of all samples in a window, over all ranks: the divisor of its mean loss.
double ls_class_weights_sum(ls_class_weights *weights, const ls_batches *batches, int64_t epoch, int64_t window);

#endif
