// Layers on the reference device against PyTorch. Values are small multiples of 1/4, so that sums are exact,
// and a whole tensor is compared by one weighted sum.
// The constants come from PyTorch in double (kept here so that tests run without it):
//
//   def v(a, *shape):  # values
//       i = torch.arange(math.prod(shape)); return (((i * a + 3) % 11 - 5).double() / 4).reshape(shape)
//   def check(t):      # the weighted sum
//       t = t.flatten(); return float((t * ((torch.arange(len(t)) % 13) - 6)).sum())
//   x, w, b = v(2, n,c,h,w), v(3, k,c//g,r,r), v(5, k)
//   y = F.conv2d(x, w, b, stride, pad, dilation, groups)
//   y.backward(v(7, *y.shape))
//   print(check(y), check(x.grad), check(w.grad), check(b.grad))
//
// and so on for linear, max_pool2d, avg_pool2d, interpolate(size=(p, q), mode="bilinear", align_corners=False);
// batch_norm:
//
//   x, residual, gamma, beta = v(2, 3,4,3,5), v(7, 3,4,3,5), v(3, 4) + 2, v(5, 4)
//   y.backward(v(7, ...) + v(4, ...))
#include "device/op_harness.h"
#include "device/ref_device.h"
#include "support/cmocka.h"

static void fill(op_arg *arg, int factor, float plus) {
    float *values = arg->host;
    for (size_t i = 0; i < arg->count; i++) values[i] = (float)((int)(i * (size_t)factor + 3) % 11 - 5) / 4 + plus;
}

static void fill_zero(op_arg *arg) {
    memset(arg->host, 0, arg->count * sizeof(float));
}

static double weighted_sum(const double *values, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += values[i] * ((double)(i % 13) - 6);
    return sum;
}

// Runs and frees the case; sums[i] is the weighted sum of argument i.
static void run(op_case *c, double sums[LS_OP_ARGS_MAX]) {
    double *values[LS_OP_ARGS_MAX] = { 0 };
    size_t counts[LS_OP_ARGS_MAX] = { 0 };
    ls_status status = case_run(ref, c, values, counts);
    if (ls_failed(status)) fail_msg("%s: %s", c->name, status.text);
    for (int i = 0; i < LS_OP_ARGS_MAX; i++) {
        sums[i] = values[i] ? weighted_sum(values[i], counts[i]) : 0;
        free(values[i]);
    }
    case_free(c);
}

static void expect(const char *name, const char *what, double got, double expected, double allowed) {
    if (!(fabs(got - expected) <= allowed)) fail_msg("%s: %s is %.9g, PyTorch has %.9g", name, what, got, expected);
}

static const struct {
    conv_row row;
    int more_kernel, more_pad, more_stride; // of rows, beyond those of columns
    double dst, grad_src, grad_weight, grad_bias;
} convs[] = {
    { { "plain", { 2, 3, 7, 9 }, 5, 3, 1, 0, 1, 1, 1 }, 0, 0, 0, 172.75, 294.25, -12.25, -8.75 },
    { { "stride", { 3, 5, 7, 9 }, 3, 3, 2, 1, 1, 1, 1 }, 0, 0, 0, 184.0625, -26.375, 88.0625, -3.25 },
    { { "dilation, groups", { 2, 4, 9, 11 }, 6, 3, 1, 2, 2, 2, 1 }, 0, 0, 0, 35.8125, 181.9375, 63.25, 0.0 },
    { { "depthwise, stride", { 1, 6, 8, 7 }, 6, 3, 2, 1, 1, 6, 1 }, 0, 0, 0, 9.875, 40.25, -40.25, -3.75 },
    { { "1x1, stride, padding", { 2, 3, 5, 5 }, 4, 1, 2, 1, 1, 1, 1 }, 0, 0, 0, 20.625, 47.9375, -38.5625, -2.25 },
    { { "3x5, stride 2x1, padding 1x2", { 2, 3, 9, 11 }, 5, 5, 1, 2, 1, 1, 1 }, -2, -1, 1, -98.0625, -27.4375, -130.0,
        0.0 },
    { { "5x1, groups", { 2, 6, 8, 5 }, 4, 1, 1, 0, 1, 2, 1 }, 4, 2, 0, 35.875, 154.6875, -333.75, 1.75 },
    { { "2x3, dilation, stride 1x3", { 3, 2, 7, 13 }, 3, 3, 3, 2, 2, 1, 1 }, -1, -2, -2, -42.4375, -15.8125, -61.1875,
        -5.25 },
};

static void convolution(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof convs / sizeof *convs; i++) {
        const char *name = convs[i].row.name;
        ls_conv_attr a =
            oblong_conv_attr(&convs[i].row, convs[i].more_kernel, convs[i].more_pad, convs[i].more_stride, LS_F32);
        ls_param_shape weight = { LS_PARAM_CONV, { a.dst.c, a.src.c / a.groups, a.kernel_h, a.kernel_w }, a.groups };
        double sums[LS_OP_ARGS_MAX];
        op_case *c = case_new(LS_OP_CONV_FORWARD, LS_F32, name, "");
        c->desc.attr.conv = a;
        fill(case_activation(c, LS_CONV_FORWARD_SRC, USE_IN, a.src, 0), 2, 0);
        fill(case_param(c, LS_CONV_FORWARD_WEIGHT, ARG_WORKING, USE_IN, weight, 0), 3, 0);
        fill(case_vector(c, LS_CONV_FORWARD_BIAS, USE_IN, a.dst.c, 0), 5, 0);
        case_activation(c, LS_CONV_FORWARD_DST, USE_OUT, a.dst, 0);
        run(c, sums);
        expect(name, "dst", sums[LS_CONV_FORWARD_DST], convs[i].dst, 0);

        c = case_new(LS_OP_CONV_BACKWARD_DATA, LS_F32, name, "");
        c->desc.attr.conv = a;
        fill(case_activation(c, LS_CONV_BACKWARD_DATA_GRAD_DST, USE_IN, a.dst, 0), 7, 0);
        fill(case_param(c, LS_CONV_BACKWARD_DATA_WEIGHT, ARG_WORKING, USE_IN, weight, 0), 3, 0);
        case_activation(c, LS_CONV_BACKWARD_DATA_GRAD_SRC, USE_OUT, a.src, 0);
        run(c, sums);
        expect(name, "grad_src", sums[LS_CONV_BACKWARD_DATA_GRAD_SRC], convs[i].grad_src, 0);

        c = case_new(LS_OP_CONV_BACKWARD_WEIGHT, LS_F32, name, "");
        c->desc.attr.conv = a;
        fill(case_activation(c, LS_CONV_BACKWARD_WEIGHT_SRC, USE_IN, a.src, 0), 2, 0);
        fill(case_activation(c, LS_CONV_BACKWARD_WEIGHT_GRAD_DST, USE_IN, a.dst, 0), 7, 0);
        fill_zero(case_param(c, LS_CONV_BACKWARD_WEIGHT_GRAD_WEIGHT, ARG_PARAM, USE_UPDATE, weight, 0));
        fill_zero(case_vector(c, LS_CONV_BACKWARD_WEIGHT_GRAD_BIAS, USE_UPDATE, a.dst.c, 0));
        run(c, sums);
        expect(name, "grad_weight", sums[LS_CONV_BACKWARD_WEIGHT_GRAD_WEIGHT], convs[i].grad_weight, 0);
        expect(name, "grad_bias", sums[LS_CONV_BACKWARD_WEIGHT_GRAD_BIAS], convs[i].grad_bias, 0);
    }
}

static const struct {
    const char *name;
    ls_nchw src;
    int outputs;
    double dst, grad_src, grad_weight, grad_bias;
} linears[] = {
    { "map", { 3, 5, 3, 7 }, 17, 218.75, 128.3125, 66.75, 12.0 },
    { "vector", { 1, 17, 1, 1 }, 5, 15.4375, -13.0, 13.0, -4.0 },
};

static void linear(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof linears / sizeof *linears; i++) {
        const char *name = linears[i].name;
        ls_linear_attr a = {
            .src = linears[i].src, .out_features = linears[i].outputs, .has_bias = 1, .storage = LS_F32
        };
        ls_nchw dst = { a.src.n, a.out_features, 1, 1 };
        ls_param_shape weight = { LS_PARAM_LINEAR, { a.out_features, a.src.c, a.src.h, a.src.w }, 1 };
        double sums[LS_OP_ARGS_MAX];
        op_case *c = case_new(LS_OP_LINEAR_FORWARD, LS_F32, name, "");
        c->desc.attr.linear = a;
        fill(case_activation(c, LS_LINEAR_FORWARD_SRC, USE_IN, a.src, 0), 2, 0);
        fill(case_param(c, LS_LINEAR_FORWARD_WEIGHT, ARG_WORKING, USE_IN, weight, 0), 3, 0);
        fill(case_vector(c, LS_LINEAR_FORWARD_BIAS, USE_IN, a.out_features, 0), 5, 0);
        case_activation(c, LS_LINEAR_FORWARD_DST, USE_OUT, dst, 0);
        run(c, sums);
        expect(name, "dst", sums[LS_LINEAR_FORWARD_DST], linears[i].dst, 0);

        c = case_new(LS_OP_LINEAR_BACKWARD_DATA, LS_F32, name, "");
        c->desc.attr.linear = a;
        fill(case_activation(c, LS_LINEAR_BACKWARD_DATA_GRAD_DST, USE_IN, dst, 0), 7, 0);
        fill(case_param(c, LS_LINEAR_BACKWARD_DATA_WEIGHT, ARG_WORKING, USE_IN, weight, 0), 3, 0);
        case_activation(c, LS_LINEAR_BACKWARD_DATA_GRAD_SRC, USE_OUT, a.src, 0);
        run(c, sums);
        expect(name, "grad_src", sums[LS_LINEAR_BACKWARD_DATA_GRAD_SRC], linears[i].grad_src, 0);

        c = case_new(LS_OP_LINEAR_BACKWARD_WEIGHT, LS_F32, name, "");
        c->desc.attr.linear = a;
        fill(case_activation(c, LS_LINEAR_BACKWARD_WEIGHT_SRC, USE_IN, a.src, 0), 2, 0);
        fill(case_activation(c, LS_LINEAR_BACKWARD_WEIGHT_GRAD_DST, USE_IN, dst, 0), 7, 0);
        fill_zero(case_param(c, LS_LINEAR_BACKWARD_WEIGHT_GRAD_WEIGHT, ARG_PARAM, USE_UPDATE, weight, 0));
        fill_zero(case_vector(c, LS_LINEAR_BACKWARD_WEIGHT_GRAD_BIAS, USE_UPDATE, a.out_features, 0));
        run(c, sums);
        expect(name, "grad_weight", sums[LS_LINEAR_BACKWARD_WEIGHT_GRAD_WEIGHT], linears[i].grad_weight, 0);
        expect(name, "grad_bias", sums[LS_LINEAR_BACKWARD_WEIGHT_GRAD_BIAS], linears[i].grad_bias, 0);
    }
}

static const struct {
    const char *name;
    ls_pool_kind kind;
    ls_nchw src;
    int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, relu;
    double dst, grad_src;
} pools[] = {
    { "max", LS_POOL_MAX, { 2, 3, 7, 9 }, 2, 2, 2, 2, 0, 0, 0, -24.5, 7.75 },
    { "max, overlapping", LS_POOL_MAX, { 2, 5, 9, 7 }, 3, 3, 1, 1, 1, 1, 0, -22.0, -10.5 },
    { "max, relu", LS_POOL_MAX, { 2, 5, 9, 7 }, 3, 3, 2, 2, 1, 1, 1, 0.25, 19.5 },
    { "max, global, relu", LS_POOL_MAX, { 2, 3, 4, 6 }, 4, 6, 1, 1, 0, 0, 1, -26.25, -7.0 },
    { "average", LS_POOL_AVERAGE, { 2, 3, 8, 6 }, 2, 2, 2, 2, 0, 0, 0, -13.9375, 9.1875 },
    { "average, padded", LS_POOL_AVERAGE, { 2, 5, 7, 9 }, 4, 4, 2, 2, 2, 2, 0, -0.421875, -3.765625 },
    { "max, 3x2, stride 2x1, padding 1x0", LS_POOL_MAX, { 2, 3, 7, 6 }, 3, 2, 2, 1, 1, 0, 0, 0.75, 25.0 },
    { "average, 2x4, stride 1x3, padding 1x2", LS_POOL_AVERAGE, { 2, 3, 6, 9 }, 2, 4, 1, 3, 1, 2, 0, 3.28125, -12.5 },
};

static void pooling(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++) {
        const char *name = pools[i].name;
        ls_pool_attr a = { .kind = pools[i].kind,
            .src = pools[i].src,
            .kernel_h = pools[i].kernel_h,
            .kernel_w = pools[i].kernel_w,
            .stride_h = pools[i].stride_h,
            .stride_w = pools[i].stride_w,
            .pad_h = pools[i].pad_h,
            .pad_w = pools[i].pad_w,
            .relu = pools[i].relu,
            .training = 1,
            .storage = LS_F32 };
        a.dst = (ls_nchw){ a.src.n, a.src.c, (a.src.h + 2 * a.pad_h - a.kernel_h) / a.stride_h + 1,
            (a.src.w + 2 * a.pad_w - a.kernel_w) / a.stride_w + 1 };
        double sums[LS_OP_ARGS_MAX];
        op_case *c = case_new(LS_OP_POOL_FORWARD, LS_F32, name, "");
        c->desc.attr.pool = a;
        op_arg *src = case_activation(c, LS_POOL_FORWARD_SRC, USE_IN, a.src, 0);
        fill(src, 2, 0);
        float *pool_src = case_memory(src->count * sizeof(float));
        memcpy(pool_src, src->host, src->count * sizeof(float));
        case_activation(c, LS_POOL_FORWARD_DST, USE_OUT, a.dst, 0);
        if (a.kind == LS_POOL_MAX) case_set(c, LS_POOL_FORWARD_INDEX, ARG_INDEX, USE_OUT, 1, 1);
        run(c, sums);
        expect(name, "dst", sums[LS_POOL_FORWARD_DST], pools[i].dst, 0);

        c = case_new(LS_OP_POOL_BACKWARD, LS_F32, name, "");
        c->desc.attr.pool = a;
        c->pool_src = pool_src;
        fill(case_activation(c, LS_POOL_BACKWARD_GRAD_DST, USE_IN, a.dst, 0), 7, 0);
        if (a.kind == LS_POOL_MAX) {
            case_set(c, LS_POOL_BACKWARD_INDEX, ARG_INDEX, USE_OUT, 1, 1);
        } else {
            free(pool_src);
            c->pool_src = NULL;
        }
        case_activation(c, LS_POOL_BACKWARD_GRAD_SRC, USE_OUT, a.src, 0);
        run(c, sums);
        expect(name, "grad_src", sums[LS_POOL_BACKWARD_GRAD_SRC], pools[i].grad_src, 0);
    }
}

static const struct {
    const char *name;
    ls_nchw src;
    int p, q;
    double dst;
} resizes[] = {
    { "32 to 24", { 2, 3, 32, 32 }, 24, 24, -0.2777777777778354 },
    { "32 to 28", { 1, 3, 32, 32 }, 28, 28, 1.6785714285715407 },
    { "smaller", { 2, 2, 7, 9 }, 5, 4, -22.2125 },
    { "larger", { 2, 5, 4, 6 }, 9, 7, 25.39980158730161 },
    { "to a pixel", { 1, 2, 5, 3 }, 1, 1, 1.0 },
    { "of a row", { 1, 3, 1, 4 }, 3, 5, -6.75 },
    { "the same size", { 2, 1, 6, 6 }, 6, 6, 10.25 },
};

static void resizing(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof resizes / sizeof *resizes; i++) {
        const ls_nchw src = resizes[i].src, dst = { src.n, src.c, resizes[i].p, resizes[i].q };
        double sums[LS_OP_ARGS_MAX];
        op_case *c = case_new(LS_OP_RESIZE, LS_F32, resizes[i].name, "");
        c->desc.attr.resize = (ls_resize_attr){ src, dst, LS_F32 };
        fill(case_activation(c, LS_RESIZE_SRC, USE_IN, src, 0), 2, 0);
        case_activation(c, LS_RESIZE_DST, USE_OUT, dst, 0);
        run(c, sums);
        // Shares are fp32, values up to 1.25, weights up to 6: each element may be off by three roundings of 2^-24.
        expect(resizes[i].name, "dst", sums[LS_RESIZE_DST], resizes[i].dst, (double)ls_nchw_count(dst) * 0x1p-20);
    }
}

static const ls_nchw norm_shape = { 3, 4, 3, 5 };
static const struct {
    const char *name;
    int fused; // relu and residual
    double dst, grad_src, grad_gamma, grad_beta, grad_residual;
} norms[] = {
    { "bare", 0, 60.074685650587334, 101.39505677965901, 499.59495627035244, 4.25, 0 },
    { "relu and residual", 1, 22.653316560686104, 26.173645942190895, 282.88873623690995, 31.25, 4.0 },
};
static const double running_mean[4] = { 0.0, -0.007777777777777778, 0.002777777777777778, 0.007222222222222222 };
static const double running_var[4] = { 0.9565340909090909, 0.9650063131313131, 0.9693813131313131, 0.9612563131313132 };

static op_case *norm_forward(ls_norm_attr a) {
    op_case *c = case_new(LS_OP_NORM_FORWARD, LS_F32, "norm", "");
    c->desc.attr.norm = a;
    fill(case_activation(c, LS_NORM_FORWARD_SRC, USE_IN, a.shape, 0), 2, 0);
    if (a.residual) fill(case_activation(c, LS_NORM_FORWARD_RESIDUAL, USE_IN, a.shape, 0), 7, 0);
    fill(case_vector(c, LS_NORM_FORWARD_GAMMA, USE_IN, a.shape.c, 0), 3, 2);
    fill(case_vector(c, LS_NORM_FORWARD_BETA, USE_IN, a.shape.c, 0), 5, 0);
    case_param(c, LS_NORM_FORWARD_SAVED, ARG_SAVED, USE_OUT, vector_shape(a.shape.c), 0);
    fill_zero(case_vector(c, LS_NORM_FORWARD_SUM_MEAN, USE_UPDATE, a.shape.c, 0));
    fill_zero(case_vector(c, LS_NORM_FORWARD_SUM_VAR, USE_UPDATE, a.shape.c, 0));
    case_activation(c, LS_NORM_FORWARD_DST, USE_OUT, a.shape, 0);
    return c;
}

// What a training step leaves in the running estimates: forward's sums of one micro-batch, then an optimizer's step.
static void expect_running(const double *sums, const double *running, float start) {
    op_case *c = case_new(LS_OP_SGD, LS_F32, "norm", "");
    c->segments[0] = (ls_step_segment){ .count = 4, .momentum = 0.1F, .rate = LS_SEGMENT_STATISTICS };
    c->desc.attr.optimizer = (ls_optimizer_attr){ .count = 4, .segments = c->segments, .segment_count = 1 };
    case_state(c, LS_STEP_STATE, USE_IN)->micro_batches = 3; // of which all had the same sums
    float *sum = case_raw(c, LS_STEP_GRAD, USE_IN, LS_F32, 4, 0)->host;
    (void)case_raw(c, LS_STEP_KEPT, USE_UPDATE, LS_F32, 4, 0);
    float *estimate = case_raw(c, LS_SGD_WEIGHT, USE_UPDATE, LS_F32, 4, 0)->host;
    for (int i = 0; i < 4; i++) {
        sum[i] = (float)(3 * sums[i]);
        estimate[i] = start;
    }
    double *values[LS_OP_ARGS_MAX] = { 0 };
    size_t counts[LS_OP_ARGS_MAX];
    assert_int_equal(case_run(ref, c, values, counts).code, LS_OK);
    for (int i = 0; i < 4; i++) expect("running", "estimate", values[LS_SGD_WEIGHT][i], running[i], 2e-7);
    free(values[LS_STEP_KEPT]);
    free(values[LS_SGD_WEIGHT]);
    case_free(c);
}

static void batch_norm(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++) {
        ls_norm_attr a = { .shape = norm_shape,
            .eps = 1e-5F,
            .activation = norms[i].fused ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE,
            .residual = norms[i].fused,
            .two_grads = 1,
            .storage = LS_F32 };
        double *values[LS_OP_ARGS_MAX] = { 0 }, sums[LS_OP_ARGS_MAX];
        size_t counts[LS_OP_ARGS_MAX] = { 0 };
        op_case *c = norm_forward(a);
        assert_int_equal(case_run(ref, c, values, counts).code, LS_OK);
        case_free(c);
        // 180 values of up to 5 with weights of up to 6, each rounded to fp32
        expect(norms[i].name, "dst", weighted_sum(values[LS_NORM_FORWARD_DST], counts[LS_NORM_FORWARD_DST]),
            norms[i].dst, 1e-4);
        expect_running(values[LS_NORM_FORWARD_SUM_MEAN], running_mean, 0);
        expect_running(values[LS_NORM_FORWARD_SUM_VAR], running_var, 1);

        c = case_new(LS_OP_NORM_BACKWARD, LS_F32, norms[i].name, "");
        c->desc.attr.norm = a;
        fill(case_activation(c, LS_NORM_BACKWARD_SRC, USE_IN, a.shape, 0), 2, 0);
        float *dst = case_activation(c, LS_NORM_BACKWARD_DST, USE_IN, a.shape, 0)->host;
        for (size_t k = 0; k < counts[LS_NORM_FORWARD_DST]; k++) dst[k] = (float)values[LS_NORM_FORWARD_DST][k];
        fill(case_activation(c, LS_NORM_BACKWARD_GRAD_DST, USE_IN, a.shape, 0), 7, 0);
        fill(case_activation(c, LS_NORM_BACKWARD_GRAD_DST2, USE_IN, a.shape, 0), 4, 0);
        fill(case_vector(c, LS_NORM_BACKWARD_GAMMA, USE_IN, a.shape.c, 0), 3, 2);
        float *saved = case_param(c, LS_NORM_BACKWARD_SAVED, ARG_SAVED, USE_IN, vector_shape(a.shape.c), 0)->host;
        for (size_t k = 0; k < counts[LS_NORM_FORWARD_SAVED]; k++) saved[k] = (float)values[LS_NORM_FORWARD_SAVED][k];
        case_activation(c, LS_NORM_BACKWARD_GRAD_SRC, USE_OUT, a.shape, 0);
        if (a.residual) case_activation(c, LS_NORM_BACKWARD_GRAD_RESIDUAL, USE_OUT, a.shape, 0);
        fill_zero(case_vector(c, LS_NORM_BACKWARD_GRAD_GAMMA, USE_UPDATE, a.shape.c, 0));
        fill_zero(case_vector(c, LS_NORM_BACKWARD_GRAD_BETA, USE_UPDATE, a.shape.c, 0));
        run(c, sums);
        expect(norms[i].name, "grad_src", sums[LS_NORM_BACKWARD_GRAD_SRC], norms[i].grad_src, 2e-4);
        expect(norms[i].name, "grad_residual", sums[LS_NORM_BACKWARD_GRAD_RESIDUAL], norms[i].grad_residual, 0);
        expect(norms[i].name, "grad_gamma", sums[LS_NORM_BACKWARD_GRAD_GAMMA], norms[i].grad_gamma, 2e-4);
        expect(norms[i].name, "grad_beta", sums[LS_NORM_BACKWARD_GRAD_BETA], norms[i].grad_beta, 0);
        for (int k = 0; k < LS_OP_ARGS_MAX; k++) free(values[k]);
    }
}

// F.relu(F.batch_norm(x, v(2, 4), v(3, 4).abs() + 0.5, gamma, beta, False, 0.1, 1e-5) + residual)
static void batch_norm_inference(void **unused) {
    (void)unused;
    ls_norm_attr a = {
        .shape = norm_shape, .eps = 1e-5F, .activation = LS_ACTIVATION_RELU, .residual = 1, .storage = LS_F32
    };
    double sums[LS_OP_ARGS_MAX];
    op_case *c = case_new(LS_OP_NORM_INFERENCE, LS_F32, "norm", "");
    c->desc.attr.norm = a;
    fill(case_activation(c, LS_NORM_INFERENCE_SRC, USE_IN, a.shape, 0), 2, 0);
    fill(case_activation(c, LS_NORM_INFERENCE_RESIDUAL, USE_IN, a.shape, 0), 7, 0);
    fill(case_vector(c, LS_NORM_INFERENCE_GAMMA, USE_IN, a.shape.c, 0), 3, 2);
    fill(case_vector(c, LS_NORM_INFERENCE_BETA, USE_IN, a.shape.c, 0), 5, 0);
    fill(case_vector(c, LS_NORM_INFERENCE_MEAN, USE_IN, a.shape.c, 0), 2, 0);
    op_arg *var = case_vector(c, LS_NORM_INFERENCE_VAR, USE_IN, a.shape.c, 0);
    fill(var, 3, 0);
    for (size_t i = 0; i < var->count; i++) ((float *)var->host)[i] = fabsf(((float *)var->host)[i]) + 0.5F;
    case_activation(c, LS_NORM_INFERENCE_DST, USE_OUT, a.shape, 0);
    run(c, sums);
    expect("inference", "dst", sums[LS_NORM_INFERENCE_DST], 26.434466650429442, 1e-4);
}

// logits = v(2, 4, 5) * 2, labels 1, 4, 0, 3: F.cross_entropy(..., label_smoothing,
// reduction = "sum"); one label is the argmax; weighted: weight = (2, 0.5, 0, 1.25, 3)
// focal: (t * (1 - p)**gamma * -log_softmax(logits)).sum(), with t the one-hot labels, smoothed and weighted
// several: binary_cross_entropy_with_logits(logits, t, pos_weight, reduction = "sum") / 5 with t = sets[labels], smoothed
// by smoothing / 2; with gamma torchvision.ops.sigmoid_focal_loss(logits, t, alpha = -1), where t is smooth or weighted
// the sum of those for targets of 1 and of 0 with these shares
static const struct {
    float smoothing;
    int weighted, several;
    float gamma;
    double loss, grad;
} losses[] = {
    { 0.0F, 0, 0, 0, 8.803060664584459, -6.457710674726711 },
    { 0.1F, 0, 0, 0, 8.913060664584458, -5.937710674726713 },
    { 0.0F, 1, 0, 0, 13.2981237129958, -16.057473815293495 },
    { 0.1F, 1, 0, 0, 13.266724531415122, -14.438517374852252 },
    { 0.0F, 0, 0, 2, 7.3022550719775845, -6.340025682788459 },
    { 0.1F, 0, 0, 2, 7.425809978068005, -5.849796723304962 },
    { 0.1F, 1, 0, 0.5F, 12.423312194692478, -14.402112295856274 },
    { 0.0F, 0, 1, 0, 3.291751079170157, -3.236290048806051 },
    { 0.1F, 1, 1, 0, 4.129186762364142, -2.758475052496312 },
    { 0.0F, 0, 1, 2, 1.7872189812536594, -3.1603674895848055 },
    { 0.1F, 1, 1, 0.5F, 3.4469004779298102, -2.8291259003369693 },
};
static const uint8_t sets[5][5] = { { 1, 0, 1, 1, 0 }, { 0 }, { 1, 1, 1, 1, 1 }, { 0, 0, 0, 1, 1 }, { 1, 0, 0, 0, 1 } };

static void loss(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        op_case *c = case_new(LS_OP_LOSS, LS_F32, "loss", "");
        c->desc.attr.loss = (ls_loss_attr){ .logits = { 4, 5, 1, 1 },
            .smoothing = losses[i].smoothing,
            .training = 1,
            .storage = LS_F32,
            .weighted = losses[i].weighted,
            .several = losses[i].several,
            .focal_gamma = losses[i].gamma };
        op_arg *logits = case_activation(c, LS_LOSS_LOGITS, USE_IN, (ls_nchw){ 4, 5, 1, 1 }, 0);
        fill(logits, 2, 0);
        for (size_t k = 0; k < logits->count; k++) ((float *)logits->host)[k] *= 2;
        memcpy(case_raw(c, LS_LOSS_LABELS, USE_IN, LS_I32, 4, 0)->host, (int32_t[]){ 1, 4, 0, 3 }, 4 * sizeof(int32_t));
        if (losses[i].weighted)
            memcpy(case_raw(c, LS_LOSS_WEIGHTS, USE_IN, LS_F32, 5, 0)->host, (float[]){ 2, 0.5F, 0, 1.25F, 3 },
                5 * sizeof(float));
        if (losses[i].several) memcpy(case_raw(c, LS_LOSS_SETS, USE_IN, LS_U8, 25, 0)->host, sets, sizeof sets);
        case_micro(c, LS_LOSS_MICRO, 4);
        case_state(c, LS_LOSS_STATE, USE_IN)->loss_scale = 256;
        case_set(c, LS_LOSS_RESULT, ARG_RESULT, USE_UPDATE, 1, sizeof(ls_micro_result));
        case_activation(c, LS_LOSS_GRAD_LOGITS, USE_OUT, (ls_nchw){ 4, 5, 1, 1 }, 0);
        double *values[LS_OP_ARGS_MAX] = { 0 };
        size_t counts[LS_OP_ARGS_MAX];
        assert_int_equal(case_run(ref, c, values, counts).code, LS_OK);
        // the smoothing is 0.1 rounded to fp32
        expect("loss", "sum", values[LS_LOSS_RESULT][0], losses[i].loss, 1e-7);
        expect("loss", "correct", values[LS_LOSS_RESULT][1], 1, 0);
        expect("loss", "count", values[LS_LOSS_RESULT][2], 4, 0);
        expect("loss", "bad", values[LS_LOSS_RESULT][3], 0, 0);
        expect("loss", "gradient", weighted_sum(values[LS_LOSS_GRAD_LOGITS], 20) / 256, losses[i].grad, 1e-6);
        for (int k = 0; k < LS_OP_ARGS_MAX; k++) free(values[k]);
        case_free(c);
    }
}

// logits = v(2, 4, 5) * 2, teacher = v(3, 4, 5) * 2: share * T * T * F.kl_div(F.log_softmax(logits / T, 1),
// F.softmax(teacher / T, 1), reduction = "sum")
static const struct {
    float temperature, share;
    double loss, grad;
} distillations[] = {
    { 1, 1, 5.385834104234789, 3.5421867981139807 },
    { 4, 0.5F, 3.8865603787384595, 1.1039427301861924 },
    { 0.5F, 0.25F, 0.8140927529436144, 0.7231987012059442 },
};

static void distill(void **unused) {
    (void)unused;
    const ls_nchw shape = { 4, 5, 1, 1 };
    for (size_t i = 0; i < sizeof distillations / sizeof *distillations; i++) {
        op_case *c = case_new(LS_OP_DISTILL, LS_F32, "distill", "");
        c->desc.attr.distill = (ls_distill_attr){ .logits = shape,
            .temperature = distillations[i].temperature,
            .share = distillations[i].share,
            .storage = LS_F32 };
        op_arg *logits = case_activation(c, LS_DISTILL_LOGITS, USE_IN, shape, 0);
        op_arg *teacher = case_activation(c, LS_DISTILL_TEACHER, USE_IN, shape, 0);
        fill(logits, 2, 0);
        fill(teacher, 3, 0);
        for (size_t k = 0; k < logits->count; k++) ((float *)logits->host)[k] *= 2, ((float *)teacher->host)[k] *= 2;
        case_micro(c, LS_DISTILL_MICRO, 4);
        case_state(c, LS_DISTILL_STATE, USE_IN)->loss_scale = 256;
        case_set(c, LS_DISTILL_RESULT, ARG_RESULT, USE_UPDATE, 1, sizeof(ls_micro_result));
        fill_zero(case_activation(c, LS_DISTILL_GRAD_LOGITS, USE_UPDATE, shape, 0));
        double *values[LS_OP_ARGS_MAX] = { 0 };
        size_t counts[LS_OP_ARGS_MAX];
        assert_int_equal(case_run(ref, c, values, counts).code, LS_OK);
        expect("distill", "sum", values[LS_DISTILL_RESULT][0], distillations[i].loss, 1e-7);
        expect("distill", "correct", values[LS_DISTILL_RESULT][1], 0, 0);
        expect("distill", "count", values[LS_DISTILL_RESULT][2], 0, 0);
        expect("distill", "bad", values[LS_DISTILL_RESULT][3], 0, 0);
        expect(
            "distill", "gradient", weighted_sum(values[LS_DISTILL_GRAD_LOGITS], 20) / 256, distillations[i].grad, 1e-6);
        for (int k = 0; k < LS_OP_ARGS_MAX; k++) free(values[k]);
        case_free(c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distill),
        cmocka_unit_test(convolution),
        cmocka_unit_test(linear),
        cmocka_unit_test(pooling),
        cmocka_unit_test(resizing),
        cmocka_unit_test(batch_norm),
        cmocka_unit_test(batch_norm_inference),
        cmocka_unit_test(loss),
    };
    return cmocka_run_group_tests(tests, open_ref, close_ref);
}
