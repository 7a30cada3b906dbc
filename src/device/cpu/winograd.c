// winograd.c - plans and runs Winograd convolution, and by F(1,1) direct convolution as products. It transforms the
// filters. Then, slab by slab of tiles, it transforms the input, multiplies at each position, and transforms back.
// kernels/winograd.h defines the matrices V, U, M, Z and A.
//
// There are three ways to split the work. The results do not depend on the number of threads in any of them:
//   own slabs     A task takes a slab from its input to its output. The filters pass through the cache once for each
//                 slab.
//   shared slabs  For filters too large for that, and where the threads would have too few slabs. All threads work on
//                 one larger slab. A task is a block of channels (transforms) or a panel of outputs (products, sums and
//                 the steps after them).
//   whole batch   A shared slab that holds all tiles (small maps, large filters). A task transforms the filters of its
//                 panel into its own memory; a complete U or A would be written to and read from main memory.
// A filter with more taps than a variant is split into several pieces. Each piece sees the map at another offset, and
// these views count as further channels of V. With stride s, a piece has every s-th tap, which see one phase: the map's
// pixels at a distance of s. Backward data writes these phases one by one, each with its own filters from the same V.
// For the weight gradient of a 1x1 filter, fp32 maps can be V and Z, sample by sample. The weight gradient sums
// over tiles in order; with own slabs, into `parts` partial sums that are then added in order.
#include "device/cpu/winograd.h"
#include <assert.h>
#include <string.h>
#include "device/cpu/kernels/winograd.h"

enum { LINE = 16 }; // floats in a cache line

typedef struct {
    int tile, taps; // m and r of F(m,r)
} filtering;

// F(5,3) and F(3,5) have larger transforms and errors than F(4,3). They are for maps of about 5x5, where
// F(5,3) halves the work, and for 5x5 filters, where the larger tiles waste few outputs.
static const struct {
    const char *algorithm;
    filtering y, x;
} variants[LS_WINOGRAD_VARIANTS] = {
#define VARIANT(name, text, my, ry, mx, rx) [LS_WINOGRAD_##name] = { text, { my, ry }, { mx, rx } },
    LS_WINOGRAD_EACH(VARIANT)
#undef VARIANT
};

static int side_of(filtering f) {
    return f.tile + f.taps - 1;
}

static double cost_of(ls_winograd_variant variant) { // cost of a multiplication; 1: as in direct convolution
    return variant == LS_WINOGRAD_F53 || variant == LS_WINOGRAD_F35 ? 1.35 : 1;
}

static int divide_up(int value, int by) {
    return (value + by - 1) / by;
}

static int round_up(int value, int to) {
    return divide_up(value, to) * to;
}

static int smaller(int a, int b) {
    return a < b ? a : b;
}

static int larger(int a, int b) {
    return a > b ? a : b;
}

// Rounds a stride up to an odd number of cache lines, so that the positions of a tile lie in different cache sets.
static size_t odd_lines(size_t floats) {
    return (((floats + LINE - 1) / LINE) | 1) * LINE;
}

const char *ls_winograd_name(ls_winograd_variant variant) {
    return variants[variant].algorithm;
}

static int is_by_phases(const ls_conv_attr *attr, ls_winograd_variant variant) {
    return variant != LS_WINOGRAD_F11 && attr->stride_h * attr->stride_w > 1;
}

// Number of pieces of a filter in one direction. A variant with 4 taps takes 6 to 8 taps as two pieces. With stride s,
// a piece has every s-th tap. With F(1,1) each tap is a piece. 0: the variant does not support this number of taps.
static int pieces_of(ls_winograd_variant variant, filtering f, int taps, int stride) {
    enum { HALF = 4, LEAST = 6 };
    if (variant == LS_WINOGRAD_F11) return taps;
    if (stride > 1) return divide_up(taps, stride) == f.taps ? smaller(taps, stride) : 0;
    if (taps == f.taps) return 1;
    return f.taps == HALF && taps >= LEAST && taps <= 2 * HALF ? 2 : 0;
}

// Backward data with a stride, in one direction: the taps that meet the source's pixels phase, phase + stride, ... All
// phases read the same tiles of the gradient, which start `pad` pixels before its first pixel. So the phase's filter is
// `lead` zeros, then every stride-th tap of the rotated filter from `first` on.
typedef struct {
    int first, lead, pad;
} phase_taps;

static phase_taps taps_of_phase(int phase, int kernel, int stride, int pad, int taps) {
    // tap: the lowest tap that meets the phase, in the filter that is not rotated
    const int tap = (phase + pad) % stride, farthest = (stride - 1 + pad) / stride;
    const int met = tap < kernel ? (kernel - 1 - tap) / stride + 1 : 0;
    return (phase_taps){ .first = met > 0 ? kernel - 1 - tap - stride * (met - 1) : kernel,
        .lead = taps - met - (farthest - (phase + pad) / stride),
        .pad = taps - 1 - farthest };
}

static int phases_can(int kernel, int stride, int pad, int taps) {
    for (int phase = 0; phase < stride; phase++)
        if (taps_of_phase(phase, kernel, stride, pad, taps).lead < 0) return 0;
    return 1;
}

int ls_winograd_can(const ls_conv_attr *attr, ls_op op, ls_winograd_variant variant) {
    const filtering y = variants[variant].y, x = variants[variant].x;
    const int back = op == LS_OP_CONV_BACKWARD_DATA;
    if (op != LS_OP_CONV_FORWARD && !back && op != LS_OP_CONV_BACKWARD_WEIGHT) return 0;
    if (attr->stride_h * attr->stride_w > 1 && (attr->dilation > 1 || (variant == LS_WINOGRAD_F11 && back))) return 0;
    if (is_by_phases(attr, variant) && (larger(attr->stride_h, attr->stride_w) > LS_WINOGRAD_STRIDE_MAX ||
                                           !phases_can(attr->kernel_h, attr->stride_h, attr->pad_h, y.taps) ||
                                           !phases_can(attr->kernel_w, attr->stride_w, attr->pad_w, x.taps)))
        return 0;
    return pieces_of(variant, y, attr->kernel_h, attr->stride_h) > 0 &&
           pieces_of(variant, x, attr->kernel_w, attr->stride_w) > 0 &&
           attr->pad_h <= attr->dilation * (attr->kernel_h - 1) &&
           attr->pad_w <= attr->dilation * (attr->kernel_w - 1) && attr->dilation <= LS_WINOGRAD_DILATION_MAX;
}

// Counts in rounds: a round has one tile of each phase of the dilation. The last round has tiles only for phases with
// outputs left.
int ls_winograd_tiles(int outputs, int tile, int dilation) {
    const int round = tile * dilation;
    return outputs / round * dilation + smaller(outputs % round, dilation);
}

enum {
    // With fewer outputs than this in a channel of the batch, transforming the filters takes longer than convolving.
    FEW_OUTPUTS = 128,
    LARGE_FILTERS = 2 << 20, // bytes: transformed filters of this size do not stay in the cache
    // With at most this many outputs in a channel, adding partial sums of the weights takes longer than the products.
    FEW_SUMMED = 1024,
    MANY_WEIGHTS = 1 << 16, // from so many on oneDNN's data gradients of 1x1 with AVX-512 are up to 2.4 times as slow
};

typedef struct {
    int first, count;
} tap_range;

// The range of a filter's taps in one direction that meet a pixel of the map for at least one output. If no tap does,
// one tap stays in the range and reads zeros.
static tap_range taps_met(int taps, int outputs, int pixels, int stride, int dilation, int pad) {
    tap_range met = { 0, taps };
    const int reach = (outputs - 1) * stride - pad; // source pixel that tap 0 reads for the last output
    while (met.count > 1 && reach + met.first * dilation < 0) met.first++, met.count--;
    while (met.count > 1 && (met.first + met.count - 1) * dilation - pad >= pixels) met.count--;
    return met;
}

static int taps_that_meet(const ls_conv_attr *a) {
    return taps_met(a->kernel_h, a->dst.h, a->src.h, a->stride_h, a->dilation, a->pad_h).count *
           taps_met(a->kernel_w, a->dst.w, a->src.w, a->stride_w, a->dilation, a->pad_w).count;
}

double ls_winograd_share(const ls_conv_attr *attr, ls_nchw map, ls_winograd_variant variant) {
    const filtering y = variants[variant].y, x = variants[variant].x;
    if (variant == LS_WINOGRAD_F11) return (double)taps_that_meet(attr) / ls_conv_taps(attr);
    const double direct = (double)ls_conv_taps(attr) * map.h * map.w; // for one pair of channels
    const double own = (double)pieces_of(variant, y, attr->kernel_h, attr->stride_h) *
                       pieces_of(variant, x, attr->kernel_w, attr->stride_w) * side_of(y) * side_of(x) *
                       ls_winograd_tiles(map.h, y.tile, attr->dilation) *
                       ls_winograd_tiles(map.w, x.tile, attr->dilation);
    return own / direct;
}

static int is_in_one_direction(ls_winograd_variant variant) {
    return variants[variant].y.taps == 1 || variants[variant].x.taps == 1;
}

// Whether the saved multiplications pay for the transforms, which matters with few channels. The transforms take as
// long as some vector multiplications at each position. Measured for variants in one direction: 3 taps are as fast as
// direct convolution at 32 outputs, 5 taps gain a little at 32, 7 taps at 24. Measured in two directions against bf16
// products: F(4,3) is as fast at 16 and 32 channels in and out and 1.2 times faster at 64; F(3,5) is 1.3 times faster
// from 32 to 64.
static int pays_for_transforms(
    const ls_conv_attr *attr, ls_op op, ls_winograd_variant variant, double share, double rate) {
    const filtering y = variants[variant].y, x = variants[variant].x;
    const double src = (double)attr->src.c / attr->groups, dst = (double)attr->dst.c / attr->groups;
    const double outputs = op == LS_OP_CONV_BACKWARD_DATA ? src : dst;
    const double channels = is_in_one_direction(variant) ? outputs : 2 * src * dst / (src + dst);
    const double transforms =
        (is_in_one_direction(variant) ? 40.0 : 22.0) * side_of(y) * side_of(x) / (y.tile * x.tile);
    const double direct = ls_conv_taps(attr) * channels;
    return direct * share + transforms < direct / rate;
}

// The least gain in multiplications at which a variant is used. At 2 and above every measured layer gained. With
// strides, where the alternatives are slower, 1.75 is enough. For F(2,3) and variants in one direction, whose
// transforms are small, 1.5 is enough.
static double least_gain(const ls_conv_attr *attr, ls_winograd_variant variant) {
    if (variant == LS_WINOGRAD_F23 || is_in_one_direction(variant)) return 1.5;
    return is_by_phases(attr, variant) ? 1.75 : 2;
}

double ls_winograd_gain(
    const ls_conv_attr *attr, ls_op op, ls_winograd_variant variant, int vector_width, double rate) {
    if (variant == LS_WINOGRAD_F11 || !ls_winograd_can(attr, op, variant)) return 0;
    const int in = attr->src.c / attr->groups, out = attr->dst.c / attr->groups;
    if (in < vector_width || out < vector_width) return 0;
    const double filters = (double)ls_conv_taps(attr) * in * out * sizeof(float);
    if (attr->dst.n * attr->dst.h * attr->dst.w < FEW_OUTPUTS && filters > LARGE_FILTERS) return 0;
    const double share = ls_winograd_share(attr, attr->dst, variant), gain = 1 / (cost_of(variant) * share);
    const int is_close = is_in_one_direction(variant) || rate > 1;
    if (is_close && !pays_for_transforms(attr, op, variant, share, rate)) return 0;
    return gain >= least_gain(attr, variant) ? gain : 0;
}

static int is_pointwise(const ls_conv_attr *a) { // each output reads one pixel
    return ls_conv_taps(a) == 1 && a->stride_h * a->stride_w == 1 && a->pad_h + a->pad_w == 0;
}

int ls_winograd_product_gains(const ls_conv_attr *attr, ls_op op, int vector_width, double rate) {
    const int in = attr->src.c / attr->groups, out = attr->dst.c / attr->groups;
    if (!ls_winograd_can(attr, op, LS_WINOGRAD_F11) || in < vector_width || out < vector_width) return 0;
    const int pointwise = rate <= 1 && is_pointwise(attr);
    if (op == LS_OP_CONV_BACKWARD_WEIGHT) return pointwise || attr->dst.n * attr->dst.h * attr->dst.w <= FEW_SUMMED;
    if (op == LS_OP_CONV_BACKWARD_DATA && vector_width == 16 && pointwise && (int64_t)in * out >= MANY_WEIGHTS)
        return 1;
    return 2 * rate * taps_that_meet(attr) <= ls_conv_taps(attr);
}

enum { STREAM_BYTES = 4 << 20 }; // size of a map that does not stay in the cache until it is read

static size_t map_bytes(const ls_winograd_map *map, int n, int width) {
    return (size_t)n * (size_t)map->image_blocks * (size_t)(map->h * map->w * width) * sizeof(float);
}

// Whether the last block has at most half a block of channels. (Groups have whole blocks.)
static int is_half(int channels, int width) {
    const int last = channels % width;
    return last > 0 && last <= width / 2;
}

// Sets the number of tiles and their distances. They cover `out` (in backward weight, dst); in backward data with a
// stride, they cover one phase of it.
static void set_tiles(ls_winograd_plan *plan, const ls_conv_attr *attr, ls_nchw out) {
    const filtering y = variants[plan->variant].y, x = variants[plan->variant].x;
    const int d = attr->dilation, strided = is_by_phases(attr, plan->variant);
    const int back = plan->op == LS_OP_CONV_BACKWARD_DATA && strided;
    const int rows = back ? divide_up(out.h, attr->stride_h) : out.h;
    const int columns = back ? divide_up(out.w, attr->stride_w) : out.w;
    plan->in = plan->out = (ls_winograd_map){ .tiles_y = ls_winograd_tiles(rows, y.tile, d),
        .tiles_x = ls_winograd_tiles(columns, x.tile, d),
        .step_y = y.tile,
        .step_x = x.tile,
        .apart_y = d,
        .apart_x = d,
        .phases = d };
    ls_winograd_map *const source = back ? &plan->out : &plan->in;
    source->step_y *= attr->stride_h, source->step_x *= attr->stride_w;
    if (strided) source->apart_y = attr->stride_h, source->apart_x = attr->stride_w;
}

// Sets the padding with which the tiles read the map: in backward data, grad_dst is read as if it were padded.
static void set_padding(ls_winograd_plan *plan, const ls_conv_attr *attr) {
    const filtering y = variants[plan->variant].y, x = variants[plan->variant].x;
    plan->in.pad_y = plan->pad_y = attr->pad_h, plan->in.pad_x = plan->pad_x = attr->pad_w;
    if (plan->op != LS_OP_CONV_BACKWARD_DATA) return;
    plan->in.pad_y = attr->dilation * (attr->kernel_h - 1) - attr->pad_h;
    plan->in.pad_x = attr->dilation * (attr->kernel_w - 1) - attr->pad_w;
    if (!is_by_phases(attr, plan->variant)) return;
    plan->in.pad_y = taps_of_phase(0, attr->kernel_h, attr->stride_h, attr->pad_h, y.taps).pad;
    plan->in.pad_x = taps_of_phase(0, attr->kernel_w, attr->stride_w, attr->pad_w, x.taps).pad;
}

// Sets the pieces of the filter; they are further channels of V.
static void set_pieces(ls_winograd_plan *plan, const ls_conv_attr *attr, ls_nchw in, ls_nchw out) {
    const filtering y = variants[plan->variant].y, x = variants[plan->variant].x;
    const int strided = is_by_phases(attr, plan->variant), width = plan->kernels->width;
    tap_range rows = { 0, pieces_of(plan->variant, y, attr->kernel_h, attr->stride_h) };
    tap_range columns = { 0, pieces_of(plan->variant, x, attr->kernel_w, attr->stride_w) };
    if (plan->variant == LS_WINOGRAD_F11) {
        rows = taps_met(attr->kernel_h, out.h, in.h, plan->in.step_y, attr->dilation, plan->in.pad_y);
        columns = taps_met(attr->kernel_w, out.w, in.w, plan->in.step_x, attr->dilation, plan->in.pad_x);
    } else if (strided && plan->op == LS_OP_CONV_BACKWARD_DATA) {
        rows.count = columns.count = 1;
    }
    plan->stride_y = strided ? attr->stride_h : 1, plan->stride_x = strided ? attr->stride_w : 1;
    plan->first_y = rows.first, plan->first_x = columns.first;
    plan->pieces_x = columns.count;
    plan->v = (ls_winograd_channels){
        .blocks = plan->in.blocks * rows.count * columns.count, .each = plan->in.blocks, .half = is_half(in.c, width)
    };
}

// Sets the maps that are read and written. Forward reads src and writes dst. Backward data reads grad_dst and writes
// grad_src. Backward weight reads src and grad_dst.
static void set_maps(ls_winograd_plan *plan, const ls_conv_attr *attr) {
    const int width = plan->kernels->width, groups = plan->groups, back = plan->op == LS_OP_CONV_BACKWARD_DATA;
    const ls_nchw in = back ? attr->dst : attr->src, out = back ? attr->src : attr->dst;
    const int in_blocks = divide_up(in.c, width), out_blocks = divide_up(out.c, width);
    set_tiles(plan, attr, out);
    set_padding(plan, attr);
    plan->in.blocks = in_blocks / groups, plan->in.image_blocks = in_blocks;
    plan->in.h = in.h, plan->in.w = in.w;
    plan->out.blocks = out_blocks / groups, plan->out.image_blocks = out_blocks;
    plan->out.h = out.h, plan->out.w = out.w;
    // Stores around the cache only pay for adjacent lines: single lines, such as those of a column, take three times as
    // long.
    const int beside = variants[plan->variant].x.tile > 1 || plan->variant == LS_WINOGRAD_F11;
    plan->out.stream =
        width == LINE && plan->storage == LS_F32 && beside && map_bytes(&plan->out, in.n, width) >= STREAM_BYTES;
    plan->out_half = is_half(out.c, width);
    plan->kernel_h = attr->kernel_h, plan->kernel_w = attr->kernel_w;
    set_pieces(plan, attr, in, out);
    plan->n = in.n;
    plan->tiles = in.n * plan->in.tiles_y * plan->in.tiles_x;
}

enum {
    OWN_TILES = 48, // V and a panel of M stay in a thread's cache
    SHARED_TILES = 258,
    SUM_TILES = 192,
    IN_PLACE_TILES = 96,         // tiles of maps in place, whose blocks lie far apart
    OWN_PRODUCT_BYTES = 8 << 20, // size of U that stays in the cache that the threads share
    OWN_SUM_BYTES = 640 << 10,   // size of A that stays in a thread's cache
    PARTS = 64,
    LEAST_PARTS = 8, // enough for that many threads to have work
    PART_TILES = 64,
    PARTS_BYTES = 8 << 20,
    WHOLE_PRODUCT_BYTES = 12 << 20, // V of a whole batch, in the cache that the threads share
    WHOLE_SUM_BYTES = 24 << 20,     // V and Z of a whole batch
};

// Returns the number of phases of grad_src in backward data with a stride, else 1. Each phase has its own panels.
static int phases_of(const ls_winograd_plan *plan) {
    return plan->op == LS_OP_CONV_BACKWARD_DATA ? plan->stride_y * plan->stride_x : 1;
}

static int panels_of_phase(const ls_winograd_plan *plan) {
    return divide_up(plan->out.blocks, LS_WINOGRAD_PANEL);
}

static size_t positions_of(const ls_winograd_plan *plan) {
    return (size_t)(side_of(variants[plan->variant].y) * side_of(variants[plan->variant].x));
}

// Sets slabs, strides and workspace of forward and backward data. The results do not depend on the slabs, so the slabs
// may depend on the number of threads.
static void plan_product(ls_winograd_plan *plan, int threads) {
    const size_t width = (size_t)plan->kernels->width, positions = positions_of(plan);
    const size_t phases = (size_t)phases_of(plan);
    const size_t in_channels = (size_t)plan->v.blocks * width, out_channels = phases * (size_t)plan->out.blocks * width;
    plan->parts = 1;
    // If there are no more slabs than threads, and as many panels as slabs or more, all threads share a slab: panels
    // keep at least as many threads busy.
    const int least_slabs = divide_up(plan->tiles, plan->kernels->product_tiles);
    const int few = least_slabs <= smaller(threads, (int)phases * panels_of_phase(plan));
    plan->shared = few || positions * in_channels * out_channels * sizeof(float) > OWN_PRODUCT_BYTES;
    plan->whole = plan->shared && positions * in_channels * (size_t)plan->tiles * sizeof(float) <= WHOLE_PRODUCT_BYTES;
    int slabs = divide_up(plan->tiles, OWN_TILES * threads) * threads;
    if (plan->shared) slabs = plan->whole ? 1 : divide_up(plan->tiles, SHARED_TILES);
    plan->slab_tiles = round_up(divide_up(plan->tiles, slabs), plan->kernels->product_tiles);

    const int task_blocks = smaller(LS_WINOGRAD_PANEL, plan->out.blocks);
    const size_t matrix_blocks = plan->whole ? (size_t)task_blocks : phases * (size_t)plan->out.blocks;
    plan->in_block = plan->out_block = odd_lines((size_t)plan->slab_tiles * width);
    plan->in_pos = odd_lines((size_t)plan->v.blocks * plan->in_block);
    plan->out_pos = odd_lines((size_t)task_blocks * plan->out_block);
    plan->matrix_pos = odd_lines(in_channels * matrix_blocks * width);
    plan->matrix_part = positions * plan->matrix_pos;
    plan->slab_at = plan->whole ? 0 : plan->matrix_part;
    plan->threads_at = plan->slab_at + (plan->shared ? positions * plan->in_pos : 0);
    plan->thread_floats = positions * (plan->out_pos + (plan->shared ? 0 : plan->in_pos));
    if (plan->whole) plan->thread_floats += plan->matrix_part;
}

// Sets strides and workspace of backward weight of a 1x1 filter. A task sums over a range of samples.
static void plan_sum_in_place(ls_winograd_plan *plan) {
    const size_t width = (size_t)plan->kernels->width, channels = (size_t)plan->out.blocks * width;
    plan->in_block = (size_t)(plan->in.h * plan->in.w) * width;
    plan->out_block = (size_t)(plan->out.h * plan->out.w) * width;
    plan->matrix_pos = plan->matrix_part = odd_lines((size_t)plan->v.blocks * width * channels);
    plan->parts = smaller(PARTS, plan->n);
    while (plan->parts > LEAST_PARTS && (size_t)plan->parts * plan->matrix_part * sizeof(float) > PARTS_BYTES)
        plan->parts--;
    plan->threads_at = (size_t)plan->parts * plan->matrix_part;
}

// Sets slabs, strides and workspace of backward weight. Z takes the place of M, and A the place of U.
static void plan_sum(ls_winograd_plan *plan) {
    const size_t width = (size_t)plan->kernels->width, positions = positions_of(plan);
    const size_t in_channels = (size_t)plan->v.blocks * width, out_channels = (size_t)plan->out.blocks * width;
    const size_t sums_bytes = positions * in_channels * out_channels * sizeof(float);
    plan->shared = sums_bytes > OWN_SUM_BYTES;
    plan->parts = plan->shared ? 1 : larger(1, smaller(PARTS, plan->tiles / PART_TILES));
    while (plan->parts > 1 && (size_t)plan->parts * sums_bytes > PARTS_BYTES) plan->parts--;
    plan->whole = sums_bytes > OWN_PRODUCT_BYTES &&
                  positions * (in_channels + out_channels) * (size_t)plan->tiles * sizeof(float) <= WHOLE_SUM_BYTES;
    plan->slab_tiles = round_up(plan->tiles, LS_WINOGRAD_SUM_TILES);
    if (!plan->whole) plan->slab_tiles = smaller(SUM_TILES, plan->slab_tiles);

    const int task_blocks = smaller(LS_WINOGRAD_SUM_PANEL, plan->out.blocks);
    const size_t matrix_blocks = (size_t)(plan->whole ? task_blocks : plan->out.blocks);
    plan->in_block = plan->out_block = odd_lines((size_t)plan->slab_tiles * width);
    plan->in_pos = odd_lines((size_t)plan->v.blocks * plan->in_block);
    plan->out_pos = odd_lines((size_t)plan->out.blocks * plan->out_block);
    plan->matrix_pos = odd_lines(in_channels * matrix_blocks * width);
    plan->matrix_part = positions * plan->matrix_pos;
    plan->slab_at = plan->whole ? 0 : (size_t)plan->parts * plan->matrix_part;
    const size_t slab_floats = positions * (plan->in_pos + plan->out_pos);
    plan->threads_at = plan->slab_at + (plan->shared ? slab_floats : 0);
    plan->thread_floats = plan->shared ? 0 : slab_floats;
    if (plan->whole) plan->thread_floats = plan->matrix_part;
}

void ls_winograd_plan_make(ls_winograd_plan *plan, const ls_conv_attr *attr, ls_op op, ls_winograd_variant variant,
    const ls_winograd_kernels *kernels, int threads) {
    assert(ls_winograd_can(attr, op, variant));
    assert(attr->groups == 1 ||
           (attr->src.c / attr->groups % kernels->width == 0 && attr->dst.c / attr->groups % kernels->width == 0));
    *plan = (ls_winograd_plan){
        .kernels = kernels, .op = op, .variant = variant, .storage = attr->storage, .groups = attr->groups
    };
    plan->algorithm = ls_winograd_name(variant);
    set_maps(plan, attr);
    plan->in_place = op == LS_OP_CONV_BACKWARD_WEIGHT && attr->storage == LS_F32 && is_pointwise(attr) &&
                     attr->dst.n * attr->dst.h * attr->dst.w > FEW_SUMMED;
    if (plan->in_place)
        plan_sum_in_place(plan);
    else if (op == LS_OP_CONV_BACKWARD_WEIGHT)
        plan_sum(plan);
    else
        plan_product(plan, threads);
    plan->workspace_bytes = (plan->threads_at + (size_t)threads * plan->thread_floats) * sizeof(float);
}

// --- run: the data of a task ---------------------------------------------------------------------

typedef struct {
    const ls_winograd_plan *plan;
    const void *in; // map that becomes V
    void *out;      // map that is written; in backward weight grad_dst
    const float *weight, *bias;
    float *grad_weight, *grad_bias;
    float *workspace; // starts with U or A, unless plan->whole
    int first, tiles; // tiles of the shared slab
} job;

static float *own_memory(const job *j, int thread) {
    return j->workspace + j->plan->threads_at + (size_t)thread * j->plan->thread_floats;
}

// Offset in U or A of the panel that starts with output block `block`; the same at each position.
static size_t panel_at(const ls_winograd_plan *plan, int block) {
    const size_t width = (size_t)plan->kernels->width;
    return (size_t)block * width * (size_t)plan->v.blocks * width;
}

// The outputs of one panel of U: two output blocks (or the last one), of one phase.
typedef struct {
    int phase, block, blocks;
} outputs;

static outputs outputs_of(const ls_winograd_plan *plan, int panel) {
    const int each = panels_of_phase(plan), block = panel % each * LS_WINOGRAD_PANEL;
    return (outputs){ panel / each, block, smaller(LS_WINOGRAD_PANEL, plan->out.blocks - block) };
}

static float *filters_at(const ls_winograd_plan *plan, float *u, outputs to) {
    return u + panel_at(plan, to.phase * plan->out.blocks + to.block);
}

// The taps of a piece, as positions in the filter (backward data: in the rotated filter).
static ls_winograd_taps piece_at(const ls_winograd_plan *plan, int piece) {
    const int y = piece / plan->pieces_x, x = piece % plan->pieces_x;
    return (ls_winograd_taps){ .h = plan->kernel_h,
        .w = plan->kernel_w,
        .y = plan->first_y + (plan->stride_y > 1 ? y : y * variants[plan->variant].y.taps),
        .x = plan->first_x + (plan->stride_x > 1 ? x : x * variants[plan->variant].x.taps),
        .step_y = plan->stride_y,
        .step_x = plan->stride_x };
}

static ls_winograd_taps piece_of_phase(const ls_winograd_plan *plan, int phase) {
    const phase_taps y = taps_of_phase(
        phase / plan->stride_x, plan->kernel_h, plan->stride_y, plan->pad_y, variants[plan->variant].y.taps);
    const phase_taps x = taps_of_phase(
        phase % plan->stride_x, plan->kernel_w, plan->stride_x, plan->pad_x, variants[plan->variant].x.taps);
    return (ls_winograd_taps){ plan->kernel_h, plan->kernel_w, y.first, x.first, plan->stride_y, plan->stride_x, y.lead,
        x.lead };
}

// Makes one block of V: a block of the map, as the taps of a piece see it.
static void tiles_in(const job *j, int block, int first, int tiles, int pad_to, float *v) {
    const ls_winograd_plan *plan = j->plan;
    const ls_winograd_taps taps = piece_at(plan, block / plan->in.blocks);
    ls_winograd_map map = plan->in;
    map.pad_y -= taps.y * map.phases, map.pad_x -= taps.x * map.phases;
    plan->kernels->tiles_in(plan->variant, &map, j->in, block % plan->in.blocks, first, tiles, round_up(tiles, pad_to),
        v + (size_t)block * plan->in_block, plan->in_pos);
}

static void gradients_in(const job *j, int block, int first, int tiles, float *z) {
    const ls_winograd_plan *plan = j->plan;
    plan->kernels->gradients_in(plan->variant, &plan->out, j->out, block, first, tiles,
        round_up(tiles, LS_WINOGRAD_SUM_TILES), z + (size_t)block * plan->out_block, plan->out_pos);
}

// Number of floats that belong to one piece in a panel of `blocks` output blocks.
static size_t piece_floats(const ls_winograd_plan *plan, int blocks) {
    const size_t width = (size_t)plan->kernels->width;
    return (size_t)plan->in.blocks * width * (size_t)blocks * width;
}

// Writes the transformed filters of some outputs to u.
static void filters_in(const job *j, outputs to, float *u) {
    const ls_winograd_plan *plan = j->plan;
    const int backward = plan->op == LS_OP_CONV_BACKWARD_DATA;
    const int in = backward ? plan->out.blocks : plan->in.blocks, out = backward ? plan->in.blocks : plan->out.blocks;
    for (int piece = 0; piece < plan->v.blocks / plan->in.blocks; piece++, u += piece_floats(plan, to.blocks))
        plan->kernels->filters_in(plan->variant, backward,
            phases_of(plan) > 1 ? piece_of_phase(plan, to.phase) : piece_at(plan, piece), j->weight, in, out,
            plan->v.half, to.block / LS_WINOGRAD_PANEL, u, plan->matrix_pos);
}

// Transforms the sums at all positions back and adds them to the weight gradient of output block `block`. a: the part
// of A that starts with the panel of `block`.
static void filters_out(const job *j, int block, const float *a) {
    const ls_winograd_plan *plan = j->plan;
    const int blocks =
        smaller(LS_WINOGRAD_SUM_PANEL, plan->out.blocks - block / LS_WINOGRAD_SUM_PANEL * LS_WINOGRAD_SUM_PANEL);
    for (int piece = 0; piece < plan->v.blocks / plan->in.blocks; piece++, a += piece_floats(plan, blocks))
        plan->kernels->filters_out(plan->variant, piece_at(plan, piece), a, plan->matrix_pos, plan->parts,
            plan->matrix_part, plan->in.blocks, plan->out.blocks, plan->v.half, block, j->grad_weight);
}

// Whether `end` is the last output block's end and that block is only half full.
static int ends_half(const ls_winograd_plan *plan, int end) {
    return plan->out_half && end == plan->out.blocks;
}

// M = V * U for some outputs, whose filters are at u. Then M is transformed back to the map.
static void multiply(const job *j, outputs to, int first, int tiles, const float *v, const float *u, float *m) {
    const ls_winograd_plan *plan = j->plan;
    const ls_winograd_kernels *kernels = plan->kernels;
    ls_winograd_map map = plan->out;
    map.pad_y -= to.phase / plan->stride_x, map.pad_x -= to.phase % plan->stride_x;
    for (size_t p = 0; p < positions_of(plan); p++)
        kernels->product(v + p * plan->in_pos, plan->in_block, &plan->v, u + p * plan->matrix_pos, to.blocks,
            ends_half(plan, to.block + to.blocks), m + p * plan->out_pos, plan->out_block,
            round_up(tiles, kernels->product_tiles));
    for (int b = 0; b < to.blocks; b++)
        kernels->tiles_out(plan->variant, &map, j->out, to.block + b, first, tiles, m + (size_t)b * plan->out_block,
            plan->out_pos, j->bias ? j->bias + (to.block + b) * kernels->width : NULL);
}

// A (+)= V^T * Z at one position, for `blocks` output blocks from `block` on; their Z and A start at z and a. It sums a
// limited number of tiles at a time, so that they stay in the cache.
static void add_up(const job *j, size_t position, int block, int blocks, int tiles, int add, const float *v,
    const float *z, float *a) {
    const ls_winograd_plan *plan = j->plan;
    const int width = plan->kernels->width;
    v += position * plan->in_pos, z += position * plan->out_pos, a += position * plan->matrix_pos;
    const int most = plan->in_place ? IN_PLACE_TILES : SUM_TILES;
    for (int t = 0; t < tiles; t += most)
        plan->kernels->sum(v + t * width, plan->in_block, &plan->v, z + t * width, plan->out_block, blocks,
            ends_half(plan, block + blocks), add || t > 0, a, smaller(tiles - t, most));
}

// --- own slabs -----------------------------------------------------------------------------------

static void filter_task(void *context, int panel, int thread) {
    const job *j = context;
    (void)thread;
    const outputs to = outputs_of(j->plan, panel);
    filters_in(j, to, filters_at(j->plan, j->workspace, to));
}

static void own_product_task(void *context, int task, int thread) {
    const job *j = context;
    const ls_winograd_plan *plan = j->plan;
    float *v = own_memory(j, thread), *m = v + positions_of(plan) * plan->in_pos;
    const int first = task * plan->slab_tiles, tiles = smaller(plan->slab_tiles, plan->tiles - first);
    for (int b = 0; b < plan->v.blocks; b++) tiles_in(j, b, first, tiles, plan->kernels->product_tiles, v);
    for (int panel = 0; panel < phases_of(plan) * panels_of_phase(plan); panel++) {
        const outputs to = outputs_of(plan, panel);
        multiply(j, to, first, tiles, v, filters_at(plan, j->workspace, to), m);
    }
}

static void own_sum_task(void *context, int part, int thread) {
    const job *j = context;
    const ls_winograd_plan *plan = j->plan;
    float *v = own_memory(j, thread), *z = v + positions_of(plan) * plan->in_pos;
    float *sums = j->workspace + (size_t)part * plan->matrix_part;
    const int begin = (int)((int64_t)plan->tiles * part / plan->parts);
    const int end = (int)((int64_t)plan->tiles * (part + 1) / plan->parts);
    for (int first = begin; first < end; first += plan->slab_tiles) {
        const int tiles = smaller(plan->slab_tiles, end - first);
        for (int b = 0; b < plan->v.blocks; b++) tiles_in(j, b, first, tiles, LS_WINOGRAD_SUM_TILES, v);
        for (int b = 0; b < plan->out.blocks; b++) gradients_in(j, b, first, tiles, z);
        for (size_t p = 0; p < positions_of(plan); p++)
            add_up(j, p, 0, plan->out.blocks, tiles, first > begin, v, z, sums);
    }
}

static void sample_sum_task(void *context, int part, int thread) {
    const job *j = context;
    const ls_winograd_plan *plan = j->plan;
    const size_t in = (size_t)plan->in.image_blocks * plan->in_block,
                 out = (size_t)plan->out.image_blocks * plan->out_block;
    const int begin = (int)((int64_t)plan->n * part / plan->parts);
    const int end = (int)((int64_t)plan->n * (part + 1) / plan->parts);
    (void)thread;
    for (int n = begin; n < end; n++)
        add_up(j, 0, 0, plan->out.blocks, plan->in.h * plan->in.w, n > begin, (const float *)j->in + (size_t)n * in,
            (const float *)j->out + (size_t)n * out, j->workspace + (size_t)part * plan->matrix_part);
}

static void weight_task(void *context, int block, int thread) {
    const job *j = context;
    (void)thread;
    filters_out(j, block, j->workspace + panel_at(j->plan, block / LS_WINOGRAD_SUM_PANEL * LS_WINOGRAD_SUM_PANEL));
}

static void bias_task(void *context, int block, int thread) {
    const job *j = context;
    const ls_winograd_map *map = &j->plan->out;
    (void)thread;
    j->plan->kernels->bias_out(j->out, j->plan->n, map->image_blocks, (size_t)map->h * (size_t)map->w, block,
        j->grad_bias + block * j->plan->kernels->width);
}

// --- shared slabs --------------------------------------------------------------------------------

static void shared_in_task(void *context, int task, int thread) {
    const job *j = context;
    const ls_winograd_plan *plan = j->plan;
    const int sums = plan->op == LS_OP_CONV_BACKWARD_WEIGHT;
    float *v = j->workspace + plan->slab_at;
    (void)thread;
    if (task < plan->v.blocks)
        tiles_in(j, task, j->first, j->tiles, sums ? LS_WINOGRAD_SUM_TILES : plan->kernels->product_tiles, v);
    else
        gradients_in(j, task - plan->v.blocks, j->first, j->tiles, v + positions_of(plan) * plan->in_pos);
}

static void shared_product_task(void *context, int panel, int thread) {
    const job *j = context;
    const ls_winograd_plan *plan = j->plan;
    const outputs to = outputs_of(plan, panel);
    float *m = own_memory(j, thread), *u = filters_at(plan, j->workspace, to);
    if (plan->whole) {
        u = m + positions_of(plan) * plan->out_pos;
        filters_in(j, to, u);
    }
    multiply(j, to, j->first, j->tiles, j->workspace + plan->slab_at, u, m);
}

// A task is a panel at one position: V and Z of that position stay in the cache.
static void shared_sum_task(void *context, int task, int thread) {
    const job *j = context;
    const ls_winograd_plan *plan = j->plan;
    (void)thread;
    const int panels = divide_up(plan->out.blocks, LS_WINOGRAD_SUM_PANEL),
              block = task % panels * LS_WINOGRAD_SUM_PANEL;
    const float *v = j->workspace + plan->slab_at, *z = v + positions_of(plan) * plan->in_pos;
    add_up(j, (size_t)(task / panels), block, smaller(LS_WINOGRAD_SUM_PANEL, plan->out.blocks - block), j->tiles,
        j->first > 0, v, z + (size_t)block * plan->out_block, j->workspace + panel_at(plan, block));
}

// A task computes a panel, from the sums at all positions to grad_weight.
static void whole_sum_task(void *context, int panel, int thread) {
    const job *j = context;
    const ls_winograd_plan *plan = j->plan;
    const int block = panel * LS_WINOGRAD_SUM_PANEL, blocks = smaller(LS_WINOGRAD_SUM_PANEL, plan->out.blocks - block);
    const float *v = j->workspace + plan->slab_at, *z = v + positions_of(plan) * plan->in_pos;
    float *a = own_memory(j, thread);
    for (size_t p = 0; p < positions_of(plan); p++)
        add_up(j, p, block, blocks, j->tiles, 0, v, z + (size_t)block * plan->out_block, a);
    for (int b = 0; b < blocks; b++) filters_out(j, block + b, a);
}

// --- operators -----------------------------------------------------------------------------------

static void run_product(job *j, ls_pool *pool) {
    const ls_winograd_plan *plan = j->plan;
    const int panels = phases_of(plan) * panels_of_phase(plan);
    if (!plan->whole) ls_pool_run(pool, filter_task, j, panels);
    if (!plan->shared) {
        ls_pool_run(pool, own_product_task, j, divide_up(plan->tiles, plan->slab_tiles));
        return;
    }
    for (j->first = 0; j->first < plan->tiles; j->first += plan->slab_tiles) {
        j->tiles = smaller(plan->slab_tiles, plan->tiles - j->first);
        ls_pool_run(pool, shared_in_task, j, plan->v.blocks);
        ls_pool_run(pool, shared_product_task, j, panels);
    }
}

static void run_sum(job *j, ls_pool *pool) {
    const ls_winograd_plan *plan = j->plan;
    const int panels = divide_up(plan->out.blocks, LS_WINOGRAD_SUM_PANEL);
    if (!plan->shared) ls_pool_run(pool, plan->in_place ? sample_sum_task : own_sum_task, j, plan->parts);
    for (j->first = 0; plan->shared && j->first < plan->tiles; j->first += plan->slab_tiles) {
        j->tiles = smaller(plan->slab_tiles, plan->tiles - j->first);
        ls_pool_run(pool, shared_in_task, j, plan->v.blocks + plan->out.blocks);
        if (plan->whole)
            ls_pool_run(pool, whole_sum_task, j, panels);
        else
            ls_pool_run(pool, shared_sum_task, j, (int)positions_of(plan) * panels);
    }
    if (!plan->whole) ls_pool_run(pool, weight_task, j, plan->out.blocks);
    if (j->grad_bias) ls_pool_run(pool, bias_task, j, plan->out.blocks);
}

static void next_group(job *j) {
    const ls_winograd_plan *plan = j->plan;
    const size_t width = (size_t)plan->kernels->width;
    const size_t in = (size_t)plan->in.blocks * width, out = (size_t)plan->out.blocks * width;
    const size_t taps = (size_t)(plan->kernel_h * plan->kernel_w);
    j->in = (const char *)j->in + in * (size_t)(plan->in.h * plan->in.w) * ls_dtype_bytes(plan->storage);
    j->out = (char *)j->out + out * (size_t)(plan->out.h * plan->out.w) * ls_dtype_bytes(plan->storage);
    if (j->weight) j->weight += in * out * taps;
    if (j->bias) j->bias += out;
    if (j->grad_weight) j->grad_weight += in * out * taps;
    if (j->grad_bias) j->grad_bias += out;
}

void ls_winograd_run(const ls_winograd_plan *plan, void *const *args, float *workspace, ls_pool *pool) {
    job j = { .plan = plan, .workspace = workspace };
    if (plan->op == LS_OP_CONV_FORWARD) {
        j.in = args[LS_CONV_FORWARD_SRC], j.out = args[LS_CONV_FORWARD_DST];
        j.weight = args[LS_CONV_FORWARD_WEIGHT], j.bias = args[LS_CONV_FORWARD_BIAS];
    } else if (plan->op == LS_OP_CONV_BACKWARD_DATA) {
        j.in = args[LS_CONV_BACKWARD_DATA_GRAD_DST], j.out = args[LS_CONV_BACKWARD_DATA_GRAD_SRC];
        j.weight = args[LS_CONV_BACKWARD_DATA_WEIGHT];
    } else {
        j.in = args[LS_CONV_BACKWARD_WEIGHT_SRC], j.out = args[LS_CONV_BACKWARD_WEIGHT_GRAD_DST];
        j.grad_weight = args[LS_CONV_BACKWARD_WEIGHT_GRAD_WEIGHT],
        j.grad_bias = args[LS_CONV_BACKWARD_WEIGHT_GRAD_BIAS];
    }
    for (int group = 0; group < plan->groups; group++, next_group(&j))
        (plan->op == LS_OP_CONV_BACKWARD_WEIGHT ? run_sum : run_product)(&j, pool);
}
