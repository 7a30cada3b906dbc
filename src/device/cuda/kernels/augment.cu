// augment.cu - one thread writes one pixel of dst, all channels of it: neighbouring threads read neighbouring bytes of
// each plane and write neighbouring packs. The table (1 KiB a channel) stays in the first cache.
#include "device/cuda/kernels/augment.h"
#include "device/cuda/kernels/kernels.cuh"

namespace {

enum { THREADS = 128 };

// A coordinate outside 0..size-1 mirrored at the edge pixel; pad < size, so once is enough.
__device__ inline int mirrored(int at, int size) {
    if (at < 0) return -at;
    return at >= size ? 2 * (size - 1) - at : at;
}

// Of one axis: is `at` one of the square's `side` indices, of which the first is middle - side/2?
__device__ inline bool in_square(int at, int middle, int side) {
    return static_cast<unsigned>(at - middle + side / 2) < static_cast<unsigned>(side);
}

// Rounded after every operation: nvcc must fuse none of them.
struct sample_jitter {
    bool on;
    float shift, factor;

    __device__ sample_jitter(const ls_augmentation &a, const ls_augment_sample &drawn)
        : on(a.brightness != 0 || a.contrast != 0) {
        float brightness_level = static_cast<float>(2 * drawn.brightness - 65535) / 65536;
        float contrast_level = static_cast<float>(2 * drawn.contrast - 65535) / 65536;
        shift = __fmul_rn(a.brightness, brightness_level);
        factor = __fadd_rn(1, __fmul_rn(a.contrast, contrast_level));
    }
    __device__ float operator()(float value) const {
        return on ? __fmul_rn(__fadd_rn(value, shift), factor) : value;
    }
};

// blocks: of a picture
template <typename T> __global__ void __launch_bounds__(THREADS) augment(ls_cuda_augment_args a, int blocks) {
    ls_nchw s = a.attr.shape;
    int n = static_cast<int>(blockIdx.x) / blocks, plane = s.h * s.w;
    int pixel = (static_cast<int>(blockIdx.x) - n * blocks) * THREADS + static_cast<int>(threadIdx.x);
    if (pixel >= plane) return;
    int y = pixel / s.w, x = pixel - y * s.w;
    const ls_augment_sample &drawn = a.samples[n];
    int pad = a.attr.augmentation.pad;
    int from_y = y + drawn.dy - pad, from_x = (drawn.flip ? s.w - 1 - x : x) + drawn.dx - pad;
    if (a.attr.augmentation.pad_mode == LS_PAD_REFLECT) {
        from_y = mirrored(from_y, s.h);
        from_x = mirrored(from_x, s.w);
    }
    bool inside = from_y >= 0 && from_y < s.h && from_x >= 0 && from_x < s.w;
    int side = a.attr.augmentation.cutout;
    bool cut = in_square(y, drawn.cut_y, side) && in_square(x, drawn.cut_x, side);
    sample_jitter jitter(a.attr.augmentation, drawn);
    int64_t picture = a.index ? a.index[n] : n;
    const uint8_t *from = a.pixels + picture * s.c * plane + (inside ? from_y * s.w + from_x : 0);
    T *to = static_cast<T *>(a.dst) + (static_cast<int64_t>(n) * plane + pixel) * a.channels;
    for (int first = 0; first < a.channels; first += ls_pack<T>::size) {
        ls_pack<T> pack;
        LS_UNROLL
        for (int k = 0; k < pack.size; k++) {
            int c = first + k, value = inside && c < s.c ? from[static_cast<int64_t>(c) * plane] : 0;
            pack.v[k] = c < s.c && !cut ? jitter(a.table[c * 256 + value]) : 0;
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
