// channels.cu - one thread writes one 16-byte pack of the result. Memory bandwidth limits these kernels. For the gate's
// gradient, a block sums a column of packs in one order.
//
// Estimates for 16-bit storage on an H200 (sm_90): 4.8 TB/s and 132 multiprocessors, each needing 24 KiB of
// loads in flight. Blocks of 256 threads; "blocks" are blocks on a multiprocessor.
//                   bytes/element   registers   blocks   in flight   least time for a map of 64 MiB
//   copy_channels   4               28          8        32 KiB      28 us; src is read by single elements, from the L1
//   gate            4               23          8        32 KiB      28 us
//   gate_backward   4               31          8        64 KiB      28 us
// With fewer than 256 channels gate_backward has one block for each sample. With 128 channels that means 8 KiB in
// flight, a third of the bandwidth and 84 us.
#include "device/cuda/kernels/channels.h"
#include "device/cuda/kernels/kernels.cuh"

namespace {

struct copy_geometry {
    uint32_t items; // packs of dst
    int src_h, src_w, src_channels, dst_channels;
    int from, to, end;                          // to, end: channels of dst
    int stride, spread, keep, interleave, step; // step: distance of channels of src
    ls_divider by_packs, by_w, by_h;            // divide by the packs of a pixel of dst, its width, its height
};

// Offset of the src pixel that is copied to this dst pixel; -1: none.
__device__ inline int64_t source_of(const copy_geometry &g, uint32_t pixel) {
    uint32_t row = ls_divide(pixel, g.by_w), n = ls_divide(row, g.by_h);
    int y = static_cast<int>(row - n * g.by_h.divisor), x = static_cast<int>(pixel - row * g.by_w.divisor);
    if (g.spread && (y % g.stride || x % g.stride)) return -1;
    int from_y = g.spread ? y / g.stride : y * g.stride, from_x = g.spread ? x / g.stride : x * g.stride;
    return ((static_cast<int64_t>(n) * g.src_h + from_y) * g.src_w + from_x) * g.src_channels;
}

template <typename T>
__global__ void __launch_bounds__(LS_BLOCK) copy_channels(copy_geometry g, const T *src, const T *src2, T *dst) {
    uint32_t i = blockIdx.x * LS_BLOCK + threadIdx.x;
    if (i >= g.items) return;
    uint32_t pixel = ls_divide(i, g.by_packs);
    int channel = static_cast<int>(i - pixel * g.by_packs.divisor) * ls_pack<T>::size;
    if (g.keep && (channel + ls_pack<T>::size <= g.to || channel >= g.end)) return;
    T *to = dst + static_cast<int64_t>(pixel) * g.dst_channels + channel;
    int64_t at = source_of(g, pixel);
    ls_pack<T> x = {};
    if (g.keep) x = ls_pack_load(to);
    const T *even = src + at + g.from, *odd = (g.interleave ? src2 : src) + at + g.from;
    const bool swaps = (channel - g.to) & 1; // the sources of the pack's even and odd channels
    const T *first = swaps ? odd : even, *second = swaps ? even : odd;
    int end = at < 0 ? 0 : g.end;
    LS_UNROLL
    for (int k = 0; k < x.size; k++) {
        int c = channel + k - g.to;
        const T *from = k & 1 ? second : first;
        if (c >= 0 && channel + k < end) x.v[k] = ls_float(from[(c >> g.interleave) * g.step]);
    }
    ls_pack_store(to, x);
}

struct gate_geometry {
    uint32_t items; // packs of the map
    int plane, channels;
    ls_divider by_packs, by_plane;
};

gate_geometry gate_geometry_of(const ls_gate_attr *a, int channels) {
    int packs = channels / (a->storage == LS_F32 ? 4 : 8), plane = a->shape.h * a->shape.w;
    return { static_cast<uint32_t>(static_cast<int64_t>(a->shape.n) * plane * packs), plane, channels,
        ls_divider_of(packs), ls_divider_of(plane) };
}

template <typename T>
__global__ void __launch_bounds__(LS_BLOCK) gate(gate_geometry g, const T *src, const T *by, T *dst) {
    uint32_t i = blockIdx.x * LS_BLOCK + threadIdx.x;
    if (i >= g.items) return;
    uint32_t pixel = ls_divide(i, g.by_packs), n = ls_divide(pixel, g.by_plane);
    int channel = static_cast<int>(i - pixel * g.by_packs.divisor) * ls_pack<T>::size;
    int64_t at = static_cast<int64_t>(pixel) * g.channels + channel;
    ls_pack<T> x = ls_pack_load(src + at), y = ls_pack_load(by + static_cast<int64_t>(n) * g.channels + channel);
    LS_UNROLL
    for (int k = 0; k < x.size; k++) x.v[k] *= y.v[k];
    ls_pack_store(dst + at, x);
}

// Computes the gradient of a gate: sums src * grad_dst over the pixels. A block handles `lanes` neighbouring packs (a
// power of two, at most 32) of one sample. Its rows of threads share the pixels.
template <typename T>
__global__ void __launch_bounds__(LS_BLOCK)
    gate_backward(gate_geometry g, int lanes, int columns, const T *src, const T *grad_dst, T *grad_gate) {
    constexpr int size = ls_pack<T>::size;
    LS_SHARED(float, sums, LS_BLOCK *size);
    int t = static_cast<int>(threadIdx.x), lane = t & (lanes - 1), row = t / lanes, rows = LS_BLOCK / lanes;
    uint32_t n = blockIdx.x / static_cast<uint32_t>(columns);
    int channel = (static_cast<int>(blockIdx.x - n * static_cast<uint32_t>(columns)) * lanes + lane) * size;
    bool inside = channel < g.channels;
    int64_t at = static_cast<int64_t>(n) * g.plane * g.channels + channel;
    ls_pack<T> sum = {};
    for (int pixel = row; inside && pixel < g.plane; pixel += rows) {
        int64_t here = at + static_cast<int64_t>(pixel) * g.channels;
        ls_pack<T> x = ls_pack_load(src + here), grad = ls_pack_load(grad_dst + here);
        LS_UNROLL
        for (int k = 0; k < size; k++) sum.v[k] += x.v[k] * grad.v[k];
    }
    LS_UNROLL
    for (int k = 0; k < size; k++) sums[k * LS_BLOCK + t] = sum.v[k];
    __syncthreads();
    for (int half = rows / 2; half > 0; half /= 2) {
        for (int k = 0; row < half && k < size; k++) sums[k * LS_BLOCK + t] += sums[k * LS_BLOCK + t + half * lanes];
        __syncthreads();
    }
    if (row > 0 || !inside) return;
    LS_UNROLL
    for (int k = 0; k < size; k++) sum.v[k] = sums[k * LS_BLOCK + t];
    ls_pack_store(grad_gate + static_cast<int64_t>(n) * g.channels + channel, sum);
}

} // namespace

extern "C" void ls_cuda_copy_channels(const ls_channels_attr *attr, int src_channels, int dst_channels, const void *src,
    const void *src2, void *dst, cudaStream_t stream) {
    int packs = dst_channels / (attr->storage == LS_F32 ? 4 : 8);
    copy_geometry g = { static_cast<uint32_t>(static_cast<int64_t>(attr->dst.n) * attr->dst.h * attr->dst.w * packs),
        attr->src.h, attr->src.w, src_channels, dst_channels, attr->from, attr->to,
        attr->to + (attr->count << attr->interleave), attr->stride, attr->spread, attr->keep, attr->interleave,
        1 + attr->alternate, ls_divider_of(packs), ls_divider_of(attr->dst.w), ls_divider_of(attr->dst.h) };
    LS_BY_STORAGE(attr->storage, LS_LAUNCH((copy_channels<T>), ls_blocks(g.items, LS_BLOCK), LS_BLOCK, stream, g,
                                     static_cast<const T *>(src), static_cast<const T *>(src2), static_cast<T *>(dst)));
}

extern "C" void ls_cuda_gate(
    const ls_gate_attr *attr, int channels, const void *src, const void *by, void *dst, cudaStream_t stream) {
    gate_geometry g = gate_geometry_of(attr, channels);
    LS_BY_STORAGE(attr->storage, LS_LAUNCH((gate<T>), ls_blocks(g.items, LS_BLOCK), LS_BLOCK, stream, g,
                                     static_cast<const T *>(src), static_cast<const T *>(by), static_cast<T *>(dst)));
}

extern "C" void ls_cuda_gate_backward(const ls_gate_attr *attr, int channels, const void *src, const void *grad_dst,
    void *grad_gate, cudaStream_t stream) {
    gate_geometry g = gate_geometry_of(attr, channels);
    int packs = static_cast<int>(g.by_packs.divisor), lanes = 1;
    while (lanes < packs && lanes < 32) lanes *= 2;
    int columns = (packs + lanes - 1) / lanes;
    LS_BY_STORAGE(
        attr->storage, LS_LAUNCH_BLOCK((gate_backward<T>), attr->shape.n * columns, LS_BLOCK, stream, g, lanes, columns,
                           static_cast<const T *>(src), static_cast<const T *>(grad_dst), static_cast<T *>(grad_gate)));
}
