// class_weights.h - train.class_weights: the weight of each class in the loss, and what the mean over a window
// divides by.
//
// As torch.nn.CrossEntropyLoss(weight, reduction="mean"), the mean over the samples of a window is
//   sum of loss[n] / sum of w[n],   loss[n] as device/op_loss.h has it, w[n] = (1-m) * weights[label] + m * weights[partner]
// over the whole window, on all ranks: which samples a window has follows from (seed, epoch), and their labels are
// known, so that every rank adds up all w[n] in their order. A sum of 0 counts as 1: the gradient is 0 then.
//   balanced  weights[k] = N / (C * N[k]); N[k]: training samples of class k, N: of all, C: classes that have some; the weight of
//             a class without samples is 0
#ifndef LS_TRAIN_CLASS_WEIGHTS_H
#define LS_TRAIN_CLASS_WEIGHTS_H

#include "data/loader.h"

typedef struct ls_class_weights ls_class_weights;

// *out is NULL without train.class_weights. dataset, of training pictures, is borrowed. LS_USAGE: other weights than
// one a class.
LS_CHECKED ls_status ls_class_weights_new(const ls_config *cfg, const ls_dataset *dataset, ls_class_weights **out);
void ls_class_weights_free(ls_class_weights *weights);                 // NULL is allowed
const float *ls_class_weights_values(const ls_class_weights *weights); // one a class
// Sum of w[n] over a window.
double ls_class_weights_sum(ls_class_weights *weights, const ls_batches *batches, int64_t epoch, int64_t window);

#endif
