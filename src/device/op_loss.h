// op_loss.h - the loss: softmax cross-entropy of the logits, or binary cross-entropy for pictures with several labels,
// and its gradient; both also as focal loss. Also the head: the end of a network, from the last map to the loss, as one
// operator.
// Loss
//   p = softmax(z), z = logits[n], times `scale` where scale is not 0 (devices with LS_FUSES_SCALE)
//   target t[k] = (1 - smoothing) * ((1 - m) * [k == label] + m * [k == partner]) + smoothing / K,
//     m = mix[n] / 65536 with `mixed`, else 0; partner: the label of sample N-1-n
//     with `weighted`, times weights[k]
//   loss[n] = -sum_k t[k] * log p[k]      (torch.nn.CrossEntropyLoss(weight, label_smoothing), summed, not averaged)
//   grad_logits[n,k] = (p[k] * sum_j t[j] - t[k]) * LS_GRADIENT_SCALE (* scale)  for n < micro.count, else 0
//     With teacher_share, loss and gradient are multiplied by 1 - teacher_share; the teacher's part follows
//     (op_distill.h). The head has no teacher.
//     The mean over the window is taken later. Without weights the sum of the targets is 1.
//     Where loss[n] is not finite, all of grad_logits[n] is NaN, even where the formula gives numbers (log p of the
//     label is -inf). So no rank applies an update whose loss is not finite.
//   result.loss_sum += LS_LOSS_STEP(sum of loss[n] over n < count)
//   result.correct  += argmax of z == label (the lowest index wins a tie)
//   result.count    += count
//   result.bad      += loss[n] is not finite
//   Labels of samples n >= count are read only as partners.
// Focal loss (focal_gamma > 0): an easy class counts less. With q = 1 - p and g = focal_gamma,
//   f(p) = q^g * -log p  takes the place of -log p, and  s(p) = -p * f'(p) = q^g * (1 + g * p * (-log p / q))
//   loss[n] = sum_k t[k] * f(p[k])
//   grad_logits[n,k] = (p[k] * sum_j t[j] * s(p[j]) - t[k] * s(p[k])) * LS_GRADIENT_SCALE (* scale)
// Several labels (`several`): a label is the number of a row of `sets`, which has a 1 for each label of the picture.
//   p[k] = sigmoid(z[k]), with f as above (-log p where focal_gamma is 0)
//   t[k] = (1 - smoothing) * ((1 - m) * sets[label,k] + m * sets[partner,k]) + smoothing / 2
//   loss[n] = 1/K * sum_k (w[k] * t[k] * f(p[k]) + (1 - t[k]) * f(1 - p[k])), w[k] = weights[k], or 1 unless `weighted`
//     (torch.nn.BCEWithLogitsLoss(pos_weight), the mean over the labels; torchvision.ops.sigmoid_focal_loss, alpha -1)
//   grad_logits[n,k] = 1/K * ((1 - t[k]) * (p * s(1 - p)) - w[k] * t[k] * (1 - p) * s(p)) * LS_GRADIENT_SCALE (* scale)
//   result.correct  += all labels are right: (z[k] > 0) == sets[label,k] for all k
// Shapes  logits (N,K,1,1) activation; labels int32[N], 0..K-1, with several 0..rows-1; micro: one ls_micro_input;
//         sample: ls_augment_sample[N] with its field mix, absent unless mixed; weights: float[K], 0 or more, absent
//         unless weighted; sets: uint8[rows,K], absent unless several; state: one ls_train_state (loss_scale is read);
//         result: one ls_micro_result, accumulated; grad_logits (N,K,1,1) activation, absent when training = 0
// Types   logits, grad_logits: storage; exponentials and sums fp32 (ref: double); loss_sum double, in an order that
//         depends on n only
// Head (training, devices with LS_FUSES_HEAD; neither focal nor several): global pooling, a linear layer and the loss,
// and the gradients of all three.
//   pooled[n,c]    = mean of src[n,c], or with max_pool its maximum (the first of equal elements, op_pool.h),
//                    rounded to storage
//   logits[n,k]    = bias[k] + sum_c pooled[n,c] * weight[k,c]; the loss uses them before rounding
//   grad_pooled[n,c] = sum_k grad_logits[n,k] * weight[k,c], from gradients before rounding
//   grad_src       = an equal share of grad_pooled for each pixel, or all of it for the maximum (overwrites)
// Shapes  those above, and: src (N,C,H,W), any that ls_head_fits; weight (K,C,1,1); bias (K), absent without has_bias;
//         pooled (N,C,1,1), absent where H = W = 1, because src is then pooled already; grad_src as src. The head
//         writes the logits.
// Types   as in the loss; the others in storage
#ifndef LS_DEVICE_OP_LOSS_H
#define LS_DEVICE_OP_LOSS_H

#include "config/augmentation.h"
#include "base/shape.h"

typedef struct {
    ls_nchw logits; // (N,K,1,1)
    float smoothing;
    int training;
    ls_dtype storage;
    int mixed;           // targets are mixed with those of partner samples (mixup, cutmix in config/augmentations.def)
    int weighted;        // targets are multiplied by the weights of their classes
    int several;         // pictures have several labels; without a teacher
    float focal_gamma;   // 0: no focal loss; without a teacher
    float mean_of;       // argument of LS_GRADIENT_SCALE (op_update.h)
    float scale;         // factor of the logits; 0: none
    float teacher_share; // part of the loss that op_distill.h computes; 0: there is no teacher
    ls_nchw src;         // head: the map that is pooled, (N,C,H,W)
    int max_pool;        // head: pool with the maximum, else with the mean
    int has_bias;        // head
} ls_loss_attr;

// Whether the head operator can compute this map and number of classes. On a GPU, one block computes a sample's map,
// pooled channels and logits. So the classes must be few, and the weights must fit a cache, because each block reads
// them all.
enum { LS_HEAD_CLASSES = 32, LS_HEAD_CHANNELS = 1024, LS_HEAD_WEIGHTS = 1 << 14, LS_HEAD_MAP = 1 << 16 };
static inline int ls_head_fits(ls_nchw src, int classes) {
    return classes <= LS_HEAD_CLASSES && src.c <= LS_HEAD_CHANNELS && classes * src.c <= LS_HEAD_WEIGHTS &&
           (int64_t)src.c * src.h * src.w <= LS_HEAD_MAP;
}

typedef struct {       // host -> device with every micro-batch
    int32_t count;     // number of samples that count; the others only fill the batch
    uint32_t update;   // number of this update, from 0
    uint64_t position; // position of sample 0 in its window, counted over all ranks
} ls_micro_input;

// Rounds a micro-batch's loss to a multiple of 2^-24. Sums of such losses are exact up to 2^29 in any order, so they
// depend neither on the number of ranks nor on where a checkpoint splits the run. A macro, because host and device code
// use it.
#define LS_LOSS_STEP(sum) (rint((sum)*0x1p24) * 0x1p-24)

typedef struct { // device -> host; sums since UPDATE_BEGIN or the host zeroed it
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
    LS_LOSS_SETS,
    LS_LOSS_ARGS
};
// The head takes the arguments of the loss and these:
enum { LS_HEAD_SRC = LS_LOSS_ARGS, LS_HEAD_WEIGHT, LS_HEAD_BIAS, LS_HEAD_POOLED, LS_HEAD_GRAD_SRC, LS_HEAD_ARGS };

#endif
