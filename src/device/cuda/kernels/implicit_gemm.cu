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
// A *unit* is 16 bytes of a pixel's channels, the size of a row that ldmatrix reads. In shared memory, pixels and
// filters have an odd number of units, so that eight neighbours lie in different banks.
#include "device/cuda/kernels/implicit_gemm.h"

#include "device/cuda/kernels/cluster.cuh"
#include "device/cuda/kernels/tensor_cores.cuh"

typedef ls_cuda_conv_geometry geometry;

enum {
    KERNEL_MAX = 7,
    CHANNELS_MAX = 128,
    STRIDE_MAX = 2, // of the data gradient
    PHASES_MAX = STRIDE_MAX * STRIDE_MAX,
    GATHER_WARPS = 4,
    GATHER_BLOCKS = 528, // four on each multiprocessor of an H100; with more tiles of pixels, each block takes several
    FEW_TILES = 264,     // with fewer blocks than this, a block takes half as many pixels
    WEIGHT_WARPS = 8,
    WEIGHT_TILES = 9,    // tiles of 8 columns that a warp sums: the taps of a 3x3 kernel
    WEIGHT_PIXELS = 128, // pixels that a block stages at once
    // one on each multiprocessor of an H100, or two if a warp has 16 channels of grad_dst
    WEIGHT_BLOCKS = 132,
    AHEAD = 4,        // loads in flight of a thread that stages pixels
    FILTERS_AHEAD = 8 // and of a thread that copies filters
};

// Taps along one axis: their numbers in the filter, and their distances from the first tap.
typedef struct {
    int count;
    signed char tap[KERNEL_MAX], at[KERNEL_MAX];
} taps;

// Which pixels of a map meet which taps. The *virtual* map consists of all rows and columns that any tap of a sample's
// pixels meets, including those beyond the edges, which are zero.
typedef struct {
    int in_h, in_w, units; // the map that is read; units of a pixel
    int out_h, out_w;      // pixels that are computed
    int stride_h, stride_w;
    int top, left;             // of the virtual map
    int span_h, rows, columns; // rows that one pixel meets; size of the virtual map
    int pitch;                 // units of a pixel in shared memory
    int staged;                // most rows that a block stages
    taps h, w;
    int pixels;
    ls_divider by_out_w, by_image, by_rows, by_units;
    // place of the computed pixels in the map that is written
    int full_h, full_w, step_h, step_w, first_y, first_x;
} pixel_map;

// The filters of a gather.
typedef struct {
    int outputs, padded_outputs, reduced; // channels; `reduced`: channels that are summed over, with padding
    int kernel_w, filter, units;          // of the weight: units of a filter, and of one tap
    int depth, pitch, rows;               // units that are summed over (even); units of a row and rows in shared memory
    ls_divider by_pitch, by_taps_w;
} filter_map;

typedef struct {
    pixel_map map;
    filter_map filters;
} phase;
typedef struct {
    phase of[PHASES_MAX];
} phases;

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

// Most rows that any `each` pixels meet, if they start at a multiple of `each`. The pattern repeats after some samples.
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

// The taps that pixels of remainder `first` meet: pixel first + stride * i meets result i + offset through tap r.
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
        // rows of zeros for the unit that makes the number even
        transposed ? f.reduced + (summed % 2 ? per_unit : 0) : written;
    f.by_pitch = ls_divider_of(f.pitch);
    f.by_taps_w = ls_divider_of(m.w.count ? m.w.count : 1);
    return f;
}

// Units of the two tables at the start of shared memory: the table of taps and the table of a row.
static __host__ __device__ inline int tables_units(const phase &p) {
    return (p.filters.depth + p.map.columns * p.map.units + 1) / 2;
}

static size_t gather_bytes(const phase &p) {
    return 16 * (static_cast<size_t>(tables_units(p)) +
                    static_cast<size_t>(p.filters.rows) * static_cast<size_t>(p.filters.pitch) +
                    static_cast<size_t>(p.map.staged) * static_cast<size_t>(p.map.columns * p.map.pitch));
}

// --- staging ------------------------------------------------------------------------------------------

template <typename T> static __device__ inline uint4 operand_of(uint4 raw) {
    return raw;
}
template <> __device__ inline uint4 operand_of<float>(uint4 raw) {
    float v[4];
    memcpy(v, &raw, sizeof raw);
    for (int i = 0; i < 4; i++) v[i] = ls_round_tf32(v[i]);
    memcpy(&raw, v, sizeof raw);
    return raw;
}

static __device__ inline void pixel_of(const pixel_map &m, int pixel, int *sample, int *y, int *x) {
    uint32_t at = static_cast<uint32_t>(pixel), n = ls_divide(at, m.by_image), inside = at - n * m.by_image.divisor;
    uint32_t row = ls_divide(inside, m.by_out_w);
    *sample = static_cast<int>(n), *y = static_cast<int>(row);
    *x = static_cast<int>(inside - row * m.by_out_w.divisor);
}

static __device__ inline int row_of(const pixel_map &m, int pixel) {
    int sample, y, x;
    pixel_of(m, pixel, &sample, &y, &x);
    return sample * m.rows + y * m.stride_h;
}

// Offset of a pixel's first tap in the staged data, which starts with row `first_row` of the virtual map.
static __device__ inline int staged_at(const pixel_map &m, int pixel, int first_row) {
    int sample, y, x;
    pixel_of(m, pixel, &sample, &y, &x);
    return ((sample * m.rows + y * m.stride_h - first_row) * m.columns + x * m.stride_w) * m.pitch;
}

// For each unit of a row of the virtual map: its place in the row of the real map, or -1 beyond the edges (x), and its
// place in the staged row (y).
static __device__ inline void make_row(const pixel_map &m, int threads, int2 *row) {
    for (int i = static_cast<int>(threadIdx.x); i < m.columns * m.units; i += threads) {
        int column = static_cast<int>(ls_divide(static_cast<uint32_t>(i), m.by_units)), unit = i - column * m.units;
        int x = column + m.left;
        row[i] = make_int2(x >= 0 && x < m.in_w ? x * m.units + unit : -1, column * m.pitch + unit);
    }
}

// One thread's part of the rows that are staged. A warp takes every WARPS-th row. The first units are read ahead, while
// the block still computes with the data staged before.
template <typename T, int WARPS> struct stager {
    uint4 raw[AHEAD];
    int to[AHEAD];     // -1: nothing to write
    int rows, row, at; // row of the next unit, and its number `at` in that row
    int begin;         // start of that row in the map, in units; -1: beyond the edges

    __device__ inline void enter(const pixel_map &m, int first_row) {
        uint32_t of_all = static_cast<uint32_t>(first_row + row), sample = ls_divide(of_all, m.by_rows);
        int y = static_cast<int>(of_all - sample * m.by_rows.divisor) + m.top;
        at = static_cast<int>(threadIdx.x) % 32;
        begin = y >= 0 && y < m.in_h ? (static_cast<int>(sample) * m.in_h + y) * m.in_w * m.units : -1;
    }
    __device__ inline void read(const pixel_map &m, const T *in, int first_row, const int2 *units) {
        LS_UNROLL
        for (int u = 0; u < AHEAD; u++) {
            to[u] = -1;
            raw[u] = {};
            if (row >= rows) continue;
            if (at < m.columns * m.units) {
                int2 unit = units[at];
                to[u] = row * m.columns * m.pitch + unit.y;
                if (begin >= 0 && unit.x >= 0) raw[u] = ls_pack_raw(in + (begin + unit.x) * ls_pack<T>::size);
            }
            at += 32;
            if (at - static_cast<int>(threadIdx.x) % 32 >= m.columns * m.units) { // true for the whole warp
                row += WARPS;
                enter(m, first_row);
            }
        }
    }
    __device__ inline void write(uint4 *staged) const {
        LS_UNROLL
        for (int u = 0; u < AHEAD; u++) {
            if (to[u] >= 0) staged[to[u]] = operand_of<T>(raw[u]);
        }
    }
    __device__ inline void read_ahead(const pixel_map &m, const T *in, int first_row, int count, const int2 *units) {
        rows = count, row = static_cast<int>(threadIdx.x) / 32;
        enter(m, first_row);
        read(m, in, first_row, units);
    }
    __device__ inline void finish(const pixel_map &m, const T *in, int first_row, const int2 *units, uint4 *staged) {
        write(staged);
        while (row < rows) {
            read(m, in, first_row, units);
            write(staged);
        }
    }
};

// Starts to read the rows for at most `each` pixels from pixel `from` on. Returns the first row.
template <typename T, int WARPS>
static __device__ inline int read_pixels(
    const pixel_map &m, const T *in, int from, int each, const int2 *units, int *last, stager<T, WARPS> *to) {
    *last = m.pixels - from > each ? from + each - 1 : m.pixels - 1;
    int first_row = row_of(m, from);
    to->read_ahead(m, in, first_row, row_of(m, *last) + m.span_h - first_row, units);
    return first_row;
}

// --- forward, and backward data -----------------------------------------------------------------------

// For each unit that is summed over: its distance from a pixel's first tap (x) and, if transposed, its first row of
// filters (y).
static __device__ inline void make_table(const phase &p, int written_units, int per_unit, int2 *table) {
    const pixel_map &m = p.map;
    int real = m.h.count * m.w.count * m.units;
    for (int u = static_cast<int>(threadIdx.x); u < p.filters.depth; u += GATHER_WARPS * 32) {
        int tap = static_cast<int>(ls_divide(static_cast<uint32_t>(u), m.by_units)), unit = u - tap * m.units;
        int i = static_cast<int>(ls_divide(static_cast<uint32_t>(tap), p.filters.by_taps_w)), j = tap - i * m.w.count;
        table[u] = u < real ? make_int2((m.h.at[i] * m.columns + m.w.at[j]) * m.pitch + unit,
                                  unit * per_unit * p.filters.pitch + tap * written_units)
                            : make_int2(0, p.filters.reduced * p.filters.pitch);
    }
}

// Offset in the weight of unit `inside` of row `row` of the filters, for filters from `first` on and the taps of this
// phase.
template <typename T, bool TRANSPOSED>
static __device__ inline int64_t filter_unit(const phase &p, int first, int written_units, int row, int inside) {
    const pixel_map &m = p.map;
    const filter_map &f = p.filters;
    if (!TRANSPOSED) return static_cast<int64_t>(first + row) * f.filter + inside; // all taps, in order
    int tap = inside / written_units, unit = inside - tap * written_units;
    int y = static_cast<int>(ls_divide(static_cast<uint32_t>(tap), f.by_taps_w)), x = tap - y * m.w.count;
    return static_cast<int64_t>(row) * f.filter + (m.h.tap[y] * f.kernel_w + m.w.tap[x]) * f.units +
           first / ls_pack<T>::size + unit;
}

// Copies the filters to shared memory, with zeros for padding rows and for padding of the last unit.
template <typename T, bool TRANSPOSED>
static __device__ inline void bring_filters(const phase &p, const T *weight, int first, int written_units, uint4 *to) {
    const pixel_map &m = p.map;
    const filter_map &f = p.filters;
    int row_units = m.h.count * m.w.count * (TRANSPOSED ? written_units : m.units), last = f.padded_outputs - first;
    int real_rows = TRANSPOSED ? f.reduced : last < f.rows ? last : f.rows, t = static_cast<int>(threadIdx.x);
    for (int i = t; i < f.rows * f.pitch; i += FILTERS_AHEAD * GATHER_WARPS * 32) {
        uint4 raw[FILTERS_AHEAD] = {};
        LS_UNROLL
        for (int u = 0; u < FILTERS_AHEAD; u++) {
            int at = i + u * GATHER_WARPS * 32,
                row = static_cast<int>(ls_divide(static_cast<uint32_t>(at), f.by_pitch));
            int inside = at - row * f.pitch;
            if (row >= f.rows) break;
            if (row < real_rows && inside < row_units) {
                raw[u] = ls_pack_raw(
                    weight + filter_unit<T, TRANSPOSED>(p, first, written_units, row, inside) * ls_pack<T>::size);
            }
        }
        LS_UNROLL
        for (int u = 0; u < FILTERS_AHEAD; u++) {
            int at = i + u * GATHER_WARPS * 32;
            if (at >= f.rows * f.pitch) break;
            to[at] = operand_of<T>(raw[u]);
        }
    }
}

// Loads two tiles of 8 filters, `tile` and the next, for units u and u + 1: b of the first in regs[0..1], of the second
// in regs[2..3].
template <typename T, bool TRANSPOSED> struct filter_tiles {
    const uint4 *filters;
    const int2 *table;
    int pitch, last; // last: number of the last existing row, or unit, of the filters
    __device__ inline void load(int u, int tile, uint32_t regs[4]) const {
        int lane = static_cast<int>(threadIdx.x) % 32, half = lane / 8 % 2, next = lane / 16;
        if (TRANSPOSED) {
            int unit = tile + next < last ? tile + next : last;
            ls_load_matrices_transposed(regs, filters + table[u + half].y + lane % 8 * pitch + unit);
        } else {
            int row = (tile + next) * 8 + lane % 8;
            ls_load_matrices(regs, filters + (row < last ? row : last) * pitch + u + half);
        }
    }
};
template <> struct filter_tiles<float, true> { // ldmatrix cannot transpose four-byte elements
    const uint4 *filters;
    const int2 *table;
    int pitch, last;
    __device__ inline void load(int u, int tile, uint32_t regs[4]) const {
        int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
        const uint32_t *words = reinterpret_cast<const uint32_t *>(filters);
        LS_UNROLL
        for (int i = 0; i < 4; i++) {
            int column = (tile + i / 2) * 8 + g;
            if (column > last * 4 + 3) column = last * 4;
            regs[i] = words[(table[u + i % 2].y + t * pitch) * 4 + column];
        }
    }
};

template <typename T> static __device__ inline void store_two(T *to, float first, float second) {
    T both[2] = { ls_store<T>(first), ls_store<T>(second) };
    uint32_t raw;
    memcpy(&raw, both, sizeof raw);
    *reinterpret_cast<uint32_t *>(to) = raw;
}
template <> __device__ inline void store_two<float>(float *to, float first, float second) {
    *reinterpret_cast<float2 *>(to) = make_float2(first, second);
}

// Writes one row of a warp's product: a pixel's channels first + 8 * tile + 2 * (lane % 4) and the next.
template <typename T, int TILES>
static __device__ inline void store_pixel(
    const phase &p, int pixel, int first, const float (*sums)[4], int half, const float *bias, T *out) {
    const pixel_map &m = p.map;
    if (pixel >= m.pixels) return;
    if (m.step_h * m.step_w > 1) {
        int sample, y, x;
        pixel_of(m, pixel, &sample, &y, &x);
        pixel = (sample * m.full_h + m.first_y + y * m.step_h) * m.full_w + m.first_x + x * m.step_w;
    }
    out += pixel * p.filters.padded_outputs;
    LS_UNROLL
    for (int j = 0; j < TILES; j++) {
        int channel = first + 8 * j + static_cast<int>(threadIdx.x) % 4 * 2;
        if (channel >= p.filters.padded_outputs) break;
        float v[2];
        LS_UNROLL
        for (int i = 0; i < 2; i++) {
            v[i] = sums[j][2 * half + i] + (bias ? bias[channel + i] : 0);
            if (channel + i >= p.filters.outputs) v[i] = 0;
        }
        store_two(out + channel, v[0], v[1]);
    }
}

// Grid: blocks that share the pixels, tiles of TILES * 8 filters, phases. A warp has ROWS times 16 pixels.
template <typename T, int ROWS, int TILES, bool TRANSPOSED>
static __global__ void __launch_bounds__(GATHER_WARPS * 32, TILES == 8 ? 4 : 5)
    gather(phases all, const T *in, const T *weight, const float *bias, T *out) {
    constexpr int EACH = GATHER_WARPS * ROWS * 16;
    LS_SHARED_DYNAMIC(room);
    const phase &p = all.of[blockIdx.z];
    const pixel_map &m = p.map;
    const filter_map &f = p.filters;
    int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    int first = static_cast<int>(blockIdx.y) * TILES * 8;
    int written = f.padded_outputs - first < TILES * 8 ? f.padded_outputs - first : TILES * 8;
    int written_units = written / ls_pack<T>::size, step = static_cast<int>(gridDim.x) * EACH;
    int2 *table = reinterpret_cast<int2 *>(room), *units = table + f.depth;
    uint4 *filters = room + tables_units(p), *staged = filters + f.rows * f.pitch;
    stager<T, GATHER_WARPS> next;
    int from = static_cast<int>(blockIdx.x) * EACH, last = 0, first_row = 0;
    if (from >= m.pixels) return;
    make_row(m, GATHER_WARPS * 32, units);
    make_table(p, written_units, ls_pack<T>::size, table);
    __syncthreads();
    first_row = read_pixels(m, in, from, EACH, units, &last, &next);
    bring_filters<T, TRANSPOSED>(p, weight, first, written_units, filters);
    filter_tiles<T, TRANSPOSED> b = { filters, table, f.pitch, TRANSPOSED ? written_units - 1 : f.rows - 1 };
    while (from < m.pixels) {
        next.finish(m, in, first_row, units, staged);
        __syncthreads();
        const uint4 *pixel[ROWS];
        LS_UNROLL
        for (int i = 0; i < ROWS; i++) {
            int at = from + (warp * ROWS + i) * 16 + lane % 16;
            pixel[i] = staged + staged_at(m, at < last ? at : last, first_row);
        }
        int now = from;
        from = m.pixels - from > step ? from + step : m.pixels;
        if (from < m.pixels) first_row = read_pixels(m, in, from, EACH, units, &last, &next);
        float sums[ROWS][TILES][4] = {};
        for (int u = 0; u < f.depth; u += 2) {
            uint32_t a[ROWS][4];
            int unit = table[u + lane / 16].x;
            LS_UNROLL
            for (int i = 0; i < ROWS; i++) ls_load_matrices(a[i], pixel[i] + unit);
            LS_UNROLL
            for (int j = 0; j < TILES; j += 2) {
                uint32_t regs[4];
                b.load(u, j, regs);
                LS_UNROLL
                for (int i = 0; i < ROWS; i++) {
                    ls_multiply_add<T>(sums[i][j], a[i], regs);
                    ls_multiply_add<T>(sums[i][j + 1], a[i], regs + 2);
                }
            }
        }
        LS_UNROLL
        for (int i = 0; i < ROWS; i++) {
            int at = now + (warp * ROWS + i) * 16 + lane / 4;
            store_pixel<T, TILES>(p, at, first, sums[i], 0, bias, out);
            store_pixel<T, TILES>(p, at + 8, first, sums[i], 1, bias, out);
        }
        __syncthreads(); // the staged data has been read
    }
}

// --- backward weight ----------------------------------------------------------------------------------

// A column of the product is one tap of one channel, in the weight's order. `columns` counts tiles of 8 of them.
typedef struct {
    pixel_map map;
    int k, c, padded_k, padded_c;  // channels
    int kernel_w, columns, groups; // groups: groups of columns, one for each block
    int warps, shares;             // warps that divide a group's columns among them; warps that share the pixels
    int dy_pitch;                  // units of a pixel's gradients in shared memory
    int tiles, slices;             // tiles of WEIGHT_PIXELS pixels; slices: blocks that share them
} weight_plan;

// Table of the distance of each tile of columns from a pixel's first tap.
static __device__ inline void make_columns(const weight_plan &p, int first, int count, int per_unit, int *table) {
    int t = static_cast<int>(threadIdx.x), tiles = p.padded_c / 8;
    if (t >= count) return;
    int tap = (first + t) / tiles, tile = first + t - tap * tiles, y = tap / p.kernel_w, x = tap - y * p.kernel_w;
    table[t] = (p.map.h.at[y] * p.map.columns + p.map.w.at[x]) * p.map.pitch + tile * 8 / per_unit;
}

// Stages channels first_k.. of WEIGHT_PIXELS pixels, like stager; zeros after the last pixel and the last channel.
template <typename T, int ROWS> struct gradient_stager {
    static constexpr int size = ls_pack<T>::size, UNITS = ROWS * 16 / size, THREADS = WEIGHT_WARPS * 32;
    static constexpr int EACH = WEIGHT_PIXELS * UNITS / THREADS;
    static_assert(WEIGHT_PIXELS * UNITS % THREADS == 0, "every thread has as many units");
    uint4 raw[EACH];

    __device__ inline void read_ahead(const weight_plan &p, const T *dy, int from, int first_k) {
        LS_UNROLL
        for (int u = 0; u < EACH; u++) {
            int at = u * THREADS + static_cast<int>(threadIdx.x), pixel = from + at / UNITS;
            int channel = first_k + at % UNITS * size;
            raw[u] = {};
            if (pixel < p.map.pixels && channel < p.padded_k)
                raw[u] = ls_pack_raw(dy + static_cast<int64_t>(pixel) * p.padded_k + channel);
        }
    }
    __device__ inline void finish(const weight_plan &p, uint4 *staged) const {
        LS_UNROLL
        for (int u = 0; u < EACH; u++) {
            int at = u * THREADS + static_cast<int>(threadIdx.x);
            staged[at / UNITS * p.dy_pitch + at % UNITS] = operand_of<T>(raw[u]);
        }
    }
};

// sums += products of the gradients of one step's pixels (16, or 8 for fp32) with the taps of a warp's columns.
template <typename T, int ROWS> struct weight_step {
    static __device__ inline void add(const uint4 *dy, int dy_pitch, const uint4 *staged, const int *pixels,
        const int *columns, int count, float sums[ROWS][WEIGHT_TILES][4]) {
        int lane = static_cast<int>(threadIdx.x) % 32, in_row = lane % 8, half = lane / 8 % 2, next = lane / 16;
        uint32_t a[ROWS][4];
        LS_UNROLL
        for (int i = 0; i < ROWS; i++)
            ls_load_matrices_transposed(a[i], dy + (next * 8 + in_row) * dy_pitch + 2 * i + half);
        const uint4 *pixel = staged + pixels[half * 8 + in_row];
        LS_UNROLL
        for (int j = 0; j < WEIGHT_TILES; j += 2) {
            if (j >= count) break;
            uint32_t b[4];
            int column = j + next < count ? j + next : count - 1;
            ls_load_matrices_transposed(b, pixel + columns[column]);
            LS_UNROLL
            for (int i = 0; i < ROWS; i++) {
                ls_multiply_add<T>(sums[i][j], a[i], b);
                if (j + 1 < WEIGHT_TILES) ls_multiply_add<T>(sums[i][j + 1 < WEIGHT_TILES ? j + 1 : 0], a[i], b + 2);
            }
        }
    }
};
template <int ROWS> struct weight_step<float, ROWS> { // ldmatrix cannot transpose four-byte elements
    static __device__ inline void add(const uint4 *dy, int dy_pitch, const uint4 *staged, const int *pixels,
        const int *columns, int count, float sums[ROWS][WEIGHT_TILES][4]) {
        int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
        const uint32_t *from = reinterpret_cast<const uint32_t *>(dy),
                       *words = reinterpret_cast<const uint32_t *>(staged);
        uint32_t a[ROWS][4];
        LS_UNROLL
        for (int i = 0; i < ROWS; i++) {
            LS_UNROLL
            for (int k = 0; k < 4; k++) a[i][k] = from[(t + k / 2 * 4) * dy_pitch * 4 + i * 16 + k % 2 * 8 + g];
        }
        int first = pixels[t] * 4 + g, second = pixels[t + 4] * 4 + g;
        LS_UNROLL
        for (int j = 0; j < WEIGHT_TILES; j++) {
            if (j >= count) break;
            uint32_t b[2] = { words[first + columns[j] * 4], words[second + columns[j] * 4] };
            LS_UNROLL
            for (int i = 0; i < ROWS; i++) ls_multiply_add<float>(sums[i][j], a[i], b);
        }
    }
};

// Adds up the sums of all shares of a group's columns, in order, in the registers of the first share. room: one float
// for each sum.
template <int ROWS>
static __device__ inline void add_shares(
    const weight_plan &p, int share, int column_warp, float *room, float sums[ROWS][WEIGHT_TILES][4]) {
    constexpr int COUNT = ROWS * WEIGHT_TILES * 4;
    float *mine = room + column_warp * COUNT * 32 + static_cast<int>(threadIdx.x) % 32;
    for (int other = 1; other < p.shares; other++) {
        __syncthreads();
        LS_UNROLL
        for (int i = 0; i < COUNT; i++) {
            if (share == other) mine[i * 32] = (&sums[0][0][0])[i];
        }
        __syncthreads();
        LS_UNROLL
        for (int i = 0; i < COUNT; i++) {
            if (share == 0) (&sums[0][0][0])[i] += mine[i * 32];
        }
    }
}

// parts: of this slice, [padded_k][columns][8]
template <int ROWS>
static __device__ inline void store_sums(
    const weight_plan &p, int first_k, int first, int count, const float sums[ROWS][WEIGHT_TILES][4], float *parts) {
    int lane = static_cast<int>(threadIdx.x) % 32, tiles = p.padded_c / 8;
    LS_UNROLL
    for (int j = 0; j < WEIGHT_TILES; j++) {
        if (j >= count) break;
        int c = (first + j) % tiles * 8 + lane % 4 * 2;
        LS_UNROLL
        for (int i = 0; i < 2 * ROWS; i++) {
            int k = first_k + i * 8 + lane / 4;
            if (k >= p.padded_k) break;
            float2 both = { 0, 0 };
            if (k < p.k && c < p.c) both.x = sums[i / 2][j][i % 2 * 2];
            if (k < p.k && c + 1 < p.c) both.y = sums[i / 2][j][i % 2 * 2 + 1];
            *reinterpret_cast<float2 *>(parts + (static_cast<int64_t>(k) * p.columns + first + j) * 8 + lane % 4 * 2) =
                both;
        }
    }
}

// Grid: slices of the pixels, groups of columns, groups of ROWS * 16 channels of grad_dst.
template <typename T, int ROWS>
static __global__ void __launch_bounds__(WEIGHT_WARPS * 32, 1)
    weight_gather(weight_plan p, const T *src, const T *dy, float *parts) {
    constexpr int DEPTH = 32 / sizeof(T); // pixels of a step
    LS_SHARED_DYNAMIC(staged);
    LS_SHARED(int, columns, WEIGHT_WARPS *WEIGHT_TILES);
    LS_SHARED(int, pixels, WEIGHT_PIXELS);
    uint4 *gradients = staged + p.map.staged * p.map.columns * p.map.pitch;
    int2 *units = reinterpret_cast<int2 *>(gradients + WEIGHT_PIXELS * p.dy_pitch);
    int t = static_cast<int>(threadIdx.x), warp = t / 32, column_warp = warp % p.warps, share = warp / p.warps;
    int first = static_cast<int>(blockIdx.y) * p.warps * WEIGHT_TILES,
        first_k = static_cast<int>(blockIdx.z) * ROWS * 16;
    int of_block = p.columns - first < p.warps * WEIGHT_TILES ? p.columns - first : p.warps * WEIGHT_TILES;
    int count = of_block - column_warp * WEIGHT_TILES; // columns of this warp
    count = share >= p.shares || count < 0 ? 0 : count < WEIGHT_TILES ? count : WEIGHT_TILES;
    make_row(p.map, WEIGHT_WARPS * 32, units);
    make_columns(p, first, of_block, ls_pack<T>::size, columns);
    __syncthreads();
    float sums[ROWS][WEIGHT_TILES][4] = {};
    int64_t slice = blockIdx.x;
    int tile = static_cast<int>(slice * p.tiles / p.slices), end = static_cast<int>((slice + 1) * p.tiles / p.slices);
    stager<T, WEIGHT_WARPS> next;
    gradient_stager<T, ROWS> next_dy;
    int last, first_row = read_pixels(p.map, src, tile * WEIGHT_PIXELS, WEIGHT_PIXELS, units, &last, &next);
    next_dy.read_ahead(p, dy, tile * WEIGHT_PIXELS, first_k);
    while (tile < end) {
        int from = tile * WEIGHT_PIXELS;
        if (t < WEIGHT_PIXELS) pixels[t] = staged_at(p.map, from + t < last ? from + t : last, first_row);
        next.finish(p.map, src, first_row, units, staged);
        next_dy.finish(p, gradients);
        __syncthreads();
        if (++tile < end) {
            first_row = read_pixels(p.map, src, tile * WEIGHT_PIXELS, WEIGHT_PIXELS, units, &last, &next);
            next_dy.read_ahead(p, dy, tile * WEIGHT_PIXELS, first_k);
        }
        for (int step = count ? share : WEIGHT_PIXELS; step < WEIGHT_PIXELS / DEPTH; step += p.shares) {
            weight_step<T, ROWS>::add(gradients + step * DEPTH * p.dy_pitch, p.dy_pitch, staged, pixels + step * DEPTH,
                columns + column_warp * WEIGHT_TILES, count, sums);
        }
        __syncthreads(); // the staged data has been read
    }
    add_shares<ROWS>(p, share, column_warp, reinterpret_cast<float *>(staged), sums);
    if (share > 0 || count == 0) return;
    parts += slice * p.padded_k * p.columns * 8;
    store_sums<ROWS>(p, first_k, first + column_warp * WEIGHT_TILES, count, sums, parts);
}

// of a block: groups of four elements; threads for each group
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
        LS_UNROLL_BY(8) // as many loads in flight
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

// --- plans --------------------------------------------------------------------------------------------

// Launch parameters of a gather.
typedef struct {
    phases all;
    int count, rows, tiles; // number of phases; ROWS, TILES
    dim3 grid;
    size_t bytes;
} gather_plan;

struct ls_cuda_implicit_gemm {
    ls_dtype storage;
    gather_plan gather; // forward, or backward data
    weight_plan weight;
    int weight_rows;
    size_t weight_bytes;
};

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

// Uses as many filters at once as fit into shared memory. False if not even two tiles fit.
static bool plan_gather(const geometry &g, bool transposed, size_t shared_bytes, gather_plan *plan) {
    int tiles = (transposed ? g.padded_c : g.padded_k) / 8, blocks = 0;
    int pixels = transposed ? ceil_of(g.h, g.stride_h) * ceil_of(g.w, g.stride_w) : g.p * g.q;
    int phases_of = transposed ? g.stride_h * g.stride_w : 1;
    plan->rows = ceil_of(g.n * pixels, pixels_of_block(2)) * phases_of < FEW_TILES ? 1 : 2;
    for (plan->tiles = tiles > 4 ? 8 : tiles > 2 ? 4 : 2;; plan->tiles /= 2) {
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

template <typename T, int ROWS, bool TRANSPOSED>
static void gather_launch(
    const gather_plan &plan, const T *in, const T *weight, const float *bias, T *out, cudaStream_t stream) {
#define LAUNCH(tiles) \
    LS_LAUNCH_SHARED((gather<T, ROWS, tiles, TRANSPOSED>), plan.grid, GATHER_WARPS * 32, plan.bytes, stream, plan.all, \
        in, weight, bias, out)
    if (plan.tiles == 8)
        LAUNCH(8);
    else if (plan.tiles == 4)
        LAUNCH(4);
    else
        LAUNCH(2);
#undef LAUNCH
}

template <typename T, bool TRANSPOSED>
static void run_gather(
    const gather_plan &plan, const void *in, const void *weight, const float *bias, void *out, cudaStream_t stream) {
    const T *from = static_cast<const T *>(in), *filters = static_cast<const T *>(weight);
    T *to = static_cast<T *>(out);
    if (plan.rows == 1)
        gather_launch<T, 1, TRANSPOSED>(plan, from, filters, bias, to, stream);
    else
        gather_launch<T, 2, TRANSPOSED>(plan, from, filters, bias, to, stream);
}

void ls_cuda_implicit_gemm_forward(const ls_cuda_implicit_gemm *gemm, const void *src, const void *weight,
    const float *bias, void *dst, cudaStream_t stream) {
    LS_BY_STORAGE(gemm->storage, run_gather<T, false>(gemm->gather, src, weight, bias, dst, stream));
}

void ls_cuda_implicit_gemm_backward_data(
    const ls_cuda_implicit_gemm *gemm, const void *grad_dst, const void *weight, void *grad_src, cudaStream_t stream) {
    LS_BY_STORAGE(gemm->storage, run_gather<T, true>(gemm->gather, grad_dst, weight, nullptr, grad_src, stream));
}

template <typename T>
static void weight_launch(
    const ls_cuda_implicit_gemm &gemm, const T *src, const T *dy, float *parts, cudaStream_t stream) {
    const weight_plan &w = gemm.weight;
    dim3 grid(static_cast<unsigned>(w.slices), static_cast<unsigned>(w.groups),
        static_cast<unsigned>(ceil_of(w.padded_k, gemm.weight_rows * 16)));
#define LAUNCH(rows) \
    LS_LAUNCH_SHARED((weight_gather<T, rows>), grid, WEIGHT_WARPS * 32, gemm.weight_bytes, stream, w, src, dy, parts)
    if (gemm.weight_rows == 4)
        LAUNCH((sizeof(T) == 2 ? 4 : 2)); // with fp32, a thread has not enough registers for more sums
    else if (gemm.weight_rows == 2)
        LAUNCH(2);
    else
        LAUNCH(1);
#undef LAUNCH
}

void ls_cuda_implicit_gemm_backward_weight(const ls_cuda_implicit_gemm *gemm, const void *src, const void *grad_dst,
    float *grad_weight, void *workspace, cudaStream_t stream) {
    float *parts = static_cast<float *>(workspace);
    const float *sums = parts;
    int quads = gemm->weight.padded_k * gemm->weight.columns * 2;
    LS_BY_STORAGE(gemm->storage,
        weight_launch<T>(*gemm, static_cast<const T *>(src), static_cast<const T *>(grad_dst), parts, stream));
    LS_LAUNCH_BLOCK(
        weight_sum, ceil_of(quads, SUM_QUADS), LS_BLOCK, stream, quads, gemm->weight.slices, sums, grad_weight);
}
