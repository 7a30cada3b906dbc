// cuda.h - the CUDA device's own parts. The device is a plugin (plugin.c), which the program opens at run time. So
// nothing here is linked into `train`. Code here may call only those functions of the program that are built into the
// plugin a second time: base/, system/ and the sources that cmake/cuda.cmake names.
//
// Layout. Activations are NHWC with the channels rounded up to a multiple of LS_CUDA_CHANNELS, whatever the storage
// type. Vector parameters are rounded up in the same way. A convolution's weight is [K rounded up][R][S][C rounded up];
// with groups it is [K rounded up][R][S][C/groups], without rounding inside a group. A linear weight is [O rounded
// up][H][W][C rounded up]. Padding is zero and stays zero, so every kernel may treat it as data, 16 bytes at a time.
//
// This code is compiled in two ways: with the CUDA runtime, cuDNN and cuBLASLt, and in tests/emulation, which compiles
// the same files for the processor. The libraries have an interface of their own (libraries.h). The emulation has no
// libraries and uses the device's own kernels.
#ifndef LS_DEVICE_CUDA_CUDA_H
#define LS_DEVICE_CUDA_CUDA_H

#include <cuda_runtime_api.h>
#include <pthread.h>
#include "device/device.h"

enum { LS_CUDA_CHANNELS = 8 };
// The lowest compute capability with bf16, TF32 and the matrix operations of kernels/tensor_cores.cuh. Older cards
// train in fp32 or fp16, without the implicit GEMM kernels. The lowest capability of all is that of the build,
// LS_CUDA_LOWEST (cmake/cuda.cmake).
enum { LS_CUDA_BF16 = 80 };
// Most bytes of workspace of a library for one operator, if the device's options set no limit. With 256 MiB, resnet9's
// widest layer has no TF32 plan with tensor cores at batch 512 on an A100: such plans copy picture and result into
// another layout, which takes 384 MiB.
#define LS_CUDA_WORKSPACE_LIMIT ((size_t)512 << 20)

typedef struct ls_cuda_libraries ls_cuda_libraries; // libraries.h

typedef struct {
    ls_device base;
    int index;
    char name[96], uuid[48], pci[16];
    int capability;      // 90 for 9.0
    int multiprocessors; // used to size the grids of looping kernels
    size_t shared_bytes; // most shared memory of a block; at capability 7.5: 64 KiB, 7.0: 96, later: 99 to 227
    int alone;           // all blocks of a kernel may wait for each other (ls_device_options)
    size_t memory_bytes;
    int tf32;
    int no_library, no_implicit_gemm;      // set by ls_device_options.convolution
    struct ls_algorithm_cache *algorithms; // borrowed; NULL: no algorithms are timed
    size_t workspace_limit;
    ls_cuda_libraries *libraries; // NULL: own kernels only
    pthread_mutex_t lock;         // protects the members below, which several threads write
    const ls_op_desc *last;       // the operator enqueued last; named when an error shows up later
    int last_recorded;            // 1: `last` is the last operator of a captured graph
    ls_status error;              // first error that could not be returned where it happened; never cleared
    struct ls_queue *queues;      // all queues of the device, linked by `next`
} ls_cuda_device;

struct ls_queue {
    ls_cuda_device *device;
    cudaStream_t stream;
    char name[32];
    ls_queue *next; // next in ls_cuda_device.queues
};

// The common first part of every plan of this device.
typedef struct {
    ls_plan base;
    ls_cuda_device *device;
    void (*free_parts)(ls_plan *plan); // frees the plan's own parts; NULL: it has none
} ls_cuda_plan;

typedef void ls_cuda_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue);

// Makes a plan struct of `bytes`, zero except for desc, run, algorithm and device.
void *ls_cuda_plan_make(
    ls_cuda_device *device, const ls_op_desc *desc, size_t bytes, ls_cuda_run *run, const char *algorithm);

// Each family of operators has one function that makes its plans. desc->op is an operator of the family, and
// ls_op_check has passed.
typedef ls_status ls_cuda_maker(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out);
ls_cuda_maker ls_cuda_muon_plan;
#define F(family, storage) ls_cuda_maker ls_cuda_##family##_plan;
#include "device/op_families.def"

enum { LS_CUDA_CLUSTER_MAX = 8 }; // most blocks in a cluster; compute capability 9.0 and later
static inline int ls_cuda_channels(int c) {
    return (c + LS_CUDA_CHANNELS - 1) / LS_CUDA_CHANNELS * LS_CUDA_CHANNELS;
}
static inline int64_t ls_cuda_elements(ls_nchw s) { // elements of an activation, including padding
    return (int64_t)s.n * s.h * s.w * ls_cuda_channels(s.c);
}
static inline int ls_cuda_pack(ls_dtype storage) { // elements in 16 bytes
    return 16 / (int)ls_dtype_bytes(storage);
}
static inline int64_t ls_cuda_packs(ls_nchw s, ls_dtype storage) { // packs of an activation
    return ls_cuda_elements(s) / ls_cuda_pack(storage);
}
// Returns LS_USAGE if an activation has 2^31 packs or more. Call it for kernels that count packs in 31 bits.
LS_CHECKED ls_status ls_cuda_check_packs(const ls_op_desc *desc, ls_nchw shape, ls_dtype storage);
static inline void *ls_cuda_at(ls_buffer buffer) { // device address; NULL for an absent argument
    return buffer.slab ? buffer.slab->address + buffer.offset : NULL;
}

// Every run function calls this at its end, after its last launch. It remembers the operator and notes a launch error.
void ls_cuda_enqueued(const ls_plan *plan, ls_queue *queue);
// Returns LS_DEVICE if a CUDA call failed, with the call and CUDA's message and number.
#define LS_TRY_CUDA(call) \
    do { \
        cudaError_t ls_cuda_rc_ = (call); \
        if (ls_cuda_rc_ != cudaSuccess) return ls_cuda_fail(#call, ls_cuda_rc_); \
    } while (0)
ls_status ls_cuda_fail(const char *call, cudaError_t rc);
// Notes in device->error that a call failed which cannot return its error. Ignores cudaSuccess, and every error after
// the first. while_doing: for example "a copy".
void ls_cuda_note(ls_cuda_device *device, const char *while_doing, cudaError_t rc);
void ls_cuda_note_status(ls_cuda_device *device, ls_status status);
ls_status ls_cuda_error(ls_cuda_device *device); // the noted error
// Waits for all queues of the device and for the default stream. In place of cudaDeviceSynchronize, which breaks an
// update that another run of this process captures, and would wait for that run's work.
cudaError_t ls_cuda_settle(ls_cuda_device *device);
// Makes this device's GPU the current GPU of the calling host thread. Functions that make something, or that another
// thread may call first, start with this call.
static inline cudaError_t ls_cuda_enter(const ls_cuda_device *device) {
    return cudaSetDevice(device->index);
}

// The entries of the device's table, described in device.h.
ls_status ls_cuda_slab_new(ls_device *device, ls_memory_kind kind, size_t bytes, const char *what, ls_slab **out);
void ls_cuda_slab_free(ls_slab *slab);
ls_status ls_cuda_memory(ls_device *device, size_t *free_bytes, size_t *all_bytes);
// queue.c
ls_status ls_cuda_queue_new(ls_device *device, const char *name, ls_queue **out);
void ls_cuda_queue_free(ls_queue *queue);
ls_status ls_cuda_queue_sync(ls_queue *queue);
ls_status ls_cuda_event_new(ls_device *device, int timed, ls_event **out);
void ls_cuda_event_free(ls_event *event);
void ls_cuda_event_record(ls_event *event, ls_queue *queue);
void ls_cuda_event_wait(ls_event *event, ls_queue *queue);
ls_status ls_cuda_event_sync(ls_event *event);
int ls_cuda_event_happened(ls_event *event);
double ls_cuda_event_seconds(ls_event *from, ls_event *to);
void ls_cuda_copy(ls_buffer dst, ls_buffer src, size_t bytes, ls_queue *queue);
void ls_cuda_zero(ls_buffer dst, size_t bytes, ls_queue *queue);
ls_status ls_cuda_capture_begin(ls_queue *queue);
ls_status ls_cuda_capture_end(ls_queue *queue, ls_captured_graph **out);
void ls_cuda_graph_launch(ls_captured_graph *graph, ls_queue *queue);
void ls_cuda_graph_free(ls_captured_graph *graph);
// layout.c: imports and exports wait for all work enqueued before and are finished when they return
size_t ls_cuda_activation_bytes(const ls_device *device, ls_nchw shape, ls_dtype storage);
void ls_cuda_activation_import(ls_device *device, ls_nchw shape, ls_dtype storage, const float *host, ls_buffer dst);
void ls_cuda_activation_export(ls_device *device, ls_nchw shape, ls_dtype storage, ls_buffer src, float *host);
size_t ls_cuda_param_elements(const ls_device *device, const ls_param_shape *shape);
void ls_cuda_param_import(ls_device *device, const ls_param_shape *shape, const float *host, ls_buffer dst);
void ls_cuda_param_export(ls_device *device, const ls_param_shape *shape, ls_buffer src, float *host);
// plan.c
ls_status ls_cuda_plan_new(ls_device *device, const ls_op_desc *desc, ls_plan **out);
void ls_cuda_plan_free(ls_plan *plan);

extern const ls_device_api ls_device_cuda;         // device.c
extern const ls_collective_api ls_cuda_collective; // collective.c

#endif
