// libraries_internal.h - declarations shared by libraries.c, cudnn_*.c and cublaslt.c. cudnn_plans.c needs only cuDNN,
// no GPU and no device: tests/device/cuda/cudnn_plans.c makes the same plans for described devices.
#ifndef LS_DEVICE_CUDA_LIBRARIES_INTERNAL_H
#define LS_DEVICE_CUDA_LIBRARIES_INTERNAL_H

#include <cublasLt.h>
#include <cudnn.h>
#include "device/cuda/libraries.h"
#include "device/algorithm_cache.h"

enum {
    LS_CUDNN_PLANS_MAX = 10,
    LS_CUDNN_PARTS_MAX = 6, // three tensors, convolution, operation, graph
    LS_CUDNN_ALIGNMENT = 16,
    LS_CUDNN_TAG_BYTES = 384,
    LS_LIBRARY_ALIGNMENT = 256 // alignment of a workspace, which cuBLASLt requires
};

// --- cudnn_plans.c: cuDNN's plans of one convolution -----------------------------------------

// The device that plans are made for: a handle (a GPU), or a description (ls_cudnn_describe), whose plans cannot run.
typedef struct {
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t described;
    int tf32;               // fp32 inputs may be rounded to TF32
    size_t workspace_limit; // bytes, > 0
} ls_cudnn_target;

typedef struct {
    cudnnBackendDescriptor_t config, plan;
    int64_t engine;
    size_t workspace;
    unsigned notes; // 1 << CUDNN_NUMERICAL_NOTE_*
} ls_cudnn_plan;

// Plans, and the descriptors that they were made from, which must live as long.
typedef struct {
    cudnnBackendDescriptor_t parts[LS_CUDNN_PARTS_MAX];
    int part_count;
    ls_cudnn_plan plans[LS_CUDNN_PLANS_MAX]; // in the heuristics' order, best first; mode A's before mode B's
    int count;
} ls_cudnn_plans;

enum { LS_CUDNN_IMAGE = 'x', LS_CUDNN_WEIGHT = 'w', LS_CUDNN_RESULT = 'y' }; // ids of the tensors in a variant pack

typedef struct {
    ls_op op;
    const ls_conv_attr *attr;
    const char *layer; // for messages
    int most;          // most plans to make, at most LS_CUDNN_PLANS_MAX
    const char *only;  // tag of the only plan to make; NULL: any plan
} ls_cudnn_request;

// One attribute of a descriptor. A row without values ends a list.
typedef struct {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t count;
    const void *values;
} ls_cudnn_attribute;

// Creates, fills and finalizes a descriptor. *out is NULL on failure.
cudnnStatus_t ls_cudnn_make(
    cudnnBackendDescriptorType_t type, const ls_cudnn_attribute *rows, cudnnBackendDescriptor_t *out);
// Makes the descriptor of padding, strides and dilation, for all three passes.
cudnnStatus_t ls_cudnn_make_convolution(const ls_conv_attr *attr, cudnnBackendDescriptor_t *out);

// The three passes differ only in names: image is x or dx, weight is w or dw, result is y or dy.
typedef struct {
    const char *what;
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t image, weight, result, convolution, alpha, beta;
} ls_cudnn_pass;
extern const ls_cudnn_pass ls_cudnn_passes[]; // index: LS_OP_CONV_*

// Makes up to `most` plans. The plans are repeatable, use no reduced-precision sums, stay within the workspace limit,
// and need no compiler at run time. They use tensor cores if the type allows and such plans exist, but never for fp32
// without tf32. out->count is 0 if cuDNN supports no plan. LS_DEVICE: the call, cuDNN's message and the layer; `out`
// then holds nothing.
LS_CHECKED ls_status ls_cudnn_plans_make(
    const ls_cudnn_target *target, const ls_cudnn_request *request, ls_cudnn_plans *out);
void ls_cudnn_plans_free(ls_cudnn_plans *plans);
void ls_cudnn_plans_keep(ls_cudnn_plans *plans, int index); // frees all plans except one, which becomes plans[0]
// Writes the plan's name in caches, "engine 38 2=1 24=5": engine and knobs. They identify the plan among those of the
// same convolution, version and card.
void ls_cudnn_plan_tag(const ls_cudnn_plan *plan, char *text, size_t bytes);
// Makes a device description from JSON text in the format of cuDNN's DEVICEPROP descriptor.
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

// Size of a workspace from which ls_library_align can cut an aligned workspace of `bytes` for the library.
static inline size_t ls_library_room(size_t bytes) {
    return bytes ? bytes + LS_LIBRARY_ALIGNMENT : 0;
}
static inline void *ls_library_align(void *workspace) {
    uintptr_t address = (uintptr_t)workspace;
    return (char *)workspace + (-address & (LS_LIBRARY_ALIGNMENT - 1)); // NULL stays NULL
}

#endif
