// implicit_gemm_bf16.cu - the kernels of implicit_gemm.cu for elements of bf16.
#include "device/cuda/kernels/implicit_gemm.cuh"

template void ls_cuda_implicit_gather<__nv_bfloat16>(
    const gather_plan &, bool, const void *, const void *, const float *, void *, cudaStream_t);
template void ls_cuda_implicit_weight_gather<__nv_bfloat16>(
    const ls_cuda_implicit_gemm &, const void *, const void *, float *, cudaStream_t);
