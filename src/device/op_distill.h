// op_distill.h - the part of the loss that comes from a teacher, another network that has seen the same pictures. It
// runs after the loss (op_loss.h), which has computed the other part.
//   p = softmax(z / T), z = logits[n];  q = softmax(u / T), u = teacher[n];  T = temperature
//   loss[n] = share * T^2 * sum_k q[k] * (log q[k] - log p[k])     (summed over samples, not averaged)
//   grad_logits[n,k] += share * T * (p[k] - q[k]) * LS_GRADIENT_SCALE  for n < micro.count, else unchanged
//     Where loss[n] is not finite, all of grad_logits[n] becomes NaN, as in the loss.
//   result.loss_sum += LS_LOSS_STEP(sum of loss[n] over n < count)
//   result.bad      += loss[n] is not finite, and the loss before it was
//   result.correct and result.count are those of the loss.
// Shapes  logits, teacher, grad_logits (N,K,1,1) activations; micro: one ls_micro_input; state: one ls_train_state
//         (loss_scale is read); result: one ls_micro_result, accumulated
// Types   as in the loss
// Source  Hinton, Vinyals and Dean, "Distilling the knowledge in a neural network", 2015, section 2. T^2 keeps the size
//         of the gradient, which falls as 1/T^2.
#ifndef LS_DEVICE_OP_DISTILL_H
#define LS_DEVICE_OP_DISTILL_H

#include "base/shape.h"

typedef struct {
    ls_nchw logits; // (N,K,1,1)
    float temperature;
    float share; // of the loss
    ls_dtype storage;
    float mean_of; // argument of LS_GRADIENT_SCALE (op_update.h)
} ls_distill_attr;

enum {
    LS_DISTILL_LOGITS,
    LS_DISTILL_TEACHER,
    LS_DISTILL_MICRO,
    LS_DISTILL_STATE,
    LS_DISTILL_RESULT,
    LS_DISTILL_GRAD_LOGITS,
    LS_DISTILL_ARGS
};

#endif
