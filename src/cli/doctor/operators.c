// operators.c - operators of a device against those of `ref`, from the same inputs. A scene is a layer: its forward and
// backward pass over the same tensors, so that what a forward pass keeps for the backward pass (statistics, winners of a
// pooling) is each device's own.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "base/philox.h"
#include "base/text.h"
#include "cli/doctor/selftest.h"

enum { TENSORS_MAX = 12, STEPS_MAX = 3, ALIGN = 256, SEED = 20 };

typedef enum {
    ACTIVATION,
    PARAM,
    PAIR,
    WINNERS,
    FLOATS,
    RESULT,
    BYTES
} tensor_kind; // PAIR: two vectors, as batch norm keeps

typedef struct {
    const char *name;
    tensor_kind kind;
    ls_nchw shape;        // ACTIVATION; WINNERS: of the pooled map
    ls_param_shape param; // PARAM, PAIR
    size_t count;         // of `values`, or bytes of BYTES
    const void *bytes;    // BYTES: what is in it
    int is_compared;
    float *values;     // what it begins with
    double *result[2]; // what it has in the end, on the device and on ref
} tensor;

typedef struct {
    const char *name;
    double bound; // of the largest error, as a share of the tensor's largest value
    tensor tensors[TENSORS_MAX];
    int count;
    struct {
        ls_op_desc desc;
        int arg[LS_OP_ARGS_MAX]; // number of the tensor, from 1; 0: absent
    } steps[STEPS_MAX];
    int step_count;
} scene;

// --- scenes --------------------------------------------------------------------------------------

static int put(scene *s, tensor t) {
    s->tensors[s->count] = t;
    return ++s->count;
}

static int activation(scene *s, const char *name, ls_nchw shape) {
    return put(s, (tensor){ .name = name,
                      .kind = ACTIVATION,
                      .shape = shape,
                      .count = (size_t)ls_nchw_count(shape),
                      .is_compared = 1 });
}

static int param(scene *s, const char *name, ls_param_shape shape) {
    return put(s,
        (tensor){
            .name = name, .kind = PARAM, .param = shape, .count = (size_t)ls_param_count(&shape), .is_compared = 1 });
}

static int vector(scene *s, const char *name, int channels) {
    return param(s, name, (ls_param_shape){ LS_PARAM_VECTOR, { channels, 1, 1, 1 }, 1 });
}

static int floats(scene *s, const char *name, size_t count) {
    return put(s, (tensor){ .name = name, .kind = FLOATS, .count = count, .is_compared = 1 });
}

static int bytes(scene *s, const char *name, const void *from, size_t count) {
    return put(s, (tensor){ .name = name, .kind = BYTES, .bytes = from, .count = count });
}

// A linear layer takes the arguments of a convolution.
static void fill_products(
    scene *s, ls_op forward, const ls_op_desc *desc, ls_nchw in, ls_nchw out, ls_param_shape weight) {
    int src = activation(s, "src", in), w = param(s, "weight", weight), bias = vector(s, "bias", out.c);
    int dst = activation(s, "dst", out), grad_dst = activation(s, "grad_dst", out);
    int grad_src = activation(s, "grad_src", in), grad_w = param(s, "grad_weight", weight);
    int grad_bias = vector(s, "grad_bias", out.c);
    const int args[STEPS_MAX][4] = { { src, w, bias, dst }, { grad_dst, w, grad_src, 0 },
        { src, grad_dst, grad_w, grad_bias } };
    s->step_count = STEPS_MAX;
    for (int i = 0; i < STEPS_MAX; i++) {
        s->steps[i].desc = *desc;
        s->steps[i].desc.op = (ls_op)((int)forward + i); // data and weight gradients follow in ops.def
        memcpy(s->steps[i].arg, args[i], sizeof args[i]);
    }
}

static void make_conv(scene *s, ls_nchw in, int channels, int kernel, int stride, int pad) {
    ls_nchw out = { in.n, channels, (in.h + 2 * pad - kernel) / stride + 1, (in.w + 2 * pad - kernel) / stride + 1 };
    ls_op_desc desc = { .layer = "self-test",
        .attr.conv = { .src = in,
            .dst = out,
            .kernel_h = kernel,
            .kernel_w = kernel,
            .stride_h = stride,
            .stride_w = stride,
            .pad_h = pad,
            .pad_w = pad,
            .dilation = 1,
            .groups = 1,
            .has_bias = 1,
            .storage = LS_F32 } };
    s->bound = 1e-4;
    fill_products(s, LS_OP_CONV_FORWARD, &desc, in, out,
        (ls_param_shape){ LS_PARAM_CONV, { channels, in.c, kernel, kernel }, 1 });
}

static void conv_3x3(scene *s) {
    make_conv(s, (ls_nchw){ 4, 16, 9, 7 }, 24, 3, 1, 1);
}

static void conv_5x5(scene *s) {
    make_conv(s, (ls_nchw){ 4, 3, 12, 11 }, 8, 5, 2, 2);
}

static void linear(scene *s) {
    ls_nchw in = { 6, 16, 3, 3 }, out = { 6, 10, 1, 1 };
    ls_op_desc desc = { .layer = "self-test",
        .attr.linear = { .src = in, .out_features = out.c, .has_bias = 1, .storage = LS_F32 } };
    s->bound = 1e-4;
    fill_products(
        s, LS_OP_LINEAR_FORWARD, &desc, in, out, (ls_param_shape){ LS_PARAM_LINEAR, { out.c, in.c, in.h, in.w }, 1 });
}

static void batch_norm(scene *s) {
    ls_nchw shape = { 6, 12, 5, 7 };
    ls_norm_attr attr = { .shape = shape, .eps = 1e-5F, .activation = LS_ACTIVATION_RELU, .storage = LS_F32 };
    int src = activation(s, "src", shape), dst = activation(s, "dst", shape);
    int grad_dst = activation(s, "grad_dst", shape), grad_src = activation(s, "grad_src", shape);
    int gamma = vector(s, "gamma", shape.c), beta = vector(s, "beta", shape.c);
    int grad_gamma = vector(s, "grad_gamma", shape.c), grad_beta = vector(s, "grad_beta", shape.c);
    int sum_mean = vector(s, "mean", shape.c), sum_var = vector(s, "variance", shape.c);
    int saved =
        put(s, (tensor){ .name = "saved", .kind = PAIR, .param = { LS_PARAM_VECTOR, { shape.c, 1, 1, 1 }, 1 } });
    s->bound = 1e-4;
    s->step_count = 2;
    s->steps[0].desc = (ls_op_desc){ .op = LS_OP_NORM_FORWARD, .layer = "self-test", .attr.norm = attr };
    memcpy(s->steps[0].arg,
        (int[LS_NORM_FORWARD_ARGS]){ [LS_NORM_FORWARD_SRC] = src,
            [LS_NORM_FORWARD_GAMMA] = gamma,
            [LS_NORM_FORWARD_BETA] = beta,
            [LS_NORM_FORWARD_SAVED] = saved,
            [LS_NORM_FORWARD_SUM_MEAN] = sum_mean,
            [LS_NORM_FORWARD_SUM_VAR] = sum_var,
            [LS_NORM_FORWARD_DST] = dst },
        LS_NORM_FORWARD_ARGS * sizeof(int));
    s->steps[1].desc = (ls_op_desc){ .op = LS_OP_NORM_BACKWARD, .layer = "self-test", .attr.norm = attr };
    memcpy(s->steps[1].arg,
        (int[LS_NORM_BACKWARD_ARGS]){ [LS_NORM_BACKWARD_SRC] = src,
            [LS_NORM_BACKWARD_DST] = dst,
            [LS_NORM_BACKWARD_GRAD_DST] = grad_dst,
            [LS_NORM_BACKWARD_GAMMA] = gamma,
            [LS_NORM_BACKWARD_SAVED] = saved,
            [LS_NORM_BACKWARD_GRAD_SRC] = grad_src,
            [LS_NORM_BACKWARD_GRAD_GAMMA] = grad_gamma,
            [LS_NORM_BACKWARD_GRAD_BETA] = grad_beta },
        LS_NORM_BACKWARD_ARGS * sizeof(int));
}

static void max_pool(scene *s) {
    ls_nchw in = { 4, 10, 8, 6 }, out = { 4, 10, 4, 3 };
    ls_pool_attr attr = { .kind = LS_POOL_MAX,
        .src = in,
        .dst = out,
        .kernel_h = 2,
        .kernel_w = 2,
        .stride_h = 2,
        .stride_w = 2,
        .relu = 1,
        .training = 1,
        .storage = LS_F32 };
    int src = activation(s, "src", in), dst = activation(s, "dst", out), grad_dst = activation(s, "grad_dst", out);
    int grad_src = activation(s, "grad_src", in);
    int winners = put(s, (tensor){ .name = "index", .kind = WINNERS, .shape = out });
    s->bound = 1e-6;
    s->step_count = 2;
    s->steps[0].desc = (ls_op_desc){ .op = LS_OP_POOL_FORWARD, .layer = "self-test", .attr.pool = attr };
    memcpy(s->steps[0].arg, (int[]){ src, dst, winners }, 3 * sizeof(int));
    s->steps[1].desc = (ls_op_desc){ .op = LS_OP_POOL_BACKWARD, .layer = "self-test", .attr.pool = attr };
    memcpy(s->steps[1].arg, (int[]){ grad_dst, winners, grad_src }, 3 * sizeof(int));
}

static const ls_train_state state = { .applied = 2, .loss_scale = 1, .lr = { 0.1F }, .multiplier = 1 };

static void loss(scene *s) {
    static const int32_t labels[] = { 3, 0, 9, 1, 7, 7, 2 };
    enum { SAMPLES = sizeof labels / sizeof *labels };
    static const ls_micro_input micro = { .count = SAMPLES };
    ls_nchw shape = { SAMPLES, 10, 1, 1 };
    int logits = activation(s, "logits", shape), grad = activation(s, "grad_logits", shape);
    int result = put(s, (tensor){ .name = "loss", .kind = RESULT, .count = 3, .is_compared = 1 });
    int of_labels = bytes(s, "labels", labels, sizeof labels), of_micro = bytes(s, "micro", &micro, sizeof micro);
    int of_state = bytes(s, "state", &state, sizeof state);
    s->bound = 1e-5;
    s->step_count = 1;
    s->steps[0].desc = (ls_op_desc){ .op = LS_OP_LOSS,
        .layer = "self-test",
        .attr.loss = { .logits = shape, .smoothing = 0.1F, .training = 1, .storage = LS_F32 } };
    memcpy(s->steps[0].arg, (int[]){ logits, of_labels, of_micro, of_state, result, grad }, 6 * sizeof(int));
}

static void optimizer(scene *s) {
    enum { COUNT = 640 };
    static const ls_step_segment segment = { .count = COUNT, .lr_factor = 1, .decay = 1e-3F, .momentum = 0.9F };
    int of_state = bytes(s, "state", &state, sizeof state), grad = floats(s, "gradient", COUNT);
    int momentum = floats(s, "momentum", COUNT), weight = floats(s, "weight", COUNT);
    s->bound = 1e-6;
    s->step_count = 1;
    s->steps[0].desc = (ls_op_desc){ .op = LS_OP_SGD,
        .layer = "self-test",
        .attr.optimizer = {
            .count = COUNT, .segments = &segment, .segment_count = 1, .nesterov = 1, .storage = LS_F32 } };
    memcpy(s->steps[0].arg, (int[]){ of_state, grad, momentum, weight }, 4 * sizeof(int));
}

static const struct {
    const char *name;
    void (*make)(scene *s);
} scenes[] = { { "convolution 3x3", conv_3x3 }, { "convolution 5x5, stride 2", conv_5x5 }, { "linear", linear },
    { "batch norm with ReLU", batch_norm }, { "max pooling", max_pool }, { "loss", loss }, { "sgd", optimizer } };
enum { SCENES = sizeof scenes / sizeof *scenes };

// --- on one device -------------------------------------------------------------------------------

typedef struct {
    ls_device *device;
    ls_queue *queue;
    ls_slab *slab, *staging; // staging: host memory to copy from and to
    ls_buffer at[TENSORS_MAX], workspace;
    ls_plan *plans[STEPS_MAX];
} stage;

static size_t size_of(ls_device *device, const scene *s, const tensor *t) {
    const ls_device_api *api = device->api;
    switch (t->kind) {
    case ACTIVATION:
        return api->activation_bytes(device, t->shape, LS_F32);
    case PARAM:
        return api->param_elements(device, &t->param) * sizeof(float);
    case PAIR:
        return 2 * api->param_elements(device, &t->param) * sizeof(float);
    case WINNERS:
        return ls_pool_index_bytes(
            &s->steps[0].desc.attr.pool, api->activation_bytes(device, t->shape, LS_F32) / sizeof(float));
    case FLOATS:
        return t->count * sizeof(float);
    case RESULT:
        return sizeof(ls_micro_result);
    case BYTES:
        return t->count;
    }
    return 0;
}

static size_t rounded(size_t size) {
    return (size + ALIGN - 1) / ALIGN * ALIGN;
}

static ls_status make_stage(const scene *s, stage *g) {
    const ls_device_api *api = g->device->api;
    size_t all = 0, largest = 1, workspace = 0, size[TENSORS_MAX];
    for (int i = 0; i < s->count; i++) {
        size[i] = size_of(g->device, s, &s->tensors[i]);
        all += rounded(size[i]);
        if (size[i] > largest) largest = size[i];
    }
    for (int i = 0; i < s->step_count; i++) {
        LS_TRY(api->plan_new(g->device, &s->steps[i].desc, &g->plans[i]));
        if (g->plans[i]->workspace_bytes > workspace) workspace = g->plans[i]->workspace_bytes;
    }
    LS_TRY(api->queue_new(g->device, "self-test", &g->queue));
    LS_TRY(api->slab_new(g->device, LS_MEMORY_PINNED, largest, "the self-test", &g->staging));
    LS_TRY(api->slab_new(g->device, LS_MEMORY_DEVICE, all + workspace + 1, "the self-test", &g->slab)); // zeroed
    size_t at = 0;
    for (int i = 0; i < s->count; at += rounded(size[i++])) g->at[i] = ls_buffer_at(g->slab, at, size[i]);
    if (workspace) g->workspace = ls_buffer_at(g->slab, all, workspace);
    return LS_SUCCESS;
}

static void free_stage(stage *g) {
    const ls_device_api *api = g->device->api;
    for (int i = 0; i < STEPS_MAX; i++)
        if (g->plans[i]) api->plan_free(g->plans[i]);
    if (g->slab) api->slab_free(g->slab);
    if (g->staging) api->slab_free(g->staging);
    if (g->queue) api->queue_free(g->queue);
}

static ls_status fill(const tensor *t, stage *g, ls_buffer dst) {
    const ls_device_api *api = g->device->api;
    if (t->kind == ACTIVATION) api->activation_import(g->device, t->shape, LS_F32, t->values, dst);
    if (t->kind == PARAM) api->param_import(g->device, &t->param, t->values, dst);
    if (t->kind != FLOATS && t->kind != BYTES) return LS_SUCCESS;
    memcpy(g->staging->address, t->kind == FLOATS ? t->values : t->bytes, dst.bytes);
    api->copy(dst, ls_buffer_at(g->staging, 0, dst.bytes), dst.bytes, g->queue);
    return api->queue_sync(g->queue);
}

static ls_status take(const tensor *t, stage *g, ls_buffer src, double *result) {
    const ls_device_api *api = g->device->api;
    float *values;
    LS_TRY(LS_NEW(values, t->count, "the self-test"));
    ls_status status = LS_SUCCESS;
    if (t->kind == ACTIVATION) api->activation_export(g->device, t->shape, LS_F32, src, values);
    if (t->kind == PARAM) api->param_export(g->device, &t->param, src, values);
    if (t->kind == FLOATS || t->kind == RESULT) {
        api->copy(ls_buffer_at(g->staging, 0, src.bytes), src, src.bytes, g->queue);
        status = api->queue_sync(g->queue);
        if (t->kind == FLOATS) memcpy(values, g->staging->address, src.bytes);
    }
    for (size_t i = 0; i < t->count; i++) result[i] = (double)values[i];
    if (t->kind == RESULT) {
        ls_micro_result got;
        memcpy(&got, g->staging->address, sizeof got);
        result[0] = got.loss_sum;
        result[1] = (double)got.correct;
        result[2] = (double)got.count;
    }
    free(values);
    return status;
}

static ls_status run_on(ls_device *device, scene *s, int which) {
    stage g = { .device = device };
    ls_status status = make_stage(s, &g);
    for (int i = 0; i < s->count; i++) LS_THEN(status, fill(&s->tensors[i], &g, g.at[i]));
    for (int i = 0; i < s->step_count && !ls_failed(status); i++) {
        ls_buffer args[LS_OP_ARGS_MAX] = { { 0 } };
        for (int a = 0; a < LS_OP_ARGS_MAX; a++)
            if (s->steps[i].arg[a]) args[a] = g.at[s->steps[i].arg[a] - 1];
        ls_plan_run(g.plans[i], args, g.plans[i]->workspace_bytes ? g.workspace : (ls_buffer){ 0 }, g.queue);
    }
    LS_THEN(status, device->api->queue_sync(g.queue));
    for (int i = 0; i < s->count; i++)
        if (s->tensors[i].is_compared) LS_THEN(status, take(&s->tensors[i], &g, g.at[i], s->tensors[i].result[which]));
    free_stage(&g);
    return status;
}

// --- comparison ----------------------------------------------------------------------------------

static ls_status make_values(scene *s, uint32_t number) {
    for (int i = 0; i < s->count; i++) {
        tensor *t = &s->tensors[i];
        if (t->kind == ACTIVATION || t->kind == PARAM || t->kind == FLOATS) {
            LS_TRY(LS_NEW(t->values, t->count, "the self-test"));
            for (size_t k = 0; k < t->count; k++)
                t->values[k] = 2 * ls_unit_float(ls_random_word(SEED, LS_PURPOSE_INIT, number, (uint32_t)i, k)) - 1;
        }
        if (!t->is_compared) continue;
        for (int which = 0; which < 2; which++) LS_TRY(LS_NEW(t->result[which], t->count, "the self-test"));
    }
    return LS_SUCCESS;
}

// The largest distance, as a share of the largest value; INFINITY for what is no number.
static double error_of(const tensor *t) {
    double distance = 0, largest = 1e-30;
    for (size_t k = 0; k < t->count; k++) {
        double d = fabs(t->result[0][k] - t->result[1][k]);
        if (!(d <= distance)) distance = isnan(d) ? (double)INFINITY : d;
        if (fabs(t->result[1][k]) > largest) largest = fabs(t->result[1][k]);
    }
    return distance / largest;
}

static ls_status compare(const scene *s, const ls_device *device, double *worst, const char **worst_name) {
    for (int i = 0; i < s->count; i++) {
        const tensor *t = &s->tensors[i];
        if (!t->is_compared) continue;
        double error = error_of(t);
        if (error >= *worst) {
            *worst = error;
            *worst_name = s->name;
        }
        if (!(error <= s->bound))
            return ls_fail(LS_DEVICE,
                "%s on %s: %s is off by %.1e of its largest value from ref's, allowed are %.0e: this device or its "
                "libraries compute wrongly; do not train on it before that is found (other versions of the libraries, "
                "another card or host)",
                s->name, device->api->name, t->name, error, s->bound);
    }
    return LS_SUCCESS;
}

static ls_status try_scene(int number, ls_device *device, ls_device *ref, double *worst, const char **worst_name) {
    scene s = { .name = scenes[number].name };
    scenes[number].make(&s);
    ls_status status = make_values(&s, (uint32_t)number);
    LS_THEN(status, run_on(device, &s, 0));
    LS_THEN(status, run_on(ref, &s, 1));
    LS_THEN(status, compare(&s, device, worst, worst_name));
    for (int i = 0; i < s.count; i++) {
        free(s.tensors[i].values);
        free(s.tensors[i].result[0]);
        free(s.tensors[i].result[1]);
    }
    return status;
}

ls_status ls_test_operators(ls_device *device, ls_test *out) {
    ls_device *ref;
    double worst = 0;
    const char *worst_name = "";
    LS_TRY(ls_device_open("ref", &(ls_device_options){ .threads = 1 }, &ref, NULL));
    ls_status status = LS_SUCCESS;
    for (int i = 0; i < SCENES; i++) LS_THEN(status, try_scene(i, device, ref, &worst, &worst_name));
    ls_device_close(ref);
    LS_TRY(status);
    ls_text_cut(out->text, sizeof out->text,
        "%d layers, forward and backward, on %s against ref: largest relative error %.1e (%s)", SCENES,
        device->api->name, worst, worst_name);
    out->figure[0].name = "largest_relative_error";
    out->figure[0].value = worst;
    return LS_SUCCESS;
}
