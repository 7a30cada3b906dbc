// libraries.c - opens cuDNN and cuBLASLt.
#include "base/memory.h"
#include "device/cuda/libraries_internal.h"

#include <stdio.h>

static ls_status open_cudnn(ls_cuda_libraries *libraries) {
    size_t version = cudnnGetVersion();
    if (version / 10000 != CUDNN_MAJOR) {
        return ls_fail(LS_DEVICE,
            "cuDNN %zu was found, but this build needs cuDNN %d (it was made with %d.%d.%d): install cuDNN %d, or "
            "build again",
            version, CUDNN_MAJOR, CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL, CUDNN_MAJOR);
    }
    cudnnStatus_t rc = cudnnCreate(&libraries->cudnn);
    if (rc != CUDNN_STATUS_SUCCESS) {
        libraries->cudnn = NULL;
        return ls_cudnn_fail(NULL, "cudnnCreate", rc);
    }
    return LS_SUCCESS;
}

static ls_status open_cublaslt(ls_cuda_libraries *libraries) {
    cublasStatus_t rc = cublasLtCreate(&libraries->cublaslt);
    if (rc == CUBLAS_STATUS_SUCCESS) return LS_SUCCESS;
    libraries->cublaslt = NULL;
    return ls_cublaslt_fail(NULL, "cublasLtCreate", rc);
}

ls_status ls_cuda_libraries_open(ls_cuda_device *device, ls_cuda_libraries **out) {
    ls_status status;
    ls_cuda_libraries *libraries = ls_new(1, sizeof *libraries, "cuDNN and cuBLASLt");
    libraries->device = device;
    libraries->workspace_limit = device->workspace_limit ? device->workspace_limit : LS_CUDA_WORKSPACE_LIMIT;
    LS_TRY_GOTO(open_cudnn(libraries));
    LS_TRY_GOTO(open_cublaslt(libraries));
    *out = libraries;
    libraries = NULL;
done:
    ls_cuda_libraries_close(libraries);
    return status;
}

void ls_cuda_libraries_close(ls_cuda_libraries *libraries) {
    if (!libraries) return;
    if (libraries->cublaslt) cublasLtDestroy(libraries->cublaslt);
    if (libraries->cudnn) cudnnDestroy(libraries->cudnn);
    free(libraries);
}

void ls_cuda_libraries_text(const ls_cuda_libraries *libraries, char *text, size_t bytes) {
    if (!libraries) {
        snprintf(text, bytes, "none");
        return;
    }
    size_t cudnn = cudnnGetVersion(), cublaslt = cublasLtGetVersion();
    snprintf(text, bytes, "cuDNN %zu.%zu.%zu, cuBLASLt %zu.%zu.%zu", cudnn / 10000, cudnn / 100 % 100, cudnn % 100,
        cublaslt / 10000, cublaslt / 100 % 100, cublaslt % 100);
}
