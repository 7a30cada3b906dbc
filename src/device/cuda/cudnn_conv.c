// cudnn_conv.c - convolutions by cuDNN on a GPU. Chooses a plan from the cache, by timing or by the heuristics' order.
#include "device/cuda/libraries_internal.h"

#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "device/algorithm_choice.h"
#include "device/cuda/conv_timing.h"

enum { KEY_BYTES = 512, POINTERS = LS_CONV_TENSORS };

// The arguments of one run: addresses of the three tensors and of the workspace. They are made again only if the
// addresses change. After the first update this never happens, because a plan always uses the same memory.
typedef struct {
    cudnnBackendDescriptor_t descriptor; // NULL: not made yet
    void *pointers[POINTERS], *workspace;
} variant;

struct ls_cuda_conv_algorithm {
    ls_cuda_libraries *libraries;
    ls_cudnn_plans plans; // exactly one plan
    variant variant;
    char name[64], layer[96];
};

static cudnnStatus_t make_variant(variant *v, void *const pointers[POINTERS], void *workspace) {
    static const int64_t ids[POINTERS] = { LS_CUDNN_IMAGE, LS_CUDNN_WEIGHT, LS_CUDNN_RESULT };
    if (v->descriptor) cudnnBackendDestroyDescriptor(v->descriptor);
    *v = (variant){ 0 };
    cudnnBackendDescriptor_t made = NULL;
    cudnnStatus_t rc = cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &made);
    if (rc != CUDNN_STATUS_SUCCESS) return rc;
    rc = cudnnBackendSetAttribute(made, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, POINTERS, ids);
    if (rc == CUDNN_STATUS_SUCCESS) {
        rc = cudnnBackendSetAttribute(
            made, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, POINTERS, pointers);
    }
    if (rc == CUDNN_STATUS_SUCCESS)
        rc = cudnnBackendSetAttribute(made, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    if (rc == CUDNN_STATUS_SUCCESS) rc = cudnnBackendFinalize(made);
    if (rc != CUDNN_STATUS_SUCCESS) {
        cudnnBackendDestroyDescriptor(made);
        return rc;
    }
    v->descriptor = made;
    memcpy(v->pointers, pointers, sizeof v->pointers);
    v->workspace = workspace;
    return rc;
}

static void free_variant(variant *v) {
    if (v->descriptor) cudnnBackendDestroyDescriptor(v->descriptor);
    *v = (variant){ 0 };
}

// --- choosing ------------------------------------------------------------------------------------

typedef struct {
    ls_cuda_libraries *libraries;
    const char *layer;
    const ls_cudnn_plans *plans; // the candidates; `own` is the last candidate
    const ls_cuda_own_conv *own; // own kernels, or NULL
    ls_cuda_conv_timing timing;
} measurement;

static ls_status time_own(measurement *m, float *ms) {
    void *const *t = m->timing.tensors;
    LS_TRY(ls_cuda_conv_timing_begin(&m->timing));
    m->own->run(
        m->own->context, t[LS_CONV_IMAGE], t[LS_CONV_WEIGHT], t[LS_CONV_RESULT], m->timing.workspace, &m->timing.queue);
    return ls_cuda_conv_timing_end(&m->timing, ms);
}

static ls_status time_once(void *context, int index, float *ms) {
    measurement *m = context;
    variant pack = { 0 };
    if (index == m->plans->count) return time_own(m, ms);
    cudnnStatus_t refused = make_variant(&pack, m->timing.tensors, m->timing.workspace);
    ls_status status = refused == CUDNN_STATUS_SUCCESS ? LS_SUCCESS : ls_cudnn_fail(m->layer, "variant pack", refused);
    LS_THEN(status, ls_cuda_conv_timing_begin(&m->timing));
    if (!ls_failed(status)) {
        refused = cudnnBackendExecute(m->libraries->cudnn, m->plans->plans[index].plan, pack.descriptor);
        if (refused != CUDNN_STATUS_SUCCESS) status = ls_cudnn_fail(m->layer, "cudnnBackendExecute", refused);
    }
    LS_THEN(status, ls_cuda_conv_timing_end(&m->timing, ms));
    free_variant(&pack);
    return status;
}

// Times the plans and the own kernels. *best: number of the fastest; the own kernels come last. *measured is 0 if the
// GPU has not enough memory to measure.
static ls_status measure(measurement *m, ls_op op, const ls_conv_attr *attr, int *best, int *measured) {
    size_t workspace = m->own ? m->own->workspace : 0;
    for (int i = 0; i < m->plans->count; i++)
        if (m->plans->plans[i].workspace > workspace) workspace = m->plans->plans[i].workspace;
    ls_status status = ls_cuda_conv_timing_open(m->libraries->device, attr, workspace, &m->timing, measured);
    if (!ls_failed(status) && *measured) {
        const ls_algorithm_candidates candidates = { m->layer, ls_op_name(op), m->plans->count + (m->own != NULL),
            time_once, m };
        cudnnStatus_t rc = cudnnSetStream(m->libraries->cudnn, m->timing.queue.stream);
        status = rc == CUDNN_STATUS_SUCCESS ? ls_algorithm_fastest(&candidates, best)
                                            : ls_cudnn_fail(m->layer, "cudnnSetStream", rc);
        cudnnSetStream(m->libraries->cudnn, NULL);
    }
    ls_cuda_conv_timing_close(&m->timing);
    return status;
}

// Writes the cache's key of a measured choice: everything that it depends on. The key contains the name of the own
// kernels, because a choice that was measured without them does not apply when they exist.
static void make_key(const ls_cuda_libraries *libraries, ls_op op, const ls_conv_attr *a, const ls_cuda_own_conv *own,
    char key[KEY_BYTES]) {
    const ls_cuda_device *device = libraries->device;
    int driver = 0;
    (void)cudaDriverGetVersion(&driver);
    snprintf(key, KEY_BYTES,
        "cudnn %zu, driver %d; %s, %d; %s %s%s; src %dx%dx%dx%d dst %dx%dx%dx%d kernel %dx%d stride %dx%d pad %dx%d "
        "dilation %d groups %d; workspace %zu%s%s",
        cudnnGetVersion(), driver, device->name, device->multiprocessors, ls_op_name(op), ls_dtype_name(a->storage),
        a->storage == LS_F32 && device->tf32 ? " tf32" : "", a->src.n, a->src.c, a->src.h, a->src.w, a->dst.n, a->dst.c,
        a->dst.h, a->dst.w, a->kernel_h, a->kernel_w, a->stride_h, a->stride_w, a->pad_h, a->pad_w, a->dilation,
        a->groups, libraries->workspace_limit, own ? "; " : "", own ? own->name : "");
}

// Makes the chosen plan and says how it was chosen. If plans->count is 0 afterwards, own kernels are chosen if they
// exist; otherwise cuDNN has no plan.
static ls_status choose(ls_cuda_libraries *libraries, ls_op op, const ls_conv_attr *attr, const char *layer,
    const ls_cuda_own_conv *own, ls_cudnn_plans *plans, const char **how) {
    const ls_cudnn_target target = {
        .handle = libraries->cudnn, .tf32 = libraries->device->tf32, .workspace_limit = libraries->workspace_limit
    };
    ls_algorithm_cache *cache = libraries->device->algorithms;
    ls_cudnn_request request = { op, attr, layer, .most = 1 };
    char key[KEY_BYTES], tag[LS_CUDNN_TAG_BYTES];
    make_key(libraries, op, attr, own, key);
    if (cache && (request.only = ls_algorithm_cache_find(cache, key, how))) {
        if (own && strcmp(request.only, own->name) == 0) return LS_SUCCESS;
        if (!ls_failed(ls_cudnn_plans_make(&target, &request, plans)) && plans->count > 0) return LS_SUCCESS;
        ls_cudnn_plans_free(plans); // no plan with that tag can be made: continue as without a remembered choice
        request.only = NULL;
    }
    *how = LS_CHOSEN_BY_RULE;
    const int measures = cache && !ls_algorithm_cache_settled(cache);
    if (!measures && own && own->first) return LS_SUCCESS;
    if (measures) request.most = LS_CUDNN_PLANS_MAX;
    LS_TRY(ls_cudnn_plans_make(&target, &request, plans));
    if (!measures || plans->count + (own != NULL) < 2) return LS_SUCCESS;
    int best = 0, measured = 0;
    measurement m = { .libraries = libraries, .layer = layer, .plans = plans, .own = own };
    LS_TRY(measure(&m, op, attr, &best, &measured));
    const int takes_own = best == plans->count || (!measured && own && own->first);
    snprintf(tag, sizeof tag, "%s", takes_own ? own->name : "");
    if (takes_own) {
        ls_cudnn_plans_free(plans);
    } else {
        ls_cudnn_plans_keep(plans, best);
        ls_cudnn_plan_tag(&plans->plans[0], tag, sizeof tag);
    }
    if (!measured) return LS_SUCCESS;
    *how = LS_CHOSEN_NOW;
    ls_algorithm_cache_put(cache, key, tag);
    return LS_SUCCESS;
}

// --- libraries.h ---------------------------------------------------------------------------------

ls_status ls_cuda_conv_algorithm_new(ls_cuda_libraries *libraries, ls_op op, const ls_conv_attr *attr,
    const char *layer, const ls_cuda_own_conv *own, ls_cuda_conv_algorithm **out, const char **chosen) {
    *out = NULL, *chosen = NULL;
    // Channels of a group are not padded. Padded channel counts would change the number of groups.
    if (attr->groups > 1 && (attr->src.c % LS_CUDA_CHANNELS || attr->dst.c % LS_CUDA_CHANNELS)) return LS_SUCCESS;
    ls_cuda_conv_algorithm *made = ls_new(1, sizeof *made, "layer %s", layer);
    ls_status status = choose(libraries, op, attr, layer, own, &made->plans, chosen);
    if (ls_failed(status) || made->plans.count == 0) {
        ls_cudnn_plans_free(&made->plans);
        free(made);
        return status;
    }
    const ls_cudnn_plan *plan = &made->plans.plans[0];
    made->libraries = libraries;
    snprintf(made->layer, sizeof made->layer, "%s", layer);
    snprintf(made->name, sizeof made->name, "cudnn engine %lld%s", (long long)plan->engine,
        plan->notes & 1U << CUDNN_NUMERICAL_NOTE_TENSOR_CORE ? ", tensor cores" : "");
    *out = made;
    return LS_SUCCESS;
}

void ls_cuda_conv_algorithm_free(ls_cuda_conv_algorithm *algorithm) {
    if (!algorithm) return;
    free_variant(&algorithm->variant);
    ls_cudnn_plans_free(&algorithm->plans);
    free(algorithm);
}

size_t ls_cuda_conv_workspace(const ls_cuda_conv_algorithm *algorithm) {
    return ls_library_room(algorithm->plans.plans[0].workspace);
}

const char *ls_cuda_conv_name(const ls_cuda_conv_algorithm *algorithm) {
    return algorithm->name;
}

void ls_cuda_conv_execute(
    ls_cuda_conv_algorithm *algorithm, void *image, void *weight, void *result, void *workspace, ls_queue *queue) {
    const ls_cudnn_plan *plan = &algorithm->plans.plans[0];
    void *const pointers[POINTERS] = { image, weight, result };
    void *aligned = plan->workspace ? ls_library_align(workspace) : NULL;
    variant *v = &algorithm->variant;
    const char *call = "variant pack";
    cudnnStatus_t rc = CUDNN_STATUS_SUCCESS;
    if (!v->descriptor || v->workspace != aligned || memcmp(v->pointers, pointers, sizeof pointers) != 0)
        rc = make_variant(v, pointers, aligned);
    if (rc == CUDNN_STATUS_SUCCESS) {
        call = "cudnnSetStream";
        rc = cudnnSetStream(algorithm->libraries->cudnn, queue->stream);
    }
    if (rc == CUDNN_STATUS_SUCCESS) {
        call = "cudnnBackendExecute";
        rc = cudnnBackendExecute(algorithm->libraries->cudnn, plan->plan, v->descriptor);
    }
    if (rc != CUDNN_STATUS_SUCCESS) ls_cuda_note_status(queue->device, ls_cudnn_fail(algorithm->layer, call, rc));
}
