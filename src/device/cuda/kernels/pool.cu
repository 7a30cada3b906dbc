// pool.cu - max and average pooling. Memory bandwidth limits these kernels. Forward reads src once if windows do not
// overlap. Backward gathers, so that one thread writes each element of grad_src once.
//
// Estimates for 16-bit storage on an H200 (sm_90): 4.8 TB/s and 132 multiprocessors, each needing 24 KiB of
// loads in flight. Blocks of 256 threads; "blocks" are blocks on a multiprocessor. Bytes count for each element of src,
// with a 2x2 window, stride 2, and its index.
//                            bytes/element   registers   blocks   in flight   least time for a map of 64 MiB
//   pool_window, 2x2         2.75            32          8        128 KiB     19 us
//   pool_window, others      2.75            62          4        16 KiB up   19 us; 64 KiB with 4 columns or more
//   pool_shared              2               40          6        96 KiB      14 us
//   pool_backward, 2x2       2.75            17          8        48 KiB      19 us
//   pool_backward, others    2.75            40          6        36 KiB      19 us
//   average; its backward    2.5             40, 32      6, 8     24 KiB up   17 us
// With overlapping windows the second reads come from the L1 or L2. pool_shared with one window for each block has few
// blocks: 128 maps of 8x8 pixels and 64 channels are 128 blocks of 16 KiB, one on each multiprocessor; that takes 1 us
// and the launch.
#include "device/cuda/kernels/pool.cuh"
#include "device/cuda/kernels/pool.h"

namespace {

struct geometry {
    ls_windows windows;
    uint32_t items; // packs that the threads divide among themselves
    ls_divider by_packs;
    int relu;
    float share;       // average: 1 / elements of a window
    const float *bias; // max: added to the largest element; NULL: no bias
};

geometry geometry_of(const ls_pool_attr *a, int channels, ls_nchw items) {
    int packs = channels / (a->storage == LS_F32 ? 4 : 8);
    ls_pool_attr windows = *a;
    if (a->stride_h == 0) { // an adaptive window slides like this if a row of src counts as dst.h, a column as dst.w
        windows.stride_h = a->src.h, windows.kernel_h = a->src.h + a->dst.h - 1;
        windows.stride_w = a->src.w, windows.kernel_w = a->src.w + a->dst.w - 1;
    }
    return { ls_windows_of(windows, channels),
        static_cast<uint32_t>(static_cast<int64_t>(items.n) * items.h * items.w * packs), ls_divider_of(packs), a->relu,
        1 / static_cast<float>(a->kernel_h * a->kernel_w), nullptr };
}

// An average has no index. So the type I of the index says whether the average is adaptive (uint16_t), and kernels need
// no register for that.
template <typename I, bool MAX> __device__ constexpr bool is_adaptive() {
    return !MAX && sizeof(I) == 2;
}

// The window of (n, p, q), clipped to the map. Its elements are numbered as in the whole window.
struct window {
    int64_t corner; // offset in src of the sample's pixel (0, 0); y and x count from there
    int y, x, y_first, x_first, y_end, x_end;
};

template <bool ADAPTIVE> __device__ inline window window_of(const ls_windows &g, ls_pixel at) {
    window w;
    w.y = at.y * g.stride_h - g.pad_h;
    w.x = at.x * g.stride_w - g.pad_w;
    w.y_first = w.y < 0 ? 0 : w.y;
    w.x_first = w.x < 0 ? 0 : w.x;
    w.y_end = w.y + g.kernel_h < g.h ? w.y + g.kernel_h : g.h;
    w.x_end = w.x + g.kernel_w < g.w ? w.x + g.kernel_w : g.w;
    if (ADAPTIVE) {
        w.y_first = static_cast<int>(ls_divide(static_cast<uint32_t>(w.y), g.by_p));
        w.x_first = static_cast<int>(ls_divide(static_cast<uint32_t>(w.x), g.by_q));
        w.y_end = static_cast<int>(ls_divide(static_cast<uint32_t>(w.y + g.kernel_h), g.by_p));
        w.x_end = static_cast<int>(ls_divide(static_cast<uint32_t>(w.x + g.kernel_w), g.by_q));
    }
    w.corner = ls_pixel_offset(at.n, 0, 0, g.h, g.w, g.channels);
    return w;
}

__device__ inline float share_of(const window &w) {
    return 1 / static_cast<float>((w.y_end - w.y_first) * (w.x_end - w.x_first));
}

// The best of some elements of a window, or their sum.
template <typename T, bool MAX> struct partial {
    ls_pack<T> value;
    int winner[MAX ? ls_pack<T>::size : 1];
};

template <typename T, bool MAX> __device__ inline partial<T, MAX> partial_start(int winner) {
    partial<T, MAX> p;
    LS_UNROLL
    for (int k = 0; k < p.value.size; k++) {
        p.value.v[k] = MAX ? -INFINITY : 0;
        if (MAX) p.winner[k] = winner;
    }
    return p;
}

template <typename T, bool MAX>
__device__ inline void partial_add(partial<T, MAX> &p, const ls_pack<T> &value, int number) {
    LS_UNROLL
    for (int k = 0; k < p.value.size; k++) {
        if (!MAX) {
            p.value.v[k] += value.v[k];
        } else if (value.v[k] > p.value.v[k]) {
            p.value.v[k] = value.v[k];
            p.winner[k] = number;
        }
    }
}

template <typename T, typename I, bool MAX>
__device__ inline void finish(
    const geometry &g, const window &w, partial<T, MAX> &p, int channel, int64_t offset, T *dst, I *index) {
    constexpr int size = ls_pack<T>::size;
    float share = is_adaptive<I, MAX>() ? share_of(w) : g.share;
    LS_UNROLL
    for (int k = 0; k < size; k++) {
        if (MAX && g.bias) p.value.v[k] += g.bias[channel + k];
        if (!MAX) {
            p.value.v[k] *= share;
        } else if (g.relu && !(p.value.v[k] > 0)) {
            p.value.v[k] = 0;
            p.winner[k] = ls_no_winner<I>();
        }
    }
    ls_pack_store(dst + offset, p.value);
    if constexpr (MAX) {
        if (index) ls_winners_store<I, size>(index + offset, p.winner);
    }
}

template <typename T, typename I, bool MAX, bool HALVES>
__global__ void __launch_bounds__(LS_BLOCK) pool_window(geometry g, const T *src, T *dst, I *index) {
    uint32_t i = blockIdx.x * LS_BLOCK + threadIdx.x;
    if (i >= g.items) return;
    uint32_t pixel = ls_divide(i, g.by_packs);
    int channel = static_cast<int>(i - pixel * g.by_packs.divisor) * ls_pack<T>::size;
    ls_pixel at = ls_pixel_at(pixel, g.windows.by_q, g.windows.by_p);
    window w = window_of<is_adaptive<I, MAX>()>(g.windows, at);
    src += w.corner + channel;
    partial<T, MAX> p =
        // the first element inside the map
        partial_start<T, MAX>((w.y_first - w.y) * g.windows.kernel_w + (w.x_first - w.x));
    if (HALVES) {
        uint4 raw[4]; // all loads are in flight before the first is used
        LS_UNROLL
        for (int t = 0; t < 4; t++) {
            int inside = (w.y + t / 2) * g.windows.w + w.x + t % 2;
            raw[t] = ls_pack_raw(src + static_cast<int64_t>(inside) * g.windows.channels);
        }
        LS_UNROLL
        for (int t = 0; t < 4; t++) partial_add<T, MAX>(p, ls_pack_unpack<T>(raw[t]), t);
    } else {
        for (int y = w.y_first; y < w.y_end; y++) {
            LS_UNROLL_BY(4)
            for (int x = w.x_first; x < w.x_end; x++) {
                ls_pack<T> value = ls_pack_load(src + static_cast<int64_t>(y * g.windows.w + x) * g.windows.channels);
                partial_add<T, MAX>(p, value, (y - w.y) * g.windows.kernel_w + (x - w.x));
            }
        }
    }
    finish<T, I, MAX>(g, w, p, channel, static_cast<int64_t>(pixel) * g.windows.channels + channel, dst, index);
}

// A block handles `lanes` packs (a power of two, at most 32) of one window. Its rows of threads share the window's
// elements. Their partial results are combined in one order.
template <typename T, typename I, bool MAX>
__global__ void __launch_bounds__(LS_BLOCK)
    pool_shared(geometry g, int lanes, int columns, const T *src, T *dst, I *index) {
    constexpr int size = ls_pack<T>::size;
    LS_SHARED(float, values, LS_BLOCK *size);
    LS_SHARED(int, winners, LS_BLOCK *(MAX ? size : 1));
    int t = static_cast<int>(threadIdx.x), lane = t & (lanes - 1), row = t / lanes, rows = LS_BLOCK / lanes;
    uint32_t pixel = blockIdx.x / static_cast<uint32_t>(columns);
    int pack = static_cast<int>(blockIdx.x - pixel * static_cast<uint32_t>(columns)) * lanes + lane;
    bool inside = pack * size < g.windows.channels;
    window w = window_of<is_adaptive<I, MAX>()>(g.windows, ls_pixel_at(pixel, g.windows.by_q, g.windows.by_p));
    partial<T, MAX> p = partial_start<T, MAX>((w.y_first - w.y) * g.windows.kernel_w + (w.x_first - w.x));
    int width = w.x_end - w.x_first, elements = width * (w.y_end - w.y_first);
    src += w.corner + pack * size;
    LS_UNROLL_BY(4)
    for (int e = row; inside && e < elements; e += rows) {
        int y = w.y_first + e / width, x = w.x_first + e % width;
        ls_pack<T> value = ls_pack_load(src + static_cast<int64_t>(y * g.windows.w + x) * g.windows.channels);
        partial_add<T, MAX>(p, value, (y - w.y) * g.windows.kernel_w + (x - w.x));
    }
    for (int half = rows / 2; half > 0; half /= 2) {
        if (row >= half && row < 2 * half) {
            LS_UNROLL
            for (int k = 0; k < size; k++) {
                values[k * LS_BLOCK + t] = p.value.v[k];
                if (MAX) winners[k * LS_BLOCK + t] = p.winner[k];
            }
        }
        __syncthreads();
        for (int k = 0; row < half && k < size; k++) {
            int other = k * LS_BLOCK + t + half * lanes;
            if (!MAX) {
                p.value.v[k] += values[other];
            } else if (values[other] > p.value.v[k] ||
                       (values[other] == p.value.v[k] && winners[other] < p.winner[k])) {
                p.value.v[k] = values[other];
                p.winner[k] = winners[other];
            }
        }
        __syncthreads();
    }
    int64_t offset = static_cast<int64_t>(pixel) * g.windows.channels + pack * size;
    if (row == 0 && inside) finish<T, I, MAX>(g, w, p, pack * size, offset, dst, index);
}

// Returns the gradient of one element for average pooling: its share of the gradients of all windows that cover it.
template <typename T, bool ADAPTIVE>
__device__ inline ls_pack<T> spread(const geometry &g, ls_pixel at, int channel, const T *grad_dst) {
    const ls_windows &w = g.windows;
    ls_pack<T> sum = {};
    if (ADAPTIVE) at.y = (at.y + 1) * w.p - 1, at.x = (at.x + 1) * w.q - 1;
    ls_window_range r = ls_window_range_of(w, at);
    for (int p = r.p; p < w.p && p * w.stride_h <= r.y; p++) {
        for (int q = r.q; q < w.q && q * w.stride_w <= r.x; q++) {
            ls_pack<T> grad = ls_pack_load(grad_dst + ls_pixel_offset(at.n, p, q, w.p, w.q, w.channels) + channel);
            float share = ADAPTIVE ? share_of(window_of<true>(w, { at.n, p, q })) : 1;
            LS_UNROLL
            for (int k = 0; k < sum.size; k++) sum.v[k] += grad.v[k] * share;
        }
    }
    LS_UNROLL
    for (int k = 0; k < sum.size; k++) sum.v[k] *= ADAPTIVE ? 1 : g.share;
    return sum;
}

template <typename T, typename I, bool MAX, bool HALVES>
__global__ void __launch_bounds__(LS_BLOCK) pool_backward(geometry g, const T *grad_dst, const I *index, T *grad_src) {
    uint32_t i = blockIdx.x * LS_BLOCK + threadIdx.x;
    if (i >= g.items) return;
    uint32_t pixel = ls_divide(i, g.by_packs);
    int channel = static_cast<int>(i - pixel * g.by_packs.divisor) * ls_pack<T>::size;
    ls_pixel at = ls_pixel_at(pixel, g.windows.by_w, g.windows.by_h);
    ls_pack<T> sum;
    if constexpr (MAX) {
        sum = ls_window_gather<T, I, HALVES>(g.windows, at, channel, grad_dst, static_cast<const T *>(nullptr), index);
    } else {
        sum = spread<T, is_adaptive<I, MAX>()>(g, at, channel, grad_dst);
    }
    ls_pack_store(grad_src + static_cast<int64_t>(pixel) * g.windows.channels + channel, sum);
}

bool halves(const ls_pool_attr *a) {
    return a->kernel_h == 2 && a->kernel_w == 2 && a->stride_h == 2 && a->stride_w == 2 && a->pad_h == 0 &&
           a->pad_w == 0 && 2 * a->dst.h <= a->src.h && 2 * a->dst.w <= a->src.w;
}

template <typename T, typename I, bool MAX>
void forward(const ls_pool_attr *a, int channels, ls_cuda_pool_kernel kernel, const T *src, const float *bias, T *dst,
    I *index, cudaStream_t stream) {
    geometry g = geometry_of(a, channels, a->dst);
    g.bias = bias;
    int packs = channels / ls_pack<T>::size;
    if (kernel == LS_CUDA_POOL_SHARED) {
        int lanes = 1;
        while (lanes < packs && lanes < 32) lanes *= 2;
        int columns = (packs + lanes - 1) / lanes, blocks = a->dst.n * a->dst.h * a->dst.w * columns;
        LS_LAUNCH_BLOCK((pool_shared<T, I, MAX>), blocks, LS_BLOCK, stream, g, lanes, columns, src, dst, index);
        return;
    }
    int blocks = ls_blocks(g.items, LS_BLOCK);
    if (halves(a)) {
        LS_LAUNCH((pool_window<T, I, MAX, true>), blocks, LS_BLOCK, stream, g, src, dst, index);
    } else {
        LS_LAUNCH((pool_window<T, I, MAX, false>), blocks, LS_BLOCK, stream, g, src, dst, index);
    }
}

template <typename T, typename I, bool MAX>
void backward(
    const ls_pool_attr *a, int channels, const T *grad_dst, const I *index, T *grad_src, cudaStream_t stream) {
    geometry g = geometry_of(a, channels, a->src);
    int blocks = ls_blocks(g.items, LS_BLOCK);
    if (MAX && halves(a)) {
        LS_LAUNCH((pool_backward<T, I, MAX, MAX>), blocks, LS_BLOCK, stream, g, grad_dst, index, grad_src);
    } else {
        LS_LAUNCH((pool_backward<T, I, MAX, false>), blocks, LS_BLOCK, stream, g, grad_dst, index, grad_src);
    }
}

} // namespace

// Runs the statement with I = type of the index and MAX = whether it is max pooling.
#define BY_INDEX(attr, ...) \
    do { \
        if ((attr)->kind == LS_POOL_AVERAGE && (attr)->stride_h == 0) { \
            using I = uint16_t; \
            constexpr bool MAX = false; \
            __VA_ARGS__; \
        } else if ((attr)->kind == LS_POOL_AVERAGE) { \
            using I = uint8_t; \
            constexpr bool MAX = false; \
            __VA_ARGS__; \
        } else if ((attr)->kernel_h * (attr)->kernel_w < LS_POOL_NONE_U8) { \
            using I = uint8_t; \
            constexpr bool MAX = true; \
            __VA_ARGS__; \
        } else { \
            using I = uint16_t; \
            constexpr bool MAX = true; \
            __VA_ARGS__; \
        } \
    } while (0)

extern "C" void ls_cuda_pool_forward(const ls_pool_attr *attr, int channels, ls_cuda_pool_kernel kernel,
    const void *src, const float *bias, void *dst, void *index, cudaStream_t stream) {
    LS_BY_STORAGE(attr->storage, BY_INDEX(attr, forward<T, I, MAX>(attr, channels, kernel, static_cast<const T *>(src),
                                                    bias, static_cast<T *>(dst), static_cast<I *>(index), stream)));
}

extern "C" void ls_cuda_pool_backward(const ls_pool_attr *attr, int channels, const void *grad_dst, const void *index,
    void *grad_src, cudaStream_t stream) {
    LS_BY_STORAGE(
        attr->storage, BY_INDEX(attr, backward<T, I, MAX>(attr, channels, static_cast<const T *>(grad_dst),
                                          static_cast<const I *>(index), static_cast<T *>(grad_src), stream)));
}
