// op_check.c - properties of operators that do not depend on the device: name, number of arguments, assertions on the
// descriptor, operations.
#include "device/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// --- assertions ----------------------------------------------------------------------------------

// Ends the program, with a message, if a descriptor breaks a rule (`holds` is 0). This is a bug in the program: shape
// inference (model/shape_infer.c), the configuration and the trainer refuse every mistake that a user can make.
static void require(int holds, const ls_op_desc *desc, const char *tensor, const ls_nchw *s, const char *rule) {
    if (holds) return;
    fprintf(stderr, "error: a bug in this program: layer %s: %s: %s", desc->layer ? desc->layer : "(unnamed)",
        ls_op_name(desc->op), tensor);
    if (s) fprintf(stderr, " is %dx%dx%dx%d", s->n, s->c, s->h, s->w);
    fprintf(stderr, ", which breaks the rule %s\n", rule);
    abort();
}

// REQUIRE names a tensor of the attributes `a` and its shape in the message, REQUIRE_OF only the given name.
#define REQUIRE(tensor, rule) require(rule, desc, #tensor, &a->tensor, #rule)
#define REQUIRE_OF(name, rule) require(rule, desc, name, NULL, #rule)

static int is_shape(ls_nchw s) {
    return s.n >= 1 && s.c >= 1 && s.h >= 1 && s.w >= 1;
}

static int is_float(ls_dtype type) {
    return type == LS_F32 || type == LS_BF16 || type == LS_F16;
}

// Whether a sliding window makes `out` rows (or columns) from `in` rows (or columns).
static int slides(int in, int out, int window, int stride, int pad) {
    const int span = in + 2 * pad - window;
    return window >= 1 && stride >= 1 && pad >= 0 && span >= 0 && out == span / stride + 1;
}

// Like slides, but one more window may reach beyond the padding at the end.
static int slides_up(int in, int out, int window, int stride, int pad) {
    return slides(in, out, window, stride, pad) ||
           (slides(in, out - 1, window, stride, pad) && (out - 1) * stride < in + pad);
}

static void check_conv(const ls_op_desc *desc) {
    const ls_conv_attr *a = &desc->attr.conv;
    REQUIRE(src, is_shape(a->src) && a->dilation >= 1);
    REQUIRE(dst, is_shape(a->dst) && a->dst.n == a->src.n);
    REQUIRE(dst, slides(a->src.h, a->dst.h, a->dilation * (a->kernel_h - 1) + 1, a->stride_h, a->pad_h));
    REQUIRE(dst, slides(a->src.w, a->dst.w, a->dilation * (a->kernel_w - 1) + 1, a->stride_w, a->pad_w));
    REQUIRE(src, a->groups >= 1 && a->src.c % a->groups == 0);
    REQUIRE(dst, a->dst.c % a->groups == 0);
}

static void check_linear(const ls_op_desc *desc) {
    const ls_linear_attr *a = &desc->attr.linear;
    REQUIRE(src, is_shape(a->src));
    REQUIRE_OF("dst", a->out_features >= 1);
}

static void check_norm(const ls_op_desc *desc) {
    const ls_norm_attr *a = &desc->attr.norm;
    const int k = a->pool_kernel, is_relu = a->activation == LS_ACTIVATION_RELU;
    const int64_t values = (int64_t)a->shape.n * a->shape.h * a->shape.w; // in a channel
    REQUIRE(shape, is_shape(a->shape));
    REQUIRE_OF("eps", a->eps > 0);
    REQUIRE_OF("stored statistics", !a->stored || (desc->op == LS_OP_NORM_BACKWARD && k == 0));
    REQUIRE(shape, desc->op == LS_OP_NORM_INFERENCE || a->stored || values >= 2);
    REQUIRE_OF("residual", !a->residual || a->activation <= LS_ACTIVATION_RELU);
    REQUIRE_OF("activation", ls_activation_keeps_zero(a->activation));
    REQUIRE_OF("residual", !a->adds_last || (a->residual && is_relu && k == 0));
    if (k == 0) return;
    REQUIRE(pooled, is_relu && k * k < LS_POOL_NONE_U8 && 2 * a->pool_pad <= k);
    REQUIRE(pooled, is_shape(a->pooled) && a->pooled.n == a->shape.n && a->pooled.c == a->shape.c);
    REQUIRE(pooled, slides(a->shape.h, a->pooled.h, k, a->pool_stride, a->pool_pad));
    REQUIRE(pooled, slides(a->shape.w, a->pooled.w, k, a->pool_stride, a->pool_pad));
}

static void check_pool(const ls_op_desc *desc) {
    const ls_pool_attr *a = &desc->attr.pool;
    const int is_max = a->kind == LS_POOL_MAX;
    REQUIRE(src, is_shape(a->src));
    REQUIRE(dst, is_shape(a->dst) && a->dst.n == a->src.n && a->dst.c == a->src.c);
    if (a->kind == LS_POOL_AVERAGE && a->stride_h == 0 && a->stride_w == 0) {
        REQUIRE_OF("window", a->kernel_h == (a->src.h + a->dst.h - 1) / a->dst.h && a->pad_h == 0);
        REQUIRE_OF("window", a->kernel_w == (a->src.w + a->dst.w - 1) / a->dst.w && a->pad_w == 0);
    } else {
        REQUIRE(dst, (is_max ? slides_up : slides)(a->src.h, a->dst.h, a->kernel_h, a->stride_h, a->pad_h));
        REQUIRE(dst, (is_max ? slides_up : slides)(a->src.w, a->dst.w, a->kernel_w, a->stride_w, a->pad_w));
    }
    REQUIRE_OF("padding", 2 * a->pad_h <= a->kernel_h && 2 * a->pad_w <= a->kernel_w);
    REQUIRE_OF("window", (int64_t)a->kernel_h * a->kernel_w <= LS_POOL_WINDOW_MAX);
    REQUIRE_OF("index", desc->op != LS_OP_POOL_BACKWARD || !is_max ||
                            a->training); // the forward pass writes the index only if training
    REQUIRE_OF("relu or bias", is_max || (!a->relu && !a->has_bias));
}

static void check_elementwise(const ls_op_desc *desc) {
    const ls_elementwise_attr *a = &desc->attr.elementwise;
    REQUIRE(shape, is_shape(a->shape));
    REQUIRE_OF("factor", desc->op != LS_OP_SCALE || isfinite(a->factor));
    if (desc->op != LS_OP_DROPOUT) return;
    REQUIRE_OF("p", a->p >= 0 && a->p < 1);
    REQUIRE_OF(
        "unit", a->unit == 1 || a->unit == a->shape.h * a->shape.w || a->unit == a->shape.c * a->shape.h * a->shape.w);
}

static void check_gate(const ls_op_desc *desc) {
    const ls_gate_attr *a = &desc->attr.gate;
    REQUIRE(shape, is_shape(a->shape));
}

static void check_channels(const ls_op_desc *desc) {
    const ls_channels_attr *a = &desc->attr.channels;
    const ls_nchw copied = ls_channels_copied(a), whole = a->spread ? a->dst : a->src;
    const int read = a->alternate ? 2 * a->count - 1 : a->count, written = a->interleave ? 2 * a->count : a->count;
    REQUIRE(src, is_shape(a->src) && a->count >= 1 && a->from >= 0 && a->from <= a->src.c - read);
    REQUIRE(dst, is_shape(a->dst) && a->to >= 0 && a->to <= a->dst.c - written && a->dst.n == a->src.n);
    REQUIRE_OF("stride", a->stride >= 1 && (!a->keep || !a->spread));
    REQUIRE_OF("interleave", !a->interleave || (!a->alternate && !a->two_sources));
    REQUIRE(dst, copied.h == (whole.h - 1) / a->stride + 1 && copied.w == (whole.w - 1) / a->stride + 1);
}

static void check_group_norm(const ls_op_desc *desc) {
    const ls_group_norm_attr *a = &desc->attr.group_norm;
    REQUIRE(shape, is_shape(a->shape) && a->groups >= 1 && a->shape.c % a->groups == 0);
    REQUIRE_OF("over", a->over == LS_NORM_OVER_GROUPS || a->groups == 1);
    REQUIRE_OF("affine", a->over != LS_NORM_OVER_NOTHING || a->affine);
    if (a->over == LS_NORM_OVER_NOTHING) return;
    REQUIRE(shape, ls_group_norm_count(a) >= 2);
    REQUIRE_OF("eps", a->eps > 0);
}

static void check_quantise(const ls_op_desc *desc) {
    const ls_quantise_attr *a = &desc->attr.quantise;
    if (desc->op == LS_OP_FAKE_QUANTISE_WEIGHT)
        REQUIRE_OF("param", ls_param_count(&a->param) >= 1);
    else
        REQUIRE(shape, is_shape(a->shape));
}

static void check_augment(const ls_op_desc *desc) {
    const ls_augment_attr *a = &desc->attr.augment;
    const int is_gray_or_colour = a->shape.c == 1 || a->shape.c == LS_TRIVIAL_CHANNELS_MAX;
    REQUIRE(shape, is_shape(a->shape) && (desc->op != LS_OP_TRIVIAL_AUGMENT || is_gray_or_colour));
}

static void check_resize(const ls_op_desc *desc) {
    const ls_resize_attr *a = &desc->attr.resize;
    REQUIRE(src, is_shape(a->src) && a->src.h <= LS_RESIZE_SIDE_MAX && a->src.w <= LS_RESIZE_SIDE_MAX);
    REQUIRE(dst, is_shape(a->dst) && a->dst.h <= LS_RESIZE_SIDE_MAX && a->dst.w <= LS_RESIZE_SIDE_MAX);
    REQUIRE(dst, a->dst.n == a->src.n && a->dst.c == a->src.c);
}

static void check_loss(const ls_op_desc *desc) {
    const ls_loss_attr *a = &desc->attr.loss;
    REQUIRE(logits, is_shape(a->logits) && a->logits.h == 1 && a->logits.w == 1);
    REQUIRE_OF("smoothing", a->smoothing >= 0 && a->smoothing <= 1);
    REQUIRE_OF("scale", isfinite(a->scale));
    REQUIRE_OF("teacher's share", a->teacher_share >= 0 && a->teacher_share <= 1);
    REQUIRE_OF("focal_gamma", a->focal_gamma >= 0 && isfinite(a->focal_gamma));
    REQUIRE_OF("teacher's share", a->teacher_share == 0 || (!a->several && a->focal_gamma == 0));
    if (desc->op != LS_OP_HEAD) return;
    REQUIRE_OF("loss", a->teacher_share == 0 && !a->several && a->focal_gamma == 0);
    REQUIRE(src, is_shape(a->src) && a->src.n == a->logits.n && ls_head_fits(a->src, a->logits.c));
    REQUIRE_OF("gradient", a->training);
}

static void check_distill(const ls_op_desc *desc) {
    const ls_distill_attr *a = &desc->attr.distill;
    REQUIRE(logits, is_shape(a->logits) && a->logits.h == 1 && a->logits.w == 1);
    REQUIRE_OF("temperature", a->temperature > 0 && isfinite(a->temperature));
    REQUIRE_OF("share", a->share >= 0 && a->share <= 1);
}

static void check_flat(const ls_op_desc *desc) {
    const ls_flat_attr *a = &desc->attr.flat;
    const int casts = desc->op == LS_OP_CAST || desc->op == LS_OP_CAST_TO_F32 || desc->op == LS_OP_WIDEN;
    const int is_fixed = desc->op == LS_OP_TO_FIXED_POINT || desc->op == LS_OP_FROM_FIXED_POINT;
    REQUIRE_OF("elements", a->count >= 1);
    REQUIRE_OF("storage", !casts || is_float(a->storage));
    REQUIRE_OF("fraction", !is_fixed || (a->fraction_bits >= 0 && a->fraction_bits <= 62 - LS_FIXED_RANK_BITS));
}

static void check_step_control(const ls_op_desc *desc) {
    const ls_step_control_attr *a = &desc->attr.step_control;
    REQUIRE_OF("elements", a->count >= 1);
    REQUIRE_OF("storage", is_float(a->storage));
    REQUIRE_OF("records", a->records >= 0);
    REQUIRE_OF("clip_norm", a->clip_norm >= 0);
    if (!a->dynamic) return;
    REQUIRE_OF("growth", a->growth >= 1 && a->growth_interval >= 1);
    REQUIRE_OF("backoff", a->backoff > 0 && a->backoff <= 1);
    REQUIRE_OF("minimum", a->minimum > 0 && a->minimum <= a->maximum);
}

static void check_segment(const ls_op_desc *desc, const ls_step_segment *segment, int is_last) {
    const int is_statistics = segment->rate == LS_SEGMENT_STATISTICS;
    REQUIRE_OF("segment", segment->count >= 1 && (is_last || segment->count % LS_SEGMENT_ELEMENTS == 0));
    REQUIRE_OF("segment", segment->rate >= LS_SEGMENT_STATISTICS && segment->rate < LS_RATES_MAX);
    REQUIRE_OF("momentum", segment->momentum >= 0 && (is_statistics ? segment->momentum <= 1 : segment->momentum < 1));
    if (desc->op != LS_OP_MUON) return;
    REQUIRE_OF("segment", !is_statistics);
    REQUIRE_OF("tensor of a segment",
        segment->rate == LS_SEGMENT_IDLE || (segment->shape && ls_param_count(segment->shape) <= segment->count));
}

static void check_optimizer(const ls_op_desc *desc) {
    const ls_optimizer_attr *a = &desc->attr.optimizer;
    const int divides = desc->op == LS_OP_ADAMW || desc->op == LS_OP_RMSPROP || desc->op == LS_OP_LARS;
    int64_t covered = 0;
    REQUIRE_OF("elements", a->count >= 1);
    for (int s = 0; s < a->segment_count; s++) {
        check_segment(desc, &a->segments[s], s + 1 == a->segment_count);
        covered += a->segments[s].count;
    }
    REQUIRE_OF("segments", covered == a->count);
    REQUIRE_OF("beta1", a->beta1 >= 0 && a->beta1 < 1);
    REQUIRE_OF("beta2", a->beta2 >= 0 && a->beta2 < 1);
    REQUIRE_OF("eps", a->eps > 0 || !divides);
}

// --- work: units of work in one run; ops.def gives the operations for each unit --------------------

// Returns the operations of a convolution, each a multiplication or an addition. linear_work counts operations, too;
// pool_work counts the elements of all windows.
static double conv_work(const ls_op_desc *desc) {
    const ls_conv_attr *a = &desc->attr.conv;
    if (a->bias_only) return (double)ls_nchw_count(a->dst);
    return 2.0 * (double)ls_nchw_count(a->dst) * (a->src.c / a->groups) * ls_conv_taps(a);
}

static double linear_work(const ls_op_desc *desc) {
    const ls_linear_attr *a = &desc->attr.linear;
    if (a->bias_only) return (double)a->src.n * a->out_features;
    return 2.0 * (double)ls_nchw_count(a->src) * a->out_features;
}

static double pool_work(const ls_op_desc *desc) {
    const ls_pool_attr *a = &desc->attr.pool;
    return (double)ls_nchw_count(a->dst) * a->kernel_h * a->kernel_w;
}

// Returns the number of elements of the pictures. The other functions below, except head and Muon, count elements, too.
static double augment_work(const ls_op_desc *desc) {
    return (double)ls_nchw_count(desc->attr.augment.shape);
}

static double resize_work(const ls_op_desc *desc) {
    return (double)ls_nchw_count(desc->attr.resize.dst);
}

static double norm_work(const ls_op_desc *desc) {
    return (double)ls_nchw_count(desc->attr.norm.shape);
}

static double elementwise_work(const ls_op_desc *desc) {
    return (double)ls_nchw_count(desc->attr.elementwise.shape);
}

static double gate_work(const ls_op_desc *desc) {
    return (double)ls_nchw_count(desc->attr.gate.shape);
}

static double channels_work(const ls_op_desc *desc) {
    return (double)ls_nchw_count(desc->attr.channels.dst);
}

static double group_norm_work(const ls_op_desc *desc) {
    return (double)ls_nchw_count(desc->attr.group_norm.shape);
}

static double quantise_work(const ls_op_desc *desc) {
    const ls_quantise_attr *a = &desc->attr.quantise;
    return (double)(desc->op == LS_OP_FAKE_QUANTISE_WEIGHT ? ls_param_count(&a->param) : ls_nchw_count(a->shape));
}

// The unit of work of a head is one operation.
static double loss_work(const ls_op_desc *desc) {
    enum { OF_A_LOGIT = 5 };
    const ls_loss_attr *a = &desc->attr.loss;
    const double logits = (double)ls_nchw_count(a->logits);
    if (desc->op == LS_OP_LOSS) return logits;
    return logits * (4.0 * a->src.c + OF_A_LOGIT) + 2 * (double)ls_nchw_count(a->src);
}

static double distill_work(const ls_op_desc *desc) {
    return (double)ls_nchw_count(desc->attr.distill.logits);
}

static double flat_work(const ls_op_desc *desc) {
    return (double)desc->attr.flat.count;
}

static double step_control_work(const ls_op_desc *desc) {
    return (double)desc->attr.step_control.count;
}

// The unit of work of Muon is one operation of its products.
static double muon_work(const ls_optimizer_attr *a) {
    double work = 0;
    for (int s = 0; s < a->segment_count; s++) {
        if (a->segments[s].rate == LS_SEGMENT_IDLE) continue;
        const double rows = a->segments[s].shape->dim[0], all = (double)ls_param_count(a->segments[s].shape);
        const double small = fmin(rows, all / rows);
        work += 2 * a->ns_steps * (2 * small * all + small * small * small);
    }
    return work;
}

static double optimizer_work(const ls_op_desc *desc) {
    return desc->op == LS_OP_MUON ? muon_work(&desc->attr.optimizer) : (double)desc->attr.optimizer.count;
}

// --- the tables ----------------------------------------------------------------------------------

static const struct {
    void (*check)(const ls_op_desc *desc);
    double (*work)(const ls_op_desc *desc);
    size_t storage; // offset of the storage type in ls_op_desc; 0: "none" in op_families.def
} families[LS_FAMILY_COUNT] = {
#define AT_storage(family) offsetof(ls_op_desc, attr.family.storage)
#define AT_none(family) 0
#define F(family, storage) [LS_FAMILY_##family] = { check_##family, family##_work, AT_##storage(family) },
#include "device/op_families.def"
};

static const struct {
    const char *name;
    ls_op_family family;
    int args;
    double flops;
} operators[LS_OP_COUNT] = {
#define X(NAME, name, text, family, flops) [LS_OP_##NAME] = { text, LS_FAMILY_##family, LS_##NAME##_ARGS, flops },
#include "device/ops.def"
};

#define X(NAME, name, text, family, flops) \
    _Static_assert((int)LS_##NAME##_ARGS <= (int)LS_OP_ARGS_MAX, text " has too many arguments");
#include "device/ops.def"

void ls_op_check(const ls_op_desc *desc) {
    REQUIRE_OF("storage", is_float(ls_op_storage(desc)));
    families[ls_op_family_of(desc->op)].check(desc);
}

const char *ls_op_name(ls_op op) {
    return operators[op].name;
}

int ls_op_args(ls_op op) {
    return operators[op].args;
}

ls_op_family ls_op_family_of(ls_op op) {
    return operators[op].family;
}

ls_dtype ls_op_storage(const ls_op_desc *desc) {
    const size_t at = families[ls_op_family_of(desc->op)].storage;
    return at ? *(const ls_dtype *)(const void *)((const char *)desc + at) : LS_F32;
}

double ls_op_work(const ls_op_desc *desc) {
    return families[ls_op_family_of(desc->op)].work(desc);
}

double ls_op_flops(const ls_op_desc *desc) {
    return ls_op_work(desc) * operators[desc->op].flops;
}

size_t ls_pool_index_bytes(const ls_pool_attr *attr, size_t dst_elements) {
    if (attr->kind != LS_POOL_MAX || !attr->training) return 0;
    return attr->kernel_h * attr->kernel_w < LS_POOL_NONE_U8 ? dst_elements : 2 * dst_elements;
}
