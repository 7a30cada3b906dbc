// op_update.h - the second half of an update: flat operators over the parameter store. All but MUON ignore the layouts
// of tensors.
//
// All arrays of the store have the same element offsets: weights (fp32 master), gradients (fp32), momentum, second
// moment, 16-bit copy. A flat operator covers `count` elements from the start of its buffers. Gaps between tensors are
// zero and stay zero.
//
//   UPDATE_BEGIN     window = windows[state.record]; result = 0; sums = 0 (count: words of 4 bytes)
//   TO_FIXED_POINT   t = grad[i] * 2^fraction_bits / LS_GRADIENT_SCALE in double, rounded to the nearest integer (ties
//                    to even); fixed[i] += t as int64.
//                    Where the element is not finite or |t| >= 2^(62 - LS_FIXED_RANK_BITS), nothing is added.
//                    state.bad_gradient then becomes the maximum of itself and 1 + the element's number in the store
//                    (first + i); later the ranks take their maximum. The limit is on each term, not on the sum, so the
//                    flag does not depend on the order of additions or on the rank that adds. A window of up to
//                    2^LS_FIXED_RANK_BITS micro-batches (over all ranks) cannot overflow.
//   FROM_FIXED_POINT grad[i] = fixed[i] / 2^fraction_bits * LS_GRADIENT_SCALE, computed in double, rounded once to fp32
//   STEP_CONTROL     First, with 16-bit storage, WIDEN. Then, over the whole gradient in double, in an order that
//                    depends on count only: the sum of grad[i]^2, the number of elements that are not finite, and the
//                    last such element. Then it decides on this update from these values and ls_update_input (computed
//                    in double, stored as fp32). It copies the window's lr, renormalise, micro_batches and rates_over
//                    to the state, sets the fields below, and clears bad_gradient. grad_norm is the norm before
//                    clipping; it has no meaning when skip is set. The loss scale changes last, so multiplier uses the
//                    scale of this update.
//                    Once halted, STEP_CONTROL changes no field of the state but record, so skip stays 1. The host may
//                    therefore read the state some updates later and still find the update that ended the run.
//                      skip        = any element not finite, or bad_gradient
//                      bad_element = maximum of bad_gradient - 1 and the last element that is not finite
//                      halted      = skip, and: not dynamic, or skipped_in_row >= max_skips, or skipped_in_row > 1 with
//                                    the loss scale at the minimum even before this change
//                      multiplier  = 1/(LS_GRADIENT_SCALE * samples), samples as a double (1 for a summed loss)
//                      grad_norm   = sqrt(sum of squares) * multiplier
//                      if clip_norm > 0: multiplier *= min(1, clip_norm/(grad_norm + 1e-6))
//                      not skip: applied++, skipped_in_row = 0; dynamic: finite_in_row++, at growth_interval:
//                                loss_scale = min(loss_scale*growth, maximum), finite_in_row = 0
//                      skip:     skipped_in_row++, skipped++, finite_in_row = 0; dynamic:
//                                loss_scale = max(loss_scale*backoff, minimum)
//                    At the end, halted or not, if records > 0: reports[state.record] = the LS_REPORT_BYTES of device
//                    memory that start with the state. state.record then moves to the next of the ring's `records`
//                    places.
//   optimizers       config/optimizers.def has the formula of each. For all of them:
//                    lr = state.lr[rate] * lr_factor. The element's segment gives rate, lr_factor, decay and momentum.
//                    At a rate of 0 the weights do not change. A segment whose rate is LS_SEGMENT_IDLE is neither read
//                    nor written. With a 16-bit working copy, copy[i] = w in 16 bits.
//                    Kept tensors are never absent, even at momentum 0. COPY is absent when storage is LS_F32.
//                    A segment of running statistics (LS_SEGMENT_STATISTICS; not with MUON) has the sums of the
//                    statistics over micro-batches in grad. It uses neither kept tensors nor copy. Nothing happens when
//                    skip, or where state.micro_batches is 0; else
//                      w = (1-momentum)*w + momentum*grad/micro_batches
//                    The statistics stop changing when all rates of the segment's set `rests_with` are in
//                    state.rates_over.
//   AVERAGE          nothing when halted; a = window.average_decay;  average[i] = a*average[i] + (1-a)*weight[i],
//                    exactly weight[i] at a = 0 and average[i] at a = 1;  with write_back weight[i] = average[i]
//   CAST             dst[i] = src[i], fp32 -> storage, rounded to nearest even
//   CAST_TO_F32      dst[i] = src[i], storage -> fp32, exact
//   WIDEN            grad[i] += rounded[i], then rounded[i] = 0; rounded: storage, 16 bits
#ifndef LS_DEVICE_OP_UPDATE_H
#define LS_DEVICE_OP_UPDATE_H

#include "base/shape.h"

enum {
    LS_RATES_MAX = 8,           // most learning rates of one update that differ by more than a constant factor
    LS_SEGMENT_IDLE = -1,       // value of `rate`: the segment belongs to another optimizer
    LS_SEGMENT_STATISTICS = -2, // value of `rate`: the segment holds running statistics
    LS_SEGMENT_ELEMENTS = 16,
    LS_FIXED_RANK_BITS = 12, // up to 4096 micro-batches of a window can be added without overflow
    LS_RECORD_BYTES = 128,   // every control record starts on its own cache line
    LS_REPORT_BYTES = 3 * LS_RECORD_BYTES
};

static const float LS_MUON_EPS = 1e-7F;

// The factor of the summed loss's gradient while it is computed. mean_of: the samples of a whole window if activations
// are fp16 and the loss is a mean, else 0. With mean_of the values stored in 16 bits are the gradient of the mean times
// the loss scale, as in torch.amp.GradScaler.
#define LS_GRADIENT_SCALE(state, mean_of) ((mean_of) > 0 ? (state)->loss_scale / (mean_of) : (state)->loss_scale)

typedef struct {            // host -> device with every update
    double samples;         // true number of samples in the window over all ranks; 1 when the loss is summed
    double micro_batches;   // micro-batches of the window, over all ranks
    double average_decay;   // AVERAGE: a; a double, because 1 - a is computed from it
    float lr[LS_RATES_MAX]; // lr[0] follows the schedule; each other rate has an end of its own (optimizer.groups)
    uint32_t update;
    int32_t renormalise; // MUON: the weights are rescaled
    uint32_t rates_over; // set of rates (bit r: lr[r]) that have reached their end and stay 0
} ls_update_input;

typedef struct {      // lives on the device; part of every checkpoint
    int64_t applied;  // number of updates applied: Adam's t
    int64_t skipped;  // number of updates skipped
    float loss_scale; // 1 if the run needs no loss scale
    int32_t finite_in_row, skipped_in_row;
    // values of the last update
    int32_t skip;
    float lr[LS_RATES_MAX], multiplier, grad_norm;
    int32_t renormalise;
    float micro_batches;
    uint32_t rates_over;
    int32_t bad_gradient; // set by TO_FIXED_POINT, cleared by STEP_CONTROL
    int32_t halted;
    int32_t record;      // place of this update in the rings of windows and reports
    int64_t bad_element; // number in the store of the last element that was not finite; -1: none
} ls_train_state;

typedef struct {
    int64_t count;     // elements
    int fraction_bits; // TO_ and FROM_FIXED_POINT: bits after the binary point
    int unscaled;      // TO_ and FROM_FIXED_POINT: use 1 as the scale (batch norm's statistics are not scaled)
    float mean_of;     // TO_ and FROM_FIXED_POINT: argument of LS_GRADIENT_SCALE
    int64_t first;     // TO_FIXED_POINT: number of element 0 in the store
    int write_back;    // AVERAGE: the weights become the average
    ls_dtype storage;  // type of CAST's dst, of CAST_TO_F32's src, of WIDEN's rounded
} ls_flat_attr;

typedef struct {
    int64_t count;    // elements
    ls_dtype storage; // type of ROUNDED; LS_F32: ROUNDED is absent
    float mean_of;    // argument of LS_GRADIENT_SCALE
    float clip_norm;
    int dynamic; // the loss scale changes during the run
    float growth, backoff, minimum, maximum;
    int growth_interval;
    int max_skips; // skips in a row that halt the run (dynamic)
    int records;   // places in the ring of reports; 0: REPORTS is absent
} ls_step_control_attr;

typedef struct {   // neighbouring tensors of the store that share their constants
    int64_t count; // elements: a multiple of LS_SEGMENT_ELEMENTS, except in the last segment
    float lr_factor, decay;
    float momentum; // SGD, RMSPROP, LARS, MUON; statistics: weight of the new value in the average, as in PyTorch
    int rate;       // index of ls_train_state.lr, LS_SEGMENT_IDLE (the step skips the segment) or LS_SEGMENT_STATISTICS
    const ls_param_shape *shape; // MUON: shape of the segment's one tensor
    uint32_t rests_with; // statistics: a set of rates. Statistics are frozen when all these rates have ended. 0: never
    float stretch;       // MUON: factor of the orthogonal step
} ls_step_segment;

// Whether the running statistics of the segment stay unchanged in this update.
#define LS_STATISTICS_REST(rests_with, state) ((rests_with) && ((state)->rates_over & (rests_with)) == (rests_with))

typedef struct {
    int64_t count;
    // in the store's order, covering all `count` elements; borrowed until the plan is freed
    const ls_step_segment *segments;
    int segment_count;
    int nesterov;        // SGD, LARS, MUON
    double beta1, beta2; // ADAMW, LION; RMSPROP: beta2; doubles, because 1 - beta is computed from them
    float eps;           // ADAMW, RMSPROP, LARS: added to a denominator
    float trust;         // LARS: factor of the trust ratio
    int ns_steps;        // MUON: number of Newton-Schulz steps
    float ns[3];         // MUON: coefficients of a Newton-Schulz step
    ls_dtype storage;    // type of the working copy; LS_F32: there is no copy, the master weights are used
} ls_optimizer_attr;

enum { LS_TO_FIXED_POINT_GRAD, LS_TO_FIXED_POINT_STATE, LS_TO_FIXED_POINT_FIXED, LS_TO_FIXED_POINT_ARGS };
enum { LS_FROM_FIXED_POINT_FIXED, LS_FROM_FIXED_POINT_STATE, LS_FROM_FIXED_POINT_GRAD, LS_FROM_FIXED_POINT_ARGS };
// Arguments of UPDATE_BEGIN and STEP_CONTROL. WINDOWS and REPORTS are rings in host memory that the device reads or
// writes (LS_MEMORY_PINNED). A place has LS_RECORD_BYTES in WINDOWS, LS_REPORT_BYTES in REPORTS.
enum {
    LS_UPDATE_BEGIN_WINDOWS,
    LS_UPDATE_BEGIN_STATE,
    LS_UPDATE_BEGIN_WINDOW,
    LS_UPDATE_BEGIN_RESULT,
    LS_UPDATE_BEGIN_SUMS,
    LS_UPDATE_BEGIN_ARGS
};
enum {
    LS_STEP_CONTROL_WINDOW,
    LS_STEP_CONTROL_GRAD,
    LS_STEP_CONTROL_STATE,
    LS_STEP_CONTROL_REPORTS,
    LS_STEP_CONTROL_ROUNDED,
    LS_STEP_CONTROL_ARGS
};
// Arguments of every optimizer. Between the gradient and the weight come the tensors that it keeps from update to
// update.
enum { LS_STEP_STATE, LS_STEP_GRAD, LS_STEP_KEPT, LS_STEP_OTHER_ARGS = 4, LS_STEP_KEPT_MAX = 2 };
#define LS_THIRD(first, second, third, ...) third
#define LS_COUNT_KEPT(...) LS_THIRD(__VA_ARGS__, 2, 1, 0)
#define X(NAME, word, source, kept, reads) \
    LS_##NAME##_WEIGHT = LS_STEP_KEPT + LS_COUNT_KEPT kept, LS_##NAME##_COPY, LS_##NAME##_ARGS,
enum {
#include "config/optimizers.def"
};
enum { LS_AVERAGE_WINDOW, LS_AVERAGE_STATE, LS_AVERAGE_AVERAGE, LS_AVERAGE_WEIGHT, LS_AVERAGE_ARGS };
enum { LS_CAST_SRC, LS_CAST_DST, LS_CAST_ARGS };
enum { LS_CAST_TO_F32_SRC, LS_CAST_TO_F32_DST, LS_CAST_TO_F32_ARGS };
enum { LS_WIDEN_ROUNDED, LS_WIDEN_GRAD, LS_WIDEN_ARGS };

#endif
