// libraries.c - the seam to NVIDIA's libraries in the emulation. There are none: nothing opens, and the operators take
// the direct kernels. With LOCKSTEP_EMULATED_LIBRARIES=1 in the environment there are stand-ins, so that tests see how
// the operators use a library: they compute with the direct kernels too, but convolutions know of no bias, round weight gradients to
// 16 bits where the storage type has them, and fill all of the workspace that they asked for with NaN first. Of
// convolutions they have two engines, which do the same: where the device heeds a cache of choices and has none for a
// convolution, "measuring" finds engine 1 to be the fastest, own kernels included (LOCKSTEP_EMULATED_TIMES, own the third).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/algorithm_cache.h"
#include "device/algorithm_choice.h"
#include "device/cuda/conv_timing.h"
#include "device/cuda/kernels/direct.h"
#include "device/cuda/kernels/muon.h"
#include "device/cuda/kernels/update.h"
#include "device/cuda/libraries.h"

enum { ODD_BYTES = 208 };         // workspace that is asked for beyond need, a multiple of 16 and of nothing larger
enum { ENGINES = 2, CANDIDATES }; // the last: own kernels

struct ls_cuda_libraries {
    ls_cuda_device *device;
    int timed;
};

struct ls_cuda_conv_algorithm {
    ls_op op;
    ls_cuda_conv_geometry geometry;
    size_t weights; // elements
    int engine;
};

struct ls_cuda_gemm {
    ls_op op; // of the linear layer that this product is, or Muon's
    int relu;
    ls_cuda_conv_geometry geometry;
    ls_cuda_muon_product product;
};

ls_status ls_cuda_libraries_open(ls_cuda_device *device, ls_cuda_libraries **out) {
    const char *wanted = getenv("LOCKSTEP_EMULATED_LIBRARIES");
    *out = NULL;
    const int timed = wanted && strcmp(wanted, "timed") == 0;
    if (!wanted || (strcmp(wanted, "1") != 0 && !timed)) return LS_SUCCESS;
    LS_TRY(LS_NEW(*out, 1, "emulated libraries"));
    **out = (struct ls_cuda_libraries){ device, timed };
    return LS_SUCCESS;
}

void ls_cuda_libraries_close(ls_cuda_libraries *libraries) {
    free(libraries);
}

void ls_cuda_libraries_text(const ls_cuda_libraries *libraries, char *text, size_t bytes) {
    snprintf(text, bytes, "%s", libraries ? "emulated libraries" : "emulated");
}

typedef struct {
    ls_cuda_conv_algorithm *algorithm;
    const ls_cuda_own_conv *own;
    ls_cuda_conv_timing *timing; // NULL: nothing runs
    float ms[CANDIDATES];        // 0: does not run
} measurement;

static ls_status time_once(void *context, int engine, float *ms) {
    measurement *m = context;
    float real;
    if (m->timing) {
        LS_TRY(ls_cuda_conv_timing_begin(m->timing));
        void *const *t = m->timing->tensors, *image = t[LS_CONV_IMAGE], *weight = t[LS_CONV_WEIGHT];
        if (engine == ENGINES)
            m->own->run(m->own->context, image, weight, t[LS_CONV_RESULT], m->timing->workspace, &m->timing->queue);
        else
            ls_cuda_conv_execute(
                m->algorithm, image, weight, t[LS_CONV_RESULT], m->timing->workspace, &m->timing->queue);
        LS_TRY(ls_cuda_conv_timing_end(m->timing, &real));
    }
    if (m->ms[engine] == 0) return ls_fail(LS_DEVICE, "emulated library: engine %d does not run", engine);
    *ms = m->ms[engine];
    return LS_SUCCESS;
}

static void read_times(float ms[CANDIDATES]) {
    const char *text = getenv("LOCKSTEP_EMULATED_TIMES"), *at = text ? text : "2,1,2";
    for (int i = 0; i < CANDIDATES && at; i++) {
        ms[i] = strtof(at, NULL); // 0 for x
        at = strchr(at, ',');
        at += at != NULL;
    }
}

// *measured is 0 where the GPU has no room for it.
static ls_status measure(ls_cuda_libraries *libraries, ls_cuda_conv_algorithm *algorithm, const ls_conv_attr *a,
    const char *layer, const ls_cuda_own_conv *own, int *measured) {
    ls_cuda_conv_timing timing = { 0 };
    measurement m = { algorithm, own, libraries->timed ? &timing : NULL, { 0 } };
    const int count = own ? CANDIDATES : ENGINES;
    const ls_algorithm_candidates candidates = { layer, ls_op_name(algorithm->op), count, time_once, &m };
    size_t workspace = ls_cuda_conv_workspace(algorithm);
    if (own && own->workspace > workspace) workspace = own->workspace;
    read_times(m.ms);
    *measured = 1;
    ls_status status = LS_SUCCESS;
    if (m.timing) status = ls_cuda_conv_timing_open(libraries->device, a, workspace, &timing, measured);
    if (*measured) LS_THEN(status, ls_algorithm_fastest(&candidates, &algorithm->engine));
    ls_cuda_conv_timing_close(&timing);
    return status;
}

// algorithm->engine: ENGINES for own kernels
static ls_status choose(ls_cuda_libraries *libraries, ls_cuda_conv_algorithm *algorithm, const ls_conv_attr *a,
    const char *layer, const ls_cuda_own_conv *own, const char **chosen) {
    ls_algorithm_cache *cache = libraries->device->algorithms;
    char key[256], choice[16];
    int measured;
    *chosen = LS_CHOSEN_BY_RULE;
    if (own && own->first) algorithm->engine = ENGINES;
    if (!cache) return LS_SUCCESS;
    snprintf(key, sizeof key,
        "emulated; %s %s; src %dx%dx%dx%d dst %dx%dx%dx%d kernel %dx%d stride %dx%d; workspace %zu",
        ls_op_name(algorithm->op), ls_dtype_name(a->storage), a->src.n, a->src.c, a->src.h, a->src.w, a->dst.n,
        a->dst.c, a->dst.h, a->dst.w, a->kernel_h, a->kernel_w, a->stride_h, a->stride_w,
        libraries->device->workspace_limit);
    const char *how, *before = ls_algorithm_cache_find(cache, key, &how);
    int engine;
    if (before && sscanf(before, "engine %d", &engine) == 1 && engine >= 0 && engine < ENGINES + (own != NULL)) {
        algorithm->engine = engine;
        *chosen = how;
        return LS_SUCCESS;
    }
    if (ls_algorithm_cache_settled(cache)) return LS_SUCCESS;
    LS_TRY(measure(libraries, algorithm, a, layer, own, &measured));
    if (!measured) return LS_SUCCESS;
    *chosen = LS_CHOSEN_NOW;
    snprintf(choice, sizeof choice, "engine %d", algorithm->engine);
    ls_algorithm_cache_put(cache, key, choice);
    return LS_SUCCESS;
}

ls_status ls_cuda_conv_algorithm_new(ls_cuda_libraries *libraries, ls_op op, const ls_conv_attr *a, const char *layer,
    const ls_cuda_own_conv *own, ls_cuda_conv_algorithm **out, const char **chosen) {
    *out = NULL, *chosen = NULL;
    if (a->groups > 1) return LS_SUCCESS; // as cuDNN where a group's channels are not padded: the direct kernels
    ls_cuda_conv_algorithm *made;
    LS_TRY(LS_NEW(made, 1, "layer %s", layer));
    int c = ls_cuda_channels(a->src.c), k = ls_cuda_channels(a->dst.c);
    *made = (ls_cuda_conv_algorithm){ .op = op,
        .geometry = { a->src.n, a->src.h, a->src.w, a->src.c, a->dst.h, a->dst.w, a->dst.c, c, k, a->kernel_h,
            a->kernel_w, a->stride_h, a->stride_w, a->pad_h, a->pad_w, a->dilation, a->groups, a->storage },
        .weights = (size_t)k * (size_t)ls_conv_taps(a) * (size_t)c };
    ls_status status = choose(libraries, made, a, layer, own, chosen);
    if (ls_failed(status) || made->engine == ENGINES)
        free(made);
    else
        *out = made;
    return status;
}

void ls_cuda_conv_algorithm_free(ls_cuda_conv_algorithm *algorithm) {
    free(algorithm);
}

// Weight gradients in 16 bits: the fp32 sums, then the direct kernel's own.
static size_t sums_bytes(const ls_cuda_conv_algorithm *algorithm) {
    int rounds = algorithm->op == LS_OP_CONV_BACKWARD_WEIGHT && algorithm->geometry.storage != LS_F32;
    return rounds ? algorithm->weights * sizeof(float) : 0;
}

size_t ls_cuda_conv_workspace(const ls_cuda_conv_algorithm *algorithm) {
    return sums_bytes(algorithm) + ls_cuda_direct_workspace(&algorithm->geometry) + ODD_BYTES;
}

const char *ls_cuda_conv_name(const ls_cuda_conv_algorithm *algorithm) {
    return algorithm->engine ? "emulated library, engine 1" : "emulated library";
}

static void enqueue_memset(void *at, int value, size_t bytes, ls_queue *queue) {
    cudaError_t rc = cudaMemsetAsync(at, value, bytes, queue->stream);
    if (rc != cudaSuccess) ls_cuda_note_status(queue->device, ls_cuda_fail("cudaMemsetAsync", rc));
}

static void weight_gradient(
    const ls_cuda_conv_algorithm *a, void *image, void *weight, void *result, char *workspace, ls_queue *queue) {
    const ls_cuda_conv_geometry *g = &a->geometry;
    void *rest = workspace + sums_bytes(a);
    if (g->storage == LS_F32) {
        ls_cuda_direct_backward_weight(g, image, result, weight, rest, queue->stream);
        return;
    }
    ls_flat_attr all = { .count = (int64_t)a->weights, .storage = g->storage };
    enqueue_memset(workspace, 0, sums_bytes(a), queue);
    ls_cuda_direct_backward_weight(g, image, result, (float *)(void *)workspace, rest, queue->stream);
    ls_cuda_cast(&all, (const float *)(const void *)workspace, weight, queue->stream);
}

void ls_cuda_conv_execute(
    ls_cuda_conv_algorithm *algorithm, void *image, void *weight, void *result, void *workspace, ls_queue *queue) {
    const ls_cuda_conv_geometry *g = &algorithm->geometry;
    emuLibraryCall(ls_op_name(algorithm->op));
    enqueue_memset(workspace, 0xFF, ls_cuda_conv_workspace(algorithm), queue);
    if (algorithm->op == LS_OP_CONV_FORWARD) {
        ls_cuda_direct_forward(g, image, weight, NULL, LS_F32, result, queue->stream);
    } else if (algorithm->op == LS_OP_CONV_BACKWARD_DATA) {
        ls_cuda_direct_backward_data(g, result, weight, image, queue->stream);
    } else {
        weight_gradient(algorithm, image, weight, result, workspace, queue);
    }
    emuLibraryCall(NULL);
}

// Which pass of a linear layer has this form of product; the others are not there.
ls_status ls_cuda_gemm_new(
    ls_cuda_libraries *libraries, const ls_cuda_gemm_attr *a, const char *layer, ls_cuda_gemm **out) {
    (void)libraries;
    *out = NULL;
    ls_cuda_gemm made;
    if (!a->transpose_a && a->storage == LS_F32 && (a->batch > 1 || a->alpha != 1 || a->beta != 0)) {
        made = (ls_cuda_gemm){ .op = LS_OP_MUON,
            .product = { a->batch, a->m, a->n, a->k, a->transpose_b, a->alpha, a->beta } };
    } else if (!a->transpose_a && a->transpose_b && a->result == a->storage && a->beta == 0) {
        made = (ls_cuda_gemm){ .op = LS_OP_LINEAR_FORWARD,
            .geometry = ls_cuda_linear_geometry(a->m, a->k, a->n, a->n, a->storage) };
    } else if (!a->transpose_a && !a->transpose_b && a->result == a->storage && a->beta == 0) {
        made = (ls_cuda_gemm){ .op = LS_OP_LINEAR_BACKWARD_DATA,
            .geometry = ls_cuda_linear_geometry(a->m, a->n, a->k, a->k, a->storage) };
    } else if (a->transpose_a && !a->transpose_b && a->result == LS_F32 && a->beta == 1) {
        made = (ls_cuda_gemm){ .op = LS_OP_LINEAR_BACKWARD_WEIGHT,
            .geometry = ls_cuda_linear_geometry(a->k, a->n, a->m, a->m, a->storage) };
    } else {
        return ls_fail(LS_INTERNAL, "layer %s: no such product in the emulated library", layer);
    }
    if ((a->bias || a->relu) && made.op != LS_OP_LINEAR_FORWARD)
        return ls_fail(LS_INTERNAL, "layer %s: no bias in such a product", layer);
    made.relu = a->relu;
    LS_TRY(LS_NEW(*out, 1, "layer %s", layer));
    **out = made;
    return LS_SUCCESS;
}

void ls_cuda_gemm_free(ls_cuda_gemm *gemm) {
    free(gemm);
}

size_t ls_cuda_gemm_workspace(const ls_cuda_gemm *gemm) {
    return (gemm->op == LS_OP_MUON ? 0 : ls_cuda_direct_workspace(&gemm->geometry)) + ODD_BYTES;
}

void ls_cuda_gemm_execute(const ls_cuda_gemm *gemm, const void *a, const void *b, const void *c, const void *bias,
    void *d, void *workspace, ls_queue *queue) {
    const ls_cuda_conv_geometry *g = &gemm->geometry;
    emuLibraryCall(ls_op_name(gemm->op));
    enqueue_memset(workspace, 0xFF, ls_cuda_gemm_workspace(gemm), queue);
    if (gemm->op == LS_OP_MUON) {
        ls_cuda_muon_multiply(&gemm->product, a, b, c, d, queue->stream);
    } else if (gemm->op == LS_OP_LINEAR_FORWARD) {
        ls_cuda_direct_forward(g, a, b, bias, g->storage, d, queue->stream);
        if (gemm->relu) ls_cuda_bias_add(g->n, g->padded_k, g->storage, NULL, 1, d, queue->stream);
    } else if (gemm->op == LS_OP_LINEAR_BACKWARD_DATA) {
        ls_cuda_direct_backward_data(g, a, b, d, queue->stream);
    } else {
        ls_cuda_direct_backward_weight(g, b, a, d, workspace, queue->stream);
    }
    emuLibraryCall(NULL);
}
