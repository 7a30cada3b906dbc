// op_norm.h - batch normalisation fused with what follows it: an added residual, a ReLU or GELU, a max pooling.
//   forward    m[c] = mean, v[c] = biased variance of src over n,h,w (count = N*H*W);  r[c] = 1/sqrt(v + eps)
//              y = (src - m) * r * gamma + beta
//              residual: y += residual;  relu: y = max(y, 0);  gelu: y = gelu(y) (op_elementwise.h; without residual)
//              adds_last: y += residual behind the relu instead of before it
//              dst = y
//              saved[0][c] = m, saved[1][c] = r
//              sum_mean[c] += m;  sum_var[c] += v * count/(count-1)  (statistics of this micro-batch, for the running
//              estimate; both absent when the forward pass is computed a second time for the backward pass)
//   inference  the same with m = running_mean, v = running_var; nothing saved
//   backward   g = grad_dst (+ grad_dst2);  relu: g = 0 where dst <= 0;  grad_residual = g
//              gelu: g *= gelu'(y), y = (src - m) * r * gamma + beta computed again, so that y need not be stored
//              relu, where no residual was added and BETA is there: a device may take g = 0 where that y <= 0 instead of
//              reading dst (the two differ only where a positive y rounds to 0 in storage), and must where there is no dst
//              grad_beta += sum g;  grad_gamma += sum g * xhat, xhat = (src - m) * r
//              grad_src = gamma * r * (g - sum(g)/count - xhat * sum(g*xhat)/count)
//              stored: the forward pass was an inference. m and r are made of MEAN and VAR, as inference makes them,
//              and do not depend on src: grad_src = gamma * r * g. Without pooling, and not cut in two
//
// adds_last goes forward, with a residual and relu, without pooling, where the device's table has LS_FUSES_RELU_ADD. Backward is that of
// relu alone: what the residual's gradient is, the caller has as GRAD_DST; and with BETA, without DST, as the forward DST is not the relu's.
//
// With pool_kernel > 0 (where the device's table has LS_FUSES_NORM_POOL; relu is required) a max pooling follows: dst,
// grad_dst and grad_dst2 have the pooled shape, the activation itself is never stored, and index has of each window
// which element won, as op_pool.h does (LS_POOL_NONE_U8 where relu clipped the winner); windows compare y before it is
// rounded to storage. The index is a uint8 for each element of dst in the device's own layout: forward writes it,
// backward reads it instead of dst and gives each gradient to its winner. Inference has no index.
//
// Forward and backward also exist cut in two at the sums over n,h,w, for batch norm over several ranks:
// between the halves the caller adds the sums of all ranks (LS_F64, ls_norm_sums_count values).
// All else is as above, with the count that the sums bring:
//   sums            sums = { sum src, sum src^2, count }
//   apply           m = sum src / count, v = sum src^2 / count - m^2 (at least 0); from there on as forward
//   backward sums   sums = { sum g, sum g * (src - m), count }
//                   grad_beta += sum g;  grad_gamma += r * sum g * (src - m)  (of this rank alone: like all gradients
//                   they are summed over ranks later)
//   backward apply  grad_src, grad_residual
// Whole sums of squares cancel where |m| is far above sqrt(v). In double that costs 2^-53 * m^2/v of v; fp32 storage
// separates values by 2^-24 * |m|, so v below 2^-48 * m^2 means nothing, and even there v is right to 2^-5. Unlike
// sums about a mean of each rank's own they need one plain sum over ranks, where no samples count as zeros.
//
// Shapes  src, residual, dst and their gradients (N,C,H,W), storage; all per-channel arrays fp32 (C)
//         saved float[2][C] in the device's vector layout: two vectors of param_elements(vector C) each, the second
//         right behind the first; its padding is the device's own business
//         sums double[2][C] likewise, its padding 0, and behind it one more, the count
//         backward: SAVED is absent with stored, MEAN and VAR are absent without it; GRAD_GAMMA, GRAD_BETA: either may
//         be absent, which is then not computed; DST is read only with relu, BETA only with gelu and perhaps with relu,
//         where either (but not both) may be absent, GRAD_DST2 only with two_grads, GRAD_RESIDUAL is written only with
//         residual: absent otherwise. No argument overlaps another.
// Types   arithmetic fp32 (ref: double); saved, and sum_* and grad_* before adding, are rounded to fp32
// Errors  LS_USAGE count == 1 in training, without stored: the variance is undefined (describe); of one rank's part,
//         too, as a rank can be the only one that has samples
// Source  torch.nn.BatchNorm2d, torch.nn.SyncBatchNorm; Ioffe and Szegedy 2015
#ifndef LS_DEVICE_OP_NORM_H
#define LS_DEVICE_OP_NORM_H

#include "base/shape.h"

typedef enum { LS_ACTIVATION_NONE, LS_ACTIVATION_RELU, LS_ACTIVATION_GELU } ls_activation;

typedef struct {
    ls_nchw shape;
    float eps;
    ls_activation activation;               // after the (optional) addition
    int residual;                           // forward, inference: RESIDUAL is read; backward: GRAD_RESIDUAL is written
    int adds_last;                          // forward, inference: the residual is added after the activation
    int two_grads;                          // backward: GRAD_DST2 is added to GRAD_DST
    int stored;                             // backward: of an inference, with MEAN and VAR instead of SAVED
    int pool_kernel, pool_stride, pool_pad; // 0, 0, 0: no pooling; the window has at most 254 elements
    ls_nchw pooled;                         // shape of dst with pooling
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
// The halves. What follows the sums takes the arguments of the whole, and SUMS behind them;
// BACKWARD_SUMS, too, with GRAD_SRC and GRAD_RESIDUAL absent, and GAMMA but where BETA is there, and in BACKWARD_APPLY
// there is no GRAD_GAMMA and no GRAD_BETA.
enum { LS_NORM_SUMS_SRC, LS_NORM_SUMS_SUMS, LS_NORM_SUMS_ARGS };
enum { LS_NORM_APPLY_SUMS = LS_NORM_FORWARD_ARGS, LS_NORM_APPLY_ARGS };
enum { LS_NORM_BACKWARD_SUMS_SUMS = LS_NORM_BACKWARD_ARGS, LS_NORM_BACKWARD_SUMS_ARGS };
enum { LS_NORM_BACKWARD_APPLY_SUMS = LS_NORM_BACKWARD_SUMS_SUMS, LS_NORM_BACKWARD_APPLY_ARGS };

// Doubles of sums; vector: elements of a per-channel array as the device lays it out.
static inline size_t ls_norm_sums_count(size_t vector) {
    return 2 * vector + 1;
}

#endif
