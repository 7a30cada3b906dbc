// pool.cuh - windows and winners' numbers. Shared by pooling (pool.cu) and batch norm with pooling (norm.cu).
#pragma once

#include "device/cuda/kernels/kernels.cuh"
#include "device/op_pool.h"

// Windows of any rectangular shape over (n,h,w,channels); the result is (n,p,q,channels).
struct ls_windows {
    int h, w, p, q, channels; // channels: including padding
    int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
    ls_divider by_w, by_h, by_q, by_p, by_stride_h, by_stride_w;
};

// Uses the attributes' shapes and window only.
inline ls_windows ls_windows_of(const ls_pool_attr &a, int channels) {
    return { a.src.h, a.src.w, a.dst.h, a.dst.w, channels, a.kernel_h, a.kernel_w, a.stride_h, a.stride_w, a.pad_h,
        a.pad_w, ls_divider_of(a.src.w), ls_divider_of(a.src.h), ls_divider_of(a.dst.w), ls_divider_of(a.dst.h),
        ls_divider_of(a.stride_h), ls_divider_of(a.stride_w) };
}

// Sample, row and column of a pixel, from its number in a tensor; and its offset, from these.
struct ls_pixel {
    uint32_t n;
    int y, x;
};
__device__ inline ls_pixel ls_pixel_at(uint32_t number, ls_divider by_w, ls_divider by_h) {
    uint32_t row = ls_divide(number, by_w), n = ls_divide(row, by_h);
    return { n, static_cast<int>(row - n * by_h.divisor), static_cast<int>(number - row * by_w.divisor) };
}
__device__ inline int64_t ls_pixel_offset(uint32_t n, int y, int x, int h, int w, int channels) {
    return ((static_cast<int64_t>(n) * h + y) * w + x) * channels;
}

// Stores N winners' numbers of type I, for neighbouring channels, in one access.
template <typename I, int N> __device__ inline void ls_winners_store(I *to, const int *winners) {
    constexpr int in_word = 4 / sizeof(I), words = N / in_word;
    uint32_t word[words];
    LS_UNROLL
    for (int k = 0; k < words; k++) {
        word[k] = 0;
        LS_UNROLL
        for (int j = 0; j < in_word; j++) {
            uint32_t bits = static_cast<uint32_t>(winners[k * in_word + j]) & (sizeof(I) == 1 ? 0xFFu : 0xFFFFu);
            word[k] |= bits << (8 * sizeof(I) * j);
        }
    }
    if constexpr (words == 4) {
        *reinterpret_cast<uint4 *>(to) = { word[0], word[1], word[2], word[3] };
    } else if constexpr (words == 2) {
        *reinterpret_cast<uint2 *>(to) = { word[0], word[1] };
    } else {
        *reinterpret_cast<uint32_t *>(to) = word[0];
    }
}

template <typename I, int N> __device__ inline void ls_winners_load(const I *from, int *winners) {
    constexpr int in_word = 4 / sizeof(I), words = N / in_word;
    uint32_t word[words];
    if constexpr (words == 4) {
        uint4 raw = *reinterpret_cast<const uint4 *>(from);
        word[0] = raw.x, word[1] = raw.y, word[2] = raw.z, word[3] = raw.w;
    } else if constexpr (words == 2) {
        uint2 raw = *reinterpret_cast<const uint2 *>(from);
        word[0] = raw.x, word[1] = raw.y;
    } else {
        word[0] = *reinterpret_cast<const uint32_t *>(from);
    }
    LS_UNROLL
    for (int k = 0; k < N; k++) {
        winners[k] =
            static_cast<int>(word[k / in_word] >> (8 * sizeof(I) * (k % in_word)) & (sizeof(I) == 1 ? 0xFFu : 0xFFFFu));
    }
}

template <typename I> __device__ inline constexpr int ls_no_winner() {
    return sizeof(I) == 1 ? LS_POOL_NONE_U8 : LS_POOL_NONE_U16;
}

// The windows that cover an element: all from (p, q) on with p * stride_h <= y and q * stride_w <= x.
struct ls_window_range {
    int y, x, p, q; // y, x: counted from the corner of window (0, 0)
};
__device__ inline ls_window_range ls_window_range_of(const ls_windows &g, ls_pixel at) {
    int y = at.y + g.pad_h, x = at.x + g.pad_w;
    uint32_t p = y < g.kernel_h ? 0 : ls_divide(static_cast<uint32_t>(y - g.kernel_h), g.by_stride_h) + 1;
    uint32_t q = x < g.kernel_w ? 0 : ls_divide(static_cast<uint32_t>(x - g.kernel_w), g.by_stride_w) + 1;
    return { y, x, static_cast<int>(p), static_cast<int>(q) };
}

// Adds one window's gradient to the channels in which element `number` of the window won.
template <typename T, typename I>
__device__ inline void ls_window_add(
    ls_pack<T> &sum, const T *grad, const T *grad2, const I *index, int64_t offset, int number) {
    constexpr int size = ls_pack<T>::size;
    int winners[size];
    ls_winners_load<I, size>(index + offset, winners);
    ls_pack<T> g = ls_pack_load(grad + offset);
    if (grad2) {
        ls_pack<T> more = ls_pack_load(grad2 + offset);
        LS_UNROLL
        for (int k = 0; k < size; k++) g.v[k] += more.v[k];
    }
    LS_UNROLL
    for (int k = 0; k < size; k++) sum.v[k] += winners[k] == number ? g.v[k] : 0;
}

// Gradient of source element `at` from the windows in which it won, for the pack that starts at `channel`. grad, grad2
// (may be NULL), index: shaped as dst. HALVES: windows are 2x2, stride 2, without padding. Windows are added in order.
template <typename T, typename I, bool HALVES>
__device__ inline ls_pack<T> ls_window_gather(
    const ls_windows &g, ls_pixel at, int channel, const T *grad, const T *grad2, const I *index) {
    ls_pack<T> sum = {};
    if (HALVES) {
        int p = at.y >> 1, q = at.x >> 1;
        if (p < g.p && q < g.q) {
            int64_t offset = ls_pixel_offset(at.n, p, q, g.p, g.q, g.channels) + channel;
            ls_window_add(sum, grad, grad2, index, offset, (at.y & 1) * 2 + (at.x & 1));
        }
        return sum;
    }
    ls_window_range r = ls_window_range_of(g, at);
    for (int p = r.p; p < g.p && p * g.stride_h <= r.y; p++) {
        for (int q = r.q; q < g.q && q * g.stride_w <= r.x; q++) {
            int number = (r.y - p * g.stride_h) * g.kernel_w + (r.x - q * g.stride_w);
            ls_window_add(sum, grad, grad2, index, ls_pixel_offset(at.n, p, q, g.p, g.q, g.channels) + channel, number);
        }
    }
    return sum;
}
