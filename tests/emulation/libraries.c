// libraries.c - the seam to NVIDIA's libraries, where there are none: nothing opens, so nothing else is called.
#include <stdio.h>
#include <stdlib.h>

#include "device/cuda/library.h"

ls_status ls_cuda_libraries_open(ls_cuda_device *device, ls_cuda_libraries **out) {
    (void)device;
    *out = NULL;
    return LS_SUCCESS;
}

void ls_cuda_libraries_close(ls_cuda_libraries *libraries) {
    (void)libraries;
}

void ls_cuda_libraries_text(const ls_cuda_libraries *libraries, char *text, size_t bytes) {
    (void)libraries;
    snprintf(text, bytes, "emulated");
}

ls_status ls_cuda_conv_algorithm_new(
    ls_cuda_libraries *libraries, ls_op op, const ls_conv_attr *attr, const char *layer, ls_cuda_conv_algorithm **out) {
    (void)libraries, (void)op, (void)attr, (void)layer;
    *out = NULL;
    return LS_SUCCESS;
}

void ls_cuda_conv_algorithm_free(ls_cuda_conv_algorithm *algorithm) {
    (void)algorithm;
}

size_t ls_cuda_conv_workspace(const ls_cuda_conv_algorithm *algorithm) {
    (void)algorithm;
    return 0;
}

const char *ls_cuda_conv_name(const ls_cuda_conv_algorithm *algorithm) {
    (void)algorithm;
    return "";
}

void ls_cuda_conv_execute(
    ls_cuda_conv_algorithm *algorithm, void *image, void *weight, void *result, void *workspace, ls_queue *queue) {
    (void)algorithm, (void)image, (void)weight, (void)result, (void)workspace, (void)queue;
    abort();
}

ls_status ls_cuda_gemm_new(
    ls_cuda_libraries *libraries, const ls_cuda_gemm_attr *attr, const char *layer, ls_cuda_gemm **out) {
    (void)libraries, (void)attr, (void)layer;
    *out = NULL;
    return LS_SUCCESS;
}

void ls_cuda_gemm_free(ls_cuda_gemm *gemm) {
    (void)gemm;
}

size_t ls_cuda_gemm_workspace(const ls_cuda_gemm *gemm) {
    (void)gemm;
    return 0;
}

void ls_cuda_gemm_execute(
    const ls_cuda_gemm *gemm, const void *a, const void *b, void *c, void *workspace, ls_queue *queue) {
    (void)gemm, (void)a, (void)b, (void)c, (void)workspace, (void)queue;
    abort();
}
