#include "device/cuda/fused_plans.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef cudnnBackendDescriptor_t descriptor;
typedef ls_cudnn_attribute attribute;

enum { DESCRIPTORS_MAX = 64, OPERATIONS_MAX = 8, MESSAGE_BYTES = 256 };

// A graph that grows by tensors and operations; after a failure nothing more is made.
typedef struct {
    descriptor made[DESCRIPTORS_MAX], operations[OPERATIONS_MAX];
    int count, operation_count;
    int64_t id;
    cudnnStatus_t rc;
    cudnnDataType_t type, between; // of tensors in memory; of those that are not
    char message[MESSAGE_BYTES];
} graph;

static void note(graph *g, const char *what, cudnnStatus_t rc) {
    char words[MESSAGE_BYTES / 2] = "";
    cudnnGetLastErrorString(words, sizeof words); // of errors; where an engine does not support a graph it has none
    g->rc = rc;
    snprintf(g->message, sizeof g->message, "%s: %s%s%s", what, cudnnGetErrorString(rc), words[0] ? ": " : "", words);
}

// The graph owns what was made.
static descriptor own(graph *g, const char *what, cudnnStatus_t rc, descriptor made) {
    if (rc != CUDNN_STATUS_SUCCESS) note(g, what, rc);
    if (made) g->made[g->count++] = made;
    return made;
}

static descriptor make(graph *g, const char *what, cudnnBackendDescriptorType_t type, const attribute *rows) {
    descriptor made = NULL;
    if (g->rc != CUDNN_STATUS_SUCCESS) return NULL;
    const cudnnStatus_t rc = ls_cudnn_make(type, rows, &made);
    return own(g, what, rc, made);
}

// d: N, C, H, W, laid out as N H W C.
static descriptor tensor(graph *g, cudnnDataType_t type, int in_memory, const int64_t d[4]) {
    const int64_t strides[4] = { d[1] * d[2] * d[3], 1, d[3] * d[1], d[1] }, alignment = LS_CUDNN_ALIGNMENT,
                  id = ++g->id;
    const bool is_virtual = !in_memory;
    const attribute rows[] = {
        { CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type },
        { CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, d },
        { CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides },
        { CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id },
        { CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment },
        { CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual },
        { 0 },
    };
    return make(g, "tensor", CUDNN_BACKEND_TENSOR_DESCRIPTOR, rows);
}

static void operation(graph *g, const char *what, cudnnBackendDescriptorType_t type, const attribute *rows) {
    descriptor made = make(g, what, type, rows);
    if (made) g->operations[g->operation_count++] = made;
}

#define TENSOR(name, of) \
    { name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &(of) }

// y = f(x, b), b NULL where f has one argument; of a backward one x is what the forward one read, b is dy, y is dx.
static void pointwise(graph *g, cudnnPointwiseMode_t mode, descriptor x, descriptor b, float factor, descriptor y) {
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const attribute rows[] = {
        { CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode },
        { CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute },
        { 0 },
    };
    descriptor what = make(g, "pointwise mode", CUDNN_BACKEND_POINTWISE_DESCRIPTOR, rows);
    const attribute forward[] = {
        TENSOR(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what),
        TENSOR(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x),
        TENSOR(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y),
        { CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
            b ? &b : NULL }, // none: the list ends
        { CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, 1, &factor },
        { 0 },
    };
    const attribute backward[] = {
        TENSOR(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what),
        TENSOR(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x),
        TENSOR(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, b),
        TENSOR(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, y),
        { 0 },
    };
    operation(g, "pointwise", CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
        mode == CUDNN_POINTWISE_RELU_BWD ? backward : forward);
}

typedef struct {
    int64_t image[4], weight[4], result[4], of_image[4], of_result[4]; // the last two: one number a channel
} shapes;

static shapes shapes_of(const ls_conv_attr *a) {
    const int64_t c = ls_cuda_channels(a->src.c), k = ls_cuda_channels(a->dst.c);
    return (shapes){ { a->src.n, c, a->src.h, a->src.w }, { k, c, a->kernel_h, a->kernel_w },
        { a->dst.n, k, a->dst.h, a->dst.w }, { 1, c, 1, 1 }, { 1, k, 1, 1 } };
}

static descriptor convolution(graph *g, const ls_conv_attr *a) {
    descriptor made = NULL;
    if (g->rc != CUDNN_STATUS_SUCCESS) return NULL;
    const cudnnStatus_t rc = ls_cudnn_make_convolution(a, &made);
    return own(g, "convolution", rc, made);
}

static void convolve(
    graph *g, ls_op op, const ls_conv_attr *a, descriptor image, descriptor weight, descriptor result) {
    const ls_cudnn_pass *pass = &ls_cudnn_passes[op];
    const float one = 1, zero = 0;
    descriptor what = convolution(g, a);
    const attribute rows[] = {
        TENSOR(pass->image, image),
        TENSOR(pass->weight, weight),
        TENSOR(pass->result, result),
        TENSOR(pass->convolution, what),
        { pass->alpha, CUDNN_TYPE_FLOAT, 1, &one },
        { pass->beta, CUDNN_TYPE_FLOAT, 1, &zero },
        { 0 },
    };
    operation(g, pass->what, pass->type, rows);
}

// relu(x * scale + bias), which never is in memory
static descriptor normalised(graph *g, const shapes *s) {
    descriptor x = tensor(g, g->type, 1, s->image);
    descriptor scale = tensor(g, g->type, 1, s->of_image), bias = tensor(g, g->type, 1, s->of_image);
    descriptor scaled = tensor(g, g->between, 0, s->image), shifted = tensor(g, g->between, 0, s->image);
    descriptor dst = tensor(g, g->between, 0, s->image);
    pointwise(g, CUDNN_POINTWISE_MUL, x, scale, 1, scaled);
    pointwise(g, CUDNN_POINTWISE_ADD, scaled, bias, 1, shifted);
    pointwise(g, CUDNN_POINTWISE_RELU_FWD, shifted, NULL, 1, dst);
    return dst;
}

static void statistics(graph *g, const shapes *s, descriptor y) {
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const cudnnGenStatsMode_t mode = CUDNN_GENSTATS_SUM_SQSUM;
    descriptor sum = tensor(g, CUDNN_DATA_FLOAT, 1, s->of_result),
               squares = tensor(g, CUDNN_DATA_FLOAT, 1, s->of_result);
    const attribute rows[] = {
        { CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE, 1, &mode },
        { CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute },
        TENSOR(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, y),
        TENSOR(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, sum),
        TENSOR(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, squares),
        { 0 },
    };
    operation(g, "statistics", CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR, rows);
}

// The gradient through relu(batch norm(x)) and the batch norm's own sums: dy comes from the convolution.
static void norm_backward(graph *g, const shapes *s, descriptor dy) {
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    descriptor x = tensor(g, g->type, 1, s->image), grad = tensor(g, g->type, 1, s->image);
    descriptor one[9]; // a number a channel: mean, 1/deviation, scale, bias; dscale, dbias, three coefficients
    for (int i = 0; i < 9; i++) one[i] = tensor(g, CUDNN_DATA_FLOAT, 1, s->of_image);
    descriptor step[4];
    for (int i = 0; i < 4; i++) step[i] = tensor(g, g->between, 0, s->image);
    pointwise(g, CUDNN_POINTWISE_ADD, x, one[0], -1, step[0]);
    pointwise(g, CUDNN_POINTWISE_MUL, step[0], one[1], 1, step[1]);
    pointwise(g, CUDNN_POINTWISE_MUL, step[1], one[2], 1, step[2]);
    pointwise(g, CUDNN_POINTWISE_ADD, step[2], one[3], 1, step[3]);
    pointwise(g, CUDNN_POINTWISE_RELU_BWD, step[3], dy, 1, grad);
    const attribute rows[] = {
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute },
        TENSOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC, x),
        TENSOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC, grad),
        TENSOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC, one[0]),
        TENSOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC, one[1]),
        TENSOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC, one[2]),
        TENSOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC, one[4]),
        TENSOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC, one[5]),
        TENSOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC, one[6]),
        TENSOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC, one[7]),
        TENSOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS, one[8]),
        { 0 },
    };
    operation(g, "batch norm backward", CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR, rows);
}

static descriptor build(graph *g, fused_pattern pattern, const ls_conv_attr *a) {
    const shapes s = shapes_of(a);
    descriptor image, weight = tensor(g, g->type, 1, s.weight), result = tensor(g, g->type, 1, s.result);
    switch (pattern) {
    case FUSED_STATISTICS:
    case FUSED_FORWARD:
        image = pattern == FUSED_FORWARD ? normalised(g, &s) : tensor(g, g->type, 1, s.image);
        convolve(g, LS_OP_CONV_FORWARD, a, image, weight, result);
        statistics(g, &s, result);
        break;
    case FUSED_WEIGHT:
        convolve(g, LS_OP_CONV_BACKWARD_WEIGHT, a, normalised(g, &s), weight, result);
        break;
    default:
        image = tensor(g, g->between, 0, s.image);
        convolve(g, LS_OP_CONV_BACKWARD_DATA, a, image, weight, result);
        norm_backward(g, &s, image);
    }
    const attribute rows[] = {
        { CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->operation_count, g->operations },
        { 0 },
    };
    return make(g, "operation graph", CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, rows);
}

static int has_behaviour(descriptor engine, cudnnBackendBehaviorNote_t wanted) {
    cudnnBackendBehaviorNote_t notes[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
    int64_t count = 0;
    if (cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
            CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &count, notes) != CUDNN_STATUS_SUCCESS)
        return 0;
    for (int64_t i = 0; i < count; i++)
        if (notes[i] == wanted) return 1;
    return 0;
}

static unsigned numerical_notes(descriptor engine) {
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t count = 0;
    unsigned set = 0;
    if (cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
            CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes) != CUDNN_STATUS_SUCCESS)
        return 0;
    for (int64_t i = 0; i < count; i++) set |= 1U << notes[i];
    return set;
}

// One engine with its default configuration: engine, configuration, plan.
static void try_engine(graph *g, descriptor described, descriptor of, int64_t number, fused_outcome *out) {
    const int before = g->count;
    const attribute engine_rows[] = {
        TENSOR(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, of),
        { CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &number },
        TENSOR(CUDNN_ATTR_ENGINE_DEVICEPROP, described),
        { 0 },
    };
    descriptor engine = make(g, "engine", CUDNN_BACKEND_ENGINE_DESCRIPTOR, engine_rows);
    const int compiles = engine && has_behaviour(engine, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
    const attribute config_rows[] = { TENSOR(CUDNN_ATTR_ENGINECFG_ENGINE, engine), { 0 } };
    descriptor config = make(g, "configuration", CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, config_rows);
    if (compiles && g->rc == CUDNN_STATUS_SUCCESS) {
        out->compiled++; // its plan would call the compiler
    } else {
        const attribute plan_rows[] = {
            TENSOR(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, described),
            TENSOR(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config),
            { 0 },
        };
        descriptor plan = make(g, "plan", CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, plan_rows);
        int64_t count = 0, workspace = 0;
        if (g->rc == CUDNN_STATUS_SUCCESS) {
            out->plans = 1;
            (void)cudnnBackendGetAttribute(
                plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &workspace);
            out->engine = number;
            out->workspace = (size_t)workspace;
            out->notes = numerical_notes(engine);
        }
    }
    const size_t used = strlen(out->why);
    if (g->rc != CUDNN_STATUS_SUCCESS)
        snprintf(out->why + used, sizeof out->why - used, "%sengine %lld: %s", used ? "; " : "", (long long)number,
            g->message);
    g->rc = CUDNN_STATUS_SUCCESS;
    while (g->count > before) cudnnBackendDestroyDescriptor(g->made[--g->count]);
}

static void try_engines(graph *g, descriptor described, descriptor of, fused_outcome *out) {
    int64_t count = 0, engines = 0;
    const cudnnStatus_t rc = cudnnBackendGetAttribute(
        of, CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64, 1, &count, &engines);
    if (rc != CUDNN_STATUS_SUCCESS) note(g, "number of engines", rc);
    for (int64_t i = 0; i < engines && out->plans == 0; i++) try_engine(g, described, of, i, out);
    if (engines == 0 && rc == CUDNN_STATUS_SUCCESS)
        snprintf(out->why, sizeof out->why, "cuDNN has no engine for this graph");
}

const char *fused_name(fused_pattern pattern) {
    static const char *const names[] = { "conv + statistics", "ConvBNfprop", "ConvBNwgrad", "DgradDreluBNBwdWeight" };
    return names[pattern];
}

void fused_plan(
    descriptor described, fused_pattern pattern, const ls_conv_attr *a, cudnnDataType_t type, fused_outcome *out) {
    const cudnnDataType_t between[] = { CUDNN_DATA_FLOAT, type };
    *out = (fused_outcome){ 0 };
    for (int i = 0; i < 2 && out->plans == 0; i++) {
        graph g = { .type = type, .between = between[i] };
        out->why[0] = 0;
        descriptor of = build(&g, pattern, a);
        if (g.rc == CUDNN_STATUS_SUCCESS) try_engines(&g, described, of, out);
        if (g.rc != CUDNN_STATUS_SUCCESS) snprintf(out->why, sizeof out->why, "%s", g.message);
        while (g.count > 0) cudnnBackendDestroyDescriptor(g.made[--g.count]);
    }
}
