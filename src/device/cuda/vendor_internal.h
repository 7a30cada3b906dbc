// vendor_internal.h - what the files libraries*.c share. cudnn_plans.c needs cuDNN alone, neither a GPU nor a device:
// tests/device/cuda/cudnn_plans.c makes the same plans for described devices.
#ifndef LS_DEVICE_CUDA_VENDOR_INTERNAL_H
#define LS_DEVICE_CUDA_VENDOR_INTERNAL_H

#include <cublasLt.h>
#include <cudnn.h>
#include "device/cuda/vendor.h"
#include "device/algorithm_cache.h"

enum {
    LS_CUDNN_PLANS_MAX = 10,
    LS_CUDNN_PARTS_MAX = 6, // three tensors, convolution, operation, graph
    LS_CUDNN_ALIGNMENT = 16,
    LS_CUDNN_TAG_BYTES = 384,
    LS_LIBRARY_ALIGNMENT = 256 // of a workspace: cuBLASLt demands it
};

// --- cudnn_plans.c: cuDNN's plans of one convolution -----------------------------------------

// What plans are made for: a handle (a GPU), or the description of one (ls_cudnn_describe), whose plans cannot run.
typedef struct {
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t described;
    int tf32;               // fp32 may round its inputs to TF32
    size_t workspace_limit; // bytes, > 0
} ls_cudnn_target;

typedef struct {
    cudnnBackendDescriptor_t config, plan;
    int64_t engine;
    size_t workspace;
    unsigned notes; // 1 << CUDNN_NUMERICAL_NOTE_*
} ls_cudnn_plan;

// The plans and what they were made from, which must live as long.
typedef struct {
    cudnnBackendDescriptor_t parts[LS_CUDNN_PARTS_MAX];
    int part_count;
    ls_cudnn_plan plans[LS_CUDNN_PLANS_MAX]; // the heuristics' order, best first, mode A's before mode B's
    int count;
} ls_cudnn_plans;

enum { LS_CUDNN_IMAGE = 'x', LS_CUDNN_WEIGHT = 'w', LS_CUDNN_RESULT = 'y' }; // the tensors' ids in a variant pack

typedef struct {
    ls_op op;
    const ls_conv_attr *attr;
    const char *layer; // for messages
    int most;          // plans, at most LS_CUDNN_PLANS_MAX
    const char *only;  // a plan's tag: that plan or none; NULL: any
} ls_cudnn_request;

// One attribute of a descriptor. The last row of a list has no values.
typedef struct {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t count;
    const void *values;
} ls_cudnn_attribute;

// Creates, fills and finalizes a descriptor; *out is NULL on failure.
cudnnStatus_t ls_cudnn_make(
    cudnnBackendDescriptorType_t type, const ls_cudnn_attribute *rows, cudnnBackendDescriptor_t *out);
// How a convolution moves over its image, for all three passes.
cudnnStatus_t ls_cudnn_make_convolution(const ls_conv_attr *attr, cudnnBackendDescriptor_t *out);

// The three passes differ in names alone: image is x or dx, weight w or dw, result y or dy.
typedef struct {
    const char *what;
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t image, weight, result, convolution, alpha, beta;
} ls_cudnn_pass;
extern const ls_cudnn_pass ls_cudnn_passes[]; // by LS_OP_CONV_*

// Up to `most` plans that are repeatable, use no reduced-precision sums, keep to the workspace limit, and need no
// compiler at run time; with tensor cores where the type allows and such plans are there, never with them for fp32
// without tf32. out->count is 0 where cuDNN supports none.
// LS_DEVICE: the call, cuDNN's words and the layer; nothing is held then.
LS_CHECKED ls_status ls_cudnn_plans_make(
    const ls_cudnn_target *target, const ls_cudnn_request *request, ls_cudnn_plans *out);
void ls_cudnn_plans_free(ls_cudnn_plans *plans);
void ls_cudnn_plans_keep(ls_cudnn_plans *plans, int index); // frees the others: plans[0] is the one that stays
// "engine 38 2=1 24=5": engine and knobs, which name this plan among those of the same convolution, version and card.
void ls_cudnn_plan_tag(const ls_cudnn_plan *plan, char *text, size_t bytes);
// A device from the JSON text that cuDNN calls DEVICEPROP's representation.
LS_CHECKED ls_status ls_cudnn_describe(const char *json, cudnnBackendDescriptor_t *out);
ls_status ls_cudnn_fail(const char *layer, const char *call, cudnnStatus_t rc);

// --- an open pair of libraries -------------------------------------------------------------------

ls_status ls_cublaslt_fail(const char *layer, const char *call, cublasStatus_t rc);
struct ls_cuda_libraries {
    ls_cuda_device *device;
    cudnnHandle_t cudnn;
    cublasLtHandle_t cublaslt;
    size_t workspace_limit;
};

// The library's own workspace inside one of `bytes` + ls_library_room(bytes): aligned as the libraries need it.
static inline size_t ls_library_room(size_t bytes) {
    return bytes ? bytes + LS_LIBRARY_ALIGNMENT : 0;
}
static inline void *ls_library_align(void *workspace) {
    uintptr_t address = (uintptr_t)workspace;
    return (char *)workspace + (-address & (LS_LIBRARY_ALIGNMENT - 1)); // NULL stays NULL
}

#endif
