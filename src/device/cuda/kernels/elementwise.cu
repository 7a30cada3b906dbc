// elementwise.cu - one thread handles one 16-byte pack. Memory bandwidth limits these kernels.
//
// Estimates for 16-bit storage on an H200 (sm_90): 4.8 TB/s and 132 multiprocessors, each needing 24 KiB of
// loads in flight. Blocks of 256 threads; "blocks" are blocks on a multiprocessor.
//                                     bytes/element   registers   blocks   in flight    least time, 64 MiB map
//   relu, activations, scale          4               15 to 31    8        32 KiB       28 us
//   their backward, add, multiply     6               18 to 31    8        64 KiB       42 us
//   dropout, four pixels; one         4               64, 38      4, 6     64, 24 KiB   40 us (generator)
#include "device/cuda/kernels/activations.cuh"
#define LS_PHILOX_INLINE static __host__ __device__ inline
#include "base/philox_core.h"
#include "config/purpose.h"
#include "device/cuda/kernels/elementwise.h"

namespace {

// Index of this thread's pack, or -1 after the last pack.
__device__ inline int64_t own_pack(int64_t packs) {
    int64_t i = static_cast<int64_t>(blockIdx.x) * LS_BLOCK + threadIdx.x;
    return i < packs ? i : -1;
}

template <typename T> __global__ void __launch_bounds__(LS_BLOCK) relu(const T *src, T *dst, int64_t packs) {
    int64_t i = own_pack(packs);
    if (i < 0) return;
    ls_pack<T> x = ls_pack_load(src + i * x.size);
    for (int k = 0; k < x.size; k++) x.v[k] = x.v[k] < 0 ? 0 : x.v[k]; // NaN stays NaN
    ls_pack_store(dst + i * x.size, x);
}

template <typename T>
__global__ void __launch_bounds__(LS_BLOCK) relu_backward(const T *dst, const T *grad_dst, T *grad_src, int64_t packs) {
    int64_t i = own_pack(packs);
    if (i < 0) return;
    ls_pack<T> y = ls_pack_load(dst + i * y.size), grad = ls_pack_load(grad_dst + i * y.size);
    for (int k = 0; k < y.size; k++) grad.v[k] = y.v[k] > 0 ? grad.v[k] : 0;
    ls_pack_store(grad_src + i * y.size, grad);
}

// channels: the channels of a pixel without padding, if the activation would make the padding other than 0; else 0.
// by_packs: divides by the packs of a pixel.
template <typename T>
__global__ void __launch_bounds__(LS_BLOCK) activation(
    const T *src, T *dst, ls_activation kind, float parameter, int channels, ls_divider by_packs, int64_t packs) {
    int64_t i = own_pack(packs);
    if (i < 0) return;
    ls_pack<T> x = ls_pack_load(src + i * x.size);
    ls_activate<false>(kind, parameter, x, x);
    if (channels) {
        uint32_t at = static_cast<uint32_t>(i), pixel = ls_divide(at, by_packs);
        int channel = static_cast<int>(at - pixel * by_packs.divisor) * x.size;
        for (int k = 0; k < x.size; k++) x.v[k] = channel + k < channels ? x.v[k] : 0;
    }
    ls_pack_store(dst + i * x.size, x);
}

template <typename T>
__global__ void __launch_bounds__(LS_BLOCK) activation_backward(
    const T *src, const T *grad_dst, T *grad_src, ls_activation kind, float parameter, int64_t packs) {
    int64_t i = own_pack(packs);
    if (i < 0) return;
    ls_pack<T> x = ls_pack_load(src + i * x.size), grad = ls_pack_load(grad_dst + i * x.size);
    ls_activate<true>(kind, parameter, x, x);
    for (int k = 0; k < x.size; k++) grad.v[k] *= x.v[k];
    ls_pack_store(grad_src + i * x.size, grad);
}

template <typename T> __global__ void __launch_bounds__(LS_BLOCK) add(const T *a, const T *b, T *dst, int64_t packs) {
    int64_t i = own_pack(packs);
    if (i < 0) return;
    ls_pack<T> x = ls_pack_load(a + i * x.size), y = ls_pack_load(b + i * x.size);
    for (int k = 0; k < x.size; k++) x.v[k] += y.v[k];
    ls_pack_store(dst + i * x.size, x);
}

template <typename T>
__global__ void __launch_bounds__(LS_BLOCK) multiply(const T *a, const T *b, T *dst, int64_t packs) {
    int64_t i = own_pack(packs);
    if (i < 0) return;
    ls_pack<T> x = ls_pack_load(a + i * x.size), y = ls_pack_load(b + i * x.size);
    for (int k = 0; k < x.size; k++) x.v[k] *= y.v[k];
    ls_pack_store(dst + i * x.size, x);
}

template <typename T>
__global__ void __launch_bounds__(LS_BLOCK) scale(const T *src, float factor, T *dst, int64_t packs) {
    int64_t i = own_pack(packs);
    if (i < 0) return;
    ls_pack<T> x = ls_pack_load(src + i * x.size);
    for (int k = 0; k < x.size; k++) x.v[k] *= factor;
    ls_pack_store(dst + i * x.size, x);
}

ls_divider packs_of_pixel(const ls_elementwise_attr *attr, int64_t packs) {
    return ls_divider_of(
        static_cast<int>(packs / (static_cast<int64_t>(attr->shape.n) * attr->shape.h * attr->shape.w)));
}

} // namespace

// Defines the launch function of a row of ops.def. Its arguments are attr, a, b, dst and packs.
#define LAUNCH(name, kernel, ...) \
    extern "C" void ls_cuda_elementwise_##name(const ls_elementwise_attr *attr, const void *a, \
        [[maybe_unused]] const void *b, void *dst, int64_t packs, cudaStream_t stream) { \
        LS_BY_STORAGE( \
            attr->storage, LS_LAUNCH(kernel, ls_blocks(packs, LS_BLOCK), LS_BLOCK, stream, __VA_ARGS__, packs)); \
    }
#define IN(tensor) static_cast<const T *>(tensor)
#define OUT(tensor) static_cast<T *>(tensor)
LAUNCH(relu_forward, (relu<T>), IN(a), OUT(dst))
LAUNCH(relu_backward, (relu_backward<T>), IN(a), IN(b), OUT(dst))
LAUNCH(activation_forward, (activation<T>), IN(a), OUT(dst), attr->activation, attr->parameter,
    ls_activation_keeps_zero(attr->activation) ? 0 : attr->shape.c, packs_of_pixel(attr, packs))
LAUNCH(activation_backward, (activation_backward<T>), IN(a), IN(b), OUT(dst), attr->activation, attr->parameter)
LAUNCH(add, (add<T>), IN(a), IN(b), OUT(dst))
LAUNCH(multiply, (multiply<T>), IN(a), IN(b), OUT(dst))
LAUNCH(scale, (scale<T>), IN(a), attr->factor, OUT(dst))
#undef IN
#undef OUT

namespace {

// A thread handles one pack of channels of `group` consecutive pixels. The random words of neighbouring pixels (or of
// neighbouring channels, if the map is one pixel) come from one block of the generator. The generator costs far more
// time than the memory.
struct dropout_geometry {
    uint32_t items, plane; // items: threads that have work
    int c, channels, group;
    ls_divider by_packs, by_groups; // divide by the packs of a pixel, and by the groups of pixels of a map
    uint64_t seed;
    uint32_t layer;
    float p, factor;
};

__device__ inline uint32_t word_of(const ls_philox_block &block, uint32_t k) {
    uint32_t low = k & 1 ? block.v[1] : block.v[0], high = k & 1 ? block.v[3] : block.v[2];
    return k & 2 ? high : low;
}

template <typename T, int GROUP>
__global__ void __launch_bounds__(LS_BLOCK)
    dropout(dropout_geometry g, const T *src, const ls_micro_input *micro, T *dst) {
    uint32_t i = blockIdx.x * LS_BLOCK + threadIdx.x;
    if (i >= g.items) return;
    uint32_t at = ls_divide(i, g.by_packs), n = ls_divide(at, g.by_groups);
    uint32_t first_channel = (i - at * g.by_packs.divisor) * ls_pack<T>::size;
    uint32_t pixel = (at - n * g.by_groups.divisor) * GROUP;
    int64_t offset = (static_cast<int64_t>(n) * g.plane + pixel) * g.channels + first_channel;
    ls_pack<T> x[GROUP];
    LS_UNROLL
    for (int k = 0; k < GROUP; k++) x[k] = ls_pack_load(src + offset + static_cast<int64_t>(k) * g.channels);
    uint64_t sample = (micro->position + n) * (static_cast<uint64_t>(g.c) * g.plane);
    uint32_t update = micro->update;
    uint64_t have = ~0ull;
    ls_philox_block block = {};
    LS_UNROLL
    for (int c = 0; c < ls_pack<T>::size; c++) {
        uint64_t word = sample + static_cast<uint64_t>(first_channel + c) * g.plane + pixel;
        LS_UNROLL
        for (int k = 0; k < GROUP; k++, word++) {
            if (word / 4 != have) {
                have = word / 4;
                block = ls_philox_core_block(g.seed, LS_PURPOSE_DROPOUT, g.layer, update, have);
            }
            float unit = ls_philox_core_unit(word_of(block, static_cast<uint32_t>(word) & 3));
            x[k].v[c] = unit >= g.p ? x[k].v[c] * g.factor : 0;
        }
    }
    LS_UNROLL
    for (int k = 0; k < GROUP; k++) ls_pack_store(dst + offset + static_cast<int64_t>(k) * g.channels, x[k]);
}

// One random number for a channel (unit = pixels of a map) or for a sample (unit = its elements). Each thread handles
// one pack of one pixel.
template <typename T>
__global__ void __launch_bounds__(LS_BLOCK)
    dropout_units(dropout_geometry g, int by_channel, const T *src, const ls_micro_input *micro, T *dst) {
    uint32_t i = blockIdx.x * LS_BLOCK + threadIdx.x;
    if (i >= g.items) return;
    uint32_t at = ls_divide(i, g.by_packs), n = ls_divide(at, g.by_groups);
    uint32_t first_channel = (i - at * g.by_packs.divisor) * ls_pack<T>::size;
    ls_pack<T> x = ls_pack_load(src + static_cast<int64_t>(i) * x.size);
    uint64_t number = micro->position + n, have = ~0ull;
    if (by_channel) number = number * static_cast<uint64_t>(g.c) + first_channel;
    ls_philox_block block = {};
    LS_UNROLL
    for (int c = 0; c < x.size; c++, number += static_cast<uint64_t>(by_channel)) {
        if (number / 4 != have) {
            have = number / 4;
            block = ls_philox_core_block(g.seed, LS_PURPOSE_DROPOUT, g.layer, micro->update, have);
        }
        float unit = ls_philox_core_unit(word_of(block, static_cast<uint32_t>(number) & 3));
        x.v[c] = unit >= g.p ? x.v[c] * g.factor : 0;
    }
    ls_pack_store(dst + static_cast<int64_t>(i) * x.size, x);
}

} // namespace

extern "C" void ls_cuda_elementwise_dropout(const ls_elementwise_attr *attr, int channels, const void *src,
    const ls_micro_input *micro, void *dst, cudaStream_t stream) {
    dropout_geometry g = {};
    ls_nchw s = attr->shape;
    int plane = s.h * s.w, packs = channels / (attr->storage == LS_F32 ? 4 : 8);
    g.plane = static_cast<uint32_t>(plane);
    g.group = plane % 4 || attr->unit > 1 ? 1 : 4;
    g.items = static_cast<uint32_t>(s.n * packs) * static_cast<uint32_t>(plane / g.group);
    g.c = s.c;
    g.channels = channels;
    g.by_packs = ls_divider_of(packs);
    g.by_groups = ls_divider_of(plane / g.group);
    g.seed = attr->seed;
    g.layer = static_cast<uint32_t>(attr->layer);
    g.p = attr->p;
    g.factor = static_cast<float>(1 / (1 - static_cast<double>(attr->p)));
    int blocks = ls_blocks(g.items, LS_BLOCK);
    if (attr->unit > 1) {
        int by_channel = attr->unit == plane;
        LS_BY_STORAGE(attr->storage, LS_LAUNCH((dropout_units<T>), blocks, LS_BLOCK, stream, g, by_channel,
                                         static_cast<const T *>(src), micro, static_cast<T *>(dst)));
        return;
    }
    LS_BY_STORAGE(attr->storage, if (g.group == 4) LS_LAUNCH((dropout<T, 4>), blocks, LS_BLOCK, stream, g,
                                     static_cast<const T *>(src), micro, static_cast<T *>(dst));
                  else LS_LAUNCH((dropout<T, 1>), blocks, LS_BLOCK, stream, g, static_cast<const T *>(src), micro,
                      static_cast<T *>(dst)));
}
