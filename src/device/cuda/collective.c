// collective.c - sums and maxima over ranks on the device's queues: the parts that NCCL (nccl.h) does not provide. A
// kernel with one thread after each collective counts it in host memory that the watchdog reads. So the end of a
// collective is visible even inside a launched graph.
#include <assert.h>

#include "base/memory.h"
#include "device/cuda/kernels/collective.h"
#include "device/cuda/nccl.h"

struct ls_collective {
    ls_cuda_device *device;
    ls_nccl *nccl;
    ls_slab *count;    // on the device: number of collectives completed
    ls_slab *progress; // pinned: one word, see kernels/collective.h
};

static void free_memory(const ls_collective *collective) {
    ls_cuda_slab_free(collective->count);
    ls_cuda_slab_free(collective->progress);
}

static ls_status collective_open(ls_device *device, const uint8_t id[LS_COLLECTIVE_ID_BYTES], int rank, int world_size,
    double timeout_s, ls_collective **out) {
    ls_cuda_device *cuda = (ls_cuda_device *)device;
    LS_TRY_CUDA(ls_cuda_enter(cuda));
    ls_status status;
    static const char what[] = "progress of collectives";
    ls_collective *made = ls_new(1, sizeof *made, "collectives");
    made->device = cuda;
    LS_TRY_GOTO(ls_cuda_slab_new(device, LS_MEMORY_DEVICE, sizeof(uint64_t), what, &made->count));
    LS_TRY_GOTO(ls_cuda_slab_new(device, LS_MEMORY_PINNED, sizeof(uint64_t), what, &made->progress));
    LS_TRY_GOTO(ls_nccl_open(cuda, id, rank, world_size, timeout_s, &made->nccl));
    *out = made;
    made = NULL;
done:
    if (made) free_memory(made);
    free(made);
    return status;
}

static ls_status collective_register_memory(ls_collective *collective, ls_slab *slab) {
    assert(slab->kind == LS_MEMORY_REDUCED);
    LS_TRY_CUDA(ls_cuda_enter(collective->device));
    return ls_nccl_register_memory(collective->nccl, slab->address, slab->bytes);
}

static void collective_all_reduce(ls_collective *collective, ls_buffer data, int64_t count, ls_dtype dtype,
    ls_collect op, int32_t tag, ls_queue *queue) {
    assert(count >= 0 && (size_t)count * ls_dtype_bytes(dtype) <= data.bytes);
    ls_cuda_device *device = collective->device;
    ls_cuda_note(device, "a collective", ls_cuda_enter(device));
    ls_status status = ls_nccl_all_reduce(collective->nccl, ls_cuda_at(data), count, dtype, op, tag, queue->stream);
    if (ls_failed(status)) {
        ls_cuda_note_status(device, status);
        return;
    }
    ls_cuda_count_collective((uint64_t *)(void *)collective->count->address,
        (uint64_t *)(void *)collective->progress->address, tag, queue->stream);
    ls_cuda_note(device, "the counting of a collective", cudaPeekAtLastError());
}

static void collective_stamp(ls_collective *collective, ls_buffer ns, ls_queue *queue) {
    assert(ns.bytes >= sizeof(int64_t));
    cudaError_t rc = ls_cuda_enter(collective->device);
    if (rc == cudaSuccess) {
        ls_cuda_stamp(ls_cuda_at(ns), queue->stream);
        rc = cudaPeekAtLastError();
    }
    ls_cuda_note(collective->device, "a time stamp", rc);
}

static ls_status collective_health(ls_collective *collective) {
    return ls_nccl_health(collective->nccl);
}

static ls_collective_progress collective_progress(const ls_collective *collective) {
    const uint64_t *word = (const uint64_t *)(const void *)collective->progress->address;
    uint64_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    return (ls_collective_progress){ .completed = (int64_t)(seen >> LS_CUDA_PROGRESS_TAG_BITS),
        .last_tag = (int32_t)(seen & ((1u << LS_CUDA_PROGRESS_TAG_BITS) - 1)) - 1 };
}

static void collective_close(ls_collective *collective, double timeout_s) {
    if (!collective) return;
    (void)ls_cuda_enter(collective->device);
    // After a bad end the GPU may still wait for a peer, and freeing memory would wait for the GPU. The memory is then
    // left until the process ends.
    if (ls_nccl_close(collective->nccl, timeout_s)) free_memory(collective);
    free(collective);
}

const ls_collective_api ls_cuda_collective = {
    .name = "nccl",
    .probe = ls_nccl_probe,
    .make_id = ls_nccl_make_id,
    .open = collective_open,
    .register_memory = collective_register_memory,
    .all_reduce = collective_all_reduce,
    .stamp = collective_stamp,
    .health = collective_health,
    .progress = collective_progress,
    .close = collective_close,
};
