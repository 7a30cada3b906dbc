// peers.cc - the seam to NCCL in the emulation: src/device/cuda/nccl.h by ranks.cc, with NCCL's words where it fails.
#include <string.h>

#include "ranks.h"
extern "C" {
#include "device/cuda/nccl.h"
}

struct ls_nccl {
    std::shared_ptr<emu::group> group;
};

extern "C" {

ls_status ls_nccl_probe(char *version, size_t bytes) {
    int number = emu::library_version();
    if (!number) return ls_fail(LS_DEVICE, "NCCL was not found: the emulation has none (collective=0)");
    snprintf(version, bytes, "NCCL %d.%d.%d", number / 10000, number / 100 % 100, number % 100);
    return LS_SUCCESS;
}

ls_status ls_nccl_make_id(uint8_t id[LS_COLLECTIVE_ID_BYTES]) {
    std::string error = emu::ranks_make_id(id);
    return error.empty() ? LS_SUCCESS : ls_fail(LS_DEVICE, "ncclGetUniqueId: %s", error.c_str());
}

ls_status ls_nccl_open(ls_cuda_device *device, const uint8_t id[LS_COLLECTIVE_ID_BYTES], int rank, int world_size,
    double timeout_s, ls_nccl **out) {
    (void)device;
    bool timed_out = false;
    auto peers = new ls_nccl();
    std::string error = emu::ranks_open(id, rank, world_size, timeout_s, &timed_out, &peers->group);
    if (error.empty()) {
        *out = peers;
        return LS_SUCCESS;
    }
    delete peers;
    if (timed_out)
        return ls_fail(LS_COMM, "ncclCommInitRankConfig: the %d ranks did not all meet within %.1f s: %s", world_size,
            timeout_s, error.c_str());
    return ls_fail(LS_DEVICE, "ncclCommInitRankConfig: %s", error.c_str());
}

ls_status ls_nccl_register_memory(ls_nccl *peers, void *address, size_t bytes) {
    (void)address;
    emu::ranks_adopt(peers->group, bytes);
    return LS_SUCCESS;
}

ls_status ls_nccl_all_reduce(ls_nccl *peers, void *data, int64_t count, ls_dtype dtype, ls_collect op,
    int32_t tag, cudaStream_t stream) {
    emu::element type = emu::element::F32;
    switch (dtype) {
    case LS_F32: break;
    case LS_F64: type = emu::element::F64; break;
    case LS_BF16: type = emu::element::BF16; break;
    case LS_I32: type = emu::element::I32; break;
    case LS_I64: type = emu::element::I64; break;
    default: return ls_fail(LS_INTERNAL, "ncclAllReduce: %s is not summed over ranks", ls_dtype_name(dtype));
    }
    cudaError_t rc = emu::ranks_enqueue(peers->group, { data, count, type, op == LS_COLLECT_MAX, tag }, stream);
    return rc == cudaSuccess ? LS_SUCCESS : ls_cuda_fail("ncclAllReduce", rc);
}

ls_status ls_nccl_health(ls_nccl *peers) {
    std::string error = emu::ranks_health(peers->group);
    return error.empty() ? LS_SUCCESS : ls_fail(LS_COMM, "NCCL: %s", error.c_str());
}

int ls_nccl_close(ls_nccl *peers, double timeout_s) {
    emu::ranks_close(peers->group, timeout_s);
    delete peers;
    return 1; // nothing waits for a peer any more
}

cudaError_t ls_nccl_malloc(size_t bytes, void **address) {
    (void)bytes;
    *address = nullptr;
    return cudaSuccess;
}

cudaError_t ls_nccl_free(void *address) { return cudaFree(address); }

} // extern "C"
