// bias.cu - bias and its gradient, which the libraries' convolutions lack.
//
// Estimates for 16-bit storage on an H200 (sm_90): 4.8 TB/s and 132 multiprocessors, each needing 24 KiB of
// loads in flight. Blocks of 256 threads; "blocks" are blocks on a multiprocessor.
//                   bytes/element   registers   blocks   in flight   least time for a map of 64 MiB
//   bias_add        4               28          8        32 KiB      28 us
//   bias_gradient   2               48          1, 2     16 KiB up   14 to 21 us (21: one block on each)
#include "device/cuda/kernels/direct.h"
#include "device/cuda/kernels/kernels.cuh"

enum {
    COLUMNS_MAX = 32,     // packs of channels in a block of the bias gradient
    ROWS_OF_THREAD = 4,   // bias gradient: rows of a thread, more only if there are BIAS_PARTS_MAX parts
    BIAS_PARTS_MAX = 128, // most parts of the rows that are summed by blocks of their own
    PACK_MAX = 8          // largest pack of all storage types
};

static __device__ inline int64_t thread_number() {
    return static_cast<int64_t>(blockIdx.x) * LS_BLOCK + threadIdx.x;
}

// dst += bias in each row, then relu if wanted. 4 or 8 bytes for each element. Grid: one thread for each pack of
// channels of a row; each has 16 bytes in flight.
template <typename T>
static __global__ void bias_add(int64_t threads, ls_divider by_packs, const float *bias, bool relu, T *dst) {
    constexpr int size = ls_pack<T>::size, quad = ls_pack<float>::size;
    int64_t at = thread_number();
    if (at >= threads) return;
    ls_pack<T> value = ls_pack_load(dst + at * size);
    int64_t row = threads > INT32_MAX ? at / by_packs.divisor : ls_divide(static_cast<uint32_t>(at), by_packs);
    if (bias) bias += (at - row * by_packs.divisor) * size;
    for (int i = 0; i < size; i += quad) {
        ls_pack<float> add = {};
        if (bias) add = ls_pack_load(bias + i);
        for (int k = 0; k < quad; k++) value.v[i + k] += add.v[k];
    }
    for (int i = 0; i < size; i++) value.v[i] = relu && value.v[i] < 0 ? 0 : value.v[i]; // NaN stays NaN
    ls_pack_store(dst + at * size, value);
}

template <typename T>
static void bias_add_launch(int64_t rows, int channels, const float *bias, int relu, T *dst, cudaStream_t stream) {
    int packs = channels / ls_pack<T>::size;
    int64_t threads = rows * packs;
    LS_LAUNCH((bias_add<T>), ls_blocks(threads, LS_BLOCK), LS_BLOCK, stream, threads, ls_divider_of(packs), bias,
        relu != 0, dst);
}

void ls_cuda_bias_add(
    int64_t rows, int channels, ls_dtype storage, const float *bias, int relu, void *dst, cudaStream_t stream) {
    LS_BY_STORAGE(storage, bias_add_launch(rows, channels, bias, relu, static_cast<T *>(dst), stream));
}

// --- the bias gradient ---------------------------------------------------------------------------
// A block sums one part of the rows of up to COLUMNS_MAX packs of channels. It handles `lanes` rows at a time; each
// thread sums its own pack, and then the lanes are added. The last block that finishes for these columns adds up the
// parts. The order depends on the shape only.

typedef struct {
    int packs, columns, lanes, groups, parts; // groups: groups of columns; there are groups * parts blocks
} column_layout;

static column_layout layout_of(int64_t rows, int channels, int pack) {
    column_layout l;
    l.packs = channels / pack;
    l.columns = l.packs < COLUMNS_MAX ? l.packs : COLUMNS_MAX;
    l.lanes = LS_BLOCK / l.columns;
    l.groups = (l.packs + l.columns - 1) / l.columns;
    int64_t parts = (rows + l.lanes * ROWS_OF_THREAD - 1) / (l.lanes * ROWS_OF_THREAD);
    l.parts = parts < BIAS_PARTS_MAX ? static_cast<int>(parts) : BIAS_PARTS_MAX;
    return l;
}

// grad_bias += the sum over the parts, for the block's columns, from [parts][packs][pack]
static __device__ inline void add_parts(
    const column_layout &l, int size, int first_pack, const float *parts, float *room, float *grad_bias) {
    int t = static_cast<int>(threadIdx.x), width = l.columns * size, lanes = LS_BLOCK / width;
    int channels = l.packs * size, channel = first_pack * size + t % width;
    float sum = 0;
    LS_UNROLL_BY(16) // so each thread has 16 loads in flight
    for (int part = t / width; channel < channels && part < l.parts; part += lanes)
        sum += parts[static_cast<int64_t>(part) * channels + channel];
    room[t] = sum;
    __syncthreads();
    if (t >= width || channel >= channels) return;
    for (int i = 1; i < lanes; i++) sum += room[i * width + t];
    grad_bias[channel] += sum;
}

// Sums grad_dst over the rows, and adds the sums to grad_bias. 2 or 4 bytes for each element. A group of columns has up
// to 128 parts. A thread has 64 bytes in flight, a block 16 KiB. One or two blocks run on a multiprocessor, and an H200
// needs 32 KiB in flight on each. So latency limits the kernel below about 10 MB.
template <typename T>
static __global__ void bias_gradient(
    column_layout l, int64_t rows, const T *grad_dst, float *parts, unsigned *done, float *grad_bias) {
    constexpr int size = ls_pack<T>::size, AHEAD = 4;
    LS_SHARED(float, room, LS_BLOCK *PACK_MAX);
    LS_SHARED(int, last, 1);
    int t = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x), part = block / l.groups;
    int group = block % l.groups, first_pack = group * l.columns, column = t % l.columns, lane = t / l.columns;
    ls_pack<T> sum = {};
    if (lane < l.lanes && first_pack + column < l.packs) {
        const T *from = grad_dst + (first_pack + column) * size;
        int64_t step = static_cast<int64_t>(l.parts) * l.lanes;
        for (int64_t row = static_cast<int64_t>(part) * l.lanes + lane; row < rows; row += AHEAD * step) {
            uint4 raw[AHEAD]; // all loads are in flight before the first is used
            LS_UNROLL
            for (int u = 0; u < AHEAD; u++) {
                if (row + u * step < rows) raw[u] = ls_pack_raw(from + (row + u * step) * l.packs * size);
            }
            LS_UNROLL
            for (int u = 0; u < AHEAD; u++) {
                if (row + u * step >= rows) break;
                ls_pack<T> in = ls_pack_unpack<T>(raw[u]);
                for (int i = 0; i < size; i++) sum.v[i] += in.v[i];
            }
        }
    }
    for (int i = 0; i < size; i++) room[t * size + i] = sum.v[i];
    __syncthreads();
    if (t < l.columns * size && first_pack * size + t < l.packs * size) {
        float all = 0;
        LS_UNROLL_BY(16) // few threads are left, so the number of loads in flight decides
        for (int i = 0; i < l.lanes; i++) all += room[i * l.columns * size + t];
        parts[(static_cast<int64_t>(part) * l.packs + first_pack) * size + t] = all;
    }
    __threadfence();
    __syncthreads();
    if (t == 0) last[0] = atomicAdd(&done[group], 1u) == static_cast<unsigned>(l.parts) - 1;
    __syncthreads();
    if (!last[0]) return;
    if (t == 0) done[group] = 0; // for the next launch
    __threadfence();
    add_parts(l, size, first_pack, parts, room, grad_bias);
}

template <typename T>
static void bias_gradient_launch(int64_t rows, int channels, const T *grad_dst, float *grad_bias, float *parts,
    unsigned *done, cudaStream_t stream) {
    column_layout l = layout_of(rows, channels, ls_pack<T>::size);
    LS_LAUNCH_BLOCK(
        (bias_gradient<T>), l.groups * l.parts, LS_BLOCK, stream, l, rows, grad_dst, parts, done, grad_bias);
}

void ls_cuda_bias_gradient(int64_t rows, int channels, ls_dtype storage, const void *grad_dst, float *grad_bias,
    void *workspace, unsigned *done, cudaStream_t stream) {
    LS_BY_STORAGE(storage, bias_gradient_launch(rows, channels, static_cast<const T *>(grad_dst), grad_bias,
                               static_cast<float *>(workspace), done, stream));
}

size_t ls_cuda_bias_gradient_workspace(int64_t rows, int channels, ls_dtype storage) {
    int pack = 0;
    LS_BY_STORAGE(storage, pack = ls_pack<T>::size);
    return static_cast<size_t>(layout_of(rows, channels, pack).parts) * static_cast<size_t>(channels) * sizeof(float);
}

size_t ls_cuda_bias_gradient_counters(int64_t rows, int channels, ls_dtype storage) {
    int pack = 0;
    LS_BY_STORAGE(storage, pack = ls_pack<T>::size);
    return static_cast<size_t>(layout_of(rows, channels, pack).groups);
}
