// muon.h - what Muon (op_update.h) does element by element; its products are vendor_gemm.c's, or `product` here.
//
// Matrices of one size make a batch x[matrices][small][large]: what a matrix is smaller is zero, and stays zero.
#ifndef LS_DEVICE_CUDA_KERNELS_MUON_H
#define LS_DEVICE_CUDA_KERNELS_MUON_H

#include <cuda_runtime_api.h>
#include "device/op_update.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LS_CUDA_MUON_PARTS = 64 }; // blocks that a matrix is summed by

typedef struct {
    int64_t first;     // element in the store
    int rows, columns; // as laid out
    int transposed;    // in x, as it has more rows than columns
    int true_rows;     // without padding
    float lr_factor, decay, momentum, stretch;
    int rate;
} ls_cuda_muon_matrix;

typedef struct {
    const ls_cuda_muon_matrix *matrices; // device memory
    int count, small, large;             // of the batch
    int nesterov;
    const ls_train_state *state;
    const float *grad;
    float *momentum, *weight;
    void *copy; // NULL where storage is LS_F32
    ls_dtype storage;
    float *x;
    double *parts;  // [count][LS_CUDA_MUON_PARTS][2]: sums of squares of direction and weight
    float *factors; // [count][2]: 1/(norm of the direction + LS_MUON_EPS), and the rescaling of the weight
} ls_cuda_muon_args;

void ls_cuda_muon_direction(const ls_cuda_muon_args *args, cudaStream_t stream); // momentum; x, divided by its norm
void ls_cuda_muon_apply(const ls_cuda_muon_args *args, cudaStream_t stream);     // weight and copy, from x

// d = alpha * a * b + beta * c for `batch` row-major matrices one after another, a [m][k], b [k][n], or [n][k] transposed.
typedef struct {
    int batch, m, n, k, transpose_b;
    float alpha, beta;
} ls_cuda_muon_product;
void ls_cuda_muon_multiply(
    const ls_cuda_muon_product *product, const float *a, const float *b, const float *c, float *d, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
