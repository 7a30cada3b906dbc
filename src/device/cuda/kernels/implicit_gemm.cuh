// implicit_gemm.cuh - the kernels of implicit_gemm.cu, for one type of element. implicit_gemm_f32.cu,
// implicit_gemm_f16.cu and implicit_gemm_bf16.cu compile them.
#pragma once

#include "device/cuda/kernels/implicit_gemm_plan.cuh"
#include "device/cuda/kernels/launch.cuh"
#include "device/cuda/kernels/tensor_cores.cuh"

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

// Returns the offset of a pixel's first tap in the staged data, which starts with row `first_row` of the virtual map.
static __device__ inline int staged_at(const pixel_map &m, int pixel, int first_row) {
    int sample, y, x;
    pixel_of(m, pixel, &sample, &y, &x);
    return ((sample * m.rows + y * m.stride_h - first_row) * m.columns + x * m.stride_w) * m.pitch;
}

// Fills the table of a row of the virtual map. For each unit: its place in the row of the real map, or -1 beyond the
// edges (x), and its place in the staged row (y).
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

// Starts to read the rows for at most `each` pixels, from pixel `from` to *last. Returns the first row.
template <typename T, int WARPS>
static __device__ inline int read_pixels(
    const pixel_map &m, const T *in, int from, int each, const int2 *units, int *last, stager<T, WARPS> *to) {
    *last = m.pixels - from > each ? from + each - 1 : m.pixels - 1;
    int first_row = row_of(m, from);
    to->read_ahead(m, in, first_row, row_of(m, *last) + m.span_h - first_row, units);
    return first_row;
}

// --- forward, and backward data -----------------------------------------------------------------------

// Fills the table of units that are summed over. For each: its distance from a pixel's first tap (x) and, if
// transposed, its first row of filters (y).
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

// The forward pass, or with TRANSPOSED the data gradient. Grid: blocks that share the pixels, tiles of TILES * 8
// filters, phases. A warp has ROWS times 16 pixels.
template <typename T, int ROWS, int TILES, bool TRANSPOSED>
static __global__ void __launch_bounds__(GATHER_WARPS * 32, TILES == 8 ? 4 : 5)
    gather(phases all, const T *in, const T *weight, const float *bias, T *out) {
    if (!ls_has_tensor_cores) return;
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

// Fills the table of distances: how far each tile of columns is from a pixel's first tap.
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

// Adds up the sums of all warps that share a group of columns but have different pixels (shares), in order, in the
// registers of the first share. room: one float for each sum.
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

// Writes a warp's sums to `parts`, the slice's part of the weight gradient, [padded_k][columns][8].
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

// The weight gradient of one slice of the pixels. Grid: slices of the pixels, groups of columns, groups of ROWS * 16
// channels of grad_dst.
template <typename T, int ROWS>
static __global__ void __launch_bounds__(WEIGHT_WARPS * 32, 1)
    weight_gather(weight_plan p, const T *src, const T *dy, float *parts) {
    if (!ls_has_tensor_cores) return;
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

// --- launches -----------------------------------------------------------------------------------------

template <typename T, int ROWS, bool TRANSPOSED>
static void gather_launch(
    const gather_plan &plan, const T *in, const T *weight, const float *bias, T *out, cudaStream_t stream) {
#define LAUNCH(tiles) \
    LS_LAUNCH_SHARED((gather<T, ROWS, tiles, TRANSPOSED>), plan.grid, GATHER_WARPS * 32, plan.bytes, stream, plan.all, \
        in, weight, bias, out)
    if (!TRANSPOSED && plan.tiles == 8) // tiles_of: the data gradient never has 8
        LAUNCH((TRANSPOSED ? 4 : 8));
    else if (plan.tiles == 4)
        LAUNCH(4);
    else
        LAUNCH(2);
#undef LAUNCH
}

template <typename T>
void ls_cuda_implicit_gather(const gather_plan &plan, bool transposed, const void *in, const void *weight,
    const float *bias, void *out, cudaStream_t stream) {
    const T *from = static_cast<const T *>(in), *filters = static_cast<const T *>(weight);
    T *to = static_cast<T *>(out);
    if (plan.rows == 1 && transposed)
        gather_launch<T, 1, true>(plan, from, filters, bias, to, stream);
    else if (plan.rows == 1)
        gather_launch<T, 1, false>(plan, from, filters, bias, to, stream);
    else if (transposed)
        gather_launch<T, 2, true>(plan, from, filters, bias, to, stream);
    else
        gather_launch<T, 2, false>(plan, from, filters, bias, to, stream);
}

template <typename T>
void ls_cuda_implicit_weight_gather(
    const ls_cuda_implicit_gemm &gemm, const void *src, const void *dy, float *parts, cudaStream_t stream) {
    const T *image = static_cast<const T *>(src), *gradient = static_cast<const T *>(dy);
    const weight_plan &w = gemm.weight;
    dim3 grid(static_cast<unsigned>(w.slices), static_cast<unsigned>(w.groups),
        static_cast<unsigned>(ls_blocks(w.padded_k, gemm.weight_rows * 16)));
#define LAUNCH(rows) \
    LS_LAUNCH_SHARED((weight_gather<T, rows>), grid, WEIGHT_WARPS * 32, gemm.weight_bytes, stream, w, image, gradient, \
        parts)
    if (gemm.weight_rows == 4)
        LAUNCH((sizeof(T) == 2 ? 4 : 2)); // with fp32, a thread has not enough registers for more sums
    else if (gemm.weight_rows == 2)
        LAUNCH(2);
    else
        LAUNCH(1);
#undef LAUNCH
}
