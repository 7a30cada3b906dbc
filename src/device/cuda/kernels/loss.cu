// loss.cu - one launch. A sample has a power of two of neighbouring threads (lanes). The last block that finishes adds
// up the losses of all samples, 256 in parallel. The kernel reads the logits three times, the later times from the L1,
// and writes once. Latency limits it: the launch, two chains of shuffles and the last block take about 5 us on an H200,
// whatever the batch.
#include "device/cuda/kernels/loss.cuh"

namespace {

template <typename T> __global__ void __launch_bounds__(LS_BLOCK) loss(ls_cuda_loss_args a, int lanes) {
    constexpr int size = ls_pack<T>::size;
    LS_SHARED(ls_tally, room, LS_BLOCK);
    LS_SHARED(int, last, 1);
    int t = static_cast<int>(threadIdx.x), lane = t & (lanes - 1), classes = a.attr.logits.c, count = a.micro->count;
    int n = static_cast<int>(blockIdx.x) * (LS_BLOCK / lanes) + t / lanes;
    int at = n < a.attr.logits.n ? n : 0; // threads without a sample take part in the shuffles
    const T *logits = static_cast<const T *>(a.logits) + static_cast<int64_t>(at) * a.channels;
    bool real = n < count;
    ls_loss_row row = ls_loss_row_of(a, logits, n, real, lane, lanes);
    row.value *= 1 - a.attr.teacher_share;
    if (real && lane == 0) {
        a.losses[n] = row.value;
        a.correct[n] = row.best.k == row.label;
    }
    if (a.grad && n < a.attr.logits.n) {
        float scale = ls_loss_scale(a, row) * (1 - a.attr.teacher_share);
        for (int first = lane * size; first < a.channels; first += lanes * size) {
            ls_pack<T> z = ls_load_scaled(logits + first, a.scale), g = {};
            LS_UNROLL
            for (int j = 0; j < size; j++) {
                if (real && first + j < classes) g.v[j] = ls_loss_gradient(a, row, first + j, z.v[j], scale);
            }
            ls_pack_store(static_cast<T *>(a.grad) + static_cast<int64_t>(n) * a.channels + first, g);
        }
    }
    ls_loss_finish(a, count, room, last);
}

} // namespace

extern "C" void ls_cuda_loss(const ls_cuda_loss_args *args, cudaStream_t stream) {
    int lanes = ls_loss_lanes(*args);
    int blocks = ls_blocks(static_cast<int64_t>(args->attr.logits.n) * lanes, LS_BLOCK);
    LS_BY_STORAGE(args->attr.storage, LS_LAUNCH_BLOCK((loss<T>), blocks, LS_BLOCK, stream, *args, lanes));
}
