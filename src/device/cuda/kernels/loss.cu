// loss.cu - one launch. A power of two of neighbouring threads (lanes) has a sample; the last block that finishes adds
// up the losses of all samples, 256 side by side. Three reads and one write of the logits, the later ones from the L1; bound by
// latency: the launch, two chains of shuffles and the last block, some 5 us on an H200 whatever the batch.
#include <float.h>
#include "device/cuda/kernels/kernels.cuh"
#include "device/cuda/kernels/loss.h"

namespace {

constexpr unsigned ALL_LANES = 0xFFFFFFFFu;

struct top {
    float value;
    int k;
};

__device__ inline top higher(top a, top b) {
    return b.value > a.value || (b.value == a.value && b.k < a.k) ? b : a;
}

template <typename T> __device__ inline top find_top(const T *logits, const ls_cuda_loss_args &a, int lane, int lanes) {
    constexpr int size = ls_pack<T>::size;
    top best = { -INFINITY, a.channels };
    for (int first = lane * size; first < a.attr.logits.c; first += lanes * size) {
        ls_pack<T> z = ls_pack_load(logits + first);
        LS_UNROLL
        for (int j = 0; j < size; j++) {
            if (first + j < a.attr.logits.c) best = higher(best, { z.v[j], first + j });
        }
    }
    for (int step = lanes / 2; step > 0; step /= 2) {
        top other = { __shfl_xor_sync(ALL_LANES, best.value, step), __shfl_xor_sync(ALL_LANES, best.k, step) };
        best = higher(best, other);
    }
    return best;
}

__device__ inline float lanes_sum(float value, int lanes) {
    for (int step = lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(ALL_LANES, value, step);
    return value;
}

struct tally {
    double loss;
    int correct, bad;
    __device__ tally &operator+=(const tally &more) {
        loss += more.loss, correct += more.correct, bad += more.bad;
        return *this;
    }
};

// The last block of all: result += losses and counts, by a tree whose shape `count` alone decides.
__device__ inline void add_up(const ls_cuda_loss_args &a, int count, tally *room) {
    int t = static_cast<int>(threadIdx.x);
    tally mine = { 0, 0, 0 };
    LS_UNROLL_BY(4)
    for (int n = t; n < count; n += LS_BLOCK) {
        float value = a.losses[n];
        mine += { static_cast<double>(value), a.correct[n], !(fabsf(value) <= FLT_MAX) };
    }
    mine = ls_block_sum(mine, room, LS_BLOCK);
    if (t > 0) return;
    a.result->loss_sum += mine.loss;
    a.result->correct += mine.correct;
    a.result->bad += mine.bad;
    a.result->count += count;
}

template <typename T> __global__ void __launch_bounds__(LS_BLOCK) loss(ls_cuda_loss_args a, int lanes) {
    constexpr int size = ls_pack<T>::size;
    LS_SHARED(tally, room, LS_BLOCK);
    LS_SHARED(int, last, 1);
    int t = static_cast<int>(threadIdx.x), lane = t & (lanes - 1), classes = a.attr.logits.c, count = a.micro->count;
    int n = static_cast<int>(blockIdx.x) * (LS_BLOCK / lanes) + t / lanes;
    int row = n < a.attr.logits.n ? n : 0; // threads without a sample take part in the shuffles
    const T *logits = static_cast<const T *>(a.logits) + static_cast<int64_t>(row) * a.channels;
    bool real = n < count;
    float smoothing = a.attr.smoothing, spread = smoothing / static_cast<float>(classes);
    top best = find_top(logits, a, lane, lanes);
    float sum = 0, below = 0, weights = 0; // below: sum of weight * (max - logit)
    for (int first = lane * size; first < classes; first += lanes * size) {
        ls_pack<T> z = ls_pack_load(logits + first);
        LS_UNROLL
        for (int j = 0; j < size; j++) {
            if (first + j >= classes) continue;
            sum += expf(z.v[j] - best.value);
            float weight = a.weights ? a.weights[first + j] : 1;
            weights += weight;
            if (weight > 0) below += weight * (best.value - z.v[j]); // a target of 0 takes no part, as below
        }
    }
    sum = lanes_sum(sum, lanes);
    below = lanes_sum(below, lanes);
    weights = lanes_sum(weights, lanes);
    int label = real ? a.labels[n] : 0, partner = label;
    float mix = 0; // the partner's share
    if (real && a.samples) {
        partner = a.labels[a.attr.logits.n - 1 - n];
        mix = static_cast<float>(a.samples[n].mix) / 65536;
    }
    float of_label = (1 - smoothing) * (1 - mix), of_partner = (1 - smoothing) * mix, all = 1; // all: of the targets
    if (a.weights) {
        of_label *= a.weights[label];
        of_partner *= a.weights[partner];
        all = of_label + of_partner + spread * weights;
    }
    float log_sum = logf(sum), value = 0; // a target of 0 takes no part, even where log p is infinite
    if (of_label > 0) value = of_label * (log_sum + (best.value - ls_float(logits[label])));
    if (of_partner > 0) value += of_partner * (log_sum + (best.value - ls_float(logits[partner])));
    if (smoothing > 0) value += spread * (weights * log_sum + below);
    if (real && lane == 0) {
        a.losses[n] = value;
        a.correct[n] = best.k == label;
    }
    if (a.grad && n < a.attr.logits.n) {
        float scale = fabsf(value) <= FLT_MAX ? LS_GRADIENT_SCALE(a.state, a.attr.mean_of) : NAN;
        for (int first = lane * size; first < a.channels; first += lanes * size) {
            ls_pack<T> z = ls_pack_load(logits + first), g = {};
            LS_UNROLL
            for (int j = 0; j < size; j++) {
                if (!real || first + j >= classes) continue;
                float target = spread * (a.weights ? a.weights[first + j] : 1) + (first + j == label ? of_label : 0);
                if (first + j == partner) target += of_partner;
                g.v[j] = (expf(z.v[j] - best.value) / sum * all - target) * scale;
            }
            ls_pack_store(static_cast<T *>(a.grad) + static_cast<int64_t>(n) * a.channels + first, g);
        }
    }
    __threadfence();
    __syncthreads();
    if (t == 0) last[0] = atomicAdd(a.done, 1u) == gridDim.x - 1;
    __syncthreads();
    if (!last[0]) return;
    if (t == 0) *a.done = 0; // for the next launch
    __threadfence();
    add_up(a, count, room);
}

} // namespace

extern "C" void ls_cuda_loss(const ls_cuda_loss_args *args, cudaStream_t stream) {
    int packs = args->channels / (args->attr.storage == LS_F32 ? 4 : 8), lanes = 1;
    while (lanes < 32 && lanes * 4 <= packs) lanes *= 2; // two packs a thread, at least
    int blocks = ls_blocks(static_cast<int64_t>(args->attr.logits.n) * lanes, LS_BLOCK);
    LS_BY_STORAGE(args->attr.storage, LS_LAUNCH_BLOCK((loss<T>), blocks, LS_BLOCK, stream, *args, lanes));
}
