// focal.cu - focal cross-entropy, and binary cross-entropy of several labels a picture, in one launch with the lanes of
// loss.cu. There are two passes over the classes: the loss, then the gradient.
#include "device/cuda/kernels/loss.cuh"

namespace {

// From focal_of: f(p) and s(p) of op_loss.h. From focal_part and label_part: a class's part of the loss, and its target
// times s(p); with several labels a picture, in place of that the derivative of the loss.
struct part {
    float loss, slope;
};

__device__ inline part focal_of(float log_p, float q, float gamma) {
    if (gamma == 0) return { -log_p, 1 };
    float factor = powf(q, gamma), ratio = q > 0 ? -log_p / q : 1; // the ratio goes to 1 with q to 0
    return { factor * -log_p, factor * (1 + gamma * expf(log_p) * ratio) };
}

// For class k of a picture with one label. z: the scaled logit.
__device__ inline part focal_part(const ls_cuda_loss_args &a, const ls_loss_row &row, int k, float z) {
    float target = row.spread * (a.weights ? a.weights[k] : 1) + (k == row.label ? row.of_label : 0);
    if (k == row.partner) target += row.of_partner;
    float log_p = z - row.best.value - logf(row.sum);
    if (!(target > 0)) return { 0, 0 }; // avoids 0 * infinity
    if (log_p > 0) log_p = 0; // a fused multiply-add of the scale rounds otherwise than the maximum's; NaN stays
    part f = focal_of(log_p, -expm1f(log_p), a.attr.focal_gamma);
    return { target * f.loss, target * f.slope };
}

// Of class k of a picture with several labels.
__device__ inline part label_part(const ls_cuda_loss_args &a, const ls_loss_row &row, int k, float z) {
    int classes = a.attr.logits.c;
    float e = expf(-fabsf(z)), rest = log1pf(e), high = 1 / (1 + e), low = e / (1 + e), gamma = a.attr.focal_gamma;
    float p = z > 0 ? high : low, q = z > 0 ? low : high;
    float target = row.of_label * static_cast<float>(a.sets[static_cast<int64_t>(row.label) * classes + k]) +
                   row.of_partner * static_cast<float>(a.sets[static_cast<int64_t>(row.partner) * classes + k]) +
                   row.spread;
    float yes = a.weights ? a.weights[k] * target : target, no = 1 - target;
    part sum = { z == z ? 0.0F : z, 0 };
    if (yes > 0) { // skipping a share of 0 avoids 0 * infinity
        part f = focal_of((z < 0 ? z : 0) - rest, q, gamma);
        sum.loss += yes * f.loss, sum.slope -= yes * q * f.slope;
    }
    if (no > 0) {
        part f = focal_of((z > 0 ? -z : 0) - rest, p, gamma);
        sum.loss += no * f.loss, sum.slope += no * p * f.slope;
    }
    return { sum.loss / static_cast<float>(classes), sum.slope / static_cast<float>(classes) };
}

// The labels and targets of a picture with several labels.
__device__ inline ls_loss_row label_row(const ls_cuda_loss_args &a, int n, bool real) {
    ls_loss_row row = {};
    row.label = row.partner = real ? a.labels[n] : 0;
    float mix = 0, hard = 1 - a.attr.smoothing;
    if (real && a.samples) {
        row.partner = a.labels[a.attr.logits.n - 1 - n];
        mix = static_cast<float>(a.samples[n].mix) / 65536;
    }
    row.of_label = hard * (1 - mix), row.of_partner = hard * mix, row.spread = a.attr.smoothing / 2;
    return row;
}

template <typename T, bool SEVERAL>
__global__ void __launch_bounds__(LS_BLOCK) focal_loss(ls_cuda_loss_args a, int lanes) {
    LS_SHARED(ls_tally, room, LS_BLOCK);
    LS_SHARED(int, last, 1);
    int t = static_cast<int>(threadIdx.x), lane = t & (lanes - 1), classes = a.attr.logits.c, count = a.micro->count;
    int n = static_cast<int>(blockIdx.x) * (LS_BLOCK / lanes) + t / lanes;
    int at = n < a.attr.logits.n ? n : 0; // threads without a sample take part in the shuffles
    const T *logits = static_cast<const T *>(a.logits) + static_cast<int64_t>(at) * a.channels;
    bool real = n < count;
    ls_loss_row row = SEVERAL ? label_row(a, n, real) : ls_loss_row_of(a, logits, n, real, lane, lanes);
    float value = 0, all = 0, wrong = 0; // all: sum of the slopes; wrong: number of wrong labels
    for (int k = lane; real && k < classes; k += lanes) {
        float z = a.scale * ls_float(logits[k]);
        part one = SEVERAL ? label_part(a, row, k, z) : focal_part(a, row, k, z);
        value += one.loss, all += one.slope;
        if (SEVERAL) wrong += (z > 0) != (a.sets[static_cast<int64_t>(row.label) * classes + k] != 0);
    }
    row.value = ls_lanes_sum(value, lanes);
    row.all = ls_lanes_sum(all, lanes);
    wrong = ls_lanes_sum(wrong, lanes);
    if (real && lane == 0) {
        a.losses[n] = row.value;
        a.correct[n] = SEVERAL ? wrong == 0 : row.best.k == row.label;
    }
    if (a.grad && n < a.attr.logits.n) {
        float scale = ls_loss_scale(a, row);
        T *grad = static_cast<T *>(a.grad) + static_cast<int64_t>(n) * a.channels;
        for (int k = lane; k < a.channels; k += lanes) {
            float g = 0, z = a.scale * ls_float(logits[k]);
            if (real && k < classes) {
                part one = SEVERAL ? label_part(a, row, k, z) : focal_part(a, row, k, z);
                g = SEVERAL ? one.slope : expf(z - row.best.value) / row.sum * row.all - one.slope;
                g *= scale;
            }
            grad[k] = ls_store<T>(g);
        }
    }
    ls_loss_finish(a, count, room, last);
}

} // namespace

extern "C" void ls_cuda_focal_loss(const ls_cuda_loss_args *args, cudaStream_t stream) {
    int lanes = ls_loss_lanes(*args);
    int blocks = ls_blocks(static_cast<int64_t>(args->attr.logits.n) * lanes, LS_BLOCK);
    if (args->attr.several) {
        LS_BY_STORAGE(
            args->attr.storage, LS_LAUNCH_BLOCK((focal_loss<T, true>), blocks, LS_BLOCK, stream, *args, lanes));
    } else {
        LS_BY_STORAGE(
            args->attr.storage, LS_LAUNCH_BLOCK((focal_loss<T, false>), blocks, LS_BLOCK, stream, *args, lanes));
    }
}
