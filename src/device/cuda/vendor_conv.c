// vendor_conv.c - convolutions by cuDNN on a GPU: choosing a plan,
// by the heuristics' order or by timing, and running it.
#include "device/cuda/vendor_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/half.h"
#include "base/memory.h"

enum { KEY_BYTES = 512, POINTERS = 3 };

// The arguments of one run: where the three tensors and the workspace lie. Made when a run has other addresses than the
// last one, which after the first update never happens: a plan has its place in the program.
typedef struct {
    cudnnBackendDescriptor_t descriptor; // NULL: none yet
    void *pointers[POINTERS], *workspace;
} variant;

struct ls_cuda_conv_algorithm {
    ls_cuda_libraries *libraries;
    ls_cudnn_plans plans; // one
    variant variant;
    const char *chosen;
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

// --- timing --------------------------------------------------------------------------------------

enum { WARM_UPS = 3, TIMED_RUNS = 10, PATTERN_BYTES = 1 << 20 };

typedef struct {
    ls_cuda_libraries *libraries;
    cudaStream_t stream;
    cudaEvent_t begin, end;
    void *pointers[POINTERS], *workspace; // device memory of its own
} bench;

static void close_bench(bench *b) {
    for (int i = 0; i < POINTERS; i++) cudaFree(b->pointers[i]);
    cudaFree(b->workspace);
    if (b->begin) cudaEventDestroy(b->begin);
    if (b->end) cudaEventDestroy(b->end);
    if (b->stream) cudaStreamDestroy(b->stream);
}

// Numbers in [-1, 1): zeros would let the GPU run faster than it ever will.
static ls_status fill(void *device_memory, size_t bytes, ls_dtype storage) {
    size_t element = ls_dtype_bytes(storage);
    char *pattern;
    LS_TRY(LS_NEW(pattern, PATTERN_BYTES, "timing of convolutions"));
    uint32_t random = 1;
    for (size_t i = 0; i < PATTERN_BYTES / element; i++) {
        random = random * 1664525U + 1013904223U;
        ls_store_float(pattern, storage, (int64_t)i, (float)(random >> 8) * 0x1p-23F - 1.0F);
    }
    cudaError_t rc = cudaSuccess;
    for (size_t at = 0; at < bytes && rc == cudaSuccess; at += PATTERN_BYTES) {
        size_t part = bytes - at < PATTERN_BYTES ? bytes - at : PATTERN_BYTES;
        rc = cudaMemcpy((char *)device_memory + at, pattern, part, cudaMemcpyHostToDevice);
    }
    free(pattern);
    return rc == cudaSuccess ? LS_SUCCESS : ls_cuda_fail("cudaMemcpy", rc);
}

// *enough is 0 when the GPU has no room for it.
static ls_status open_bench(bench *b, const ls_conv_attr *a, size_t workspace, int *enough) {
    int depth = a->groups > 1 ? a->src.c / a->groups : ls_cuda_channels(a->src.c);
    int64_t weights = (int64_t)ls_cuda_channels(a->dst.c) * ls_conv_taps(a) * depth;
    const int64_t elements[POINTERS] = { ls_cuda_elements(a->src), weights, ls_cuda_elements(a->dst) };
    size_t bytes[POINTERS];
    LS_TRY_CUDA(cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking));
    LS_TRY_CUDA(cudaEventCreate(&b->begin));
    LS_TRY_CUDA(cudaEventCreate(&b->end));
    cudaError_t rc = workspace ? cudaMalloc(&b->workspace, workspace) : cudaSuccess; // aligned to 256 bytes
    for (int i = 0; i < POINTERS && rc == cudaSuccess; i++) {
        bytes[i] = (size_t)elements[i] * ls_dtype_bytes(a->storage);
        rc = cudaMalloc(&b->pointers[i], bytes[i]);
    }
    *enough = rc != cudaErrorMemoryAllocation;
    if (!*enough) {
        (void)cudaGetLastError();
        return LS_SUCCESS;
    }
    if (rc != cudaSuccess) return ls_cuda_fail("cudaMalloc", rc);
    for (int i = 0; i < POINTERS; i++) LS_TRY(fill(b->pointers[i], bytes[i], a->storage));
    LS_TRY_CUDA(cudaDeviceSynchronize()); // the stream does not wait for the default one
    return LS_SUCCESS;
}

// The shortest of several runs in ms; infinity when cuDNN refuses to run the plan.
static ls_status time_plan(bench *b, const ls_cudnn_plan *plan, float *best_ms) {
    variant pack = { 0 };
    cudnnHandle_t handle = b->libraries->cudnn;
    *best_ms = INFINITY;
    cudnnStatus_t refused = make_variant(&pack, b->pointers, b->workspace);
    cudaError_t rc = cudaSuccess;
    for (int i = 0; i < WARM_UPS + TIMED_RUNS && refused == CUDNN_STATUS_SUCCESS && rc == cudaSuccess; i++) {
        float ms = INFINITY;
        rc = cudaEventRecord(b->begin, b->stream);
        if (rc == cudaSuccess) refused = cudnnBackendExecute(handle, plan->plan, pack.descriptor);
        if (rc == cudaSuccess) rc = cudaEventRecord(b->end, b->stream);
        if (rc == cudaSuccess) rc = cudaEventSynchronize(b->end);
        if (rc == cudaSuccess) rc = cudaEventElapsedTime(&ms, b->begin, b->end);
        if (i >= WARM_UPS && refused == CUDNN_STATUS_SUCCESS && rc == cudaSuccess && ms < *best_ms) *best_ms = ms;
    }
    if (refused != CUDNN_STATUS_SUCCESS) *best_ms = INFINITY;
    free_variant(&pack);
    return rc == cudaSuccess ? LS_SUCCESS : ls_cuda_fail("timing a convolution", rc);
}

// The fastest plan. An earlier one stays unless a later one is 3 % faster: so noise changes little.
static ls_status time_plans(bench *b, const ls_cudnn_plans *plans, int *best) {
    float best_ms = INFINITY;
    for (int i = 0; i < plans->count; i++) {
        float ms;
        LS_TRY(time_plan(b, &plans->plans[i], &ms));
        if (isfinite(ms) && !(ms > best_ms * 0.97F)) {
            best_ms = ms;
            *best = i;
        }
    }
    return LS_SUCCESS;
}

static void make_key(const ls_cuda_libraries *libraries, ls_op op, const ls_conv_attr *a, char key[KEY_BYTES]) {
    const ls_cuda_device *device = libraries->device;
    snprintf(key, KEY_BYTES,
        "cudnn %zu; %s, %d; %s %s%s; src %dx%dx%dx%d dst %dx%dx%dx%d kernel %dx%d stride %dx%d pad %dx%d dilation %d "
        "groups %d; "
        "workspace %zu",
        cudnnGetVersion(), device->name, device->multiprocessors, ls_op_name(op), ls_dtype_name(a->storage),
        a->storage == LS_F32 && device->tf32 ? " tf32" : "", a->src.n, a->src.c, a->src.h, a->src.w, a->dst.n, a->dst.c,
        a->dst.h, a->dst.w, a->kernel_h, a->kernel_w, a->stride_h, a->stride_w, a->pad_h, a->pad_w, a->dilation,
        a->groups, libraries->workspace_limit);
}

// The plan that was timed before to be the fastest, or -1.
static int find_choice(ls_algorithm_cache *cache, const char *key, const ls_cudnn_plans *plans, const char **how) {
    const char *choice = ls_algorithm_cache_find(cache, key, how);
    for (int i = 0; choice && i < plans->count; i++) {
        char tag[LS_CUDNN_TAG_BYTES];
        ls_cudnn_plan_tag(&plans->plans[i], tag, sizeof tag);
        if (strcmp(tag, choice) == 0) return i;
    }
    return -1;
}

// The index of the plan to take, and how it was chosen (algorithm_cache.h).
static ls_status choose(ls_cuda_libraries *libraries, ls_op op, const ls_conv_attr *attr, const ls_cudnn_plans *plans,
    int *best, const char **how) {
    char key[KEY_BYTES], tag[LS_CUDNN_TAG_BYTES];
    ls_algorithm_cache *cache = libraries->device->plans;
    make_key(libraries, op, attr, key);
    *best = find_choice(cache, key, plans, how);
    if (*best >= 0) return LS_SUCCESS;
    *best = 0;
    *how = LS_CHOSEN_BY_RULE;
    if (ls_algorithm_cache_settled(cache)) return LS_SUCCESS;
    size_t workspace = 0;
    int timed = 0;
    for (int i = 0; i < plans->count; i++)
        if (plans->plans[i].workspace > workspace) workspace = plans->plans[i].workspace;
    bench b = { .libraries = libraries };
    ls_status status = open_bench(&b, attr, workspace, &timed);
    if (!ls_failed(status) && timed) {
        cudnnStatus_t rc = cudnnSetStream(libraries->cudnn, b.stream);
        status = rc == CUDNN_STATUS_SUCCESS ? time_plans(&b, plans, best) : ls_cudnn_fail(NULL, "cudnnSetStream", rc);
        cudnnSetStream(libraries->cudnn, NULL);
    }
    close_bench(&b);
    if (ls_failed(status) || !timed) return status;
    *how = LS_CHOSEN_NOW;
    ls_cudnn_plan_tag(&plans->plans[*best], tag, sizeof tag);
    return ls_algorithm_cache_put(cache, key, tag);
}

// --- the seam ------------------------------------------------------------------------------------

ls_status ls_cuda_conv_algorithm_new(
    ls_cuda_libraries *libraries, ls_op op, const ls_conv_attr *attr, const char *layer, ls_cuda_conv_algorithm **out) {
    *out = NULL;
    // A group's channels are not padded, so the padded numbers would say another number of groups.
    if (attr->groups > 1 && (attr->src.c % LS_CUDA_CHANNELS || attr->dst.c % LS_CUDA_CHANNELS)) return LS_SUCCESS;
    ls_cudnn_target target = {
        .handle = libraries->cudnn, .tf32 = libraries->device->tf32, .workspace_limit = libraries->workspace_limit
    };
    int timing = libraries->device->plans != NULL, best = 0;
    ls_cuda_conv_algorithm *made;
    LS_TRY(LS_NEW(made, 1, "layer %s", layer));
    ls_status status = ls_cudnn_plans_make(&target, op, attr, layer, timing ? LS_CUDNN_PLANS_MAX : 1, &made->plans);
    made->chosen = LS_CHOSEN_BY_RULE;
    if (timing && made->plans.count > 1)
        LS_THEN(status, choose(libraries, op, attr, &made->plans, &best, &made->chosen));
    if (ls_failed(status) || made->plans.count == 0) {
        ls_cudnn_plans_free(&made->plans);
        free(made);
        return status;
    }
    ls_cudnn_plans_keep(&made->plans, best);
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

const char *ls_cuda_conv_chosen(const ls_cuda_conv_algorithm *algorithm) {
    return algorithm->chosen;
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
