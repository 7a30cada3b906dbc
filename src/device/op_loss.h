// op_loss.h - softmax cross-entropy of the logits, and its gradient.
//   p = softmax(logits[n]);  target t[k] = (1 - smoothing) * ((1 - m) * [k == label] + m * [k == partner]) + smoothing / K
//     m = mix[n] / 65536 with `mixed`, else 0; partner: the label of sample N-1-n
//     with `weighted` times weights[k]
//   loss[n] = -sum_k t[k] * log p[k]      (torch.nn.CrossEntropyLoss(weight, label_smoothing), summed, not averaged)
//   grad_logits[n,k] = (p[k] * sum_j t[j] - t[k]) * LS_GRADIENT_SCALE  for n < micro.count, else 0 (the mean over the
//     window comes later); without weights the targets' sum is 1
//     Where loss[n] is not finite all of grad_logits[n] is NaN, also where the formula gives numbers (log p of the
//     label is -inf): so that no rank applies an update whose loss is not finite.
//   result.loss_sum += sum of loss[n] over n < count
//   result.correct  += argmax == label (the lowest index wins a tie)
//   result.count    += count
//   result.bad      += loss[n] is not finite
//   Labels of samples from count on are not read, but as partners.
// Shapes  logits (N,K,1,1) activation; labels int32[N], 0..K-1 (checked by the loader); micro: one ls_micro_input;
//         sample: ls_augment_sample[N], with its field mix; absent unless mixed; weights: float[K], 0 or more; absent
//         unless weighted;
//         state: one ls_train_state (loss_scale is read); result: one ls_micro_result, accumulated;
//         grad_logits (N,K,1,1) activation, absent when training = 0
// Types   logits, grad_logits: storage; exponentials and sums fp32 (ref: double); loss_sum double, in an order that n decides
#ifndef LS_DEVICE_OP_LOSS_H
#define LS_DEVICE_OP_LOSS_H

#include "base/augmentation.h"

typedef struct {
    ls_nchw logits; // (N,K,1,1)
    float smoothing;
    int training;
    ls_dtype storage;
    int mixed;     // pictures and targets are mixed with those of partners (op_augment.h)
    int weighted;  // targets are multiplied by the weights of their classes
    float mean_of; // of LS_GRADIENT_SCALE (op_update.h)
} ls_loss_attr;

typedef struct {       // host -> device with every micro-batch
    int32_t count;     // samples that are real; the rest of the batch is ignored
    uint32_t update;   // number of this update, from 0
    uint64_t position; // of sample 0 in its window, counted over all ranks
} ls_micro_input;

typedef struct { // device -> host, sums since it was zeroed
    double loss_sum;
    int64_t correct, count, bad;
} ls_micro_result;

enum {
    LS_LOSS_LOGITS,
    LS_LOSS_LABELS,
    LS_LOSS_MICRO,
    LS_LOSS_STATE,
    LS_LOSS_RESULT,
    LS_LOSS_GRAD_LOGITS,
    LS_LOSS_SAMPLE,
    LS_LOSS_WEIGHTS,
    LS_LOSS_ARGS
};

#endif
