// op_norm.h - batch normalisation, fused with the operators after it: an added residual, an activation, a max pooling.
//   forward    m[c] = mean, v[c] = biased variance of src over n,h,w (count = N*H*W);  r[c] = 1/sqrt(v + eps)
//              y = (src - m) * r * gamma + beta
//              residual: y += residual;  relu: y = max(y, 0)
//              another activation: y = f(y) (op_elementwise.h; without residual; f(0) = 0)
//              adds_last: y += residual after the relu instead of before it
//              dst = y
//              saved[0][c] = m, saved[1][c] = r
//              sum_mean[c] += m;  sum_var[c] += v * count/(count-1)
//              The last two add this micro-batch's statistics to the running estimate's sums. Both arguments are absent
//              when the forward pass runs a second time for the backward pass.
//   inference  the same with m = running_mean, v = running_var; nothing is saved
//   backward   g = grad_dst (+ grad_dst2);  relu: g = 0 where dst <= 0;  grad_residual = g
//              another activation: g *= f'(y). y = (src - m) * r * gamma + beta is computed again, so y need not be
//              stored.
//              relu without a residual, with BETA present: a device may set g = 0 where this y <= 0 instead of reading
//              dst, and it must do so when DST is absent. The two differ only where a positive y rounds to 0 in
//              storage.
//              grad_beta += sum g;  grad_gamma += sum g * xhat, xhat = (src - m) * r
//              grad_src = gamma * r * (g - sum(g)/count - xhat * sum(g*xhat)/count)
//              stored: the forward pass was an inference. MEAN and VAR give m and r as in inference. They do not depend
//              on src, so grad_src = gamma * r * g. Not with pooling, and not in two halves (see below).
//
// adds_last needs a residual and relu and excludes pooling; the device's table must have LS_FUSES_RELU_ADD. It exists
// for forward and inference. The backward pass is the same as with relu alone: the residual's gradient is GRAD_DST,
// which the caller already has. BETA is present and DST is absent, because the forward DST is not the relu's output.
//
// With pool_kernel > 0 a max pooling follows; the device's table must have LS_FUSES_NORM_POOL or
// LS_FUSES_NORM_POOL_2X2, and relu is required. dst, grad_dst and grad_dst2 then have the pooled shape; the map before
// pooling is not stored. Windows compare y before it is rounded to storage. index is as in op_pool.h (LS_POOL_NONE_U8:
// relu clipped the winner). It has one uint8 for each element of dst, in the device's own layout. Forward writes the
// index. Backward reads it instead of dst and gives each gradient to its winner. Inference has no index.
//
// Forward and backward also exist as two halves each, split at the sums over n,h,w, for batch norm over several ranks.
// Between the halves the caller adds the sums of all ranks (LS_F64, ls_norm_sums_count values). Everything else is as
// above, with the count from the sums:
//   sums            sums = { sum src, sum src^2, count }
//   apply           m = sum src / count, v = sum src^2 / count - m^2 (at least 0); then as forward
//   backward sums   sums = { sum g, sum g * (src - m), count }
//                   grad_beta += sum g; grad_gamma += r * sum g * (src - m). Both cover this rank only: like all
//                   gradients, they are summed over ranks later.
//   backward apply  grad_src, grad_residual
// The difference sum src^2 / count - m^2 loses digits where |m| is far above sqrt(v). In double, the loss is 2^-53 *
// m^2/v of v. Storage in fp32 separates values by 2^-24 * |m|, so v below 2^-48 * m^2 has no meaning, and even there v
// is right to 2^-5. The advantage over sums about each rank's own mean: one plain sum over ranks is enough, and a rank
// without samples adds zeros.
//
// Shapes  src, residual, dst and their gradients (N,C,H,W), storage; all per-channel arrays fp32 (C)
//         saved: float[2][C] in the device's vector layout: two vectors of param_elements(vector C) each, the second
//         directly after the first. The device decides what the padding holds.
//         sums: double[2][C] in the same layout, with padding 0, followed by one more element, the count
//         backward: SAVED is absent with stored; MEAN and VAR are absent without it. GRAD_GAMMA or GRAD_BETA may be
//         absent and is then not computed. DST is read only with relu. BETA is read with other activations, and
//         optionally with relu. With relu but no pooling, DST or BETA may be absent, but not both. GRAD_DST2 is read
//         only with two_grads. GRAD_RESIDUAL is written only with residual. Unused arguments are absent. Arguments do
//         not overlap.
// Types   arithmetic on elements fp32 (ref: double). saved is rounded to fp32; so are the values that are added to
//         sum_*, grad_gamma and grad_beta (ref: only the results of these additions)
// Rules   count is at least 2 in training without stored, because the variance of one value is undefined. This also
//         holds for one rank's half, because that rank can be the only one with samples. ls_op_check asserts it.
// Source  torch.nn.BatchNorm2d, torch.nn.SyncBatchNorm; Ioffe and Szegedy 2015
#ifndef LS_DEVICE_OP_NORM_H
#define LS_DEVICE_OP_NORM_H

#include "base/shape.h"
#include "config/activation.h"

typedef struct {
    ls_nchw shape;
    float eps;
    ls_activation activation;               // applied after the residual is added; with adds_last, before
    float parameter;                        // of the activation
    int residual;                           // forward, inference: RESIDUAL is read; backward: GRAD_RESIDUAL is written
    int adds_last;                          // forward, inference: the residual is added after the activation
    int two_grads;                          // backward: GRAD_DST2 is added to GRAD_DST
    int stored;                             // backward: the forward pass was an inference; MEAN and VAR replace SAVED
    int pool_kernel, pool_stride, pool_pad; // 0, 0, 0: no pooling; a window has at most 254 elements
    ls_nchw pooled;                         // shape of dst, with pooling
    ls_dtype storage;
} ls_norm_attr;

enum {
    LS_NORM_FORWARD_SRC,
    LS_NORM_FORWARD_RESIDUAL,
    LS_NORM_FORWARD_GAMMA,
    LS_NORM_FORWARD_BETA,
    LS_NORM_FORWARD_SAVED,
    LS_NORM_FORWARD_SUM_MEAN,
    LS_NORM_FORWARD_SUM_VAR,
    LS_NORM_FORWARD_DST,
    LS_NORM_FORWARD_INDEX,
    LS_NORM_FORWARD_ARGS
};
enum {
    LS_NORM_INFERENCE_SRC,
    LS_NORM_INFERENCE_RESIDUAL,
    LS_NORM_INFERENCE_GAMMA,
    LS_NORM_INFERENCE_BETA,
    LS_NORM_INFERENCE_MEAN,
    LS_NORM_INFERENCE_VAR,
    LS_NORM_INFERENCE_DST,
    LS_NORM_INFERENCE_ARGS
};
enum {
    LS_NORM_BACKWARD_SRC,
    LS_NORM_BACKWARD_DST,
    LS_NORM_BACKWARD_GRAD_DST,
    LS_NORM_BACKWARD_GRAD_DST2,
    LS_NORM_BACKWARD_GAMMA,
    LS_NORM_BACKWARD_BETA,
    LS_NORM_BACKWARD_SAVED,
    LS_NORM_BACKWARD_GRAD_SRC,
    LS_NORM_BACKWARD_GRAD_RESIDUAL,
    LS_NORM_BACKWARD_GRAD_GAMMA,
    LS_NORM_BACKWARD_GRAD_BETA,
    LS_NORM_BACKWARD_INDEX,
    LS_NORM_BACKWARD_MEAN,
    LS_NORM_BACKWARD_VAR,
    LS_NORM_BACKWARD_ARGS
};
// Arguments of the halves. APPLY, BACKWARD_SUMS and BACKWARD_APPLY take the arguments of the whole operator, then SUMS.
// In BACKWARD_SUMS, GRAD_SRC and GRAD_RESIDUAL are absent, and GAMMA is absent unless BETA is present. In
// BACKWARD_APPLY, GRAD_GAMMA and GRAD_BETA are absent.
enum { LS_NORM_SUMS_SRC, LS_NORM_SUMS_SUMS, LS_NORM_SUMS_ARGS };
enum { LS_NORM_APPLY_SUMS = LS_NORM_FORWARD_ARGS, LS_NORM_APPLY_ARGS };
enum { LS_NORM_BACKWARD_SUMS_SUMS = LS_NORM_BACKWARD_ARGS, LS_NORM_BACKWARD_SUMS_ARGS };
enum { LS_NORM_BACKWARD_APPLY_SUMS = LS_NORM_BACKWARD_SUMS_SUMS, LS_NORM_BACKWARD_APPLY_ARGS };

// Number of doubles in sums. vector: elements of a per-channel array in the device's layout.
static inline size_t ls_norm_sums_count(size_t vector) {
    return 2 * vector + 1;
}

#endif
