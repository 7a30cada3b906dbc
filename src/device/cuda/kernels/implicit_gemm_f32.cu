// implicit_gemm_f32.cu - the kernels of implicit_gemm.cu for elements of fp32, multiplied as TF32.
#include "device/cuda/kernels/implicit_gemm.cuh"

template void ls_cuda_implicit_gather<float>(
    const gather_plan &, bool, const void *, const void *, const float *, void *, cudaStream_t);
template void ls_cuda_implicit_weight_gather<float>(
    const ls_cuda_implicit_gemm &, const void *, const void *, float *, cudaStream_t);
