// group_norm.cu - group norm. Memory bandwidth limits these kernels: forward reads src three times, the second and
// third time mostly from the cache; backward reads both inputs twice. Every sum has one order. Over pixels, the last
// reads come from the first-level cache, but the sums of the parameters read both inputs once more.
//
// Estimates for 16-bit storage on an H200 (sm_90): 4.8 TB/s and 132 multiprocessors, each needing 24 KiB of
// loads in flight. Blocks of 256 threads; "blocks" are blocks on a multiprocessor.
//                     bytes/element      registers   blocks   in flight   least time for a map of 64 MiB
//   group_statistics  2 (2 more cached)  30          8        4 KiB       about 90 us: single elements, one at a time
//   group_apply       4                  30          8        32 KiB      28 us
//   backward sums     4                  48          5        40 KiB      28 us
//   backward apply    6                  32          8        64 KiB      42 us
//   shares, params    reads no map       40, 32      6, 8     4 KiB       time of a launch
// Over pixels, a pixel of 96 channels is 12 packs for 16 threads: a quarter of the lanes idle.
//   pixel_norm        4 (4 more cached)  32          8        24 KiB      28 us
//   pixel_norm_grad   6 (4 more cached)  40          6        36 KiB      42 us
#include "device/cuda/kernels/group_norm.h"
#include "device/cuda/kernels/kernels.cuh"

namespace {

struct geometry {
    uint32_t items; // packs of the map
    int n, c, channels, plane, groups, each;
    int means; // means in saved; as many 1/deviations follow
    float eps;
    ls_divider by_packs, by_plane, by_each;
};

geometry geometry_of(const ls_cuda_group_norm_args *k) {
    const ls_group_norm_attr &a = k->attr;
    int packs = k->channels / (a.storage == LS_F32 ? 4 : 8), plane = a.shape.h * a.shape.w, each = a.shape.c / a.groups;
    return { static_cast<uint32_t>(static_cast<int64_t>(a.shape.n) * plane * packs), a.shape.n, a.shape.c, k->channels,
        plane, a.groups, each, static_cast<int>(ls_group_norm_means(&a)), a.eps, ls_divider_of(packs),
        ls_divider_of(plane), ls_divider_of(each) };
}

// Computes mean and 1/deviation of each group of a sample, one block for each. The second pass sums squares about the
// mean, so nothing cancels.
template <typename T>
__global__ void __launch_bounds__(LS_BLOCK) group_statistics(geometry g, const T *src, float *saved) {
    LS_SHARED(float, room, LS_BLOCK);
    int task = static_cast<int>(blockIdx.x), n = task / g.groups, first = task % g.groups * g.each;
    uint32_t count = static_cast<uint32_t>(g.each) * static_cast<uint32_t>(g.plane);
    src += static_cast<int64_t>(n) * g.plane * g.channels + first;
    float mean = 0, sum = 0;
    for (int pass = 0; pass < 2; pass++) {
        sum = 0;
        for (uint32_t e = threadIdx.x; e < count; e += LS_BLOCK) {
            uint32_t pixel = ls_divide(e, g.by_each);
            float x = ls_float(src[static_cast<int64_t>(pixel) * g.channels + (e - pixel * g.by_each.divisor)]) - mean;
            sum += pass ? x * x : x;
        }
        sum = ls_block_sum(sum, room, LS_BLOCK) / static_cast<float>(count);
        if (!pass) mean = sum;
    }
    if (threadIdx.x) return;
    saved[task] = mean;
    saved[g.n * g.groups + task] = 1.0f / sqrtf(sum + g.eps);
}

// Place of a thread's pack.
struct place {
    uint32_t n;
    int channel;
    int64_t at;
};

template <typename T> __device__ inline place place_of(const geometry &g, uint32_t i) {
    uint32_t pixel = ls_divide(i, g.by_packs);
    int channel = static_cast<int>(i - pixel * g.by_packs.divisor) * ls_pack<T>::size;
    return { ls_divide(pixel, g.by_plane), channel, static_cast<int64_t>(pixel) * g.channels + channel };
}

template <typename T>
__global__ void __launch_bounds__(LS_BLOCK)
    group_apply(geometry g, const T *src, const float *saved, const float *gamma, const float *beta, T *dst) {
    uint32_t i = blockIdx.x * LS_BLOCK + threadIdx.x;
    if (i >= g.items) return;
    place p = place_of<T>(g, i);
    ls_pack<T> x = ls_pack_load(src + p.at);
    LS_UNROLL
    for (int k = 0; k < x.size; k++) {
        int c = p.channel + k, task = static_cast<int>(p.n) * g.groups;
        if (c >= g.c) {
            x.v[k] = 0;
            continue;
        }
        task += static_cast<int>(ls_divide(static_cast<uint32_t>(c), g.by_each));
        float y = saved ? (x.v[k] - saved[task]) * saved[g.means + task] : x.v[k];
        x.v[k] = gamma ? y * gamma[c] + (beta ? beta[c] : 0) : y;
    }
    ls_pack_store(dst + p.at, x);
}

// Sums over one sample's pixels: of grad_dst; and of grad_dst * (src - the group's mean, or 0 over nothing), or with
// PIXELS (a norm over pixels) grad_dst * (src - the pixel's mean) / the pixel's deviation. A block handles `lanes`
// neighbouring packs (a power of two, at most 32). Its rows of threads share the pixels.
template <typename T, bool PIXELS>
__global__ void __launch_bounds__(LS_BLOCK) group_backward_sums(
    geometry g, int lanes, int columns, const T *src, const T *grad_dst, const float *saved, float *sums) {
    constexpr int size = ls_pack<T>::size;
    LS_SHARED(float, room, LS_BLOCK * 2 * size);
    int t = static_cast<int>(threadIdx.x), lane = t & (lanes - 1), row = t / lanes, rows = LS_BLOCK / lanes;
    int n = static_cast<int>(blockIdx.x) / columns;
    int channel = ((static_cast<int>(blockIdx.x) - n * columns) * lanes + lane) * size;
    bool inside = channel < g.channels;
    float mean[size] = {}, sum[2 * size] = {};
    for (int k = 0; k < size; k++) {
        int group = static_cast<int>(ls_divide(static_cast<uint32_t>(channel + k), g.by_each));
        if (!PIXELS && saved && channel + k < g.c) mean[k] = saved[n * g.groups + group];
    }
    for (int pixel = row; inside && pixel < g.plane; pixel += rows) {
        int64_t at = (static_cast<int64_t>(n) * g.plane + pixel) * g.channels + channel;
        ls_pack<T> x = ls_pack_load(src + at), grad = ls_pack_load(grad_dst + at);
        float m = PIXELS ? saved[n * g.plane + pixel] : 0, r = PIXELS ? saved[g.means + n * g.plane + pixel] : 1;
        LS_UNROLL
        for (int k = 0; k < size; k++) {
            sum[k] += grad.v[k];
            sum[size + k] += PIXELS ? grad.v[k] * (x.v[k] - m) * r : grad.v[k] * (x.v[k] - mean[k]);
        }
    }
    LS_UNROLL
    for (int k = 0; k < 2 * size; k++) room[k * LS_BLOCK + t] = sum[k];
    __syncthreads();
    for (int half = rows / 2; half > 0; half /= 2) {
        for (int k = 0; row < half && k < 2 * size; k++)
            room[k * LS_BLOCK + t] += room[k * LS_BLOCK + t + half * lanes];
        __syncthreads();
    }
    if (row > 0 || !inside) return;
    float *to = sums + static_cast<int64_t>(n) * 2 * g.channels + channel;
    for (int k = 0; k < size; k++) {
        to[k] = room[k * LS_BLOCK + t];
        to[g.channels + k] = room[(size + k) * LS_BLOCK + t];
    }
}

// Computes the two means of the backward pass (op_group_norm.h) for each group of a sample, one thread for each.
__global__ void __launch_bounds__(LS_BLOCK)
    group_shares(geometry g, const float *saved, const float *gamma, const float *sums, float *shares) {
    int task = static_cast<int>(blockIdx.x * LS_BLOCK + threadIdx.x);
    if (task >= g.n * g.groups) return;
    int n = task / g.groups, first = task % g.groups * g.each;
    const float *of = sums + static_cast<int64_t>(n) * 2 * g.channels;
    float sum = 0, dot = 0, count = static_cast<float>(g.each) * static_cast<float>(g.plane);
    for (int c = first; c < first + g.each; c++) {
        float weight = gamma ? gamma[c] : 1;
        sum += weight * of[c];
        dot += weight * of[g.channels + c];
    }
    shares[2 * task] = sum / count;
    shares[2 * task + 1] = saved[g.means + task] * dot / count;
}

// Adds the sums over all samples to the gradients of gamma and beta, one thread for each channel. saved: NULL if the
// sums are not to be multiplied by r: a norm over pixels has done it already, and without a norm r is 1.
__global__ void __launch_bounds__(LS_BLOCK)
    group_params(geometry g, const float *saved, const float *sums, float *grad_gamma, float *grad_beta) {
    int c = static_cast<int>(blockIdx.x * LS_BLOCK + threadIdx.x);
    if (c >= g.c) return;
    int group = static_cast<int>(ls_divide(static_cast<uint32_t>(c), g.by_each));
    float sum = 0, dot = 0;
    for (int n = 0; n < g.n; n++) {
        const float *of = sums + static_cast<int64_t>(n) * 2 * g.channels;
        sum += of[c];
        dot += of[g.channels + c] * (saved ? saved[g.means + n * g.groups + group] : 1);
    }
    if (grad_beta) grad_beta[c] += sum;
    if (grad_gamma) grad_gamma[c] += dot;
}

template <typename T>
__global__ void __launch_bounds__(LS_BLOCK) group_backward_apply(geometry g, const T *src, const T *grad_dst,
    const float *saved, const float *gamma, const float *shares, T *grad_src) {
    uint32_t i = blockIdx.x * LS_BLOCK + threadIdx.x;
    if (i >= g.items) return;
    place p = place_of<T>(g, i);
    ls_pack<T> x = ls_pack_load(src + p.at), grad = ls_pack_load(grad_dst + p.at);
    LS_UNROLL
    for (int k = 0; k < x.size; k++) {
        int c = p.channel + k, task = static_cast<int>(p.n) * g.groups;
        if (c >= g.c) {
            x.v[k] = 0;
            continue;
        }
        task += static_cast<int>(ls_divide(static_cast<uint32_t>(c), g.by_each));
        float r = saved[g.means + task], xhat = (x.v[k] - saved[task]) * r;
        float d = gamma ? grad.v[k] * gamma[c] : grad.v[k];
        x.v[k] = r * (d - shares[2 * task] - xhat * shares[2 * task + 1]);
    }
    ls_pack_store(grad_src + p.at, x);
}

// --- over pixels: `lanes` neighbouring threads share a pixel, which stays in the first-level cache

// The thread's pixel; the last one for a thread without a pixel (*inside: 0).
__device__ inline int64_t pixel_of(const geometry &g, int lanes, bool *inside) {
    int64_t pixel = static_cast<int64_t>(blockIdx.x) * (LS_BLOCK / lanes) + static_cast<int>(threadIdx.x) / lanes;
    *inside = pixel < g.means;
    return *inside ? pixel : g.means - 1;
}

template <typename T>
__global__ void __launch_bounds__(LS_BLOCK)
    pixel_norm(geometry g, int lanes, const T *src, float *saved, const float *gamma, const float *beta, T *dst) {
    constexpr int size = ls_pack<T>::size;
    bool inside;
    int64_t pixel = pixel_of(g, lanes, &inside);
    int lane = static_cast<int>(threadIdx.x) & (lanes - 1);
    src += pixel * g.channels;
    float mean = 0, sum = 0;
    for (int pass = 0; pass < 2; pass++) {
        sum = 0;
        for (int channel = lane * size; channel < g.channels; channel += lanes * size) {
            ls_pack<T> x = ls_pack_load(src + channel);
            LS_UNROLL
            for (int k = 0; k < size; k++) {
                float d = channel + k < g.c ? x.v[k] - mean : 0;
                sum += pass ? d * d : d;
            }
        }
        sum = ls_lanes_sum(sum, lanes) / static_cast<float>(g.c);
        mean = pass ? mean : sum;
    }
    if (!inside) return;
    float r = 1.0f / sqrtf(sum + g.eps);
    if (lane == 0) saved[pixel] = mean;
    if (lane == 0) saved[g.means + pixel] = r;
    for (int channel = lane * size; channel < g.channels; channel += lanes * size) {
        ls_pack<T> x = ls_pack_load(src + channel);
        LS_UNROLL
        for (int k = 0; k < size; k++) {
            int c = channel + k;
            float y = (x.v[k] - mean) * r;
            x.v[k] = c >= g.c ? 0 : gamma ? y * gamma[c] + beta[c] : y;
        }
        ls_pack_store(dst + pixel * g.channels + channel, x);
    }
}

template <typename T>
__global__ void __launch_bounds__(LS_BLOCK) pixel_norm_grad(
    geometry g, int lanes, const T *src, const T *grad_dst, const float *saved, const float *gamma, T *grad_src) {
    constexpr int size = ls_pack<T>::size;
    bool inside;
    int64_t pixel = pixel_of(g, lanes, &inside);
    int lane = static_cast<int>(threadIdx.x) & (lanes - 1);
    src += pixel * g.channels;
    grad_dst += pixel * g.channels;
    float mean = saved[pixel], r = saved[g.means + pixel], sum = 0, dot = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int channel = lane * size; channel < g.channels; channel += lanes * size) {
            ls_pack<T> x = ls_pack_load(src + channel), grad = ls_pack_load(grad_dst + channel);
            LS_UNROLL
            for (int k = 0; k < size; k++) {
                int c = channel + k;
                float d = c >= g.c ? 0 : gamma ? grad.v[k] * gamma[c] : grad.v[k], xhat = (x.v[k] - mean) * r;
                if (!pass) sum += d;
                if (!pass) dot += d * xhat;
                x.v[k] = c >= g.c ? 0 : r * (d - sum - xhat * dot);
            }
            if (pass && inside) ls_pack_store(grad_src + pixel * g.channels + channel, x);
        }
        if (pass) return;
        sum = ls_lanes_sum(sum, lanes) / static_cast<float>(g.c);
        dot = ls_lanes_sum(dot, lanes) / static_cast<float>(g.c);
    }
}

// Neighbouring threads that share the packs of a pixel.
int lanes_of(const geometry &g) {
    int packs = static_cast<int>(g.by_packs.divisor), lanes = 1;
    while (lanes < packs && lanes < 32) lanes *= 2;
    return lanes;
}

template <typename T> void forward(const ls_cuda_group_norm_args *k, cudaStream_t stream) {
    geometry g = geometry_of(k);
    const T *src = static_cast<const T *>(k->src);
    T *out = static_cast<T *>(k->out);
    if (k->attr.over == LS_NORM_OVER_PIXELS) {
        int lanes = lanes_of(g), blocks = ls_blocks(static_cast<int64_t>(g.means) * lanes, LS_BLOCK);
        LS_LAUNCH_BLOCK((pixel_norm<T>), blocks, LS_BLOCK, stream, g, lanes, src, k->saved, k->gamma, k->beta, out);
        return;
    }
    if (k->saved) LS_LAUNCH_BLOCK((group_statistics<T>), g.n * g.groups, LS_BLOCK, stream, g, src, k->saved);
    LS_LAUNCH(
        (group_apply<T>), ls_blocks(g.items, LS_BLOCK), LS_BLOCK, stream, g, src, k->saved, k->gamma, k->beta, out);
}

// Computes grad_src. Over nothing, it is grad_dst * gamma, as the forward pass.
template <typename T> void backward_map(const ls_cuda_group_norm_args *k, const geometry &g, cudaStream_t stream) {
    const T *src = static_cast<const T *>(k->src), *grad_dst = static_cast<const T *>(k->grad_dst);
    T *out = static_cast<T *>(k->out);
    int lanes = lanes_of(g), blocks = ls_blocks(g.items, LS_BLOCK);
    if (k->attr.over == LS_NORM_OVER_PIXELS) {
        blocks = ls_blocks(static_cast<int64_t>(g.means) * lanes, LS_BLOCK);
        LS_LAUNCH_BLOCK(
            (pixel_norm_grad<T>), blocks, LS_BLOCK, stream, g, lanes, src, grad_dst, k->saved, k->gamma, out);
    } else if (k->saved) {
        LS_LAUNCH(
            (group_backward_apply<T>), blocks, LS_BLOCK, stream, g, src, grad_dst, k->saved, k->gamma, k->shares, out);
    } else {
        LS_LAUNCH((group_apply<T>), blocks, LS_BLOCK, stream, g, grad_dst, k->saved, k->gamma, k->beta, out);
    }
}

template <typename T> void backward(const ls_cuda_group_norm_args *k, cudaStream_t stream) {
    geometry g = geometry_of(k);
    const T *src = static_cast<const T *>(k->src), *grad_dst = static_cast<const T *>(k->grad_dst);
    const bool groups = k->attr.over == LS_NORM_OVER_GROUPS, pixels = k->attr.over == LS_NORM_OVER_PIXELS;
    int lanes = lanes_of(g), columns = (static_cast<int>(g.by_packs.divisor) + lanes - 1) / lanes;
    if (pixels && k->gamma)
        LS_LAUNCH_BLOCK((group_backward_sums<T, true>), g.n * columns, LS_BLOCK, stream, g, lanes, columns, src,
            grad_dst, k->saved, k->sums);
    else if (!pixels)
        LS_LAUNCH_BLOCK((group_backward_sums<T, false>), g.n * columns, LS_BLOCK, stream, g, lanes, columns, src,
            grad_dst, k->saved, k->sums);
    if (groups)
        LS_LAUNCH(group_shares, ls_blocks(g.n * g.groups, LS_BLOCK), LS_BLOCK, stream, g, k->saved, k->gamma, k->sums,
            k->shares);
    if (k->gamma) {
        LS_LAUNCH(group_params, ls_blocks(g.c, LS_BLOCK), LS_BLOCK, stream, g, groups ? k->saved : nullptr, k->sums,
            k->grad_gamma, k->grad_beta);
    }
    backward_map<T>(k, g, stream);
}

} // namespace

extern "C" void ls_cuda_group_norm_forward(const ls_cuda_group_norm_args *args, cudaStream_t stream) {
    LS_BY_STORAGE(args->attr.storage, forward<T>(args, stream));
}

extern "C" void ls_cuda_group_norm_backward(const ls_cuda_group_norm_args *args, cudaStream_t stream) {
    LS_BY_STORAGE(args->attr.storage, backward<T>(args, stream));
}
