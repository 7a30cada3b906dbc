// head.cu - the head of a network in one launch: global pooling, a linear layer with few outputs, the loss, and the
// gradient down to the map. The linear layer's own gradients are another launch.
//   head            A block handles one sample. Its threads share the map's pixels. Each of its eight warps computes an
//                   eighth of the classes. The first warp computes the loss, with one lane for each class. Then each
//                   thread writes the pixels that it read. The last block that finishes adds up the losses, as in
//                   loss.cu.
//   head_gradient   A block handles COLUMNS packs of inputs and CLASSES outputs for all samples, which its rows of
//                   threads share.
//
// Estimates for 16-bit storage on an H200 (sm_90): 4.8 TB/s and 132 multiprocessors, each needing 24 KiB of
// loads in flight.
//                   bytes/element   registers        blocks on a multiprocessor   in flight
//   head            4 of the map    40 (maximum 47)  6 (5)                        16 KiB for each block
//   head_gradient   2 of src        64               4                            8 KiB for each block
// Latency limits both at the usual batch sizes. head: the launch and about eight round trips (the map; the weight,
// twice, which each block reads from the L2; labels; the last block's losses). That is 7 us for resnet20 at batch 128,
// where pooling, product, loss and their gradients would be five launches and 15 us. For resnet9 at batch 512 it is 10
// us; memory bandwidth accounts for 3.5 of them (8 MiB read, 8 written). head_gradient: the launch and two round
// trips, 4 us; product and bias gradient would be two launches.
#include "device/cuda/kernels/head.h"
#include "device/cuda/kernels/loss.cuh"

namespace {

constexpr int WARPS = LS_BLOCK / 32;

// The data that a block keeps for its sample.
struct kept {
    float *inputs; // pooled channels, rounded to storage; later their gradients
    int *winners;  // winning pixels of max pooling
    float *logits; // LS_HEAD_CLASSES logits, then as many gradients
};

// A thread's share of the map: one pack of channels of every `rows`-th pixel.
struct share {
    int pack, row, rows;
    bool inside;
};

__device__ inline share share_of(int packs) {
    int t = static_cast<int>(threadIdx.x), rows = LS_BLOCK / packs;
    return { t % packs, t / packs, rows, t / packs < rows };
}

// Pools over the thread's pixels, then over all rows of threads in their order. values, numbers: a pack for each
// thread.
template <typename T, bool MAX>
__device__ inline void pool(
    const ls_cuda_head_args &h, const T *src, share mine, int pixels, const kept &keep, float *values, int *numbers) {
    constexpr int size = ls_pack<T>::size;
    int t = static_cast<int>(threadIdx.x), n = static_cast<int>(blockIdx.x);
    float best[size];
    int winner[size];
    for (int j = 0; j < size; j++) best[j] = MAX ? -INFINITY : 0, winner[j] = mine.row;
    LS_UNROLL_BY(4)
    for (int p = mine.row; mine.inside && p < pixels; p += mine.rows) {
        ls_pack<T> in = ls_pack_load(src + static_cast<int64_t>(p) * h.channels + mine.pack * size);
        LS_UNROLL
        for (int j = 0; j < size; j++) {
            if (!MAX) best[j] += in.v[j];
            if (MAX && in.v[j] > best[j]) best[j] = in.v[j], winner[j] = p;
        }
    }
    LS_UNROLL
    for (int j = 0; j < size; j++) {
        values[t * size + j] = best[j];
        if (MAX) numbers[t * size + j] = winner[j];
    }
    __syncthreads();
    int rows = mine.rows < pixels ? mine.rows : pixels;
    for (int c = t; c < h.channels; c += LS_BLOCK) {
        float all = values[c];
        int first = MAX ? numbers[c] : 0;
        LS_UNROLL_BY(4)
        for (int r = 1; r < rows; r++) {
            float value = values[r * h.channels + c];
            if (!MAX) {
                all += value;
            } else if (value > all || (value == all && numbers[r * h.channels + c] < first)) {
                all = value, first = numbers[r * h.channels + c];
            }
        }
        T stored = ls_store<T>(MAX ? all : all / static_cast<float>(pixels));
        keep.inputs[c] = ls_float(stored);
        if (MAX) keep.winners[c] = first;
        if (h.pooled) static_cast<T *>(h.pooled)[static_cast<int64_t>(n) * h.channels + c] = stored;
    }
    __syncthreads();
}

// Computes the sample's logits from the pooled channels; each warp computes some of the classes.
template <typename T> __device__ inline void product(const ls_cuda_head_args &h, const kept &keep) {
    constexpr int size = ls_pack<T>::size;
    int t = static_cast<int>(threadIdx.x), lane = t % 32, classes = h.loss.attr.logits.c;
    for (int k = t / 32; k < classes; k += WARPS) {
        const T *weight = static_cast<const T *>(h.weight) + static_cast<int64_t>(k) * h.channels;
        float sum = 0;
        LS_UNROLL_BY(2)
        for (int first = lane * size; first < h.channels; first += 32 * size) {
            ls_pack<T> w = ls_pack_load(weight + first);
            LS_UNROLL
            for (int j = 0; j < size; j++) sum += w.v[j] * keep.inputs[first + j];
        }
        sum = ls_lanes_sum(sum, 32);
        if (lane == 0) keep.logits[k] = h.bias ? sum + ls_float(static_cast<const T *>(h.bias)[k]) : sum;
    }
    for (int k = classes + t; k < LS_HEAD_CLASSES; k += LS_BLOCK) keep.logits[k] = 0; // the loss reads whole packs
    __syncthreads();
}

// Run by the first warp: the sample's loss and its gradient, with one lane for each class.
template <typename T> __device__ inline void row_of_logits(const ls_cuda_head_args &h, const kept &keep, int count) {
    const ls_cuda_loss_args &a = h.loss;
    int lane = static_cast<int>(threadIdx.x), n = static_cast<int>(blockIdx.x);
    bool real = n < count;
    ls_loss_row row = ls_loss_row_of<float>(a, keep.logits, n, real, lane, 32);
    float z = keep.logits[lane], scale = ls_loss_scale(a, row);
    float grad = real && lane < a.attr.logits.c ? ls_loss_gradient(a, row, lane, z * a.scale, scale) : 0;
    keep.logits[LS_HEAD_CLASSES + lane] = grad;
    if (lane < a.channels) {
        int64_t at = static_cast<int64_t>(n) * a.channels + lane;
        static_cast<T *>(h.logits)[at] = ls_store<T>(z);
        static_cast<T *>(a.grad)[at] = ls_store<T>(grad);
    }
    if (real && lane == 0) {
        a.losses[n] = row.value;
        a.correct[n] = row.best.k == row.label;
    }
}

// Computes the gradient of the pooled channels and then that of the map. Padding stays zero, whatever the gradients
// are.
template <typename T, bool MAX>
__device__ inline void spread(const ls_cuda_head_args &h, T *grad_src, share mine, int pixels, const kept &keep) {
    constexpr int size = ls_pack<T>::size;
    int t = static_cast<int>(threadIdx.x), classes = h.loss.attr.logits.c;
    const float *grads = keep.logits + LS_HEAD_CLASSES;
    for (int c = t; c < h.channels; c += LS_BLOCK) {
        const T *weight = static_cast<const T *>(h.weight) + c;
        float sum = 0;
        LS_UNROLL_BY(8)
        for (int k = 0; k < classes; k++) sum += grads[k] * ls_float(weight[static_cast<int64_t>(k) * h.channels]);
        keep.inputs[c] = c >= h.loss.attr.src.c ? 0 : MAX ? sum : sum / static_cast<float>(pixels);
    }
    __syncthreads();
    for (int p = mine.row; mine.inside && p < pixels; p += mine.rows) {
        ls_pack<T> out;
        LS_UNROLL
        for (int j = 0; j < size; j++) {
            int c = mine.pack * size + j;
            out.v[j] = MAX && keep.winners[c] != p ? 0 : keep.inputs[c];
        }
        ls_pack_store(grad_src + static_cast<int64_t>(p) * h.channels + mine.pack * size, out);
    }
}

template <typename T, bool MAX> __global__ void __launch_bounds__(LS_BLOCK, 4) head(ls_cuda_head_args h) {
    constexpr int size = ls_pack<T>::size;
    LS_SHARED(float, inputs, LS_HEAD_CHANNELS);
    LS_SHARED(int, winners, MAX ? LS_HEAD_CHANNELS : 1);
    LS_SHARED(float, values, LS_BLOCK *size);
    LS_SHARED(int, numbers, MAX ? LS_BLOCK *size : 1);
    LS_SHARED(float4, logits, LS_HEAD_CLASSES / 2);
    LS_SHARED(ls_tally, room, LS_BLOCK);
    LS_SHARED(int, last, 1);
    const kept keep = { inputs, winners, reinterpret_cast<float *>(logits) };
    int pixels = h.loss.attr.src.h * h.loss.attr.src.w, count = h.loss.micro->count;
    int64_t sample = static_cast<int64_t>(blockIdx.x) * pixels * h.channels;
    share mine = share_of(h.channels / size);
    pool<T, MAX>(h, static_cast<const T *>(h.src) + sample, mine, pixels, keep, values, numbers);
    product<T>(h, keep);
    if (threadIdx.x < 32) row_of_logits<T>(h, keep, count);
    __syncthreads();
    spread<T, MAX>(h, static_cast<T *>(h.grad_src) + sample, mine, pixels, keep);
    ls_loss_finish(h.loss, count, room, last);
}

// --- the linear layer's gradients -----------------------------------------------------------------

constexpr int COLUMNS = 4, CLASSES = 4, ROWS = LS_BLOCK / COLUMNS;

template <typename T> __global__ void __launch_bounds__(LS_BLOCK) head_gradient(ls_cuda_head_gradient_args a) {
    constexpr int size = ls_pack<T>::size, width = COLUMNS * size, sums = CLASSES * width;
    LS_SHARED(float, room, ROWS *sums);
    LS_SHARED(float, bias_room, ROWS *CLASSES);
    int t = static_cast<int>(threadIdx.x), column = t % COLUMNS, row = t / COLUMNS;
    int first = static_cast<int>(blockIdx.x) * width, channel = first + column * size;
    int first_class = static_cast<int>(blockIdx.y) * CLASSES;
    const T *src = static_cast<const T *>(a.src) + channel, *grads = static_cast<const T *>(a.grad_dst) + first_class;
    float sum[CLASSES][size] = {}, bias[CLASSES] = {};
    bool inside = channel < a.padded_inputs;
    LS_UNROLL_BY(2)
    for (int n = row; inside && n < a.samples; n += ROWS) {
        ls_pack<T> in = ls_pack_load(src + static_cast<int64_t>(n) * a.padded_inputs);
        LS_UNROLL
        for (int k = 0; k < CLASSES; k++) {
            float grad = ls_float(grads[static_cast<int64_t>(n) * a.padded_outputs + k]);
            bias[k] += grad;
            LS_UNROLL
            for (int j = 0; j < size; j++) sum[k][j] += grad * in.v[j];
        }
    }
    LS_UNROLL
    for (int k = 0; k < CLASSES; k++) {
        LS_UNROLL
        for (int j = 0; j < size; j++) room[row * sums + k * width + column * size + j] = sum[k][j];
        if (column == 0) bias_room[row * CLASSES + k] = bias[k];
    }
    __syncthreads();
    if (t < sums) {
        int output = first_class + t / width, input = first + t % width;
        float all = 0;
        LS_UNROLL_BY(16)
        for (int r = 0; r < ROWS; r++) all += room[r * sums + t];
        if (output < a.outputs && input < a.inputs)
            a.grad_weight[static_cast<int64_t>(output) * a.padded_inputs + input] += all;
    } else if (t < sums + CLASSES && blockIdx.x == 0 && a.grad_bias && first_class + t - sums < a.outputs) {
        float all = 0;
        LS_UNROLL_BY(16)
        for (int r = 0; r < ROWS; r++) all += bias_room[r * CLASSES + t - sums];
        a.grad_bias[first_class + t - sums] += all;
    }
}

template <typename T> void launch_gradient(const ls_cuda_head_gradient_args *a, cudaStream_t stream) {
    int width = COLUMNS * ls_pack<T>::size;
    dim3 blocks(static_cast<unsigned>(ls_blocks(a->padded_inputs, width)),
        static_cast<unsigned>(ls_blocks(a->outputs, CLASSES)));
    LS_LAUNCH_BLOCK((head_gradient<T>), blocks, LS_BLOCK, stream, *a);
}

} // namespace

extern "C" void ls_cuda_head(const ls_cuda_head_args *args, cudaStream_t stream) {
    int samples = args->loss.attr.src.n;
    if (args->loss.attr.max_pool) {
        LS_BY_STORAGE(args->loss.attr.storage, LS_LAUNCH_BLOCK((head<T, true>), samples, LS_BLOCK, stream, *args));
    } else {
        LS_BY_STORAGE(args->loss.attr.storage, LS_LAUNCH_BLOCK((head<T, false>), samples, LS_BLOCK, stream, *args));
    }
}

extern "C" void ls_cuda_head_gradient(const ls_cuda_head_gradient_args *args, cudaStream_t stream) {
    LS_BY_STORAGE(args->storage, launch_gradient<T>(args, stream));
}
