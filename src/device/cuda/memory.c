// memory.c - slabs: device memory and pinned host memory.
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "device/cuda/cuda.h"

static ls_status out_of_memory(ls_cuda_device *device, ls_memory_kind kind, size_t bytes, const char *what) {
    char wanted[32], unused[32] = "an unknown amount", all[32];
    size_t free_bytes, all_bytes;
    ls_text_bytes(wanted, bytes);
    if (kind == LS_MEMORY_PINNED)
        return ls_fail(LS_DEVICE,
            "out of page-locked host memory: %s needs %s, which this machine does not give; check free memory and "
            "`ulimit -l`, or use a smaller train.micro_batch",
            what, wanted);
    if (cudaMemGetInfo(&free_bytes, &all_bytes) == cudaSuccess) ls_text_bytes(unused, free_bytes);
    return ls_fail(LS_DEVICE,
        "out of GPU memory: %s needs %s, but of the %s of GPU %d (%s) only %s is free; use a smaller "
        "train.micro_batch (or auto) or train.recompute = blocks, and stop what else uses this GPU (nvidia-smi shows "
        "it)",
        what, wanted, ls_text_bytes(all, device->memory_bytes), device->index, device->name, unused);
}

static cudaError_t get_memory(ls_memory_kind kind, size_t bytes, void **address) {
    if (kind == LS_MEMORY_PINNED) {
        cudaError_t rc = cudaMallocHost(address, bytes);
        if (rc == cudaSuccess) memset(*address, 0, bytes);
        return rc;
    }
    cudaError_t rc = cudaMalloc(address, bytes);
    if (rc != cudaSuccess) return rc;
    rc = cudaMemset(*address, 0, bytes);
    if (rc == cudaSuccess) rc = cudaDeviceSynchronize(); // queues do not wait for the default stream
    if (rc != cudaSuccess) cudaFree(*address);
    return rc;
}

ls_status ls_cuda_slab_new(ls_device *device, ls_memory_kind kind, size_t bytes, const char *what, ls_slab **out) {
    ls_cuda_device *cuda = (ls_cuda_device *)device;
    void *address = NULL;
    ls_slab *slab = calloc(1, sizeof *slab);
    if (!slab) return ls_fail(LS_DEVICE, "no memory for a record of %s", what);
    cudaError_t rc = cudaSetDevice(cuda->index); // a setting of each host thread
    if (rc == cudaSuccess) rc = get_memory(kind, bytes ? bytes : 1, &address);
    if (rc != cudaSuccess) {
        free(slab);
        if (rc != cudaErrorMemoryAllocation) return ls_cuda_fail(what, rc);
        (void)cudaGetLastError(); // reported here: the next launch must not find it
        return out_of_memory(cuda, kind, bytes, what);
    }
    *slab = (ls_slab){
        .device = device, .kind = kind, .host_visible = kind == LS_MEMORY_PINNED, .address = address, .bytes = bytes
    };
    *out = slab;
    return LS_SUCCESS;
}

void ls_cuda_slab_free(ls_slab *slab) {
    if (!slab) return;
    cudaError_t rc = slab->kind == LS_MEMORY_PINNED ? cudaFreeHost(slab->address) : cudaFree(slab->address);
    ls_cuda_keep((ls_cuda_device *)slab->device, "freeing memory", rc);
    free(slab);
}

ls_status ls_cuda_memory(ls_device *device, size_t *free_bytes, size_t *all_bytes) {
    LS_TRY_CUDA(cudaSetDevice(((ls_cuda_device *)device)->index));
    LS_TRY_CUDA(cudaMemGetInfo(free_bytes, all_bytes));
    return LS_SUCCESS;
}
