// implicit_gemm.cu - convolution as a matrix product. The left matrix has a row of taps for each pixel, but it is never
// built. Instead, a block stages the rows of the map that its pixels meet in shared memory once, and reads each tap
// from there.
//
//   gather          Forward; and backward data, which is one convolution of grad_dst for each remainder of a pixel by
//                   the stride. A block multiplies `pixels` consecutive pixels by all taps and up to 64 filters. It
//                   keeps the filters and continues with its next pixels.
//   weight_gather   A block sums the products of 16 to 64 channels of grad_dst with the taps, over its slice of the
//                   pixels, in registers. weight_sum adds up the slices.
//
// This file plans on the host and adds up the slices. The kernels are templates in implicit_gemm.cuh.
// implicit_gemm_f32.cu, implicit_gemm_f16.cu and implicit_gemm_bf16.cu compile them, one type of element each.
#include "device/cuda/kernels/implicit_gemm_plan.cuh"

typedef ls_cuda_conv_geometry geometry;

static int element_of(const geometry &g) { // bytes of an element
    return g.storage == LS_F32 ? 4 : 2;
}

static int ceil_of(int all, int part) {
    return (all + part - 1) / part;
}

// --- maps ---------------------------------------------------------------------------------------------

static int64_t virtual_row(const pixel_map &m, int pixel) {
    int sample = pixel / (m.out_h * m.out_w), y = pixel / m.out_w % m.out_h;
    return static_cast<int64_t>(sample) * m.rows + y * m.stride_h;
}

static int gcd(int a, int b) {
    return b ? gcd(b, a % b) : a;
}

// Most rows that `each` consecutive pixels from a multiple of `each` on meet. The pattern repeats after some samples.
static int staged_rows(const pixel_map &m, int each) {
    int image = m.out_h * m.out_w, most = 0, period = image / gcd(image, each);
    for (int tile = 0; tile < period && tile * each < m.pixels; tile++) {
        int first = tile * each, last = first + each < m.pixels ? first + each - 1 : m.pixels - 1;
        int rows = static_cast<int>(virtual_row(m, last) - virtual_row(m, first)) + m.span_h;
        if (rows > most) most = rows;
    }
    return most;
}

static void finish_map(pixel_map *m, int n, int span_w, int each) {
    m->rows = (m->out_h - 1) * m->stride_h + m->span_h;
    m->columns = (m->out_w - 1) * m->stride_w + span_w;
    m->pitch = m->units | 1;
    m->pixels = n * m->out_h * m->out_w;
    m->by_out_w = ls_divider_of(m->out_w);
    m->by_image = ls_divider_of(m->out_h * m->out_w);
    m->by_rows = ls_divider_of(m->rows);
    m->by_units = ls_divider_of(m->units);
    m->staged = staged_rows(*m, each);
}

static taps all_taps(int count, int dilation) {
    taps t = { count, {}, {} };
    for (int i = 0; i < count; i++)
        t.tap[i] = static_cast<signed char>(i), t.at[i] = static_cast<signed char>(i * dilation);
    return t;
}

static pixel_map forward_map(const geometry &g, int element, int each) {
    pixel_map m = {};
    m.in_h = g.h, m.in_w = g.w, m.units = g.padded_c * element / 16;
    m.out_h = m.full_h = g.p, m.out_w = m.full_w = g.q;
    m.stride_h = g.stride_h, m.stride_w = g.stride_w;
    m.top = -g.pad_h, m.left = -g.pad_w;
    m.span_h = (g.kernel_h - 1) * g.dilation + 1;
    m.h = all_taps(g.kernel_h, g.dilation), m.w = all_taps(g.kernel_w, g.dilation);
    m.step_h = m.step_w = 1;
    finish_map(&m, g.n, (g.kernel_w - 1) * g.dilation + 1, each);
    return m;
}

// Backward data: input pixel first + stride * i gets a contribution from output pixel i + offset through tap r. Returns
// these taps r, by rising offset. *lowest: the lowest offset; taps.at counts from it. *span: the highest offset -
// *lowest + 1.
static taps phase_taps(int kernel, int first, int stride, int pad, int dilation, int *lowest, int *span) {
    taps t = {};
    int offsets[KERNEL_MAX], most = 0;
    *lowest = 0;
    for (int r = kernel - 1; r >= 0; r--) { // lowest offset first
        int at = first + pad - r * dilation;
        if (at % stride) continue;
        offsets[t.count] = at / stride;
        if (t.count == 0) *lowest = offsets[0];
        most = offsets[t.count] - *lowest;
        t.tap[t.count] = static_cast<signed char>(r), t.at[t.count] = static_cast<signed char>(most);
        t.count++;
    }
    *span = most + 1;
    return t;
}

static pixel_map data_map(const geometry &g, int element, int each, int y, int x) {
    pixel_map m = {};
    int span_w;
    m.in_h = g.p, m.in_w = g.q, m.units = g.padded_k * element / 16;
    m.out_h = ceil_of(g.h - y, g.stride_h), m.out_w = ceil_of(g.w - x, g.stride_w);
    m.stride_h = m.stride_w = 1;
    m.h = phase_taps(g.kernel_h, y, g.stride_h, g.pad_h, g.dilation, &m.top, &m.span_h);
    m.w = phase_taps(g.kernel_w, x, g.stride_w, g.pad_w, g.dilation, &m.left, &span_w);
    m.full_h = g.h, m.full_w = g.w, m.step_h = g.stride_h, m.step_w = g.stride_w, m.first_y = y, m.first_x = x;
    finish_map(&m, g.n, span_w, each);
    return m;
}

// Filters for `tiles` tiles of 8 filters at once. transposed: for backward data, whose filters are the weight's input
// channels.
static filter_map filters_of(const geometry &g, const pixel_map &m, int element, int tiles, bool transposed) {
    filter_map f = {};
    int per_unit = 16 / element, summed = m.h.count * m.w.count * m.units;
    f.outputs = transposed ? g.c : g.k, f.padded_outputs = transposed ? g.padded_c : g.padded_k;
    f.reduced = transposed ? g.padded_k : g.padded_c;
    f.units = g.padded_c / per_unit;
    f.kernel_w = g.kernel_w, f.filter = g.kernel_h * g.kernel_w * f.units;
    f.depth = (summed + 1) / 2 * 2;
    int written = tiles * 8 < f.padded_outputs ? tiles * 8 : f.padded_outputs;
    f.pitch = (transposed ? m.h.count * m.w.count * (written / per_unit) : f.depth) | 1;
    f.rows =
        // an odd number of units gets one more unit, of zeros, which needs its own rows
        transposed ? f.reduced + (summed % 2 ? per_unit : 0) : written;
    f.by_pitch = ls_divider_of(f.pitch);
    f.by_taps_w = ls_divider_of(m.w.count ? m.w.count : 1);
    return f;
}

static size_t gather_bytes(const phase &p) {
    return 16 * (static_cast<size_t>(tables_units(p)) +
                    static_cast<size_t>(p.filters.rows) * static_cast<size_t>(p.filters.pitch) +
                    static_cast<size_t>(p.map.staged) * static_cast<size_t>(p.map.columns * p.map.pitch));
}

// --- plans --------------------------------------------------------------------------------------------

static int pixels_of_block(int rows) {
    return GATHER_WARPS * rows * 16;
}

static void set_phases(const geometry &g, bool transposed, gather_plan *plan) {
    int element = element_of(g), each = pixels_of_block(plan->rows);
    int step_h = transposed ? g.stride_h : 1, step_w = transposed ? g.stride_w : 1;
    plan->count = 0, plan->bytes = 0;
    for (int y = 0; y < step_h && y < g.h; y++) {
        for (int x = 0; x < step_w && x < g.w; x++) {
            phase p = { transposed ? data_map(g, element, each, y, x) : forward_map(g, element, each), {} };
            p.filters = filters_of(g, p.map, element, plan->tiles, transposed);
            size_t bytes = gather_bytes(p);
            if (bytes > plan->bytes) plan->bytes = bytes;
            plan->all.of[plan->count++] = p;
        }
    }
}

// Returns the most tiles of 8 filters that a block takes. The data gradient has no kernel of 8 tiles: for every
// measured layer with more than 32 input channels, cuDNN was faster on an H100
// (bench/results/2026-11-26-gpu-operators.md).
static int tiles_of(int tiles, bool transposed) {
    return tiles > 4 && !transposed ? 8 : tiles > 2 ? 4 : 2;
}

// Plans a gather with as many filters at once as fit into shared memory. Returns false if not even two tiles of 8 fit.
static bool plan_gather(const geometry &g, bool transposed, size_t shared_bytes, gather_plan *plan) {
    int tiles = (transposed ? g.padded_c : g.padded_k) / 8, blocks = 0;
    int pixels = transposed ? ceil_of(g.h, g.stride_h) * ceil_of(g.w, g.stride_w) : g.p * g.q;
    int phases_of = transposed ? g.stride_h * g.stride_w : 1;
    plan->rows = ceil_of(g.n * pixels, pixels_of_block(2)) * phases_of < FEW_TILES ? 1 : 2;
    for (plan->tiles = tiles_of(tiles, transposed);; plan->tiles /= 2) {
        set_phases(g, transposed, plan);
        if (plan->bytes <= shared_bytes) break;
        if (plan->tiles == 2) return false;
    }
    for (int i = 0; i < plan->count; i++) {
        int needed = ceil_of(plan->all.of[i].map.pixels, pixels_of_block(plan->rows));
        if (needed > blocks) blocks = needed;
    }
    plan->grid = dim3(static_cast<unsigned>(blocks < GATHER_BLOCKS ? blocks : GATHER_BLOCKS),
        static_cast<unsigned>(ceil_of(tiles, plan->tiles)), static_cast<unsigned>(plan->count));
    return true;
}

static int slices_of(int tiles, int most) {
    return ceil_of(tiles, ceil_of(tiles, most > 1 ? most : 1));
}

static bool plan_weight(const geometry &g, size_t shared_bytes, ls_cuda_implicit_gemm *gemm) {
    int element = element_of(g);
    weight_plan w = {};
    w.map = forward_map(g, element, WEIGHT_PIXELS);
    w.k = g.k, w.c = g.c, w.padded_k = g.padded_k, w.padded_c = g.padded_c, w.kernel_w = g.kernel_w;
    gemm->weight_rows = g.padded_k > 32 && g.storage != LS_F32 ? 4 : g.padded_k > 16 ? 2 : 1;
    w.columns = g.kernel_h * g.kernel_w * g.padded_c / 8;
    w.groups = ceil_of(w.columns, WEIGHT_WARPS * WEIGHT_TILES);
    w.warps = ceil_of(ceil_of(w.columns, w.groups), WEIGHT_TILES);
    w.shares = WEIGHT_WARPS / w.warps;
    w.dy_pitch = gemm->weight_rows * 16 * element / 16 | 1;
    w.tiles = ceil_of(w.map.pixels, WEIGHT_PIXELS);
    int groups = w.groups * ceil_of(w.padded_k, gemm->weight_rows * 16);
    w.slices = slices_of(w.tiles, (gemm->weight_rows > 1 ? WEIGHT_BLOCKS : 2 * WEIGHT_BLOCKS) / groups);
    size_t staged = 16 * (static_cast<size_t>(w.map.staged) * static_cast<size_t>(w.map.columns * w.map.pitch) +
                             static_cast<size_t>(WEIGHT_PIXELS * w.dy_pitch + ceil_of(w.map.columns * w.map.units, 2)));
    size_t sums =
        w.shares > 1 ? static_cast<size_t>(w.warps * gemm->weight_rows * WEIGHT_TILES) * 128 * sizeof(float) : 0;
    gemm->weight = w;
    gemm->weight_bytes = staged > sums ? staged : sums;
    return gemm->weight_bytes + sizeof(int) * (WEIGHT_WARPS * WEIGHT_TILES + WEIGHT_PIXELS) <= shared_bytes;
}

static bool make(const geometry &g, ls_cuda_implicit_pass pass, size_t shared_bytes, ls_cuda_implicit_gemm *gemm) {
    const int64_t src = static_cast<int64_t>(g.n) * g.h * g.w * g.padded_c,
                  dst = static_cast<int64_t>(g.n) * g.p * g.q * g.padded_k;
    if (g.padded_c > CHANNELS_MAX || g.padded_k > CHANNELS_MAX) return false;
    if (g.groups > 1 || g.kernel_h > KERNEL_MAX || g.kernel_w > KERNEL_MAX || src > INT32_MAX || dst > INT32_MAX)
        return false;
    const int64_t reach = static_cast<int64_t>(KERNEL_MAX - 1) * g.dilation;
    if (reach > INT8_MAX) return false; // limit of the type of taps.at
    gemm->storage = g.storage;
    if (pass == LS_CUDA_IMPLICIT_BACKWARD_WEIGHT) return plan_weight(g, shared_bytes, gemm);
    bool transposed = pass == LS_CUDA_IMPLICIT_BACKWARD_DATA;
    if (transposed && (g.stride_h > STRIDE_MAX || g.stride_w > STRIDE_MAX)) return false;
    return plan_gather(g, transposed, shared_bytes, &gemm->gather);
}

int ls_cuda_implicit_gemm_can(const ls_cuda_conv_geometry *g, ls_cuda_implicit_pass pass, size_t shared_bytes) {
    ls_cuda_implicit_gemm gemm = {};
    return make(*g, pass, shared_bytes, &gemm);
}

ls_cuda_implicit_gemm *ls_cuda_implicit_gemm_new(
    const ls_cuda_conv_geometry *g, ls_cuda_implicit_pass pass, size_t shared_bytes) {
    ls_cuda_implicit_gemm *gemm = static_cast<ls_cuda_implicit_gemm *>(calloc(1, sizeof *gemm));
    if (gemm) (void)make(*g, pass, shared_bytes, gemm);
    return gemm;
}

void ls_cuda_implicit_gemm_free(ls_cuda_implicit_gemm *gemm) {
    free(gemm);
}

size_t ls_cuda_implicit_gemm_workspace(const ls_cuda_implicit_gemm *gemm) {
    const weight_plan &w = gemm->weight;
    return static_cast<size_t>(w.slices) * static_cast<size_t>(w.padded_k) * static_cast<size_t>(w.columns) * 8 *
           sizeof(float);
}

// --- launches -----------------------------------------------------------------------------------------

void ls_cuda_implicit_gemm_forward(const ls_cuda_implicit_gemm *gemm, const void *src, const void *weight,
    const float *bias, void *dst, cudaStream_t stream) {
    LS_BY_STORAGE(gemm->storage, ls_cuda_implicit_gather<T>(gemm->gather, false, src, weight, bias, dst, stream));
}

void ls_cuda_implicit_gemm_backward_data(
    const ls_cuda_implicit_gemm *gemm, const void *grad_dst, const void *weight, void *grad_src, cudaStream_t stream) {
    LS_BY_STORAGE(gemm->storage,
        ls_cuda_implicit_gather<T>(gemm->gather, true, grad_dst, weight, nullptr, grad_src, stream));
}

// Of a block of weight_sum: groups of four elements, and threads for each group.
enum { SUM_QUADS = 16, SUM_LANES = LS_BLOCK / SUM_QUADS };

// grad_weight += sum over the slices. Grid: one block for SUM_QUADS groups of four elements. A lane takes every
// SUM_LANES-th slice.
static __global__ void weight_sum(int quads, int slices, const float *parts, float *grad_weight) {
    LS_SHARED(float4, room, LS_BLOCK);
    int t = static_cast<int>(threadIdx.x), lane = t / SUM_QUADS;
    int quad = static_cast<int>(blockIdx.x) * SUM_QUADS + t % SUM_QUADS;
    const float4 *from = reinterpret_cast<const float4 *>(parts);
    float4 sum = { 0, 0, 0, 0 };
    if (quad < quads) {
        LS_UNROLL_BY(8) // 8 loads are in flight
        for (int slice = lane; slice < slices; slice += SUM_LANES) {
            float4 v = from[static_cast<int64_t>(slice) * quads + quad];
            sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
    }
    room[t] = sum;
    __syncthreads();
    if (lane > 0 || quad >= quads) return;
    float4 *to = reinterpret_cast<float4 *>(grad_weight) + quad;
    for (int i = 1; i < SUM_LANES; i++) {
        float4 v = room[i * SUM_QUADS + t];
        sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    float4 all = *to;
    *to = make_float4(all.x + sum.x, all.y + sum.y, all.z + sum.z, all.w + sum.w);
}

void ls_cuda_implicit_gemm_backward_weight(const ls_cuda_implicit_gemm *gemm, const void *src, const void *grad_dst,
    float *grad_weight, void *workspace, cudaStream_t stream) {
    float *parts = static_cast<float *>(workspace);
    const float *sums = parts;
    int quads = gemm->weight.padded_k * gemm->weight.columns * 2;
    LS_BY_STORAGE(gemm->storage, ls_cuda_implicit_weight_gather<T>(*gemm, src, grad_dst, parts, stream));
    LS_LAUNCH_BLOCK(
        weight_sum, ceil_of(quads, SUM_QUADS), LS_BLOCK, stream, quads, gemm->weight.slices, sums, grad_weight);
}
