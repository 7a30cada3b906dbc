#include "device/cuda/conv_timing.h"

#include "base/half.h"
#include "base/memory.h"

enum { PATTERN_BYTES = 1 << 20 };

void ls_cuda_conv_timing_close(ls_cuda_conv_timing *t) {
    if (t->queue.stream) cudaStreamSynchronize(t->queue.stream); // waits for work that was enqueued before a failure
    for (int i = 0; i < LS_CONV_TENSORS; i++) cudaFree(t->tensors[i]);
    cudaFree(t->workspace);
    cudaFree(t->flush);
    if (t->begin) cudaEventDestroy(t->begin);
    if (t->end) cudaEventDestroy(t->end);
    if (t->queue.stream) cudaStreamDestroy(t->queue.stream);
    *t = (ls_cuda_conv_timing){ 0 };
}

// Fills memory with numbers in [-1, 1). With zeros the GPU would run faster than in real use.
static ls_status fill(void *device_memory, size_t bytes, ls_dtype storage) {
    size_t element = ls_dtype_bytes(storage);
    char *pattern = ls_new(PATTERN_BYTES, 1, "timing of convolutions");
    uint32_t random = 1;
    for (size_t i = 0; i < PATTERN_BYTES / element; i++) {
        random = random * 1664525U + 1013904223U;
        ls_store_float(pattern, storage, (int64_t)i, (float)(random >> 8) * 0x1p-23F - 1.0F);
    }
    cudaError_t rc = cudaSuccess;
    for (size_t at = 0; at < bytes && rc == cudaSuccess; at += PATTERN_BYTES) {
        size_t part = bytes - at < PATTERN_BYTES ? bytes - at : PATTERN_BYTES;
        rc = cudaMemcpy((char *)device_memory + at, pattern, part, cudaMemcpyHostToDevice);
    }
    free(pattern);
    return rc == cudaSuccess ? LS_SUCCESS : ls_cuda_fail("cudaMemcpy", rc);
}

static ls_status allocate(ls_cuda_conv_timing *t, const size_t bytes[LS_CONV_TENSORS], size_t workspace, int *enough) {
    cudaError_t rc = cudaMalloc(&t->flush, t->flush_bytes);
    if (rc == cudaSuccess && workspace) rc = cudaMalloc(&t->workspace, workspace); // cudaMalloc aligns to 256 bytes
    for (int i = 0; i < LS_CONV_TENSORS && rc == cudaSuccess; i++) rc = cudaMalloc(&t->tensors[i], bytes[i]);
    *enough = rc == cudaSuccess;
    if (rc == cudaSuccess) return LS_SUCCESS;
    (void)cudaGetLastError();
    return rc == cudaErrorMemoryAllocation ? LS_SUCCESS : ls_cuda_fail("cudaMalloc", rc);
}

ls_status ls_cuda_conv_timing_open(
    ls_cuda_device *device, const ls_conv_attr *a, size_t workspace, ls_cuda_conv_timing *t, int *enough) {
    const int depth = a->groups > 1 ? a->src.c / a->groups : ls_cuda_channels(a->src.c);
    const int64_t weights = (int64_t)ls_cuda_channels(a->dst.c) * ls_conv_taps(a) * depth;
    const size_t element = ls_dtype_bytes(a->storage),
                 bytes[LS_CONV_TENSORS] = { [LS_CONV_IMAGE] = (size_t)ls_cuda_elements(a->src) * element,
                     [LS_CONV_WEIGHT] = (size_t)weights * element,
                     [LS_CONV_RESULT] = (size_t)ls_cuda_elements(a->dst) * element };
    int l2 = 0;
    *t = (ls_cuda_conv_timing){ .queue = { .device = device, .name = "timing" } };
    LS_TRY_CUDA(ls_cuda_enter(device));
    LS_TRY_CUDA(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, device->index));
    t->flush_bytes = 2 * (size_t)l2 + 1; // never 0
    LS_TRY_CUDA(cudaStreamCreateWithFlags(&t->queue.stream, cudaStreamNonBlocking));
    LS_TRY_CUDA(cudaEventCreate(&t->begin));
    LS_TRY_CUDA(cudaEventCreate(&t->end));
    LS_TRY(allocate(t, bytes, workspace, enough));
    if (!*enough) return LS_SUCCESS;
    for (int i = 0; i < LS_CONV_TENSORS; i++) LS_TRY(fill(t->tensors[i], bytes[i], a->storage));
    LS_TRY_CUDA(cudaStreamSynchronize(NULL)); // the timing stream does not wait for the default stream
    return LS_SUCCESS;
}

ls_status ls_cuda_conv_timing_begin(ls_cuda_conv_timing *t) {
    LS_TRY_CUDA(cudaMemsetAsync(t->flush, 0, t->flush_bytes, t->queue.stream));
    LS_TRY_CUDA(cudaEventRecord(t->begin, t->queue.stream));
    return LS_SUCCESS;
}

ls_status ls_cuda_conv_timing_end(ls_cuda_conv_timing *t, float *ms) {
    LS_TRY_CUDA(cudaEventRecord(t->end, t->queue.stream));
    LS_TRY_CUDA(cudaEventSynchronize(t->end));
    LS_TRY_CUDA(cudaEventElapsedTime(ms, t->begin, t->end));
    return LS_SUCCESS;
}
