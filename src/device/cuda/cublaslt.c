// cublaslt.c - matrix products by cuBLASLt. The library is column-major: it sees a row-major C[m][n] as an n x m matrix
// with leading dimension n. So the library computes C = op(A) op(B), transposed, as the product of B by A.
#include "base/memory.h"
#include "device/cuda/libraries_internal.h"

#include <stdio.h>

enum { ALIGNMENT = 16 }; // bytes; tensors in the store are aligned to 64 in fp32, to 32 in 16 bits

struct ls_cuda_gemm {
    ls_cuda_libraries *libraries;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t left, right, result; // B, A, C
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace;
    float alpha, beta;
    char layer[96];
};

ls_status ls_cublaslt_fail(const char *layer, const char *call, cublasStatus_t rc) {
    return ls_fail(LS_DEVICE, "%s%s%scuBLASLt: %s: %s (%d)", layer ? "layer " : "", layer ? layer : "",
        layer ? ": " : "", call, cublasLtGetStatusString(rc), (int)rc);
}

#define TRY_LT(layer, call) \
    do { \
        cublasStatus_t rc_ = (call); \
        if (rc_ != CUBLAS_STATUS_SUCCESS) return ls_cublaslt_fail(layer, #call, rc_); \
    } while (0)

static cudaDataType_t type_of(ls_dtype storage) {
    return storage == LS_F32 ? CUDA_R_32F : storage == LS_F16 ? CUDA_R_16F : CUDA_R_16BF;
}

static ls_status set_batch(const ls_cuda_gemm *gemm, cublasLtMatrixLayout_t layout, int count, int64_t stride) {
    TRY_LT(gemm->layer,
        cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    TRY_LT(gemm->layer,
        cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
    return LS_SUCCESS;
}

static ls_status describe(ls_cuda_gemm *gemm, const ls_cuda_gemm_attr *a, int tf32) {
    cublasComputeType_t compute = a->storage == LS_F32 && tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasOperation_t left = a->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t right = a->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cudaDataType_t storage = type_of(a->storage);
    uint64_t m = (uint64_t)a->m, n = (uint64_t)a->n, k = (uint64_t)a->k;
    TRY_LT(gemm->layer, cublasLtMatmulDescCreate(&gemm->product, compute, CUDA_R_32F));
    TRY_LT(gemm->layer, cublasLtMatmulDescSetAttribute(gemm->product, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof left));
    TRY_LT(
        gemm->layer, cublasLtMatmulDescSetAttribute(gemm->product, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof right));
    // rows, columns and leading dimension in column-major order: stored [k][n] is n x k, stored [n][k] is k x n
    if (a->transpose_b) {
        TRY_LT(gemm->layer, cublasLtMatrixLayoutCreate(&gemm->left, storage, k, n, (int64_t)k));
    } else {
        TRY_LT(gemm->layer, cublasLtMatrixLayoutCreate(&gemm->left, storage, n, k, (int64_t)n));
    }
    if (a->transpose_a) {
        TRY_LT(gemm->layer, cublasLtMatrixLayoutCreate(&gemm->right, storage, m, k, (int64_t)m));
    } else {
        TRY_LT(gemm->layer, cublasLtMatrixLayoutCreate(&gemm->right, storage, k, m, (int64_t)k));
    }
    TRY_LT(gemm->layer, cublasLtMatrixLayoutCreate(&gemm->result, type_of(a->result), n, m, (int64_t)n));
    // the bias, of the result's type, is added to each column of the transposed result
    const cublasLtEpilogue_t epilogue = a->bias && a->relu ? CUBLASLT_EPILOGUE_RELU_BIAS
                                        : a->bias          ? CUBLASLT_EPILOGUE_BIAS
                                        : a->relu          ? CUBLASLT_EPILOGUE_RELU
                                                           : CUBLASLT_EPILOGUE_DEFAULT;
    TRY_LT(gemm->layer,
        cublasLtMatmulDescSetAttribute(gemm->product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    if (a->batch <= 1) return LS_SUCCESS;
    LS_TRY(set_batch(gemm, gemm->left, a->batch, (int64_t)a->n * a->k));
    LS_TRY(set_batch(gemm, gemm->right, a->batch, (int64_t)a->m * a->k));
    return set_batch(gemm, gemm->result, a->batch, (int64_t)a->m * a->n);
}

// Returns the workspace that NVIDIA recommends, 32 MiB for Hopper and later, 4 MiB before, but at most the device's
// limit.
static uint64_t workspace_wanted(const ls_cuda_libraries *libraries) {
    uint64_t wanted = (uint64_t)(libraries->device->capability >= 90 ? 32 : 4) << 20;
    return wanted < libraries->workspace_limit ? wanted : libraries->workspace_limit;
}

// Tells cuBLASLt which algorithms are wanted: by workspace, alignment and sums. Partial sums must be kept in fp32 and
// added in a separate step. So there is one order of additions and no rounding to 16 bits in between.
static ls_status prefer(cublasLtMatmulPreference_t preference, const ls_cuda_libraries *libraries, const char *layer) {
    uint64_t workspace = workspace_wanted(libraries);
    uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, alignment = ALIGNMENT;
    const struct {
        cublasLtMatmulPreferenceAttributes_t name;
        const void *value;
        size_t bytes;
    } rows[] = {
        { CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace },
        { CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction, sizeof reduction },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignment, sizeof alignment },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &alignment, sizeof alignment },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &alignment, sizeof alignment },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &alignment, sizeof alignment },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TRY_LT(layer, cublasLtMatmulPreferenceSetAttribute(preference, rows[i].name, rows[i].value, rows[i].bytes));
    }
    return LS_SUCCESS;
}

// Sets the product's algorithm to the first that cuBLASLt proposes. *found is 0 if it proposes no algorithm.
static ls_status choose(ls_cuda_gemm *gemm, int *found) {
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t result = { 0 };
    int count = 0;
    *found = 0;
    TRY_LT(gemm->layer, cublasLtMatmulPreferenceCreate(&preference));
    ls_status status = prefer(preference, gemm->libraries, gemm->layer);
    if (!ls_failed(status)) {
        cublasStatus_t rc = cublasLtMatmulAlgoGetHeuristic(gemm->libraries->cublaslt, gemm->product, gemm->left,
            gemm->right, gemm->result, gemm->result, preference, 1, &result, &count);
        if (rc == CUBLAS_STATUS_SUCCESS) {
            *found = count > 0 && result.state == CUBLAS_STATUS_SUCCESS;
        } else if (rc != CUBLAS_STATUS_NOT_SUPPORTED) {
            status = ls_cublaslt_fail(gemm->layer, "cublasLtMatmulAlgoGetHeuristic", rc);
        }
    }
    cublasLtMatmulPreferenceDestroy(preference);
    gemm->algorithm = result.algo;
    gemm->workspace = result.workspaceSize;
    return status;
}

ls_status ls_cuda_gemm_new(
    ls_cuda_libraries *libraries, const ls_cuda_gemm_attr *attr, const char *layer, ls_cuda_gemm **out) {
    *out = NULL;
    ls_cuda_gemm *gemm = ls_new(1, sizeof *gemm, "layer %s", layer);
    int found = 0;
    gemm->libraries = libraries;
    gemm->alpha = attr->alpha;
    gemm->beta = attr->beta;
    snprintf(gemm->layer, sizeof gemm->layer, "%s", layer);
    ls_status status = describe(gemm, attr, libraries->device->tf32);
    LS_THEN(status, choose(gemm, &found));
    if (ls_failed(status) || !found) {
        ls_cuda_gemm_free(gemm);
        return status;
    }
    *out = gemm;
    return LS_SUCCESS;
}

void ls_cuda_gemm_free(ls_cuda_gemm *gemm) {
    if (!gemm) return;
    if (gemm->left) cublasLtMatrixLayoutDestroy(gemm->left);
    if (gemm->right) cublasLtMatrixLayoutDestroy(gemm->right);
    if (gemm->result) cublasLtMatrixLayoutDestroy(gemm->result);
    if (gemm->product) cublasLtMatmulDescDestroy(gemm->product);
    free(gemm);
}

size_t ls_cuda_gemm_workspace(const ls_cuda_gemm *gemm) {
    return ls_library_room(gemm->workspace);
}

void ls_cuda_gemm_execute(const ls_cuda_gemm *gemm, const void *a, const void *b, const void *c, const void *bias,
    void *d, void *workspace, ls_queue *queue) {
    void *aligned = gemm->workspace ? ls_library_align(workspace) : NULL;
    cublasStatus_t rc = CUBLAS_STATUS_SUCCESS;
    if (bias) rc = cublasLtMatmulDescSetAttribute(gemm->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    if (rc == CUBLAS_STATUS_SUCCESS)
        rc = cublasLtMatmul(gemm->libraries->cublaslt, gemm->product, &gemm->alpha, b, gemm->left, a, gemm->right,
            &gemm->beta, c, gemm->result, d, gemm->result, &gemm->algorithm, aligned, gemm->workspace, queue->stream);
    if (rc != CUBLAS_STATUS_SUCCESS)
        ls_cuda_note_status(queue->device, ls_cublaslt_fail(gemm->layer, "cublasLtMatmul", rc));
}
