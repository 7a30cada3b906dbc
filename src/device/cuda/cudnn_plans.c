// cudnn_plans.c - cuDNN's plans of one convolution, by the backend API: tensors and operation -> graph -> heuristics ->
// engine configurations -> execution plans. Source: NVIDIA's cudnn-frontend and the cuDNN 9 documentation.
//
// Engines that compile at run time are left out. Each would take about a second at start-up, and without them the list
// is the same with and without a GPU.
#include "base/memory.h"
#include "device/cuda/libraries_internal.h"

#include <stdio.h>
#include <string.h>

typedef cudnnBackendDescriptor_t descriptor;
typedef ls_cudnn_attribute attribute;

enum { MESSAGE_BYTES = 512, KNOBS_MAX = 64 };

typedef struct {
    const ls_cudnn_target *target;
    const ls_cudnn_request *request;
    const char *layer;
    int until;                    // number of plans at which the current search stops
    unsigned required, forbidden; // sets of numerical notes
    ls_cudnn_plans *out;
    ls_status refused; // error of the first engine that failed with anything but "not supported"
} search;

ls_status ls_cudnn_fail(const char *layer, const char *call, cudnnStatus_t rc) {
    char words[MESSAGE_BYTES] = "";
    cudnnGetLastErrorString(words, sizeof words);
    return ls_fail(LS_DEVICE, "%s%s%scuDNN: %s: %s (%d)%s%s", layer ? "layer " : "", layer ? layer : "",
        layer ? ": " : "", call, cudnnGetErrorString(rc), (int)rc, words[0] ? ": " : "", words);
}

#define TRY_CUDNN(layer, what, call) \
    do { \
        cudnnStatus_t rc_ = (call); \
        if (rc_ != CUDNN_STATUS_SUCCESS) return ls_cudnn_fail(layer, what, rc_); \
    } while (0)

static int not_supported(cudnnStatus_t rc) {
    return rc / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000; // since cuDNN 9, codes are grouped by thousands
}

static cudnnStatus_t set_all(descriptor to, const attribute *rows) {
    for (; rows->values; rows++) {
        cudnnStatus_t rc = cudnnBackendSetAttribute(to, rows->name, rows->type, rows->count, rows->values);
        if (rc != CUDNN_STATUS_SUCCESS) return rc;
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t ls_cudnn_make(cudnnBackendDescriptorType_t type, const attribute *rows, descriptor *out) {
    *out = NULL;
    descriptor made = NULL;
    cudnnStatus_t rc = cudnnBackendCreateDescriptor(type, &made);
    if (rc != CUDNN_STATUS_SUCCESS) return rc;
    rc = set_all(made, rows);
    if (rc == CUDNN_STATUS_SUCCESS) rc = cudnnBackendFinalize(made);
    if (rc != CUDNN_STATUS_SUCCESS) {
        cudnnBackendDestroyDescriptor(made);
        return rc;
    }
    *out = made;
    return rc;
}

// Makes one of the graph's parts; out->parts owns it.
static ls_status make_part(search *s, const char *what, cudnnBackendDescriptorType_t type, const attribute *rows) {
    ls_cudnn_plans *out = s->out;
    TRY_CUDNN(s->layer, what, ls_cudnn_make(type, rows, &out->parts[out->part_count]));
    out->part_count++;
    return LS_SUCCESS;
}

// Makes the descriptor of a tensor with these dimensions d: N, C, H, W (of a weight: K, C, R, S). The layout is N H W
// C, which the strides express.
static ls_status make_tensor(search *s, const char *what, int64_t id, ls_dtype storage, const int64_t d[4]) {
    int64_t strides[4] = { d[1] * d[2] * d[3], 1, d[3] * d[1], d[1] }, alignment = LS_CUDNN_ALIGNMENT;
    cudnnDataType_t type = storage == LS_F32   ? CUDNN_DATA_FLOAT
                           : storage == LS_F16 ? CUDNN_DATA_HALF
                                               : CUDNN_DATA_BFLOAT16;
    const attribute rows[] = {
        { CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type },
        { CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, d },
        { CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides },
        { CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id },
        { CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment },
        { 0 },
    };
    return make_part(s, what, CUDNN_BACKEND_TENSOR_DESCRIPTOR, rows);
}

cudnnStatus_t ls_cudnn_make_convolution(const ls_conv_attr *a, descriptor *out) {
    int64_t axes = 2, pad[2] = { a->pad_h, a->pad_w }, stride[2] = { a->stride_h, a->stride_w };
    int64_t dilation[2] = { a->dilation, a->dilation };
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const attribute rows[] = {
        { CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute },
        { CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode },
        { CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &axes },
        { CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pad },
        { CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pad },
        { CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilation },
        { CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, stride },
        { 0 },
    };
    return ls_cudnn_make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, rows, out);
}

const ls_cudnn_pass ls_cudnn_passes[] = {
    [LS_OP_CONV_FORWARD] = { "forward operation", CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA },
    [LS_OP_CONV_BACKWARD_DATA] = { "backward data operation",
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA },
    [LS_OP_CONV_BACKWARD_WEIGHT] = { "backward weight operation",
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA },
};

// Makes the descriptor of the convolution's pass. It adds fp32 weight gradients to the memory that they go to, and
// overwrites all else; adding 16-bit weight gradients would round them each time.
static ls_status make_operation(search *s, ls_op op, const ls_conv_attr *a) {
    const ls_cudnn_pass *pass = &ls_cudnn_passes[op];
    float alpha = 1, beta = op == LS_OP_CONV_BACKWARD_WEIGHT && a->storage == LS_F32 ? 1.0F : 0.0F;
    descriptor *parts = s->out->parts; // image, weight, result, convolution
    const attribute rows[] = {
        { pass->image, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parts[0] },
        { pass->weight, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parts[1] },
        { pass->result, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parts[2] },
        { pass->convolution, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parts[3] },
        { pass->alpha, CUDNN_TYPE_FLOAT, 1, &alpha },
        { pass->beta, CUDNN_TYPE_FLOAT, 1, &beta },
        { 0 },
    };
    return make_part(s, pass->what, pass->type, rows);
}

static ls_status make_graph(search *s, ls_op op, const ls_conv_attr *a) {
    int c = ls_cuda_channels(a->src.c), k = ls_cuda_channels(a->dst.c),
        depth = a->groups > 1 ? a->src.c / a->groups : c;
    const int64_t image[4] = { a->src.n, c, a->src.h, a->src.w }, result[4] = { a->dst.n, k, a->dst.h, a->dst.w };
    const int64_t weight[4] = { k, depth, a->kernel_h, a->kernel_w };
    LS_TRY(make_tensor(s, "image tensor", LS_CUDNN_IMAGE, a->storage, image));
    LS_TRY(make_tensor(s, "weight tensor", LS_CUDNN_WEIGHT, a->storage, weight));
    LS_TRY(make_tensor(s, "result tensor", LS_CUDNN_RESULT, a->storage, result));
    TRY_CUDNN(s->layer, "convolution", ls_cudnn_make_convolution(a, &s->out->parts[s->out->part_count]));
    s->out->part_count++;
    LS_TRY(make_operation(s, op, a));
    const cudnnHandle_t *handle = s->target->handle ? &s->target->handle : NULL; // NULL ends the list before this row
    const attribute rows[] = {
        { CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &s->out->parts[4] },
        { CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, handle },
        { 0 },
    };
    return make_part(s, "operation graph", CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, rows);
}

// Reads an engine's number and notes. If this fails, the engine is left out.
static cudnnStatus_t inspect(descriptor config, int64_t *engine, unsigned *notes, unsigned *behaviour) {
    descriptor of = NULL;
    cudnnStatus_t rc = cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &of);
    if (rc != CUDNN_STATUS_SUCCESS) return rc;
    int64_t count = 0, note_count = 0, behaviour_count = 0;
    cudnnBackendNumericalNote_t numerical[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    cudnnBackendBehaviorNote_t behavioural[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
    rc = cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &of);
    if (rc == CUDNN_STATUS_SUCCESS)
        rc = cudnnBackendGetAttribute(of, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count, engine);
    if (rc == CUDNN_STATUS_SUCCESS) {
        rc = cudnnBackendGetAttribute(of, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
            CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &note_count, numerical);
    }
    if (rc == CUDNN_STATUS_SUCCESS) {
        rc = cudnnBackendGetAttribute(of, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
            CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &behaviour_count, behavioural);
    }
    cudnnBackendDestroyDescriptor(of);
    *notes = *behaviour = 0;
    if (rc != CUDNN_STATUS_SUCCESS) return rc;
    for (int64_t i = 0; i < note_count && i < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; i++) *notes |= 1U << numerical[i];
    for (int64_t i = 0; i < behaviour_count && i < CUDNN_BEHAVIOR_NOTE_TYPE_COUNT; i++)
        *behaviour |= 1U << behavioural[i];
    return rc;
}

static cudnnStatus_t finalize_plan(const search *s, descriptor config, descriptor *plan, size_t *workspace) {
    const ls_cudnn_target *target = s->target;
    attribute where = { CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &target->handle };
    if (!target->handle) {
        where =
            (attribute){ CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &target->described };
    }
    const attribute rows[] = {
        where,
        { CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config },
        { 0 },
    };
    cudnnStatus_t rc = ls_cudnn_make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, rows, plan);
    if (rc != CUDNN_STATUS_SUCCESS) return rc;
    int64_t count = 0, bytes = 0;
    rc = cudnnBackendGetAttribute(*plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes);
    if (rc == CUDNN_STATUS_SUCCESS && bytes < 0) rc = CUDNN_STATUS_INTERNAL_ERROR;
    if (rc != CUDNN_STATUS_SUCCESS) cudnnBackendDestroyDescriptor(*plan);
    *workspace = (size_t)bytes;
    return rc;
}

// Whether to skip this plan: another plan was asked for, or the plan is in the list already. The lists of several
// heuristics overlap.
static int is_unwanted(const search *s, const ls_cudnn_plan *plan) {
    const ls_cudnn_plans *plans = s->out;
    char tag[LS_CUDNN_TAG_BYTES], other[LS_CUDNN_TAG_BYTES];
    if (!s->request->only && plans->count == 0) return 0;
    ls_cudnn_plan_tag(plan, tag, sizeof tag);
    if (s->request->only && strcmp(tag, s->request->only) != 0) return 1;
    for (int i = 0; i < plans->count; i++) {
        ls_cudnn_plan_tag(&plans->plans[i], other, sizeof other);
        if (strcmp(tag, other) == 0) return 1;
    }
    return 0;
}

// Adds the configuration's plan if it fits. Returns 1 if `out` now owns the configuration.
static int consider(search *s, descriptor config) {
    ls_cudnn_plan made = { .config = config };
    unsigned behaviour = 0;
    cudnnStatus_t rc = inspect(config, &made.engine, &made.notes, &behaviour);
    if (rc == CUDNN_STATUS_SUCCESS) {
        if ((made.notes & s->required) != s->required || made.notes & s->forbidden) return 0;
        if (behaviour & 1U << CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION || is_unwanted(s, &made)) return 0;
        rc = finalize_plan(s, config, &made.plan, &made.workspace);
    }
    if (rc != CUDNN_STATUS_SUCCESS) {
        if (!not_supported(rc)) ls_keep_first(&s->refused, ls_cudnn_fail(s->layer, "execution plan", rc));
        return 0;
    }
    if (made.workspace > s->target->workspace_limit) {
        cudnnBackendDestroyDescriptor(made.plan);
        return 0;
    }
    s->out->plans[s->out->count++] = made;
    return 1;
}

// Considers all configurations that the heuristics propose, until enough plans are found. The first count that RESULTS
// gives is only an upper bound. The real number is known after fetching them.
static ls_status consider_results(search *s, descriptor heuristics) {
    int64_t bound = 0, count = 0;
    TRY_CUDNN(s->layer, "number of heuristics' results",
        cudnnBackendGetAttribute(
            heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &bound, NULL));
    if (bound <= 0) return LS_SUCCESS;
    descriptor *configs = ls_new(bound, sizeof *configs, "layer %s: %lld plans", s->layer, (long long)bound);
    cudnnStatus_t rc = CUDNN_STATUS_SUCCESS;
    for (int64_t i = 0; i < bound && rc == CUDNN_STATUS_SUCCESS; i++)
        rc = cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i]);
    if (rc == CUDNN_STATUS_SUCCESS) {
        rc = cudnnBackendGetAttribute(
            heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, bound, &count, configs);
    }
    if (rc != CUDNN_STATUS_SUCCESS) {
        if (!not_supported(rc)) ls_keep_first(&s->refused, ls_cudnn_fail(s->layer, "heuristics' results", rc));
        count = 0;
    }
    for (int64_t i = 0; i < count && i < bound && s->out->count < s->until; i++) {
        if (consider(s, configs[i])) configs[i] = NULL;
    }
    for (int64_t i = 0; i < bound; i++)
        if (configs[i]) cudnnBackendDestroyDescriptor(configs[i]);
    free(configs);
    return LS_SUCCESS;
}

static ls_status query_heuristics(search *s, cudnnBackendHeurMode_t mode) {
    const descriptor *described = s->target->handle ? NULL : &s->target->described;
    const attribute rows[] = {
        { CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &s->out->parts[5] },
        { CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode },
        { CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, described },
        { 0 },
    };
    descriptor heuristics = NULL;
    cudnnStatus_t rc = ls_cudnn_make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, rows, &heuristics);
    if (not_supported(rc)) return LS_SUCCESS;
    TRY_CUDNN(s->layer, "heuristics", rc);
    ls_status status = consider_results(s, heuristics);
    cudnnBackendDestroyDescriptor(heuristics);
    return status;
}

#define NOTE(name) (1U << CUDNN_NUMERICAL_NOTE_##name)

// Asks the heuristics for plans, mode after mode, until there are enough. The rule takes mode A's best plan. When
// several plans are to be measured, some are mode B's best: it weighs engines differently and knows other engines for
// small layers.
static ls_status query_all(search *s) {
    const int most = s->request->most;
    const struct {
        cudnnBackendHeurMode_t mode;
        int until;
    } lists[] = { { CUDNN_HEUR_MODE_A, most > 1 ? most * 3 / 5 : most }, { CUDNN_HEUR_MODE_B, most },
        { CUDNN_HEUR_MODE_FALLBACK, most } };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        s->until = lists[i].until;
        if (s->out->count < s->until) LS_TRY(query_heuristics(s, lists[i].mode));
    }
    return LS_SUCCESS;
}

// Finds plans: with tensor cores if the type allows them and such plans exist, else without. Winograd and
// Fourier transforms lose digits, many of them in 16 bits. They are forbidden, so that a convolution's error is that of
// its sum.
static ls_status find(search *s, ls_dtype storage) {
    int exact = storage == LS_F32 && !s->target->tf32;
    s->required = exact ? 0 : NOTE(TENSOR_CORE);
    s->forbidden = NOTE(NONDETERMINISTIC) | NOTE(REDUCED_PRECISION_REDUCTION) | NOTE(WINOGRAD) | NOTE(FFT);
    if (exact) s->forbidden |= NOTE(TENSOR_CORE) | NOTE(DOWN_CONVERT_INPUTS);
    for (;;) {
        LS_TRY(query_all(s));
        if (s->out->count || !s->required) break;
        s->required = 0; // without tensor cores is still better than the direct kernels
    }
    return s->out->count ? LS_SUCCESS : s->refused;
}

ls_status ls_cudnn_plans_make(const ls_cudnn_target *target, const ls_cudnn_request *request, ls_cudnn_plans *out) {
    *out = (ls_cudnn_plans){ 0 };
    search s = {
        .target = target, .request = request, .layer = request->layer ? request->layer : "(unnamed)", .out = out
    };
    ls_status status = make_graph(&s, request->op, request->attr);
    LS_THEN(status, find(&s, request->attr->storage));
    if (ls_failed(status)) ls_cudnn_plans_free(out);
    return status;
}

static void free_plan(ls_cudnn_plan *plan) {
    cudnnBackendDestroyDescriptor(plan->plan);
    cudnnBackendDestroyDescriptor(plan->config);
}

void ls_cudnn_plans_free(ls_cudnn_plans *plans) {
    for (int i = 0; i < plans->count; i++) free_plan(&plans->plans[i]);
    while (plans->part_count > 0) cudnnBackendDestroyDescriptor(plans->parts[--plans->part_count]);
    *plans = (ls_cudnn_plans){ 0 };
}

void ls_cudnn_plans_keep(ls_cudnn_plans *plans, int index) {
    for (int i = 0; i < plans->count; i++)
        if (i != index) free_plan(&plans->plans[i]);
    plans->plans[0] = plans->plans[index];
    plans->count = 1;
}

static void add_knob(descriptor knob, char *text, size_t bytes) {
    int64_t count = 0, value = 0;
    cudnnBackendKnobType_t type = 0;
    if (cudnnBackendGetAttribute(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &count, &type) !=
            CUDNN_STATUS_SUCCESS ||
        cudnnBackendGetAttribute(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &count, &value) !=
            CUDNN_STATUS_SUCCESS)
        return;
    size_t length = strlen(text);
    snprintf(text + length, bytes - length, " %d=%lld", (int)type, (long long)value);
}

void ls_cudnn_plan_tag(const ls_cudnn_plan *plan, char *text, size_t bytes) {
    snprintf(text, bytes, "engine %lld", (long long)plan->engine);
    descriptor knobs[KNOBS_MAX] = { 0 };
    int64_t count = 0;
    int made = 0;
    while (made < KNOBS_MAX &&
           cudnnBackendCreateDescriptor(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, &knobs[made]) == CUDNN_STATUS_SUCCESS)
        made++;
    if (cudnnBackendGetAttribute(plan->config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, made,
            &count, knobs) == CUDNN_STATUS_SUCCESS) {
        for (int64_t i = 0; i < count && i < made; i++) add_knob(knobs[i], text, bytes);
    }
    while (made > 0) cudnnBackendDestroyDescriptor(knobs[--made]);
}

ls_status ls_cudnn_describe(const char *json, cudnnBackendDescriptor_t *out) {
    const attribute rows[] = {
        { CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, (int64_t)strlen(json), json },
        { 0 },
    };
    TRY_CUDNN(NULL, "device description", ls_cudnn_make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, rows, out));
    return LS_SUCCESS;
}
