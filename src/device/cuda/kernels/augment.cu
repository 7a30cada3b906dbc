// augment.cu - one thread writes all channels of one pixel of dst. Neighbouring threads read neighbouring bytes of each
// plane and write neighbouring packs. The table (1 KiB for each channel) stays in the first-level cache.
//
// Estimates for 16-bit storage on an H200 (sm_90): 182 registers (fp32: 48), 2 blocks of 128 threads on a
// multiprocessor; 3 bytes read and 16 written for each pixel. Latency limits the kernel: sample, byte and table are
// read one after the other, about 1.5 us for each wave of 264 blocks. 128 pictures of 32x32 are 1024 blocks: 6 us, of
// which memory bandwidth accounts for 0.5.
#include "device/cuda/kernels/augment.h"
#include "device/cuda/kernels/kernels.cuh"

namespace {

enum { THREADS = 128 };

// Mirrors a coordinate outside 0..size-1 at the edge pixel. pad < size, so mirroring once is enough.
__device__ inline int mirrored(int at, int size) {
    if (at < 0) return -at;
    return at >= size ? 2 * (size - 1) - at : at;
}

// For one axis: whether `at` is one of the `size` indices from `first` on.
__device__ inline bool within(int at, int first, int size) {
    return static_cast<unsigned>(at - first) < static_cast<unsigned>(size);
}

// The two source indices that a pixel of a stretched axis reads, and the weight of the second in 2048ths.
struct tap {
    int first, second, share;
};

__device__ inline tap tap_at(int at, int crop, int size) {
    long long t = (2LL * at + 1) * crop - size, step = 2LL * size;
    if (t < 0) t = 0;
    int first = static_cast<int>(t / step);
    return { first, first + 1 < crop ? first + 1 : first, static_cast<int>((t % step * 2048 + size) / step) };
}

// How one pixel of dst sees a sample. Every operation on values is rounded separately: nvcc must not fuse any.
struct sight {
    const uint8_t *first; // channel 0: the pixel, or the first of the four pixels of a stretched picture
    int right, below;     // offsets from it to the other pixels
    int row, column;      // weights of the other row and the other column
    bool inside, cut, jitters;
    float shift, factor;

    __device__ sight(const ls_cuda_augment_args &a, int n, int y, int x) {
        const ls_augmentation &options = a.attr.augmentation;
        ls_nchw s = a.attr.shape;
        const ls_augment_sample &drawn = a.samples[n];
        int from_y = y + drawn.dy - options.pad, from_x = (drawn.flip ? s.w - 1 - x : x) + drawn.dx - options.pad;
        if (options.pad_mode == LS_PAD_REFLECT) {
            from_y = mirrored(from_y, s.h);
            from_x = mirrored(from_x, s.w);
        }
        inside = from_y >= 0 && from_y < s.h && from_x >= 0 && from_x < s.w;
        cut = (within(y, drawn.cut_y - options.cutout / 2, options.cutout) &&
                  within(x, drawn.cut_x - options.cutout / 2, options.cutout)) ||
              (within(y, drawn.erase_y, drawn.erase_h) && within(x, drawn.erase_x, drawn.erase_w));
        right = below = row = column = 0;
        if (inside && drawn.crop_h > 0) {
            tap rows = tap_at(from_y, drawn.crop_h, s.h), columns = tap_at(from_x, drawn.crop_w, s.w);
            from_y = drawn.crop_y + rows.first;
            from_x = drawn.crop_x + columns.first;
            right = columns.second - columns.first;
            below = (rows.second - rows.first) * s.w;
            row = rows.share;
            column = columns.share;
        }
        int64_t picture = a.index ? a.index[n] : n;
        first = a.pixels + picture * s.c * s.h * s.w + (inside ? from_y * s.w + from_x : 0);
        jitters = options.brightness != 0 || options.contrast != 0;
        float brightness_level = static_cast<float>(2 * drawn.brightness - 65535) / 65536;
        float contrast_level = static_cast<float>(2 * drawn.contrast - 65535) / 65536;
        shift = __fmul_rn(options.brightness, brightness_level);
        factor = __fadd_rn(1, __fmul_rn(options.contrast, contrast_level));
    }

    // table: of the channel. plane: offset of the channel's plane.
    __device__ float operator()(const float *table, int64_t plane) const {
        if (cut) return 0;
        int pixel = inside ? first[plane] : 0;
        if (row | column) {
            const uint8_t *top = first + plane, *bottom = top + below;
            int above = (2048 - column) * pixel + column * top[right];
            int under = (2048 - column) * bottom[0] + column * bottom[right];
            pixel = ((2048 - row) * above + row * under + (1 << 21)) >> 22;
        }
        float value = table[pixel];
        return jitters ? __fmul_rn(__fadd_rn(value, shift), factor) : value;
    }
};

// Computes the pictures in dst; each has `blocks` blocks of threads.
template <typename T> __global__ void __launch_bounds__(THREADS) augment(ls_cuda_augment_args a, int blocks) {
    ls_nchw s = a.attr.shape;
    int n = static_cast<int>(blockIdx.x) / blocks, plane = s.h * s.w;
    int pixel = (static_cast<int>(blockIdx.x) - n * blocks) * THREADS + static_cast<int>(threadIdx.x);
    if (pixel >= plane) return;
    int y = pixel / s.w, x = pixel - y * s.w, partner = s.n - 1 - n;
    const ls_augment_sample &drawn = a.samples[n];
    bool pasted = within(y, drawn.mix_y, drawn.mix_h) && within(x, drawn.mix_x, drawn.mix_w);
    bool mixed = drawn.mix_h == 0 && drawn.mix > 0;
    sight own(a, pasted ? partner : n, y, x), other = mixed ? sight(a, partner, y, x) : own;
    float share = static_cast<float>(drawn.mix) / 65536;
    T *to = static_cast<T *>(a.dst) + (static_cast<int64_t>(n) * plane + pixel) * a.channels;
    for (int first = 0; first < a.channels; first += ls_pack<T>::size) {
        ls_pack<T> pack;
        LS_UNROLL
        for (int k = 0; k < pack.size; k++) {
            int c = first + k;
            pack.v[k] = 0;
            if (c >= s.c) continue;
            const float *table = a.table + c * 256;
            float value = own(table, static_cast<int64_t>(c) * plane);
            if (mixed) {
                float difference = __fadd_rn(other(table, static_cast<int64_t>(c) * plane), -value);
                value = __fadd_rn(value, __fmul_rn(difference, share));
            }
            pack.v[k] = value;
        }
        ls_pack_store(to + first, pack);
    }
}

} // namespace

extern "C" void ls_cuda_augment(const ls_cuda_augment_args *args, cudaStream_t stream) {
    ls_nchw s = args->attr.shape;
    int blocks = ls_blocks(static_cast<int64_t>(s.h) * s.w, THREADS);
    LS_BY_STORAGE(args->attr.storage, LS_LAUNCH((augment<T>), s.n * blocks, THREADS, stream, *args, blocks));
}
