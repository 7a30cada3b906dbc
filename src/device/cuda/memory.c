// memory.c - slabs: device memory and pinned host memory.
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "device/cuda/nccl.h"

typedef struct {
    ls_slab base;
    int of_nccl; // the memory came from ls_nccl_malloc
} cuda_slab;

static ls_status out_of_memory(ls_cuda_device *device, ls_memory_kind kind, size_t bytes, const char *what) {
    char wanted[32], unused[32] = "an unknown amount", all[32];
    size_t free_bytes, all_bytes;
    ls_text_bytes(wanted, bytes);
    if (kind == LS_MEMORY_PINNED)
        return ls_fail(LS_DEVICE,
            "out of page-locked host memory: %s needs %s, which this machine did not provide; check free memory and "
            "`ulimit -l`, or use a smaller train.micro_batch",
            what, wanted);
    if (cudaMemGetInfo(&free_bytes, &all_bytes) == cudaSuccess) ls_text_bytes(unused, free_bytes);
    return ls_fail(LS_DEVICE,
        "out of GPU memory: %s needs %s, but of the %s of GPU %d (%s) only %s is free; use a smaller "
        "train.micro_batch (or auto) or train.recompute = blocks, and stop other processes on this GPU (nvidia-smi "
        "lists them)",
        what, wanted, ls_text_bytes(all, device->memory_bytes), device->index, device->name, unused);
}

static cudaError_t free_memory(const cuda_slab *slab) {
    if (slab->base.kind == LS_MEMORY_PINNED) return cudaFreeHost(slab->base.address);
    return slab->of_nccl ? ls_nccl_free(slab->base.address) : cudaFree(slab->base.address);
}

static cudaError_t get_memory(cuda_slab *slab) {
    void *address = NULL;
    size_t bytes = slab->base.bytes ? slab->base.bytes : 1;
    cudaError_t rc;
    if (slab->base.kind == LS_MEMORY_PINNED) {
        rc = cudaMallocHost(&address, bytes);
        if (rc == cudaSuccess) memset(address, 0, bytes);
        slab->base.address = address;
        return rc;
    }
    rc = slab->base.kind == LS_MEMORY_REDUCED ? ls_nccl_malloc(bytes, &address) : cudaSuccess;
    slab->of_nccl = address != NULL;
    if (rc == cudaSuccess && !address) rc = cudaMalloc(&address, bytes);
    if (rc != cudaSuccess) return rc;
    slab->base.address = address;
    rc = cudaMemset(address, 0, bytes);
    if (rc == cudaSuccess) rc = cudaStreamSynchronize(NULL); // queues do not wait for the default stream
    if (rc != cudaSuccess) (void)free_memory(slab);
    return rc;
}

ls_status ls_cuda_slab_new(ls_device *device, ls_memory_kind kind, size_t bytes, const char *what, ls_slab **out) {
    ls_cuda_device *cuda = (ls_cuda_device *)device;
    cuda_slab *slab = ls_new(1, sizeof *slab, "record of %s", what);
    slab->base = (ls_slab){ .device = device, .kind = kind, .host_visible = kind == LS_MEMORY_PINNED, .bytes = bytes };
    cudaError_t rc = ls_cuda_enter(cuda);
    if (rc == cudaSuccess) rc = get_memory(slab);
    if (rc != cudaSuccess) {
        free(slab);
        if (rc != cudaErrorMemoryAllocation) return ls_cuda_fail(what, rc);
        (void)cudaGetLastError(); // clears the error, which is reported here: the next launch must not see it
        return out_of_memory(cuda, kind, bytes, what);
    }
    *out = &slab->base;
    return LS_SUCCESS;
}

void ls_cuda_slab_free(ls_slab *slab) {
    if (!slab) return;
    ls_cuda_note((ls_cuda_device *)slab->device, "freeing memory", free_memory((const cuda_slab *)slab));
    free(slab);
}

ls_status ls_cuda_memory(ls_device *device, size_t *free_bytes, size_t *all_bytes) {
    LS_TRY_CUDA(cudaSetDevice(((ls_cuda_device *)device)->index));
    LS_TRY_CUDA(cudaMemGetInfo(free_bytes, all_bytes));
    return LS_SUCCESS;
}
