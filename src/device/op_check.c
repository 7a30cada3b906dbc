// op_check.c - what every operator has without a device: name, number of arguments, legal geometry, cost.
#include "device/device.h"

#include <math.h>
#include <stdio.h>

enum { SHAPE_BYTES = 64 };

static const char *shape_text(char text[SHAPE_BYTES], ls_nchw s) {
    snprintf(text, SHAPE_BYTES, "%dx%dx%dx%d", s.n, s.c, s.h, s.w);
    return text;
}

#define FAIL(desc, format, ...) \
    ls_fail(LS_USAGE, "layer %s: %s: " format, (desc)->layer ? (desc)->layer : "(unnamed)", ls_op_name((desc)->op), \
        __VA_ARGS__)

static ls_status check_shape(const ls_op_desc *desc, const char *what, ls_nchw s) {
    char text[SHAPE_BYTES];
    if (s.n >= 1 && s.c >= 1 && s.h >= 1 && s.w >= 1) return LS_SUCCESS;
    return FAIL(desc, "%s is %s; every dimension must be at least 1", what, shape_text(text, s));
}

static ls_status check_storage(const ls_op_desc *desc, ls_dtype storage) {
    if (storage == LS_F32 || storage == LS_BF16 || storage == LS_F16) return LS_SUCCESS;
    return FAIL(desc, "storage type %s; it must be fp32, bf16 or fp16", ls_dtype_name(storage));
}

// One output dimension of a sliding window; 0 or less when the window does not fit.
static int out_size(int size, int window, int stride, int pad) {
    int span = size + 2 * pad - window;
    return span < 0 ? 0 : span / stride + 1;
}

static ls_status check_conv(const ls_op_desc *desc) {
    const ls_conv_attr *a = &desc->attr.conv;
    char src[SHAPE_BYTES], dst[SHAPE_BYTES], want[SHAPE_BYTES];
    LS_TRY(check_storage(desc, a->storage));
    LS_TRY(check_shape(desc, "src", a->src));
    if (a->kernel_h < 1 || a->kernel_w < 1 || a->stride_h < 1 || a->stride_w < 1 || a->pad_h < 0 || a->pad_w < 0 ||
        a->dilation < 1) {
        return FAIL(desc, "kernel %dx%d, stride %dx%d, padding %dx%d, dilation %d; at least 1, 1, 0, 1", a->kernel_h,
            a->kernel_w, a->stride_h, a->stride_w, a->pad_h, a->pad_w, a->dilation);
    }
    if (a->groups < 1 || a->src.c % a->groups || a->dst.c % a->groups) {
        return FAIL(
            desc, "%d groups do not divide %d input channels and %d output channels", a->groups, a->src.c, a->dst.c);
    }
    int window_h = a->dilation * (a->kernel_h - 1) + 1, window_w = a->dilation * (a->kernel_w - 1) + 1;
    ls_nchw expected = { a->src.n, a->dst.c, out_size(a->src.h, window_h, a->stride_h, a->pad_h),
        out_size(a->src.w, window_w, a->stride_w, a->pad_w) };
    if (expected.h < 1 || expected.w < 1) {
        return FAIL(desc,
            "src %s is smaller than the kernel: %dx%d with dilation %d covers %dx%d, and padding is %dx%d",
            shape_text(src, a->src), a->kernel_h, a->kernel_w, a->dilation, window_h, window_w, a->pad_h, a->pad_w);
    }
    LS_TRY(check_shape(desc, "dst", a->dst));
    if (a->dst.n != expected.n || a->dst.h != expected.h || a->dst.w != expected.w) {
        return FAIL(desc, "src %s with kernel %dx%d, stride %dx%d, padding %dx%d, dilation %d makes %s, but dst is %s",
            shape_text(src, a->src), a->kernel_h, a->kernel_w, a->stride_h, a->stride_w, a->pad_h, a->pad_w,
            a->dilation, shape_text(want, expected), shape_text(dst, a->dst));
    }
    return LS_SUCCESS;
}

static ls_status check_linear(const ls_op_desc *desc) {
    const ls_linear_attr *a = &desc->attr.linear;
    LS_TRY(check_storage(desc, a->storage));
    LS_TRY(check_shape(desc, "src", a->src));
    if (a->out_features < 1) return FAIL(desc, "out_features is %d; at least 1", a->out_features);
    return LS_SUCCESS;
}

static ls_status check_norm_pool(const ls_op_desc *desc) {
    const ls_norm_attr *a = &desc->attr.norm;
    char shape[SHAPE_BYTES], want[SHAPE_BYTES], pooled[SHAPE_BYTES];
    int k = a->pool_kernel;
    if (k < 1 || a->pool_stride < 1 || a->pool_pad < 0 || 2 * a->pool_pad > k || k * k >= LS_POOL_NONE_U8 ||
        a->activation != LS_ACTIVATION_RELU) {
        return FAIL(desc,
            "pooling of kernel %d, stride %d, padding %d%s; it needs a relu, a window of at most 254 elements "
            "and a padding of at most half the kernel",
            k, a->pool_stride, a->pool_pad, a->activation == LS_ACTIVATION_RELU ? "" : " without relu");
    }
    ls_nchw expected = { a->shape.n, a->shape.c, out_size(a->shape.h, k, a->pool_stride, a->pool_pad),
        out_size(a->shape.w, k, a->pool_stride, a->pool_pad) };
    if (expected.h >= 1 && expected.w >= 1 && a->pooled.n == expected.n && a->pooled.c == expected.c &&
        a->pooled.h == expected.h && a->pooled.w == expected.w)
        return LS_SUCCESS;
    return FAIL(desc, "src %s pooled by %d, stride %d, padding %d makes %s, but the pooled shape is %s",
        shape_text(shape, a->shape), k, a->pool_stride, a->pool_pad, shape_text(want, expected),
        shape_text(pooled, a->pooled));
}

static ls_status check_norm(const ls_op_desc *desc) {
    const ls_norm_attr *a = &desc->attr.norm;
    char shape[SHAPE_BYTES];
    LS_TRY(check_storage(desc, a->storage));
    LS_TRY(check_shape(desc, "src", a->shape));
    if (!(a->eps > 0)) return FAIL(desc, "eps is %g; it must be positive", (double)a->eps);
    if (a->stored && (desc->op != LS_OP_NORM_BACKWARD || a->pool_kernel))
        return FAIL(desc, "%s", "stored statistics are of batch norm backward, without pooling");
    if (desc->op != LS_OP_NORM_INFERENCE && !a->stored && (int64_t)a->shape.n * a->shape.h * a->shape.w < 2) {
        return FAIL(desc, "src %s has one value per channel, whose variance is undefined; it takes two at least",
            shape_text(shape, a->shape));
    }
    if (a->activation == LS_ACTIVATION_GELU && a->residual)
        return FAIL(desc, "%s", "a fused gelu goes without residual");
    if (a->adds_last && (!a->residual || a->activation != LS_ACTIVATION_RELU || a->pool_kernel))
        return FAIL(desc, "%s", "what is added last is a residual, behind a relu and without pooling");
    return a->pool_kernel ? check_norm_pool(desc) : LS_SUCCESS;
}

static ls_status check_pool(const ls_op_desc *desc) {
    const ls_pool_attr *a = &desc->attr.pool;
    char src[SHAPE_BYTES], dst[SHAPE_BYTES], want[SHAPE_BYTES];
    LS_TRY(check_storage(desc, a->storage));
    LS_TRY(check_shape(desc, "src", a->src));
    if (a->kernel_h < 1 || a->kernel_w < 1 || a->stride_h < 1 || a->stride_w < 1 || a->pad_h < 0 || a->pad_w < 0) {
        return FAIL(desc, "kernel %dx%d, stride %dx%d, padding %dx%d; at least 1, 1, 0", a->kernel_h, a->kernel_w,
            a->stride_h, a->stride_w, a->pad_h, a->pad_w);
    }
    if (2 * a->pad_h > a->kernel_h || 2 * a->pad_w > a->kernel_w) {
        return FAIL(
            desc, "padding %dx%d is more than half of the %dx%d kernel", a->pad_h, a->pad_w, a->kernel_h, a->kernel_w);
    }
    if ((int64_t)a->kernel_h * a->kernel_w > LS_POOL_WINDOW_MAX) {
        return FAIL(desc, "the %dx%d window has more than %d elements", a->kernel_h, a->kernel_w, LS_POOL_WINDOW_MAX);
    }
    if (desc->op == LS_OP_POOL_BACKWARD && a->kind == LS_POOL_MAX && !a->training) {
        return FAIL(desc, "%s", "max pooling has gradients only where its forward was planned with training = 1");
    }
    if ((a->relu || a->has_bias) && a->kind != LS_POOL_MAX)
        return FAIL(desc, "%s", "a fused relu or bias goes with max pooling only");
    ls_nchw expected = { a->src.n, a->src.c, out_size(a->src.h, a->kernel_h, a->stride_h, a->pad_h),
        out_size(a->src.w, a->kernel_w, a->stride_w, a->pad_w) };
    if (expected.h < 1 || expected.w < 1) {
        return FAIL(desc, "src %s is smaller than the %dx%d window with padding %dx%d", shape_text(src, a->src),
            a->kernel_h, a->kernel_w, a->pad_h, a->pad_w);
    }
    if (a->dst.n != expected.n || a->dst.c != expected.c || a->dst.h != expected.h || a->dst.w != expected.w) {
        return FAIL(desc, "src %s with a %dx%d window, stride %dx%d, padding %dx%d makes %s, but dst is %s",
            shape_text(src, a->src), a->kernel_h, a->kernel_w, a->stride_h, a->stride_w, a->pad_h, a->pad_w,
            shape_text(want, expected), shape_text(dst, a->dst));
    }
    return LS_SUCCESS;
}

static ls_status check_elementwise(const ls_op_desc *desc) {
    const ls_elementwise_attr *a = &desc->attr.elementwise;
    LS_TRY(check_storage(desc, a->storage));
    LS_TRY(check_shape(desc, "src", a->shape));
    if (desc->op == LS_OP_SCALE && !isfinite(a->factor)) return FAIL(desc, "factor is %g", (double)a->factor);
    if (desc->op == LS_OP_DROPOUT && !(a->p >= 0 && a->p < 1)) {
        return FAIL(desc, "p is %g; it must be at least 0 and below 1", (double)a->p);
    }
    return LS_SUCCESS;
}

static ls_status check_gate(const ls_op_desc *desc) {
    LS_TRY(check_storage(desc, desc->attr.gate.storage));
    return check_shape(desc, "src", desc->attr.gate.shape);
}

static ls_status check_channels(const ls_op_desc *desc) {
    const ls_channels_attr *a = &desc->attr.channels;
    char src[SHAPE_BYTES], dst[SHAPE_BYTES];
    LS_TRY(check_storage(desc, a->storage));
    LS_TRY(check_shape(desc, "src", a->src));
    LS_TRY(check_shape(desc, "dst", a->dst));
    if (a->count < 1 || a->from < 0 || a->to < 0 || a->from > a->src.c - a->count || a->to > a->dst.c - a->count) {
        return FAIL(desc, "%d channels from %d of src %s to %d of dst %s; there are not so many", a->count, a->from,
            shape_text(src, a->src), a->to, shape_text(dst, a->dst));
    }
    if (a->stride < 1 || (a->keep && a->spread))
        return FAIL(desc, "stride %d%s; at least 1, and keep goes without spread", a->stride,
            a->keep && a->spread ? ", keep and spread" : "");
    const ls_nchw copied = ls_channels_copied(a), whole = a->spread ? a->dst : a->src;
    if (a->src.n == a->dst.n && copied.h == (whole.h - 1) / a->stride + 1 && copied.w == (whole.w - 1) / a->stride + 1)
        return LS_SUCCESS;
    return FAIL(desc, "src %s and dst %s do not go together with stride %d%s", shape_text(src, a->src),
        shape_text(dst, a->dst), a->stride, a->spread ? ", spread" : "");
}

static ls_status check_group_norm(const ls_op_desc *desc) {
    const ls_group_norm_attr *a = &desc->attr.group_norm;
    char shape[SHAPE_BYTES];
    LS_TRY(check_storage(desc, a->storage));
    LS_TRY(check_shape(desc, "src", a->shape));
    if (!(a->eps > 0)) return FAIL(desc, "eps is %g; it must be positive", (double)a->eps);
    if (a->groups < 1 || a->shape.c % a->groups || ls_group_norm_count(a) < 2) {
        return FAIL(desc, "%d groups of src %s; they must divide the channels and have two elements at least",
            a->groups, shape_text(shape, a->shape));
    }
    return LS_SUCCESS;
}

// An option of 0 is off, whatever may be configured.
static ls_status check_augmentation(const ls_op_desc *desc, const ls_augmentation *a, ls_chw picture) {
#define OPTION(key, TYPE, def, min, max, unit, what) \
    if ((min) < (max) && a->key != 0 && (a->key < (min) || a->key > (max))) \
        return FAIL(desc, #key " is %g; %g to %g", (double)a->key, (double)(min), (double)(max));
#define LIMIT(key, condition, most, message) \
    if ((condition) && a->key > (most)) return FAIL(desc, #key " is %d: " message, a->key, picture.h, picture.w, most);
#include "base/augmentations.def"
    return LS_SUCCESS;
}

static ls_status check_augment(const ls_op_desc *desc) {
    const ls_augment_attr *a = &desc->attr.augment;
    LS_TRY(check_storage(desc, a->storage));
    LS_TRY(check_shape(desc, "pixels", a->shape));
    return check_augmentation(desc, &a->augmentation, (ls_chw){ a->shape.c, a->shape.h, a->shape.w });
}

static ls_status check_resize(const ls_op_desc *desc) {
    const ls_resize_attr *a = &desc->attr.resize;
    const ls_nchw shapes[2] = { a->src, a->dst };
    char src[SHAPE_BYTES], dst[SHAPE_BYTES];
    LS_TRY(check_storage(desc, a->storage));
    for (int i = 0; i < 2; i++) {
        LS_TRY(check_shape(desc, i ? "dst" : "src", shapes[i]));
        if (shapes[i].h > LS_RESIZE_SIDE_MAX || shapes[i].w > LS_RESIZE_SIDE_MAX)
            return FAIL(desc, "%s is %s; sides of at most %d", i ? "dst" : "src", shape_text(src, shapes[i]),
                LS_RESIZE_SIDE_MAX);
    }
    if (a->src.n == a->dst.n && a->src.c == a->dst.c) return LS_SUCCESS;
    return FAIL(desc, "src %s and dst %s may differ in height and width alone", shape_text(src, a->src),
        shape_text(dst, a->dst));
}

static ls_status check_head(const ls_op_desc *desc) {
    const ls_loss_attr *a = &desc->attr.loss;
    char src[SHAPE_BYTES];
    LS_TRY(check_shape(desc, "src", a->src));
    if (a->training && a->src.n == a->logits.n && ls_head_fits(a->src, a->logits.c)) return LS_SUCCESS;
    return FAIL(desc,
        "src is %s for %d logits of %d samples%s; a head is of training, with at most %d classes, %d channels, %d "
        "weights "
        "and %d elements a sample",
        shape_text(src, a->src), a->logits.c, a->logits.n, a->training ? "" : " in evaluation", LS_HEAD_CLASSES,
        LS_HEAD_CHANNELS, LS_HEAD_WEIGHTS, LS_HEAD_MAP);
}

static ls_status check_loss(const ls_op_desc *desc) {
    const ls_loss_attr *a = &desc->attr.loss;
    char shape[SHAPE_BYTES];
    LS_TRY(check_storage(desc, a->storage));
    LS_TRY(check_shape(desc, "logits", a->logits));
    if (a->logits.h != 1 || a->logits.w != 1) {
        return FAIL(desc, "logits are %s; they must be one vector per sample (height and width 1)",
            shape_text(shape, a->logits));
    }
    if (!(a->smoothing >= 0 && a->smoothing <= 1)) {
        return FAIL(desc, "label smoothing is %g; 0 to 1", (double)a->smoothing);
    }
    if (!isfinite(a->scale)) return FAIL(desc, "the logits' scale is %g", (double)a->scale);
    if (desc->op == LS_OP_HEAD) LS_TRY(check_head(desc));
    return LS_SUCCESS;
}

static ls_status check_flat(const ls_op_desc *desc) {
    const ls_flat_attr *a = &desc->attr.flat;
    if (a->count < 1) return FAIL(desc, "%lld elements; at least 1", (long long)a->count);
    if (desc->op == LS_OP_CAST || desc->op == LS_OP_CAST_TO_F32 || desc->op == LS_OP_WIDEN)
        LS_TRY(check_storage(desc, a->storage));
    if ((desc->op == LS_OP_TO_FIXED_POINT || desc->op == LS_OP_FROM_FIXED_POINT) &&
        (a->fraction_bits < 0 || a->fraction_bits > 62 - LS_FIXED_RANK_BITS)) {
        return FAIL(desc, "%d fraction bits; 0 to %d", a->fraction_bits, 62 - LS_FIXED_RANK_BITS);
    }
    return LS_SUCCESS;
}

static ls_status check_step_control(const ls_op_desc *desc) {
    const ls_step_control_attr *a = &desc->attr.step_control;
    if (a->count < 1) return FAIL(desc, "%lld elements; at least 1", (long long)a->count);
    LS_TRY(check_storage(desc, a->storage));
    if (a->records < 0) return FAIL(desc, "%d records; at least 0", a->records);
    if (!(a->clip_norm >= 0)) return FAIL(desc, "clip_norm is %g; at least 0", (double)a->clip_norm);
    if (!a->dynamic) return LS_SUCCESS;
    if (!(a->growth >= 1 && a->backoff > 0 && a->backoff <= 1 && a->growth_interval >= 1)) {
        return FAIL(desc, "loss scale growth %g, backoff %g, interval %d; at least 1, in (0, 1], at least 1",
            (double)a->growth, (double)a->backoff, a->growth_interval);
    }
    if (!(a->minimum > 0 && a->minimum <= a->maximum)) {
        return FAIL(desc, "loss scale from %g to %g; 0 < minimum <= maximum", (double)a->minimum, (double)a->maximum);
    }
    return LS_SUCCESS;
}

static ls_status check_optimizer(const ls_op_desc *desc) {
    const ls_optimizer_attr *a = &desc->attr.optimizer;
    LS_TRY(check_storage(desc, a->storage));
    if (a->count < 1) return FAIL(desc, "%lld elements; at least 1", (long long)a->count);
    int64_t covered = 0;
    for (int s = 0; s < a->segment_count; s++) {
        const int64_t count = a->segments[s].count;
        const int moves = a->segments[s].rate == LS_SEGMENT_STATISTICS;
        if (count < 1 || (s + 1 < a->segment_count && count % LS_SEGMENT_ELEMENTS))
            return FAIL(desc, "segment %d has %lld elements; a multiple of %d is wanted, but for the last", s,
                (long long)count, LS_SEGMENT_ELEMENTS);
        covered += count;
        if (a->segments[s].rate < LS_SEGMENT_STATISTICS || a->segments[s].rate >= LS_RATES_MAX)
            return FAIL(desc, "segment %d has rate %d; %d to %d", s, a->segments[s].rate, LS_SEGMENT_STATISTICS,
                LS_RATES_MAX - 1);
        if (moves && desc->op == LS_OP_MUON) return FAIL(desc, "segment %d is of statistics, no tensor", s);
        if (moves && !(a->segments[s].momentum >= 0 && a->segments[s].momentum <= 1))
            return FAIL(desc, "momentum of statistics is %g; 0 to 1", (double)a->segments[s].momentum);
        if (!moves && !(a->segments[s].momentum >= 0 && a->segments[s].momentum < 1))
            return FAIL(desc, "momentum is %g; at least 0 and below 1", (double)a->segments[s].momentum);
    }
    if (covered != a->count)
        return FAIL(desc, "the segments cover %lld of %lld elements", (long long)covered, (long long)a->count);
    for (int s = 0; desc->op == LS_OP_MUON && s < a->segment_count; s++)
        if (a->segments[s].rate != LS_SEGMENT_IDLE &&
            (!a->segments[s].shape || ls_param_count(a->segments[s].shape) > a->segments[s].count))
            return FAIL(desc, "segment %d is no tensor", s);
    int divides = desc->op == LS_OP_ADAMW || desc->op == LS_OP_LARS;
    if (a->beta1 >= 0 && a->beta1 < 1 && a->beta2 >= 0 && a->beta2 < 1 && (a->eps > 0 || !divides)) return LS_SUCCESS;
    return FAIL(desc, "beta1 %g, beta2 %g, eps %g; betas at least 0 and below 1, eps positive", a->beta1, a->beta2,
        (double)a->eps);
}

// --- work: what one run counts; ops.def has the operations for each --------------------------------

// Multiplications and additions, as everything else that is not element-wise.
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

// Of the others: elements.
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

// A head counts its operations by itself.
static double loss_work(const ls_op_desc *desc) {
    enum { OF_A_LOGIT = 5 };
    const ls_loss_attr *a = &desc->attr.loss;
    const double logits = (double)ls_nchw_count(a->logits);
    if (desc->op == LS_OP_LOSS) return logits;
    return logits * (4.0 * a->src.c + OF_A_LOGIT) + 2 * (double)ls_nchw_count(a->src);
}

static double flat_work(const ls_op_desc *desc) {
    return (double)desc->attr.flat.count;
}

static double step_control_work(const ls_op_desc *desc) {
    return (double)desc->attr.step_control.count;
}

// Muon counts the operations of its products by itself.
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
    ls_status (*check)(const ls_op_desc *desc);
    double (*work)(const ls_op_desc *desc);
    size_t storage; // where the descriptor has its type; 0: it has none
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

ls_status ls_op_check(const ls_op_desc *desc) {
    return families[ls_op_family_of(desc->op)].check(desc);
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
