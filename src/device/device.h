// device.h - the device interface: descriptor -> plan -> run.
//
// A descriptor (ls_op_desc) is plain data that describes one operator. A device makes a plan from it before the first
// update. Making a plan may fail. Running a plan takes buffers and a queue. A run allocates nothing, except in oneDNN,
// and cannot fail because of shapes. On a GPU, running a plan only enqueues work: the device keeps a launch error, and
// queue_sync returns it.
//
// Each device chooses its own memory layouts. The rest of the program knows an activation by its logical shape
// (N,C,H,W) and storage type. The layout is a function of shape and type only, so that all operators of a device agree
// on it. The same holds for parameters. Import and export convert between the device's layout and the canonical layout
// (PyTorch's NCHW and OIHW, fp32). Padding elements of activations and parameters are zero in every input, and every
// operator leaves them zero in its outputs. An output that an operator overwrites may hold anything before the run.
// Arguments do not overlap unless the operator's header allows it.
//
// Devices: ref (the oracle), cpu (oneDNN and our own kernels), and GPUs. GPU devices come from plugins (plugins.def)
// and have the same function table.
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
#include "device/op_distill.h"
#include "device/op_linear.h"
#include "device/op_loss.h"
#include "device/op_elementwise.h"
#include "device/op_gate.h"
#include "device/op_group_norm.h"
#include "device/op_norm.h"
#include "device/op_pool.h"
#include "device/op_quantise.h"
#include "device/op_resize.h"
#include "device/op_update.h"

enum { LS_DEVICE_ABI = 13, LS_OP_ARGS_MAX = 15 };

typedef struct ls_device ls_device;
typedef struct ls_slab ls_slab;
typedef struct ls_queue ls_queue;
typedef struct ls_event ls_event;
typedef struct ls_captured_graph ls_captured_graph;
typedef struct ls_plan ls_plan;

typedef enum {
    LS_MEMORY_DEVICE,
    LS_MEMORY_PINNED, // host memory that the device reads and writes itself, at full speed
    LS_MEMORY_REDUCED // memory of the device that is summed over ranks; ls_collective_api.register_memory registers it
} ls_memory_kind;

// A range of a slab. {0}: the argument is absent. The host can read and write a range only if its slab is host_visible.
typedef struct ls_buffer {
    ls_slab *slab;
    size_t offset, bytes;
} ls_buffer;

struct ls_slab {
    ls_device *device;
    ls_memory_kind kind;
    int host_visible; // the host may dereference address
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
    const char *layer; // name for messages and tables; borrowed, must outlive the plan
    union {
#define F(family, storage) ls_##family##_attr family;
#include "device/op_families.def"
    } attr;
} ls_op_desc;

// The common first part of every device's plan.
struct ls_plan {
    // args: in the order of the operator's enum. workspace: at least workspace_bytes, 128-byte aligned, contents
    // arbitrary.
    void (*run)(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue);
    ls_op_desc desc;
    size_t workspace_bytes;
    const char *algorithm; // "onednn jit:avx2", "winograd f(4,3)", ...: for tables and logs
    // how the algorithm was chosen, one of LS_CHOSEN_* (algorithm_cache.h); NULL: no choice, or the device does not say
    const char *chosen;
};

typedef struct {
    int threads; // cpu, ref: threads of this rank, >= 1
    int index;   // GPUs: number of the GPU
    int tf32;    // GPUs: fp32 convolutions and products may round their inputs to TF32
    // GPUs: all kernels on the GPU come from one queue of this rank, so that no two kernels run at the same time. The
    // blocks of an operator may then fill the GPU and wait for each other (gpu/norm_rule.h).
    int alone;
    // Cache of measured algorithms, used by devices whose table sets `measures`. The device takes the algorithms of its
    // convolutions from the cache. It measures those that are missing, unless the cache is settled (algorithm_cache.h).
    // Borrowed until close. NULL: a fixed rule decides.
    struct ls_algorithm_cache *algorithms;
    int vector_width;     // cpu: 4, 8 or 16 floats; 0: the widest that the processor has (tests set the others)
    const char *winograd; // cpu: "auto" | "f2" | "off" (device.winograd); NULL: "auto"
    // For tests and benchmarks: use this algorithm for every convolution that it can compute. cpu: "winograd f(4,3)",
    // "winograd f(3,3)", ..., "onednn", "own direct". cuda: "implicit gemm", "library"; depthwise kernels come first.
    const char *convolution;
    size_t workspace_limit_bytes; // GPUs: most workspace of a library for one operator; 0: the device's default
} ls_device_options;

typedef struct {
    char name[96];       // "AMD EPYC, 2 threads, AVX2"
    char libraries[160]; // "oneDNN 2.6.3"
    size_t memory_bytes; // 0: unknown
    char uuid[48];       // "GPU-...", as nvidia-smi prints it; "": not a GPU
    char pci[16];        // "0000:3b:00.0"; "": not a GPU
    // "CUDA 13.0": the newest CUDA version that the driver supports; "": not a GPU
    char driver[32];
    // "AVX2": the vector instructions of the device's own kernels, which decide the order of sums; "": there is only
    // one set of kernels
    char vectors[32];
} ls_device_info;

// A GPU that the device can open.
typedef struct {
    int index;     // ls_device_options.index
    char name[96]; // "NVIDIA H100 80GB HBM3"
    char uuid[48], pci[16];
} ls_device_gpu;

typedef struct {
    uint32_t abi;  // LS_DEVICE_ABI
    uint32_t size; // sizeof(ls_device_api): newer versions only add fields at the end
    const char *name;

    ls_status (*open)(const ls_device_options *options, ls_device **out);
    void (*close)(ls_device *device);
    void (*info)(const ls_device *device, ls_device_info *info);
    // Fails with LS_USAGE if this device cannot train in that storage type. The message says why and which types it
    // supports.
    ls_status (*check_precision)(const ls_device *device, ls_dtype storage);

    ls_status (*slab_new)(
        ls_device *device, ls_memory_kind kind, size_t bytes, const char *what, ls_slab **out); // the memory is zeroed
    void (*slab_free)(ls_slab *slab);

    // Work in a queue runs in order. Events order the work of one queue after the work of another. On a device without
    // real queues the work is done when the call returns. Errors of work are kept: by the queue, on GPUs by the whole
    // device. Only one thread at a time may use a queue or an event; different threads may use different ones.
    ls_status (*queue_new)(ls_device *device, const char *name, ls_queue **out);
    void (*queue_free)(ls_queue *queue);
    ls_status (*queue_sync)(ls_queue *queue); // waits until the queue is empty; returns the first error so far
    // timed: for event_seconds; not allowed in captures
    ls_status (*event_new)(ls_device *device, int timed, ls_event **out);
    void (*event_free)(ls_event *event);
    void (*event_record)(ls_event *event, ls_queue *queue);
    void (*event_wait)(ls_event *event, ls_queue *queue);  // the queue waits for the event
    ls_status (*event_sync)(ls_event *event);              // the host waits for the event
    int (*event_happened)(ls_event *event);                // 1: it happened, or there was an error; does not wait
    double (*event_seconds)(ls_event *from, ls_event *to); // time between two timed events that have happened
    // Marks a named range of this thread's enqueued work for a profiler (NVTX). NULL: the device has no such profiler.
    void (*range_begin)(const char *name);
    void (*range_end)(void);

    // Capture, for example as a CUDA graph. Work enqueued between begin and end is captured with its buffers and does
    // not run. graph_launch enqueues the whole graph, any number of times, and gives the same bits as running the work
    // directly. Between begin and end, do not sync, make slabs or make plans. Free graphs before their slabs. All four
    // are NULL on a device that runs operators at once.
    ls_status (*capture_begin)(ls_queue *queue);
    ls_status (*capture_end)(ls_queue *queue, ls_captured_graph **out);
    void (*graph_launch)(ls_captured_graph *graph, ls_queue *queue);
    void (*graph_free)(ls_captured_graph *graph);
    // Free and total device memory of this GPU. NULL on devices that use host memory.
    ls_status (*memory)(ls_device *device, size_t *free_bytes, size_t *all_bytes);
    void (*copy)(ls_buffer dst, ls_buffer src, size_t bytes, ls_queue *queue);
    void (*zero)(ls_buffer dst, size_t bytes, ls_queue *queue);

    // Layouts. Sizes include padding. Host arrays are in the canonical layout, fp32.
    size_t (*activation_bytes)(const ls_device *device, ls_nchw shape, ls_dtype storage);
    void (*activation_import)(ls_device *device, ls_nchw shape, ls_dtype storage, const float *host, ls_buffer dst);
    void (*activation_export)(ls_device *device, ls_nchw shape, ls_dtype storage, ls_buffer src, float *host);
    size_t (*param_elements)(const ls_device *device, const ls_param_shape *shape);
    // Converts between canonical host arrays and fp32 device memory (one tensor's range of the master weights or
    // gradients).
    void (*param_import)(ls_device *device, const ls_param_shape *shape, const float *host, ls_buffer dst);
    void (*param_export)(ls_device *device, const ls_param_shape *shape, ls_buffer src, float *host);

    ls_status (*plan_new)(ls_device *device, const ls_op_desc *desc, ls_plan **out);
    void (*plan_free)(ls_plan *plan);
    unsigned fusions;                    // fusions that the program may ask plan_new for: a set of ls_fusion
    const ls_collective_api *collective; // sums over ranks on the device's queues; NULL: sums go through host memory
    // Lists at most `most` GPUs that `open` accepts by index, without opening them. Fails with LS_DEVICE and the reason
    // if there is none. NULL: this device does not use a GPU.
    ls_status (*list)(ls_device_gpu *gpus, int most, int *count);
    int measures; // the device uses ls_device_options.algorithms
} ls_device_api;

typedef enum {
    LS_FUSES_NORM_POOL = 1,   // batch norm with the max pooling after it (op_norm.h)
    LS_ROUNDS_GRADIENTS = 2,  // in 16-bit storage, weight gradients of convolutions in GRAD_ROUNDED (op_conv.h)
    LS_FUSES_BIAS = 4,        // a bias in max pooling (op_pool.h); a relu after a linear layer's bias (op_linear.h)
    LS_FUSES_RELU_ADD = 8,    // batch norm and relu with the addition after them (op_norm.h, adds_last)
    LS_FUSES_CONCAT_ADD = 16, // sum of two gradients that a concatenation's backward pass copies (op_channels.h)
    // LS_FUSES_NORM_POOL, but only for 2x2 windows that do not overlap, on maps of even height and width
    LS_FUSES_NORM_POOL_2X2 = 32,
    LS_FUSES_SCALE = 64, // a factor of the logits in the loss (op_loss.h)
    LS_FUSES_HEAD = 128  // global pooling, a linear layer with few outputs, and the loss (op_loss.h)
} ls_fusion;

struct ls_device { // the common first part of every device's own struct
    const ls_device_api *api;
};

extern const ls_device_api ls_device_ref, ls_device_cpu;

// Opens the device that `type`, a value of device.type, names. *why_not_gpu (why_not_gpu may be NULL): for auto without
// a usable GPU one line with the reason, else NULL. LS_USAGE: there is no such device. Returns failures of `open`, too.
LS_CHECKED ls_status ls_device_open(
    const char *type, const ls_device_options *options, ls_device **out, const char **why_not_gpu);
void ls_device_close(ls_device *device); // NULL is allowed
int ls_device_is_gpu(const char *type);  // whether this value of device.type names a plugin's device; auto does not
// Lists at most `most` GPUs that `type` (a plugin's device or "auto") can open here, without opening them. Fails with
// the reason if there is no such GPU. *found: the device type that opens them. Other types: *count = 0, *found = NULL.
LS_CHECKED ls_status ls_device_gpus(const char *type, ls_device_gpu *gpus, int most, int *count, const char **found);

// Asserts that the operator can compute this descriptor. A wrong descriptor is a bug: the program ends with a line that
// names the layer, the operator and the broken rule. Every plan_new calls this function first.
void ls_op_check(const ls_op_desc *desc);
const char *ls_op_name(ls_op op);
int ls_op_args(ls_op op);
ls_op_family ls_op_family_of(ls_op op);
ls_dtype ls_op_storage(const ls_op_desc *desc); // LS_F32 for families with "none" in op_families.def
size_t ls_pool_index_bytes(const ls_pool_attr *attr, size_t dst_elements); // dst_elements: with padding. 0: no index

// The quantity that an operator's time grows with: floating-point operations of convolutions, linear layers, the head
// and Muon's products; window elements of pooling; elements of all other operators.
double ls_op_work(const ls_op_desc *desc);
// Floating-point operations of one run. A multiply-add counts 2. Convolutions count as direct convolutions:
// multiplications with padding count, the bias does not.
double ls_op_flops(const ls_op_desc *desc);

static inline ls_buffer ls_buffer_at(ls_slab *slab, size_t offset, size_t bytes) {
    return (ls_buffer){ slab, offset, bytes };
}
void *ls_buffer_host(ls_buffer buffer); // NULL for an absent buffer; asserts that the host can read it
static inline void ls_plan_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    plan->run(plan, args, workspace, queue);
}

#endif
