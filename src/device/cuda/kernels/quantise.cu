// quantise.cu - fake quantisation: one thread handles one 16-byte pack of an activation, one block handles the weights
// of one output channel. Memory bandwidth limits these kernels; weights are read a second time from the L2.
#include "device/cuda/kernels/kernels.cuh"
#include "device/cuda/kernels/quantise.h"

namespace {

// Division and rounding are single operations, whatever the compiler's options. Adding 0 leaves no negative zeros.
__device__ inline float rounded(float x, float scale) {
    return rintf(__fdiv_rn(x, scale)) + 0.0F;
}

__device__ inline float limited(float q, float least, float most) { // NaN stays NaN
    if (q < least) return least;
    return q > most ? most : q;
}

template <bool BACKWARD>
__global__ void __launch_bounds__(LS_BLOCK) fake_quantise(
    const float *src, const float *scale, const float *zero, const float *grad_dst, float *out, int64_t packs) {
    int64_t i = static_cast<int64_t>(blockIdx.x) * LS_BLOCK + threadIdx.x;
    if (i >= packs) return;
    const float step = *scale, least = LS_QUANTISE_LEAST - *zero, most = LS_QUANTISE_MOST - *zero;
    ls_pack<float> x = ls_pack_load(src + i * x.size), grad = {};
    if (BACKWARD) grad = ls_pack_load(grad_dst + i * x.size);
    LS_UNROLL
    for (int k = 0; k < x.size; k++) {
        const float q = rounded(x.v[k], step);
        x.v[k] = BACKWARD ? (q >= least && q <= most ? grad.v[k] : 0) : step * limited(q, least, most);
    }
    ls_pack_store(out + i * x.size, x);
}

__global__ void __launch_bounds__(LS_BLOCK) fake_quantise_weight(const float *src, float *dst, int columns) {
    LS_SHARED(float, room, LS_BLOCK);
    const int t = static_cast<int>(threadIdx.x);
    const int64_t row = static_cast<int64_t>(blockIdx.x) * columns;
    float most = 0;
    for (int i = t; i < columns; i += LS_BLOCK) {
        const float size = fabsf(src[row + i]);
        most = size > most ? size : most; // NaN is passed over
    }
    room[t] = most;
    __syncthreads();
    for (int half = LS_BLOCK / 2; half > 0; half /= 2) {
        if (t < half && room[t + half] > room[t]) room[t] = room[t + half];
        __syncthreads();
    }
    const float scale = __fdiv_rn(room[0], LS_QUANTISE_WEIGHT_MOST);
    for (int i = t; i < columns; i += LS_BLOCK) {
        const float x = src[row + i];
        dst[row + i] = scale > 0 ? scale * rounded(x, scale) : x;
    }
}

} // namespace

extern "C" void ls_cuda_fake_quantise(const float *src, const float *scale, const float *zero, const float *grad_dst,
    float *out, int64_t packs, cudaStream_t stream) {
    if (grad_dst)
        LS_LAUNCH((fake_quantise<true>), ls_blocks(packs, LS_BLOCK), LS_BLOCK, stream, src, scale, zero, grad_dst, out,
            packs);
    else
        LS_LAUNCH((fake_quantise<false>), ls_blocks(packs, LS_BLOCK), LS_BLOCK, stream, src, scale, zero, grad_dst, out,
            packs);
}

extern "C" void ls_cuda_fake_quantise_weight(const float *src, float *dst, int rows, int columns, cudaStream_t stream) {
    LS_LAUNCH_BLOCK(fake_quantise_weight, rows, LS_BLOCK, stream, src, dst, columns);
}
