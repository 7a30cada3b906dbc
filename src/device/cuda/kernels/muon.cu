// muon.cu - the passes of Muon before and after its products; also the products, where no library computes them.
//
// Estimates on an H200 (sm_90): 4.8 TB/s and 132 multiprocessors, each needing 24 KiB of loads in flight. Blocks
// of 256 threads; "blocks" are blocks on a multiprocessor.
//                bytes/element        registers   blocks   in flight   least time for a million elements
//   direction    20                   39          6        18 KiB      4.2 us; 64 blocks for each matrix
//   norms        none                 30          1        8 KiB       a launch and 16 round trips to the L2: 5 us
//   normalise    8                    14          8        8 KiB       5 us: a third of the bandwidth
//   apply        12, with a copy 14   24          8        16 KiB      3.8 us, 4.4 us: two thirds of the bandwidth
//   multiply     only without a library; single elements from the L2: not fast
#include "device/cuda/kernels/muon.h"

#include "device/cuda/kernels/kernels.cuh"

// Number in the tensor of element i of a matrix of the batch; -1: padding of the batch.
static __device__ inline int64_t element_of(const ls_cuda_muon_matrix &m, int large, int64_t i) {
    int a = static_cast<int>(i / large), b = static_cast<int>(i % large);
    int row = m.transposed ? b : a, column = m.transposed ? a : b;
    return row < m.rows && column < m.columns ? static_cast<int64_t>(row) * m.columns + column : -1;
}

// Updates the momentum, writes each matrix's direction to x, and sums its squares and those of the weights. A matrix
// has LS_CUDA_MUON_PARTS blocks; each sums its share in one order.
static __global__ void direction(ls_cuda_muon_args a) {
    LS_SHARED(double, room, 2 * LS_BLOCK);
    const ls_cuda_muon_matrix m = a.matrices[blockIdx.y];
    const int64_t count = static_cast<int64_t>(a.small) * a.large;
    const bool skip = a.state->skip != 0, starts = a.state->applied == 1;
    const float multiplier = a.state->multiplier;
    float *x = a.x + count * blockIdx.y;
    double squares = 0, weights = 0;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * LS_BLOCK + threadIdx.x; i < count && !skip;
         i += static_cast<int64_t>(LS_BLOCK) * LS_CUDA_MUON_PARTS) {
        const int64_t e = element_of(m, a.large, i);
        float u = 0;
        if (e >= 0) {
            const float g = a.grad[m.first + e] * multiplier, w = a.weight[m.first + e];
            const float v = starts ? g : m.momentum * a.momentum[m.first + e] + g;
            a.momentum[m.first + e] = v;
            u = a.nesterov ? g + m.momentum * v : v;
            weights += static_cast<double>(w) * static_cast<double>(w);
        }
        squares += static_cast<double>(u) * static_cast<double>(u);
        x[i] = u;
    }
    const int t = static_cast<int>(threadIdx.x);
    room[t] = squares;
    room[LS_BLOCK + t] = weights;
    for (int half = LS_BLOCK / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) {
            room[t] += room[t + half];
            room[LS_BLOCK + t] += room[LS_BLOCK + t + half];
        }
    }
    if (t == 0) {
        double *part = a.parts + 2 * (static_cast<int64_t>(blockIdx.y) * LS_CUDA_MUON_PARTS + blockIdx.x);
        part[0] = room[0];
        part[1] = room[LS_BLOCK];
    }
}

// Computes each matrix's two factors, from the sums of squares: 1/norm of the direction, and the rescaling of the
// weights (1: no rescaling). One thread for each matrix.
static __global__ void norms(ls_cuda_muon_args a) {
    const int i = static_cast<int>(blockIdx.x * LS_BLOCK + threadIdx.x);
    if (i >= a.count) return;
    double squares = 0, weights = 0;
    for (int p = 0; p < LS_CUDA_MUON_PARTS; p++) {
        squares += a.parts[2 * (i * LS_CUDA_MUON_PARTS + p)];
        weights += a.parts[2 * (i * LS_CUDA_MUON_PARTS + p) + 1];
    }
    a.factors[2 * i] = static_cast<float>(1 / (sqrt(squares) + static_cast<double>(LS_MUON_EPS)));
    const bool rescales = a.state->renormalise && weights > 0;
    a.factors[2 * i + 1] = rescales ? static_cast<float>(sqrt(a.matrices[i].true_rows / weights)) : 1.0F;
}

static __global__ void normalise(ls_cuda_muon_args a) {
    const int64_t count = static_cast<int64_t>(a.small) * a.large;
    const int64_t i = static_cast<int64_t>(blockIdx.x) * LS_BLOCK + threadIdx.x;
    if (i < count && !a.state->skip) a.x[count * blockIdx.y + i] *= a.factors[2 * blockIdx.y];
}

template <typename T> static __global__ void apply(ls_cuda_muon_args a) {
    const ls_cuda_muon_matrix m = a.matrices[blockIdx.y];
    const int64_t count = static_cast<int64_t>(a.small) * a.large;
    const int64_t i = static_cast<int64_t>(blockIdx.x) * LS_BLOCK + threadIdx.x;
    const float lr = a.state->lr[m.rate] * m.lr_factor;
    if (i >= count || a.state->skip || lr == 0) return;
    const int64_t e = element_of(m, a.large, i);
    if (e < 0) return;
    const float keep = (1 - lr * m.decay) * a.factors[2 * blockIdx.y + 1];
    const float w = a.weight[m.first + e] * keep - lr * m.stretch * a.x[count * blockIdx.y + i];
    a.weight[m.first + e] = w;
    if (a.copy) static_cast<T *>(a.copy)[m.first + e] = ls_store<T>(w);
}

static dim3 grid_of(const ls_cuda_muon_args *a) {
    const int64_t count = static_cast<int64_t>(a->small) * a->large;
    return dim3(static_cast<unsigned>(ls_blocks(count, LS_BLOCK)), static_cast<unsigned>(a->count));
}

void ls_cuda_muon_direction(const ls_cuda_muon_args *args, cudaStream_t stream) {
    const dim3 parts(LS_CUDA_MUON_PARTS, static_cast<unsigned>(args->count));
    LS_LAUNCH_BLOCK(direction, parts, LS_BLOCK, stream, *args);
    LS_LAUNCH(norms, ls_blocks(args->count, LS_BLOCK), LS_BLOCK, stream, *args);
    LS_LAUNCH(normalise, grid_of(args), LS_BLOCK, stream, *args);
}

void ls_cuda_muon_apply(const ls_cuda_muon_args *args, cudaStream_t stream) {
    LS_BY_STORAGE(args->storage, LS_LAUNCH((apply<T>), grid_of(args), LS_BLOCK, stream, *args));
}

// --- without a library: one thread for each element of the product -------------------------------

static __global__ void multiply(ls_cuda_muon_product p, const float *a, const float *b, const float *c, float *d) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * LS_BLOCK + threadIdx.x;
    if (i >= static_cast<int64_t>(p.m) * p.n) return;
    const int row = static_cast<int>(i / p.n), column = static_cast<int>(i % p.n);
    const int64_t matrix = blockIdx.y, at = matrix * p.m * p.n + i;
    const float *left = a + (matrix * p.m + row) * p.k;
    const float *right = b + matrix * p.k * p.n + (p.transpose_b ? static_cast<int64_t>(column) * p.k : column);
    const int step = p.transpose_b ? 1 : p.n;
    float sum = 0;
    for (int k = 0; k < p.k; k++) sum += left[k] * right[static_cast<int64_t>(k) * step];
    d[at] = p.alpha * sum + (p.beta != 0 ? p.beta * c[at] : 0.0F);
}

void ls_cuda_muon_multiply(const ls_cuda_muon_product *product, const float *a, const float *b, const float *c,
    float *d, cudaStream_t stream) {
    const int64_t count = static_cast<int64_t>(product->m) * product->n;
    const dim3 grid(static_cast<unsigned>(ls_blocks(count, LS_BLOCK)), static_cast<unsigned>(product->batch));
    LS_LAUNCH(multiply, grid, LS_BLOCK, stream, *product, a, b, c, d);
}
