// update.cu - the flat operators: passes over the parameter store, most with four elements (16 bytes of fp32) for each
// thread. The last thread handles the remaining elements one by one. Memory bandwidth limits all of them; comments give
// the bytes for each element.
//
// Estimates on an H200 (sm_90): 4.8 TB/s and 132 multiprocessors, each needing 24 KiB of loads in flight. Blocks
// of 256 threads; "blocks" are blocks on a multiprocessor. "least time" is for a million elements in memory; data that
// the backward pass has just written is in the L2, which is twice as fast.
//                                  bytes/element   registers   blocks   in flight   least time
//   sgd, lion (16-bit copy)        20 (22)         40          6        72 KiB      4.2 us (4.6)
//   adamw, rmsprop (16-bit copy)   28 (30)         46          5        80 KiB      5.8 us (6.3)
//   running statistics, in these   12              as these             48 KiB      a few thousand elements: none
//   lars_parts, lars_trust         8               32, 30      8        16 KiB      2.5 us, two thirds of the bandwidth
//   running_average                12, 16          19          8        64 KiB      2.5 us, 3.3 us
//   update_begin                   4, written      26          8                    0.8 us
//   to_fixed_point                 20              40          6        72 KiB      4.2 us
//   from_fixed_point               12              28          8        64 KiB      2.5 us
//   cast, cast_to_f32              6               12, 14      8        32, 16 KiB  1.3 us, 1.9 us
//   step_control, widen            see the comments at the kernels
#include "device/cuda/kernels/update.h"

#include <math.h>
#include "device/cuda/kernels/kernels.cuh"

enum { QUAD = 4, CONTROL_BLOCKS_MAX = 512, CONTROL_QUADS = 2 }; // CONTROL_QUADS: quads that a thread reads at a time

static int quad_blocks(int64_t count) {
    return ls_blocks((count + QUAD - 1) / QUAD, LS_BLOCK);
}

static __device__ inline int64_t first_element() {
    return QUAD * (static_cast<int64_t>(blockIdx.x) * LS_BLOCK + threadIdx.x);
}
static __device__ inline int quad_size(int64_t first, int64_t count) {
    return count - first < QUAD ? static_cast<int>(count - first) : QUAD;
}

// Load and store four elements. Elements beyond `size` read as zero and are not written. Four elements are one or two
// whole 16-byte accesses (for a 16-bit type, 8 bytes).
template <typename T> static __device__ inline void load_quad(const T *from, int size, T out[QUAD]) {
    struct alignas(sizeof(T) * QUAD < 16 ? sizeof(T) * QUAD : 16) quad {
        T v[QUAD];
    };
    if (size == QUAD) {
        quad all = *reinterpret_cast<const quad *>(from);
        for (int i = 0; i < QUAD; i++) out[i] = all.v[i];
    } else {
        for (int i = 0; i < QUAD; i++) out[i] = i < size ? from[i] : T(0);
    }
}

template <typename T> static __device__ inline void store_quad(T *to, int size, const T in[QUAD]) {
    struct alignas(sizeof(T) * QUAD < 16 ? sizeof(T) * QUAD : 16) quad {
        T v[QUAD];
    };
    if (size == QUAD) {
        quad all;
        for (int i = 0; i < QUAD; i++) all.v[i] = in[i];
        *reinterpret_cast<quad *>(to) = all;
    } else {
        for (int i = 0; i < QUAD; i++) {
            if (i < size) to[i] = in[i];
        }
    }
}

// Stores the 16-bit working copy; does nothing if `to` is NULL.
template <typename T> static __device__ inline void store_copy(T *to, int size, const float weight[QUAD]) {
    if (!to) return;
    T rounded[QUAD];
    for (int i = 0; i < QUAD; i++) rounded[i] = ls_store<T>(weight[i]);
    store_quad(to, size, rounded);
}

// --- start of an update --------------------------------------------------------------------------

// UPDATE_BEGIN: zeroes the sums and the result, and takes the window. 4 bytes written for each element. The first
// thread also fetches the window over PCIe, which takes about 1.5 us while the other threads write.
static __global__ void update_begin(int64_t count, const char *windows, const ls_train_state *state,
    ls_update_input *window, ls_micro_result *result, float *sums) {
    int64_t first = first_element();
    const float zero[QUAD] = {};
    if (first < count) store_quad(sums + first, quad_size(first, count), zero);
    if (first > 0) return;
    *window =
        *reinterpret_cast<const ls_update_input *>(windows + static_cast<int64_t>(state->record) * LS_RECORD_BYTES);
    *result = {};
}

void ls_cuda_update_begin(const ls_flat_attr *attr, const void *windows, const ls_train_state *state,
    ls_update_input *window, ls_micro_result *result, float *sums, cudaStream_t stream) {
    LS_LAUNCH(update_begin, quad_blocks(attr->count), LS_BLOCK, stream, attr->count, static_cast<const char *>(windows),
        state, window, result, sums);
}

// --- fixed point ---------------------------------------------------------------------------------
// The operations are those of ref, in double, so the bits are the same. For each element, to_fixed_point
// reads 12 bytes and writes 8; from_fixed_point reads 8 and writes 4.

static double power_of_two(int exponent) {
    return ldexp(1, exponent);
}

static __global__ void to_fixed_point(
    ls_flat_attr a, double factor, const float *grad, ls_train_state *state, int64_t *fixed) {
    int64_t first = first_element();
    if (first >= a.count) return;
    int size = quad_size(first, a.count), last_bad = -1;
    double scale = a.unscaled ? 1 : static_cast<double>(LS_GRADIENT_SCALE(state, a.mean_of));
    const double limit = static_cast<double>(int64_t{ 1 } << (62 - LS_FIXED_RANK_BITS));
    float in[QUAD];
    int64_t sum[QUAD];
    load_quad(grad + first, size, in);
    load_quad(fixed + first, size, sum);
    for (int i = 0; i < QUAD; i++) {
        double term = rint(static_cast<double>(in[i]) * factor / scale);
        if (fabs(term) < limit) { // false for NaN
            sum[i] += static_cast<int64_t>(term);
        } else {
            last_bad = i;
        }
    }
    store_quad(fixed + first, size, sum);
    if (last_bad >= 0) atomicMax(&state->bad_gradient, static_cast<int>(a.first + first + last_bad) + 1);
}

static __global__ void from_fixed_point(
    ls_flat_attr a, double factor, const int64_t *fixed, const ls_train_state *state, float *grad) {
    int64_t first = first_element();
    if (first >= a.count) return;
    int size = quad_size(first, a.count);
    double scale = a.unscaled ? 1 : static_cast<double>(LS_GRADIENT_SCALE(state, a.mean_of));
    int64_t in[QUAD];
    float out[QUAD];
    load_quad(fixed + first, size, in);
    for (int i = 0; i < QUAD; i++) out[i] = static_cast<float>(static_cast<double>(in[i]) * factor * scale);
    store_quad(grad + first, size, out);
}

void ls_cuda_to_fixed_point(
    const ls_flat_attr *attr, const float *grad, ls_train_state *state, int64_t *fixed, cudaStream_t stream) {
    double factor = power_of_two(attr->fraction_bits);
    LS_LAUNCH(to_fixed_point, quad_blocks(attr->count), LS_BLOCK, stream, *attr, factor, grad, state, fixed);
}

void ls_cuda_from_fixed_point(
    const ls_flat_attr *attr, const int64_t *fixed, const ls_train_state *state, float *grad, cudaStream_t stream) {
    double factor = power_of_two(-attr->fraction_bits);
    LS_LAUNCH(from_fixed_point, quad_blocks(attr->count), LS_BLOCK, stream, *attr, factor, fixed, state, grad);
}

// --- statistics of the gradient, and the decision ------------------------------------------------
// Every block sums its share of the gradient, and the last block that finishes adds up the blocks' sums. The place of
// each element in this order depends on count only. The first thread of the last block decides, in double, as ref does.
// Then, with records, the first threads of that block write one word of the report each.

typedef struct {
    double squares;
    int64_t bad, last; // number of elements that are not finite; index of the last of them, or -1
} grad_stats;

static __device__ inline grad_stats stats_join(grad_stats a, grad_stats b) {
    return { a.squares + b.squares, a.bad + b.bad, a.last > b.last ? a.last : b.last };
}

// As ls_block_sum, but the result is valid only in thread 0.
static __device__ inline grad_stats stats_of_block(grad_stats mine, grad_stats *room) {
    int t = static_cast<int>(threadIdx.x);
    room[t] = mine;
    for (int half = LS_BLOCK / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) room[t] = stats_join(room[t], room[t + half]);
    }
    return room[0];
}

static int control_blocks(int64_t count) {
    int blocks = ls_blocks((count + QUAD - 1) / QUAD, LS_BLOCK * CONTROL_QUADS);
    return blocks < CONTROL_BLOCKS_MAX ? blocks : CONTROL_BLOCKS_MAX;
}

// Whether no later update can help. Without a dynamic loss scale, every skip is such a case. With one: too many skips
// in a row, or a second skip in a row at the minimum scale.
static __device__ inline int is_lost(const ls_step_control_attr &a, const ls_train_state &state, bool at_floor) {
    if (!state.skip) return 0;
    if (!a.dynamic || state.skipped_in_row >= a.max_skips) return 1;
    return state.skipped_in_row > 1 && at_floor;
}

static __device__ inline void move_loss_scale(const ls_step_control_attr &a, ls_train_state &state) {
    if (state.skip) {
        state.finite_in_row = 0;
        if (a.dynamic) state.loss_scale = fmaxf(state.loss_scale * a.backoff, a.minimum);
    } else if (a.dynamic && ++state.finite_in_row >= a.growth_interval) {
        state.loss_scale = fminf(state.loss_scale * a.growth, a.maximum);
        state.finite_in_row = 0;
    }
}

static __device__ inline void decide(
    const ls_step_control_attr &a, const ls_update_input *window, const grad_stats &gradient, ls_train_state &state) {
    if (state.halted) return; // skip stays 1
    int64_t last = state.bad_gradient - 1;
    double multiplier = 1 / (static_cast<double>(LS_GRADIENT_SCALE(&state, a.mean_of)) * window->samples);
    double norm = sqrt(gradient.squares) * multiplier;
    // the product is rounded before the addition, as on ref: no fused multiply-add here
    if (a.clip_norm > 0) multiplier *= fmin(1.0, static_cast<double>(a.clip_norm) / __dadd_rn(norm, 1e-6));
    state.skip = gradient.bad > 0 || state.bad_gradient;
    state.bad_gradient = 0;
    state.bad_element = last > gradient.last ? last : gradient.last;
    for (int r = 0; r < LS_RATES_MAX; r++) state.lr[r] = window->lr[r];
    state.renormalise = window->renormalise;
    state.micro_batches = static_cast<float>(window->micro_batches);
    state.rates_over = window->rates_over;
    state.multiplier = static_cast<float>(multiplier);
    state.grad_norm = static_cast<float>(norm);
    state.applied += !state.skip;
    state.skipped += state.skip;
    state.skipped_in_row = state.skip ? state.skipped_in_row + 1 : 0;
    bool at_floor = state.loss_scale <= a.minimum;
    move_loss_scale(a, state);
    state.halted = is_lost(a, state, at_floor);
}

enum { REPORT_WORDS = LS_REPORT_BYTES / 8 };

// Adds CONTROL_QUADS quads of a thread, from `first` on, to its sums. 16-bit gradients are first added to grad and set
// to 0.
template <typename T>
static __device__ inline void take_quads(
    const ls_cuda_control_args &a, int64_t first, int64_t stride, grad_stats *mine) {
    constexpr bool WIDENS = sizeof(T) < sizeof(float);
    T *rounded = static_cast<T *>(a.rounded);
    const T zero[QUAD] = { ls_store<T>(0), ls_store<T>(0), ls_store<T>(0), ls_store<T>(0) };
    float in[CONTROL_QUADS][QUAD];
    T more[CONTROL_QUADS][QUAD];
    LS_UNROLL
    for (int u = 0; u < CONTROL_QUADS; u++) { // all loads are in flight before the first is used
        int64_t at = first + u * stride;
        if (at >= a.attr.count) break;
        load_quad(a.grad + at, quad_size(at, a.attr.count), in[u]);
        if (WIDENS) load_quad(rounded + at, quad_size(at, a.attr.count), more[u]);
    }
    LS_UNROLL
    for (int u = 0; u < CONTROL_QUADS; u++) {
        int64_t at = first + u * stride;
        if (at >= a.attr.count) break;
        int size = quad_size(at, a.attr.count);
        if (WIDENS) {
            for (int i = 0; i < QUAD; i++) in[u][i] += ls_float(more[u][i]);
            store_quad(a.grad + at, size, in[u]);
            store_quad(rounded + at, size, zero);
        }
        for (int i = 0; i < QUAD; i++) {
            mine->squares += static_cast<double>(in[u][i]) * static_cast<double>(in[u][i]);
            if (isfinite(in[u][i])) continue;
            mine->bad++;
            mine->last = at + i; // elements come in increasing order
        }
    }
}

// STEP_CONTROL: examines the gradient and decides on the update. 4 bytes read for each element; with 16-bit gradients 6
// read and 6 written. Up to 512 blocks, four on a multiprocessor, with 32 or 48 bytes of each thread in flight: 32 KiB
// or more. Limited by memory bandwidth, or by the L2 if the backward pass has just left the gradients there: 1 to 2.7
// us for each million elements, and about 4 us for the launch and the last block.
template <typename T> static __global__ void __launch_bounds__(LS_BLOCK) step_control(ls_cuda_control_args a) {
    LS_SHARED(grad_stats, room, LS_BLOCK);
    LS_SHARED(int, last, 1);
    int t = static_cast<int>(threadIdx.x), blocks = static_cast<int>(gridDim.x);
    grad_stats mine = { 0, 0, -1 }, *parts = static_cast<grad_stats *>(a.parts);
    int64_t stride = static_cast<int64_t>(QUAD) * LS_BLOCK * blocks;
    for (int64_t first = first_element(); first < a.attr.count; first += CONTROL_QUADS * stride)
        take_quads<T>(a, first, stride, &mine);
    mine = stats_of_block(mine, room);
    if (t == 0) {
        parts[blockIdx.x] = mine;
        __threadfence();
        last[0] = atomicAdd(a.done, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last[0]) return;
    if (t == 0) *a.done = 0; // for the next launch
    __threadfence();
    int record = a.state->record;
    mine = { 0, 0, -1 };
    for (int i = t; i < blocks; i += LS_BLOCK) mine = stats_join(mine, parts[i]);
    mine = stats_of_block(mine, room);
    if (t == 0) {
        ls_train_state next = *a.state;
        decide(a.attr, a.window, mine, next);
        *a.state = next;
    }
    __syncthreads();
    if (!a.attr.records) return;
    // The report goes over PCIe without a wait. It has arrived when an event recorded after the update has happened.
    uint64_t *reports = static_cast<uint64_t *>(a.reports);
    if (t < REPORT_WORDS) reports[record * REPORT_WORDS + t] = reinterpret_cast<const uint64_t *>(a.state)[t];
    __syncthreads();
    if (t == 0) a.state->record = record + 1 < a.attr.records ? record + 1 : 0;
}

size_t ls_cuda_control_workspace(int64_t count) {
    return static_cast<size_t>(control_blocks(count)) * sizeof(grad_stats);
}

void ls_cuda_step_control(const ls_cuda_control_args *args, cudaStream_t stream) {
    int blocks = control_blocks(args->attr.count);
    LS_BY_STORAGE(args->attr.storage, LS_LAUNCH_BLOCK((step_control<T>), blocks, LS_BLOCK, stream, *args));
}

// --- optimizers, in fp32 -------------------------------------------------------------------------

typedef struct {
    int64_t count;
    const ls_cuda_segment *segments;
    int segment_count;
} store_range;

// Finds the segment of an element: the first that ends after it. A segment consists of whole groups of
// LS_SEGMENT_ELEMENTS, so all four elements of a thread belong to one segment.
static __device__ inline ls_cuda_segment segment_of(store_range range, int64_t element) {
    int low = 0, high = range.segment_count - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (range.segments[middle].end <= element) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return range.segments[low];
}

// Whether the optimizer steps this segment. If it holds running statistics, they are updated here (8 bytes read, 4
// written), in double except for 1/micro_batches: a division in double would cost every thread of the optimizer about
// 20 registers.
static __device__ inline bool steps(const ls_cuda_segment &segment, const store_range &range, int64_t first,
    const ls_train_state *state, const float *grad, float *weight) {
    if (segment.rate != LS_SEGMENT_STATISTICS || state->micro_batches == 0) return segment.rate >= 0;
    if (LS_STATISTICS_REST(segment.rests_with, state)) return false;
    int size = quad_size(first, range.count);
    double share = static_cast<double>(segment.momentum), each = share * static_cast<double>(1 / state->micro_batches);
    float sum[QUAD], running[QUAD];
    load_quad(grad + first, size, sum);
    load_quad(weight + first, size, running);
    for (int i = 0; i < QUAD; i++) {
        running[i] =
            static_cast<float>((1 - share) * static_cast<double>(running[i]) + each * static_cast<double>(sum[i]));
    }
    store_quad(weight + first, size, running);
    return false;
}

// The step of SGD, also that of LARS. trust: for LARS the trust ratio of each segment, else NULL. 12 bytes read and 8
// written for each element, and 2 for the copy.
template <typename T>
static __global__ void sgd(store_range range, bool nesterov, const float *trust, const ls_train_state *state,
    const float *grad, float *velocity, float *weight, T *copy) {
    int64_t first = first_element();
    if (first >= range.count || state->skip) return;
    ls_cuda_segment segment = segment_of(range, first);
    if (!steps(segment, range, first, state, grad, weight)) return;
    int size = quad_size(first, range.count);
    bool starts = state->applied == 1; // velocity holds no value yet
    float g[QUAD], v[QUAD], w[QUAD];
    load_quad(grad + first, size, g);
    load_quad(velocity + first, size, v);
    load_quad(weight + first, size, w);
    float multiplier = state->multiplier, lr = state->lr[segment.rate] * segment.lr_factor;
    if (trust) {
        multiplier *= trust[segment.number];
        segment.decay *= trust[segment.number];
    }
    for (int i = 0; i < QUAD; i++) {
        float step = g[i] * multiplier + segment.decay * w[i];
        v[i] = starts ? step : segment.momentum * v[i] + step;
        w[i] -= lr * (nesterov ? step + segment.momentum * v[i] : v[i]);
    }
    store_quad(velocity + first, size, v);
    store_quad(weight + first, size, w);
    store_copy(copy ? copy + first : copy, size, w);
}

// AdamW's constants, each rounded once from double.
typedef struct {
    float beta1, beta2, rest1, rest2; // rest: 1 - beta
    float log1, log2;                 // logarithms of beta: 1 - beta^t = -expm1(t * log beta) does not lose digits
    float eps;
} adamw_constants;

// The step of AdamW. 16 bytes read and 12 written for each element, and 2 for the copy.
template <typename T>
static __global__ void adamw(store_range range, adamw_constants c, const ls_train_state *state, const float *grad,
    float *moment1, float *moment2, float *weight, T *copy) {
    int64_t first = first_element();
    if (first >= range.count || state->skip) return;
    ls_cuda_segment segment = segment_of(range, first);
    if (!steps(segment, range, first, state, grad, weight)) return;
    int size = quad_size(first, range.count);
    float g[QUAD], m[QUAD], s[QUAD], w[QUAD];
    load_quad(grad + first, size, g);
    load_quad(moment1 + first, size, m);
    load_quad(moment2 + first, size, s);
    load_quad(weight + first, size, w);
    float multiplier = state->multiplier, lr = state->lr[segment.rate] * segment.lr_factor;
    float updates = static_cast<float>(state->applied), keep = 1 - lr * segment.decay;
    float correction1 = -expm1f(updates * c.log1), correction2 = -expm1f(updates * c.log2), step = lr / correction1;
    for (int i = 0; i < QUAD; i++) {
        g[i] *= multiplier;
        m[i] = c.beta1 * m[i] + c.rest1 * g[i];
        s[i] = c.beta2 * s[i] + c.rest2 * g[i] * g[i];
        w[i] = w[i] * keep - step * m[i] / (sqrtf(s[i] / correction2) + c.eps);
    }
    store_quad(moment1 + first, size, m);
    store_quad(moment2 + first, size, s);
    store_quad(weight + first, size, w);
    store_copy(copy ? copy + first : copy, size, w);
}

typedef struct {
    float beta2, rest2, eps; // rest: 1 - beta, rounded once from double
} rmsprop_constants;

// The step of RMSprop. 16 bytes read and 12 written for each element, and 2 for the copy.
template <typename T>
static __global__ void rmsprop(store_range range, rmsprop_constants c, const ls_train_state *state, const float *grad,
    float *square, float *momentum, float *weight, T *copy) {
    int64_t first = first_element();
    if (first >= range.count || state->skip) return;
    ls_cuda_segment segment = segment_of(range, first);
    if (!steps(segment, range, first, state, grad, weight)) return;
    int size = quad_size(first, range.count);
    float g[QUAD], s[QUAD], v[QUAD], w[QUAD];
    load_quad(grad + first, size, g);
    load_quad(square + first, size, s);
    load_quad(momentum + first, size, v);
    load_quad(weight + first, size, w);
    float multiplier = state->multiplier, lr = state->lr[segment.rate] * segment.lr_factor;
    for (int i = 0; i < QUAD; i++) {
        g[i] = g[i] * multiplier + segment.decay * w[i];
        s[i] = c.beta2 * s[i] + c.rest2 * g[i] * g[i];
        v[i] = segment.momentum * v[i] + g[i] / (sqrtf(s[i]) + c.eps);
        w[i] -= lr * v[i];
    }
    store_quad(square + first, size, s);
    store_quad(momentum + first, size, v);
    store_quad(weight + first, size, w);
    store_copy(copy ? copy + first : copy, size, w);
}

typedef struct {
    float beta1, beta2, rest1, rest2; // rest: 1 - beta, rounded once from double
} lion_constants;

// The step of Lion. 12 bytes read and 8 written for each element, and 2 for the copy.
template <typename T>
static __global__ void lion(store_range range, lion_constants c, const ls_train_state *state, const float *grad,
    float *momentum, float *weight, T *copy) {
    int64_t first = first_element();
    if (first >= range.count || state->skip) return;
    ls_cuda_segment segment = segment_of(range, first);
    if (!steps(segment, range, first, state, grad, weight)) return;
    int size = quad_size(first, range.count);
    float g[QUAD], m[QUAD], w[QUAD];
    load_quad(grad + first, size, g);
    load_quad(momentum + first, size, m);
    load_quad(weight + first, size, w);
    float multiplier = state->multiplier, lr = state->lr[segment.rate] * segment.lr_factor,
          keep = 1 - lr * segment.decay;
    for (int i = 0; i < QUAD; i++) {
        g[i] *= multiplier;
        float direction = c.beta1 * m[i] + c.rest1 * g[i];
        m[i] = c.beta2 * m[i] + c.rest2 * g[i];
        w[i] = w[i] * keep - lr * static_cast<float>((direction > 0) - (direction < 0));
    }
    store_quad(momentum + first, size, m);
    store_quad(weight + first, size, w);
    store_copy(copy ? copy + first : copy, size, w);
}

static store_range range_of(const ls_optimizer_attr *attr, const ls_cuda_step_args *args) {
    return { attr->count, args->segments, attr->segment_count };
}

static void launch_sgd(
    const ls_optimizer_attr *attr, const ls_cuda_step_args *args, const float *trust, cudaStream_t stream) {
    int blocks = quad_blocks(attr->count);
    LS_BY_STORAGE(
        attr->storage, LS_LAUNCH((sgd<T>), blocks, LS_BLOCK, stream, range_of(attr, args), attr->nesterov != 0, trust,
                           args->state, args->grad, args->kept[0], args->weight, static_cast<T *>(args->copy)));
}

void ls_cuda_sgd(const ls_optimizer_attr *attr, const ls_cuda_step_args *args, cudaStream_t stream) {
    launch_sgd(attr, args, nullptr, stream);
}

// --- LARS: norms of each segment in two stages, like the gradient's statistics; then the SGD pass -----

enum { LARS_PARTS = 64 };

typedef struct {
    double grads, weights; // sums of squares
} lars_sums;

static __global__ void lars_parts(store_range range, const float *grad, const float *weight, lars_sums *parts) {
    LS_SHARED(lars_sums, room, LS_BLOCK);
    const int t = static_cast<int>(threadIdx.x), s = static_cast<int>(blockIdx.y);
    const int64_t begin = s > 0 ? range.segments[s - 1].end : 0, end = range.segments[s].end;
    lars_sums mine = { 0, 0 };
    for (int64_t i = begin + static_cast<int64_t>(blockIdx.x) * LS_BLOCK + t; i < end && range.segments[s].rate >= 0;
         i += static_cast<int64_t>(LS_BLOCK) * LARS_PARTS) {
        mine.grads += static_cast<double>(grad[i]) * static_cast<double>(grad[i]);
        mine.weights += static_cast<double>(weight[i]) * static_cast<double>(weight[i]);
    }
    room[t] = mine;
    for (int half = LS_BLOCK / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) room[t] = { room[t].grads + room[t + half].grads, room[t].weights + room[t + half].weights };
    }
    if (t == 0) parts[s * LARS_PARTS + static_cast<int>(blockIdx.x)] = room[0];
}

// LARS: computes the trust ratio of each segment from its sums of squares. One thread for each segment.
static __global__ void lars_trust(
    store_range range, float trust, float eps, const ls_train_state *state, const lars_sums *parts, float *out) {
    const int s = static_cast<int>(blockIdx.x * LS_BLOCK + threadIdx.x);
    if (s >= range.segment_count) return;
    double grads = 0, weights = 0;
    for (int p = 0; p < LARS_PARTS; p++) {
        grads += parts[s * LARS_PARTS + p].grads;
        weights += parts[s * LARS_PARTS + p].weights;
    }
    const double norm = sqrt(weights), grad_norm = sqrt(grads) * static_cast<double>(state->multiplier);
    const double below = grad_norm + static_cast<double>(range.segments[s].decay) * norm + static_cast<double>(eps);
    out[s] = grads > 0 && weights > 0 ? static_cast<float>(static_cast<double>(trust) * norm / below) : 1.0F;
}

size_t ls_cuda_lars_workspace(const ls_optimizer_attr *attr) {
    return static_cast<size_t>(attr->segment_count) * (LARS_PARTS * sizeof(lars_sums) + sizeof(float));
}

void ls_cuda_lars(const ls_optimizer_attr *attr, const ls_cuda_step_args *args, cudaStream_t stream) {
    lars_sums *parts = static_cast<lars_sums *>(args->workspace);
    float *trust = reinterpret_cast<float *>(parts + static_cast<int64_t>(attr->segment_count) * LARS_PARTS);
    const store_range range = range_of(attr, args);
    const dim3 grid(LARS_PARTS, static_cast<unsigned>(attr->segment_count));
    LS_LAUNCH_BLOCK(lars_parts, grid, LS_BLOCK, stream, range, args->grad, args->weight, parts);
    LS_LAUNCH(lars_trust, ls_blocks(attr->segment_count, LS_BLOCK), LS_BLOCK, stream, range, attr->trust, attr->eps,
        args->state, parts, trust);
    launch_sgd(attr, args, trust, stream);
}

void ls_cuda_adamw(const ls_optimizer_attr *attr, const ls_cuda_step_args *args, cudaStream_t stream) {
    const double beta1 = attr->beta1, beta2 = attr->beta2;
    adamw_constants c = { static_cast<float>(beta1), static_cast<float>(beta2), static_cast<float>(1 - beta1),
        static_cast<float>(1 - beta2), static_cast<float>(log(beta1)), static_cast<float>(log(beta2)), attr->eps };
    int blocks = quad_blocks(attr->count);
    LS_BY_STORAGE(
        attr->storage, LS_LAUNCH((adamw<T>), blocks, LS_BLOCK, stream, range_of(attr, args), c, args->state, args->grad,
                           args->kept[0], args->kept[1], args->weight, static_cast<T *>(args->copy)));
}

void ls_cuda_rmsprop(const ls_optimizer_attr *attr, const ls_cuda_step_args *args, cudaStream_t stream) {
    rmsprop_constants c = { static_cast<float>(attr->beta2), static_cast<float>(1 - attr->beta2), attr->eps };
    int blocks = quad_blocks(attr->count);
    LS_BY_STORAGE(attr->storage,
        LS_LAUNCH((rmsprop<T>), blocks, LS_BLOCK, stream, range_of(attr, args), c, args->state, args->grad,
            args->kept[0], args->kept[1], args->weight, static_cast<T *>(args->copy)));
}

void ls_cuda_lion(const ls_optimizer_attr *attr, const ls_cuda_step_args *args, cudaStream_t stream) {
    lion_constants c = { static_cast<float>(attr->beta1), static_cast<float>(attr->beta2),
        static_cast<float>(1 - attr->beta1), static_cast<float>(1 - attr->beta2) };
    int blocks = quad_blocks(attr->count);
    LS_BY_STORAGE(attr->storage, LS_LAUNCH((lion<T>), blocks, LS_BLOCK, stream, range_of(attr, args), c, args->state,
                                     args->grad, args->kept[0], args->weight, static_cast<T *>(args->copy)));
}

// --- the running average, and casts ------------------------------------------------------------

// Moves the running average of the weights (AVERAGE in op_update.h). 8 bytes read and 4 written for each element; with
// write_back 8 written.
static __global__ void running_average(
    ls_flat_attr a, const ls_update_input *window, const ls_train_state *state, float *average, float *weight) {
    int64_t first = first_element();
    if (first >= a.count || state->halted) return;
    int size = quad_size(first, a.count);
    const float decay = static_cast<float>(window->average_decay), rest = static_cast<float>(1 - window->average_decay);
    float mean[QUAD], w[QUAD];
    load_quad(average + first, size, mean);
    load_quad(weight + first, size, w);
    for (int i = 0; i < QUAD; i++) mean[i] = decay * mean[i] + rest * w[i];
    store_quad(average + first, size, mean);
    if (a.write_back) store_quad(weight + first, size, mean);
}

// Rounds fp32 to 16 bits. 4 bytes read and 2 written for each element.
template <typename T> static __global__ void cast(int64_t count, const float *src, T *dst) {
    int64_t first = first_element();
    if (first >= count) return;
    int size = quad_size(first, count);
    float in[QUAD];
    load_quad(src + first, size, in);
    store_copy(dst + first, size, in);
}

// Converts 16 bits to fp32. 2 bytes read and 4 written for each element.
template <typename T> static __global__ void cast_to_f32(int64_t count, const T *src, float *dst) {
    int64_t first = first_element();
    if (first >= count) return;
    int size = quad_size(first, count);
    T in[QUAD];
    float out[QUAD];
    load_quad(src + first, size, in);
    for (int i = 0; i < QUAD; i++) out[i] = ls_float(in[i]);
    store_quad(dst + first, size, out);
}

// Adds the rounded gradients to grad and sets them to 0. 6 bytes read and 6 written for each element. Eight blocks of
// 256 threads run on a multiprocessor, with 24 bytes of each thread in flight: 48 KiB, more than the H200 needs.
// Memory bandwidth limits the kernel: 2.5 us for each million elements, less if they are still in the L2.
template <typename T> static __global__ void widen(int64_t count, T *rounded, float *grad) {
    int64_t first = first_element();
    if (first >= count) return;
    int size = quad_size(first, count);
    T in[QUAD];
    const T zero[QUAD] = { ls_store<T>(0), ls_store<T>(0), ls_store<T>(0), ls_store<T>(0) };
    float sum[QUAD];
    load_quad(rounded + first, size, in);
    load_quad(grad + first, size, sum);
    for (int i = 0; i < QUAD; i++) sum[i] += ls_float(in[i]);
    store_quad(grad + first, size, sum);
    store_quad(rounded + first, size, zero);
}

void ls_cuda_average(const ls_flat_attr *attr, const ls_update_input *window, const ls_train_state *state,
    float *average, float *weight, cudaStream_t stream) {
    LS_LAUNCH(running_average, quad_blocks(attr->count), LS_BLOCK, stream, *attr, window, state, average, weight);
}

void ls_cuda_cast(const ls_flat_attr *attr, const float *src, void *dst, cudaStream_t stream) {
    int blocks = quad_blocks(attr->count);
    LS_BY_STORAGE(
        attr->storage, LS_LAUNCH((cast<T>), blocks, LS_BLOCK, stream, attr->count, src, static_cast<T *>(dst)));
}

void ls_cuda_cast_to_f32(const ls_flat_attr *attr, const void *src, float *dst, cudaStream_t stream) {
    int blocks = quad_blocks(attr->count);
    LS_BY_STORAGE(attr->storage,
        LS_LAUNCH((cast_to_f32<T>), blocks, LS_BLOCK, stream, attr->count, static_cast<const T *>(src), dst));
}

void ls_cuda_widen(const ls_flat_attr *attr, void *rounded, float *grad, cudaStream_t stream) {
    int blocks = quad_blocks(attr->count);
    LS_BY_STORAGE(
        attr->storage, LS_LAUNCH((widen<T>), blocks, LS_BLOCK, stream, attr->count, static_cast<T *>(rounded), grad));
}
