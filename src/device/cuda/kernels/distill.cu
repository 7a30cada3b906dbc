// distill.cu - one launch, in the shape of loss.cu: a sample has a power of two of neighbouring threads (lanes), and
// the last block that finishes adds up the losses of all samples. Latency limits it as it limits the loss.
#include <float.h>
#include "device/cuda/kernels/distill.h"
#include "device/cuda/kernels/kernels.cuh"

namespace {

// A softened row of logits: the probability of a class is exp((z - max) / temperature) / sum.
struct soft_row {
    float max, sum, log_sum;
};

template <typename T>
__device__ inline soft_row soften(const T *logits, const ls_cuda_distill_args &a, int lane, int lanes) {
    constexpr int size = ls_pack<T>::size;
    int classes = a.attr.logits.c;
    soft_row row = { -INFINITY, 0, 0 };
    for (int first = lane * size; first < classes; first += lanes * size) {
        ls_pack<T> z = ls_pack_load(logits + first);
        LS_UNROLL
        for (int j = 0; j < size; j++) {
            if (first + j < classes) row.max = fmaxf(row.max, z.v[j]);
        }
    }
    for (int step = lanes / 2; step > 0; step /= 2)
        row.max = fmaxf(row.max, __shfl_xor_sync(LS_ALL_LANES, row.max, step));
    for (int first = lane * size; first < classes; first += lanes * size) {
        ls_pack<T> z = ls_pack_load(logits + first);
        LS_UNROLL
        for (int j = 0; j < size; j++) {
            if (first + j < classes) row.sum += expf((z.v[j] - row.max) / a.attr.temperature);
        }
    }
    row.sum = ls_lanes_sum(row.sum, lanes);
    row.log_sum = logf(row.sum);
    return row;
}

__device__ inline float log_of(float z, const soft_row &row, float temperature) {
    return (z - row.max) / temperature - row.log_sum;
}

// Returns the loss of a sample.
template <typename T>
__device__ inline float loss_of(const ls_cuda_distill_args &a, const T *logits, const T *teacher, const soft_row &p,
    const soft_row &q, int lane, int lanes) {
    constexpr int size = ls_pack<T>::size;
    int classes = a.attr.logits.c;
    float temperature = a.attr.temperature, sum = 0;
    for (int first = lane * size; first < classes; first += lanes * size) {
        ls_pack<T> z = ls_pack_load(logits + first), u = ls_pack_load(teacher + first);
        LS_UNROLL
        for (int j = 0; j < size; j++) {
            float log_q = log_of(u.v[j], q, temperature), of_teacher = expf(log_q);
            // skipping a probability of 0 avoids 0 * infinity
            if (first + j < classes && of_teacher != 0) sum += of_teacher * (log_q - log_of(z.v[j], p, temperature));
        }
    }
    return a.attr.share * temperature * temperature * ls_lanes_sum(sum, lanes);
}

struct tally {
    double loss;
    int bad;
    __device__ tally &operator+=(const tally &more) {
        loss += more.loss, bad += more.bad;
        return *this;
    }
};

// Adds up the losses of all samples in the last block that gets here, in a tree whose shape depends on `count` only.
__device__ inline void finish(const ls_cuda_distill_args &a, int count, tally *room, int *last) {
    int t = static_cast<int>(threadIdx.x);
    __threadfence();
    __syncthreads();
    if (t == 0) last[0] = atomicAdd(a.done, 1u) == gridDim.x - 1;
    __syncthreads();
    if (!last[0]) return;
    if (t == 0) *a.done = 0; // for the next launch
    __threadfence();
    tally mine = { 0, 0 };
    for (int n = t; n < count; n += LS_BLOCK) mine += { static_cast<double>(a.losses[n]), a.bad[n] };
    mine = ls_block_sum(mine, room, LS_BLOCK);
    if (t > 0) return;
    a.result->loss_sum += LS_LOSS_STEP(mine.loss);
    a.result->bad += mine.bad;
}

template <typename T> __global__ void __launch_bounds__(LS_BLOCK) distill(ls_cuda_distill_args a, int lanes) {
    constexpr int size = ls_pack<T>::size;
    LS_SHARED(tally, room, LS_BLOCK);
    LS_SHARED(int, last, 1);
    int t = static_cast<int>(threadIdx.x), lane = t & (lanes - 1), classes = a.attr.logits.c, count = a.micro->count;
    int n = static_cast<int>(blockIdx.x) * (LS_BLOCK / lanes) + t / lanes;
    bool real = n < count; // other threads take part in the shuffles, with sample 0
    int64_t at = static_cast<int64_t>(real ? n : 0) * a.channels;
    const T *logits = static_cast<const T *>(a.logits) + at, *teacher = static_cast<const T *>(a.teacher) + at;
    T *grad = static_cast<T *>(a.grad) + at;
    soft_row p = soften(logits, a, lane, lanes), q = soften(teacher, a, lane, lanes);
    float loss = loss_of(a, logits, teacher, p, q, lane, lanes);
    bool finite = fabsf(loss) <= FLT_MAX;
    if (real && lane == 0) {
        a.losses[n] = loss;
        // a gradient that is not a number: the loss before has counted the sample
        a.bad[n] = !finite && fabsf(ls_float(grad[0])) <= INFINITY;
    }
    float scale = finite ? a.attr.share * a.attr.temperature * LS_GRADIENT_SCALE(a.state, a.attr.mean_of) : NAN;
    for (int first = lane * size; real && first < classes; first += lanes * size) {
        ls_pack<T> z = ls_pack_load(logits + first), u = ls_pack_load(teacher + first), g = ls_pack_load(grad + first);
        LS_UNROLL
        for (int j = 0; j < size; j++) {
            float of_student = expf(log_of(z.v[j], p, a.attr.temperature));
            float of_teacher = expf(log_of(u.v[j], q, a.attr.temperature));
            if (first + j < classes) g.v[j] += (of_student - of_teacher) * scale;
        }
        ls_pack_store(grad + first, g);
    }
    finish(a, count, room, last);
}

} // namespace

extern "C" void ls_cuda_distill(const ls_cuda_distill_args *args, cudaStream_t stream) {
    int packs = args->channels / (args->attr.storage == LS_F32 ? 4 : 8), lanes = 1;
    while (lanes < 32 && lanes * 4 <= packs) lanes *= 2; // of several threads, each has at least two packs
    int blocks = ls_blocks(static_cast<int64_t>(args->attr.logits.n) * lanes, LS_BLOCK);
    LS_BY_STORAGE(args->attr.storage, LS_LAUNCH_BLOCK((distill<T>), blocks, LS_BLOCK, stream, *args, lanes));
}
