// loss.cuh - softmax cross-entropy of a row of logits, computed by neighbouring threads (lanes), and the sums over all
// rows. Shared by the losses (loss.cu, focal.cu) and the head of a network (head.cu).
#pragma once

#include <float.h>
#include "device/cuda/kernels/kernels.cuh"
#include "device/cuda/kernels/loss.h"

// Returns the number of threads of a sample. If there are several, each has at least two packs.
inline int ls_loss_lanes(const ls_cuda_loss_args &a) {
    int packs = a.channels / (a.attr.storage == LS_F32 ? 4 : 8), lanes = 1;
    while (lanes < 32 && lanes * 4 <= packs) lanes *= 2;
    return lanes;
}

struct ls_top {
    float value;
    int k;
};

__device__ inline ls_top ls_higher(ls_top a, ls_top b) {
    return b.value > a.value || (b.value == a.value && b.k < a.k) ? b : a;
}

template <typename T> __device__ inline ls_pack<T> ls_load_scaled(const T *logits, float scale) {
    ls_pack<T> z = ls_pack_load(logits);
    LS_UNROLL
    for (int j = 0; j < z.size; j++) z.v[j] *= scale;
    return z;
}

template <typename T>
__device__ inline ls_top ls_find_top(const T *logits, const ls_cuda_loss_args &a, int lane, int lanes) {
    constexpr int size = ls_pack<T>::size;
    ls_top best = { -INFINITY, a.channels };
    for (int first = lane * size; first < a.attr.logits.c; first += lanes * size) {
        ls_pack<T> z = ls_load_scaled(logits + first, a.scale);
        LS_UNROLL
        for (int j = 0; j < size; j++) {
            if (first + j < a.attr.logits.c) best = ls_higher(best, { z.v[j], first + j });
        }
    }
    for (int step = lanes / 2; step > 0; step /= 2) {
        ls_top other = { __shfl_xor_sync(LS_ALL_LANES, best.value, step), __shfl_xor_sync(LS_ALL_LANES, best.k, step) };
        best = ls_higher(best, other);
    }
    return best;
}

struct ls_loss_row {
    ls_top best;
    float sum; // sum of the exponentials
    int label, partner;
    // targets: added for the label, added for the partner, share of every class; sum of all targets (focal.cu: slopes)
    float of_label, of_partner, spread, all;
    float value; // the loss
};

// The loss of sample n, computed by `lanes` threads of a warp; all threads of the warp must call this. real: the sample
// counts; if not, its label is not read.
template <typename T>
__device__ inline ls_loss_row ls_loss_row_of(
    const ls_cuda_loss_args &a, const T *logits, int n, bool real, int lane, int lanes) {
    constexpr int size = ls_pack<T>::size;
    int classes = a.attr.logits.c;
    float smoothing = a.attr.smoothing;
    ls_loss_row row = {};
    row.spread = smoothing / static_cast<float>(classes);
    row.best = ls_find_top(logits, a, lane, lanes);
    float sum = 0, below = 0, weights = 0; // below: sum of weight * (max - logit)
    for (int first = lane * size; first < classes; first += lanes * size) {
        ls_pack<T> z = ls_load_scaled(logits + first, a.scale);
        LS_UNROLL
        for (int j = 0; j < size; j++) {
            if (first + j >= classes) continue;
            sum += expf(z.v[j] - row.best.value);
            float weight = a.weights ? a.weights[first + j] : 1;
            weights += weight;
            if (weight > 0) below += weight * (row.best.value - z.v[j]); // skipping a weight of 0 avoids 0 * infinity
        }
    }
    row.sum = ls_lanes_sum(sum, lanes);
    below = ls_lanes_sum(below, lanes);
    weights = ls_lanes_sum(weights, lanes);
    row.label = row.partner = real ? a.labels[n] : 0;
    float mix = 0; // share of the partner's target
    if (real && a.samples) {
        row.partner = a.labels[a.attr.logits.n - 1 - n];
        mix = static_cast<float>(a.samples[n].mix) / 65536;
    }
    row.of_label = (1 - smoothing) * (1 - mix), row.of_partner = (1 - smoothing) * mix, row.all = 1;
    if (a.weights) {
        row.of_label *= a.weights[row.label];
        row.of_partner *= a.weights[row.partner];
        row.all = row.of_label + row.of_partner + row.spread * weights;
    }
    float log_sum = logf(row.sum); // skipping a target of 0 avoids 0 * infinity where log p is infinite
    if (row.of_label > 0)
        row.value = row.of_label * (log_sum + (row.best.value - a.scale * ls_float(logits[row.label])));
    if (row.of_partner > 0)
        row.value += row.of_partner * (log_sum + (row.best.value - a.scale * ls_float(logits[row.partner])));
    if (smoothing > 0) row.value += row.spread * (weights * log_sum + below);
    return row;
}

// Returns the factor of every element of the row's gradient; NaN if the loss is not finite.
__device__ inline float ls_loss_scale(const ls_cuda_loss_args &a, const ls_loss_row &row) {
    return fabsf(row.value) <= FLT_MAX ? LS_GRADIENT_SCALE(a.state, a.attr.mean_of) * a.scale : NAN;
}

// The gradient with respect to logit k. z: the scaled logit.
__device__ inline float ls_loss_gradient(
    const ls_cuda_loss_args &a, const ls_loss_row &row, int k, float z, float scale) {
    float target = row.spread * (a.weights ? a.weights[k] : 1) + (k == row.label ? row.of_label : 0);
    if (k == row.partner) target += row.of_partner;
    return (expf(z - row.best.value) / row.sum * row.all - target) * scale;
}

struct ls_tally {
    double loss;
    int correct, bad;
    __device__ ls_tally &operator+=(const ls_tally &more) {
        loss += more.loss, correct += more.correct, bad += more.bad;
        return *this;
    }
};

// Called by the last block: result += losses and counts, added in a tree whose shape depends on `count` only.
__device__ inline void ls_loss_add_up(const ls_cuda_loss_args &a, int count, ls_tally *room) {
    int t = static_cast<int>(threadIdx.x);
    ls_tally mine = { 0, 0, 0 };
    LS_UNROLL_BY(4)
    for (int n = t; n < count; n += LS_BLOCK) {
        float value = a.losses[n];
        mine += { static_cast<double>(value), a.correct[n], !(fabsf(value) <= FLT_MAX) };
    }
    mine = ls_block_sum(mine, room, LS_BLOCK);
    if (t > 0) return;
    a.result->loss_sum += LS_LOSS_STEP(mine.loss);
    a.result->correct += mine.correct;
    a.result->bad += mine.bad;
    a.result->count += count;
}

// Adds up the losses of all samples in the last block that gets here. Every block of LS_BLOCK threads calls it after it
// has stored its samples' losses. room: LS_BLOCK elements. last: one element.
__device__ inline void ls_loss_finish(const ls_cuda_loss_args &a, int count, ls_tally *room, int *last) {
    int t = static_cast<int>(threadIdx.x);
    __threadfence();
    __syncthreads();
    if (t == 0) last[0] = atomicAdd(a.done, 1u) == gridDim.x - 1;
    __syncthreads();
    if (!last[0]) return;
    if (t == 0) *a.done = 0; // for the next launch
    __threadfence();
    ls_loss_add_up(a, count, room);
}
