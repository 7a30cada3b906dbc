// libraries.h - the interface to NVIDIA's libraries: convolutions by cuDNN, matrix products by cuBLASLt. Only
// libraries.c, cudnn_*.c and cublaslt.c include the libraries' headers. op_conv.c, op_linear.c and op_muon.c ask here
// for algorithms. Own kernels compute where they are chosen, where a library has no algorithm, and in
// the emulation, which has no libraries.
#ifndef LS_DEVICE_CUDA_LIBRARIES_H
#define LS_DEVICE_CUDA_LIBRARIES_H

#include "device/cuda/cuda.h"

// Opens cuDNN and cuBLASLt on this device. LS_DEVICE: one of them failed to open. In the emulation *out is NULL.
LS_CHECKED ls_status ls_cuda_libraries_open(ls_cuda_device *device, ls_cuda_libraries **out);
void ls_cuda_libraries_close(ls_cuda_libraries *libraries); // NULL is allowed
void ls_cuda_libraries_text(
    const ls_cuda_libraries *libraries, char *text, size_t bytes); // "cuDNN 9.19.0, cuBLASLt 13.1.0"

// --- convolutions: one plan of one of the three passes -------------------------------------------
typedef struct ls_cuda_conv_algorithm ls_cuda_conv_algorithm;

// The device's own kernels for the same convolution. They are timed together with the library's plans.
typedef struct {
    const char *name;
    int first; // use these kernels if nothing is measured
    void (*run)(void *context, void *image, void *weight, void *result, void *workspace, ls_queue *queue);
    void *context;
    size_t workspace; // bytes of workspace that run needs; run writes a weight gradient there, not to `weight`
} ls_cuda_own_conv;

// Chooses the algorithm of one pass. op: LS_OP_CONV_FORWARD (x, w -> y, no bias), _BACKWARD_DATA (dy, w -> dx),
// _BACKWARD_WEIGHT (dy, x -> dw in the storage type: fp32 adds to dw, 16-bit types overwrite it). own: may be NULL.
// *out is NULL if own is chosen, or if the library has no algorithm within the workspace limit (not an error: own
// kernels can compute it). *chosen: as ls_plan.chosen.
LS_CHECKED ls_status ls_cuda_conv_algorithm_new(ls_cuda_libraries *libraries, ls_op op, const ls_conv_attr *attr,
    const char *layer, const ls_cuda_own_conv *own, ls_cuda_conv_algorithm **out, const char **chosen);
void ls_cuda_conv_algorithm_free(ls_cuda_conv_algorithm *algorithm); // NULL is allowed
size_t ls_cuda_conv_workspace(const ls_cuda_conv_algorithm *algorithm);
const char *ls_cuda_conv_name(const ls_cuda_conv_algorithm *algorithm); // "cudnn engine 12, tensor cores"
// Enqueues one pass of the convolution. image: x or dx; weight: w or dw; result: y or dy
void ls_cuda_conv_execute(
    ls_cuda_conv_algorithm *algorithm, void *image, void *weight, void *result, void *workspace, ls_queue *queue);

// --- matrix products -----------------------------------------------------------------------------
// Row-major D[m][n] = alpha * op(A) * op(B) + beta * C. A and B have type `storage`, C and D have type `result`;
// accumulation is fp32. D may be C. With batch > 1, each of A, B, C and D is `batch` matrices, one after the
// other. With `bias`, a vector of n elements in D's type is added to each row. With `relu`, negative results then
// become 0. *out is NULL if the library has no algorithm.
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
// Enqueues the product. bias: NULL if the attributes have no bias
void ls_cuda_gemm_execute(const ls_cuda_gemm *gemm, const void *a, const void *b, const void *c, const void *bias,
    void *d, void *workspace, ls_queue *queue);

#endif
