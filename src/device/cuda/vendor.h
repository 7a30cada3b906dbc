// vendor.h - the seam to NVIDIA's libraries: convolutions by cuDNN, matrix products by cuBLASLt. Only libraries*.c
// include them; op_conv.c and op_linear.c ask here first, weighted.c runs the direct kernels (kernels/direct.h) where a library
// has nothing, or is not there (the emulation).
#ifndef LS_DEVICE_CUDA_VENDOR_H
#define LS_DEVICE_CUDA_VENDOR_H

#include "device/cuda/cuda.h"

// Opens cuDNN and cuBLASLt on this device. LS_DEVICE: what failed. In the emulation *out is NULL.
LS_CHECKED ls_status ls_cuda_libraries_open(ls_cuda_device *device, ls_cuda_libraries **out);
void ls_cuda_libraries_close(ls_cuda_libraries *libraries); // NULL is allowed
void ls_cuda_libraries_text(
    const ls_cuda_libraries *libraries, char *text, size_t bytes); // "cuDNN 9.19.0, cuBLASLt 13.1.0"

// --- convolutions: one plan of one of the three passes -------------------------------------------
typedef struct ls_cuda_conv_algorithm ls_cuda_conv_algorithm;

// Own kernels that compute the convolution as well: they are measured with the library's plans.
typedef struct {
    const char *name;
    int first; // by the rule, where nothing is measured, they are taken
    void (*run)(void *context, void *image, void *weight, void *result, void *workspace, ls_queue *queue);
    void *context;
    size_t workspace; // bytes that run is given; it writes a weight gradient there, not to `weight`
} ls_cuda_own_conv;

// op: LS_OP_CONV_FORWARD (x, w -> y, no bias), _BACKWARD_DATA (dy, w -> dx), _BACKWARD_WEIGHT (dy, x -> dw in the
// storage type: fp32 adds to what is there, 16-bit types overwrite). own: NULL where there is none. *out is NULL where own is chosen,
// or when the library has no algorithm within the workspace limit (no error: own kernels can). *chosen: as ls_plan.chosen
LS_CHECKED ls_status ls_cuda_conv_algorithm_new(ls_cuda_libraries *libraries, ls_op op, const ls_conv_attr *attr,
    const char *layer, const ls_cuda_own_conv *own, ls_cuda_conv_algorithm **out, const char **chosen);
void ls_cuda_conv_algorithm_free(ls_cuda_conv_algorithm *algorithm); // NULL is allowed
size_t ls_cuda_conv_workspace(const ls_cuda_conv_algorithm *algorithm);
const char *ls_cuda_conv_name(const ls_cuda_conv_algorithm *algorithm); // "cudnn engine 12, tensor cores"
// image: x or dx; weight: w or dw; result: y or dy
void ls_cuda_conv_execute(
    ls_cuda_conv_algorithm *algorithm, void *image, void *weight, void *result, void *workspace, ls_queue *queue);

// --- matrix products -----------------------------------------------------------------------------
// Row-major D[m][n] = alpha * op(A) * op(B) + beta * C, A and B in `storage`, C and D in `result`, fp32 accumulation; D may be
// C. With batch > 1 so many of each lie one after another.
// With `bias` a vector of n, in the type of D, is added to each row; with `relu` what is below 0 is 0 then.
// *out is NULL when the library has no algorithm.
typedef struct {
    int m, n, k, batch;
    int transpose_a, transpose_b; // A is stored [k][m], B is stored [n][k]
    ls_dtype storage, result;
    float alpha, beta;
    int bias, relu;
} ls_cuda_gemm_attr;
typedef struct ls_cuda_gemm ls_cuda_gemm;
LS_CHECKED ls_status ls_cuda_gemm_new(
    ls_cuda_libraries *libraries, const ls_cuda_gemm_attr *attr, const char *layer, ls_cuda_gemm **out);
void ls_cuda_gemm_free(ls_cuda_gemm *gemm); // NULL is allowed
size_t ls_cuda_gemm_workspace(const ls_cuda_gemm *gemm);
// bias: NULL where the attributes have none
void ls_cuda_gemm_execute(const ls_cuda_gemm *gemm, const void *a, const void *b, const void *c, const void *bias,
    void *d, void *workspace, ls_queue *queue);

#endif
