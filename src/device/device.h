// device.h - the device interface: descriptor -> plan -> run.
//
// A descriptor (ls_op_desc) is plain data. A plan is made from it once per device, before step 0, and may fail, naming
// the layer. Running a plan takes buffers and a queue; it cannot fail for shape reasons and allocates nothing. On a GPU
// it only enqueues: a launch error stays in the queue and ls_queue_sync returns it.
//
// Layouts belong to the device. An activation is known by its logical shape (N,C,H,W) and storage type;
// how its elements lie in memory is the device's own choice, a function of shape and type only, so that every operator
// of a device agrees on it. The same holds for parameters. Import and export convert from and to the canonical layout
// (PyTorch's NCHW and OIHW, fp32). Padding elements of activations and parameters are zero in every input,
// and every operator leaves them zero in its outputs: an output that is overwritten may hold anything before.
// No argument overlaps another unless the operator's header allows it.
//
// Devices: ref (oracle), cpu (oneDNN and own kernels), null (does nothing), and GPUs by plugins (plugins.def), opened
// behind the same table.
#ifndef LS_DEVICE_DEVICE_H
#define LS_DEVICE_DEVICE_H

#include <stddef.h>
#include <stdint.h>
#include "base/shape.h"
#include "base/status.h"
#include "device/collective.h"
#include "device/op_augment.h"
#include "device/op_channels.h"
#include "device/op_conv.h"
#include "device/op_linear.h"
#include "device/op_loss.h"
#include "device/op_elementwise.h"
#include "device/op_gate.h"
#include "device/op_group_norm.h"
#include "device/op_norm.h"
#include "device/op_pool.h"
#include "device/op_resize.h"
#include "device/op_update.h"

enum { LS_DEVICE_ABI = 11, LS_OP_ARGS_MAX = 15 };

typedef struct ls_device ls_device;
typedef struct ls_slab ls_slab;
typedef struct ls_queue ls_queue;
typedef struct ls_event ls_event;
typedef struct ls_captured_graph ls_captured_graph;
typedef struct ls_plan ls_plan;

typedef enum {
    LS_MEMORY_DEVICE,
    LS_MEMORY_PINNED, // host memory that the device copies from at full speed
    LS_MEMORY_REDUCED // of the device, and summed over ranks: as ls_collective_api.register_memory takes it best
} ls_memory_kind;

// A range of a slab. {0} is an absent argument. A buffer of device memory has no host pointer: ls_buffer_host checks.
typedef struct ls_buffer {
    ls_slab *slab;
    size_t offset, bytes;
} ls_buffer;

struct ls_slab {
    ls_device *device;
    ls_memory_kind kind;
    int host_visible; // address may be dereferenced by the host
    char *address;
    size_t bytes;
};

typedef enum {
#define X(NAME, name, text, family, flops) LS_OP_##NAME,
#include "device/ops.def"
    LS_OP_COUNT
} ls_op;

typedef enum {
#define F(family, storage) LS_FAMILY_##family,
#include "device/op_families.def"
    LS_FAMILY_COUNT
} ls_op_family;

typedef struct {
    ls_op op;
    const char *layer; // for messages and tables; borrowed, must outlive the plan
    union {
#define F(family, storage) ls_##family##_attr family;
#include "device/op_families.def"
    } attr;
} ls_op_desc;

// What every device's plan begins with.
struct ls_plan {
    // args in the order of the operator's enum; workspace: at least workspace_bytes,
    // 128-byte aligned, contents arbitrary
    void (*run)(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue);
    ls_op_desc desc;
    size_t workspace_bytes;
    const char *algorithm; // "onednn jit:avx2", "winograd f(4,3)", ...: for tables and logs
    const char *chosen;    // how, one of LS_CHOSEN_* (algorithm_cache.h); NULL: there was no choice
};

typedef struct {
    int threads; // cpu, ref: threads of this rank, >= 1
    int index;   // GPUs: which one
    int tf32;    // GPUs: fp32 convolutions and products may round their inputs to TF32
    int alone;   // GPUs: kernels of one queue are all that run there, none of which meets another rank's: an operator's
                 // blocks may fill the GPU and wait for each other (gpu/norm_rule.h)
    struct ls_algorithm_cache
        *plans;              // where the table says `measures`: algorithms of convolutions go by this cache and what is
                             // not in it is measured (algorithm_cache.h); borrowed until close; NULL: by the rule
    int vector_width;        // cpu: 8 or 16 floats; 0: what the processor has (tests set both)
    const char *winograd;    // cpu: "auto" | "f2" | "off"
    const char *convolution; // the algorithm of every convolution that it can compute, for tests and benches; of
                             // cpu: "winograd f(4,3)", "winograd f(3,3)", ..., "onednn", "own direct"; of cuda:
                             // "implicit gemm", "library"
    size_t workspace_limit_bytes; // of a convolution on a GPU; 0: the device's own default
} ls_device_options;

typedef struct {
    char name[96];       // "AMD EPYC, 2 threads, AVX2"
    char libraries[160]; // "oneDNN 2.6.3"
    size_t memory_bytes; // 0: unknown
    char uuid[48];       // "GPU-...", as nvidia-smi has it; "": not a GPU
    char pci[16];        // "0000:3b:00.0"; "": not a GPU
    char driver[32];     // "CUDA 13.0": the newest that the driver runs; "": not a GPU
    char
        vectors[32]; // "AVX2": the vector instructions of its own kernels, which decide the order of sums; "": one kind
} ls_device_info;

// A GPU that could be opened.
typedef struct {
    int index;     // ls_device_options.index
    char name[96]; // "NVIDIA H100 80GB HBM3"
    char uuid[48], pci[16];
} ls_device_gpu;

typedef struct {
    uint32_t abi;  // LS_DEVICE_ABI
    uint32_t size; // sizeof(ls_device_api): newer tables only grow at the end
    const char *name;

    ls_status (*open)(const ls_device_options *options, ls_device **out);
    void (*close)(ls_device *device);
    void (*info)(const ls_device *device, ls_device_info *info);
    // LS_USAGE when this device cannot train in that storage type, saying why and what can
    ls_status (*check_precision)(const ls_device *device, ls_dtype storage);

    ls_status (*slab_new)(
        ls_device *device, ls_memory_kind kind, size_t bytes, const char *what, ls_slab **out); // zeroed
    void (*slab_free)(ls_slab *slab);

    // Queues run in order; events order one queue after another. On a device without queues everything has happened
    // when the call returns. Each queue and event is used by one thread at a time, several of them by several threads.
    ls_status (*queue_new)(ls_device *device, const char *name, ls_queue **out);
    void (*queue_free)(ls_queue *queue);
    ls_status (*queue_sync)(ls_queue *queue);                             // waits; the first error of anything enqueued
    ls_status (*event_new)(ls_device *device, int timed, ls_event **out); // timed: for event_seconds; not in captures
    void (*event_free)(ls_event *event);
    void (*event_record)(ls_event *event, ls_queue *queue);
    void (*event_wait)(ls_event *event, ls_queue *queue);  // queue waits for event
    ls_status (*event_sync)(ls_event *event);              // the host waits for event
    int (*event_happened)(ls_event *event);                // without waiting
    double (*event_seconds)(ls_event *from, ls_event *to); // between two timed events that have happened
    // A named range of what this thread enqueues, for a profiler (NVTX); NULL where there is no such thing.
    void (*range_begin)(const char *name);
    void (*range_end)(void);

    // Capture (a CUDA graph, say). What is enqueued on the queue between begin and end is not run but captured, with
    // its buffers; launch enqueues it whole, any number of times, and gives the same bits. All NULL on a
    // device whose operators run at once. Between begin and end: no sync, no slab, no plan. Free before the slabs.
    ls_status (*capture_begin)(ls_queue *queue);
    ls_status (*capture_end)(ls_queue *queue, ls_captured_graph **out);
    void (*graph_launch)(ls_captured_graph *graph, ls_queue *queue);
    void (*graph_free)(ls_captured_graph *graph);
    // Device memory of this GPU that is free now and in all; NULL on devices in host memory.
    ls_status (*memory)(ls_device *device, size_t *free_bytes, size_t *all_bytes);
    void (*copy)(ls_buffer dst, ls_buffer src, size_t bytes, ls_queue *queue);
    void (*zero)(ls_buffer dst, size_t bytes, ls_queue *queue);

    // Layouts. Sizes include padding. Host arrays are canonical fp32.
    size_t (*activation_bytes)(const ls_device *device, ls_nchw shape, ls_dtype storage);
    void (*activation_import)(ls_device *device, ls_nchw shape, ls_dtype storage, const float *host, ls_buffer dst);
    void (*activation_export)(ls_device *device, ls_nchw shape, ls_dtype storage, ls_buffer src, float *host);
    size_t (*param_elements)(const ls_device *device, const ls_param_shape *shape);
    // Between canonical host arrays and fp32 device memory (a tensor's range of the master weights or gradients).
    void (*param_import)(ls_device *device, const ls_param_shape *shape, const float *host, ls_buffer dst);
    void (*param_export)(ls_device *device, const ls_param_shape *shape, ls_buffer src, float *host);

    ls_status (*plan_new)(ls_device *device, const ls_op_desc *desc, ls_plan **out);
    void (*plan_free)(ls_plan *plan);
    unsigned fusions;                    // what plan_new accepts beyond every device's operators: a set of ls_fusion
    const ls_collective_api *collective; // sums over ranks on the device's queues; NULL: through host memory only
    // The GPUs that open takes by their index, at most `most` of them, without opening any. LS_DEVICE: none, and why.
    // NULL: this device is not of a GPU.
    ls_status (*list)(ls_device_gpu *gpus, int most, int *count);
    int measures; // it heeds ls_device_options.plans
} ls_device_api;

typedef enum {
    LS_FUSES_NORM_POOL = 1,      // batch norm with the max pooling that follows it (op_norm.h)
    LS_ROUNDS_GRADIENTS = 2,     // in 16-bit storage, convolutions' weight gradients in GRAD_ROUNDED (op_conv.h)
    LS_FUSES_BIAS = 4,           // a bias in max pooling (op_pool.h), a relu behind a linear layer's bias (op_linear.h)
    LS_FUSES_RELU_ADD = 8,       // batch norm and relu with the add that follows them (op_norm.h, adds_last)
    LS_FUSES_CONCAT_ADD = 16,    // two gradients of a concatenation in the copies of its backward pass (op_channels.h)
    LS_FUSES_NORM_POOL_2X2 = 32, // LS_FUSES_NORM_POOL with windows of 2x2 side by side alone, of maps of even sides
    LS_FUSES_SCALE = 64,         // a factor of the logits in the loss (op_loss.h)
    LS_FUSES_HEAD = 128          // global pooling, a linear layer of few outputs and the loss (op_loss.h)
} ls_fusion;

struct ls_device { // what every device's own struct begins with
    const ls_device_api *api;
};

extern const ls_device_api ls_device_ref, ls_device_cpu, ls_device_null;

// Opens the device for a word of `device.type`. For auto, *why_not_gpu is set to one line, why no GPU is used
// (or to NULL).
LS_CHECKED ls_status ls_device_open(
    const char *type, const ls_device_options *options, ls_device **out, const char **why_not_gpu);
void ls_device_close(ls_device *device); // NULL is allowed
int ls_device_is_gpu(const char *type);  // whether that word of device.type names a plugin's device; auto does not
// The GPUs that can be opened here as `type`, a GPU's or "auto", none opened; fails as opening one would. *found: the
// word that opens them.
LS_CHECKED ls_status ls_device_gpus(const char *type, ls_device_gpu *gpus, int most, int *count, const char **found);

// Checks the geometry of a descriptor: LS_USAGE naming the layer and the shapes. Every plan_new calls it first.
LS_CHECKED ls_status ls_op_check(const ls_op_desc *desc);
const char *ls_op_name(ls_op op);
int ls_op_args(ls_op op);
ls_op_family ls_op_family_of(ls_op op);
ls_dtype ls_op_storage(const ls_op_desc *desc);                            // LS_F32 for operators of fp32 alone
size_t ls_pool_index_bytes(const ls_pool_attr *attr, size_t dst_elements); // dst_elements: as laid out by the device

// What an operator's time grows with: floating-point operations of convolutions and products, elements of windows, elements.
double ls_op_work(const ls_op_desc *desc);
// Floating-point operations of one run (2 for a multiply-add; convolutions
// as direct convolution, padding included, bias not).
double ls_op_flops(const ls_op_desc *desc);

static inline ls_buffer ls_buffer_at(ls_slab *slab, size_t offset, size_t bytes) {
    return (ls_buffer){ slab, offset, bytes };
}
void *ls_buffer_host(ls_buffer buffer); // NULL for an absent one; assert: host-visible
static inline void ls_plan_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    plan->run(plan, args, workspace, queue);
}

#endif
