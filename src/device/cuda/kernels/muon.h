// muon.h - the element-wise parts of Muon (op_update.h). Its products are computed by cublaslt.c, or by
// ls_cuda_muon_multiply.
//
// Matrices form a batch x[matrices][small][large]. A smaller matrix is padded with zeros, which stay zero.
#ifndef LS_DEVICE_CUDA_KERNELS_MUON_H
#define LS_DEVICE_CUDA_KERNELS_MUON_H

#include <cuda_runtime_api.h>
#include "device/op_update.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LS_CUDA_MUON_PARTS = 64 }; // blocks that sum one matrix

typedef struct {
    int64_t first;     // number in the store of the matrix's first element
    int rows, columns; // including padding
    int transposed;    // x is transposed, because the matrix has more rows than columns
    int true_rows;     // rows without padding
    float lr_factor, decay, momentum, stretch;
    int rate;
} ls_cuda_muon_matrix;

typedef struct {
    const ls_cuda_muon_matrix *matrices; // device memory
    int count, small, large;             // number of matrices; shorter and longer side of each matrix in x
    int nesterov;
    const ls_train_state *state;
    const float *grad;
    float *momentum, *weight;
    void *copy; // NULL if storage is LS_F32
    ls_dtype storage;
    float *x;
    double *parts;  // [count][LS_CUDA_MUON_PARTS][2]: sums of squares of direction and weight
    float *factors; // [count][2]: 1/(norm of the direction + LS_MUON_EPS), and the factor that rescales the weight
} ls_cuda_muon_args;

// updates momentum; x = direction divided by its norm
void ls_cuda_muon_direction(const ls_cuda_muon_args *args, cudaStream_t stream);
void ls_cuda_muon_apply(const ls_cuda_muon_args *args, cudaStream_t stream); // updates weight and copy from x

// d = alpha * a * b + beta * c for `batch` row-major matrices that follow each other: a [m][k], b [k][n] or, with
// transpose_b, [n][k].
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
