// collective.h - sums and maxima over ranks on a device's own queues: NCCL or a similar library on GPUs, a stand-in on
// the emulated device.
//
// A collective runs like an operator: it is enqueued and runs in order on its queue, the host never waits for it, and
// it can be captured. All ranks of the group enqueue the same collectives in the same order, all on one queue. A
// collective is captured on all ranks or on none. The host's own exchanges (the id, agreement) go through dist/comm.h.
//
// Source: NCCL 2.28 user guide. The chapters "CUDA graph" and "communicator" give the order of steps for closing.
#ifndef LS_DEVICE_COLLECTIVE_H
#define LS_DEVICE_COLLECTIVE_H

#include <stddef.h>
#include <stdint.h>
#include "base/shape.h"
#include "base/status.h"

struct ls_device;
struct ls_slab;
struct ls_queue;
struct ls_buffer;

enum { LS_COLLECTIVE_ID_BYTES = 128 };

typedef struct ls_collective ls_collective;
typedef enum { LS_COLLECT_SUM, LS_COLLECT_MAX } ls_collect;

// Progress of the device's collectives, for the watchdog. Any thread may read it while collectives run.
typedef struct {
    int64_t completed; // number of collectives completed since open
    int32_t last_tag;  // tag of the collective completed last; -1: none
} ls_collective_progress;

typedef struct {
    const char *name; // "nccl"
    // Checks whether the library can be used here, and writes its version, such as "NCCL 2.28.9". Fails with LS_DEVICE
    // and one line: the library is not found, too old, or cannot be loaded.
    ls_status (*probe)(char *version, size_t bytes);
    // Called on one rank. Makes the id with which the other ranks find this one.
    ls_status (*make_id)(uint8_t id[LS_COLLECTIVE_ID_BYTES]);
    // Called on all ranks at once. LS_COMM: not all ranks arrived within timeout_s. LS_DEVICE: the library refused.
    ls_status (*open)(struct ls_device *device, const uint8_t id[LS_COLLECTIVE_ID_BYTES], int rank, int world_size,
        double timeout_s, ls_collective **out);
    // Announces a slab (LS_MEMORY_REDUCED) whose ranges all_reduce will get, and registers it where that is faster.
    // Called on all ranks, in the same order. The registration ends with close; the slab must live until then.
    ls_status (*register_memory)(ls_collective *collective, struct ls_slab *slab);
    // Replaces data[0..count) by its sum or maximum over ranks, in place. Types: LS_F32, LS_F64, LS_BF16, LS_I32,
    // LS_I64. tag: the bucket's number, for progress and messages. The queue's device keeps an error.
    void (*all_reduce)(ls_collective *collective, struct ls_buffer data, int64_t count, ls_dtype dtype, ls_collect op,
        int32_t tag, struct ls_queue *queue);
    // Writes the device's clock, in ns as int64, to `ns` when the queue reaches this point. Can be captured.
    void (*stamp)(ls_collective *collective, struct ls_buffer ns, struct ls_queue *queue);
    // Fails with LS_COMM if the library noticed an error since open (a peer is gone, the network failed). From any
    // thread.
    ls_status (*health)(ls_collective *collective);
    ls_collective_progress (*progress)(const ls_collective *collective); // from any thread
    // Called on all ranks after their queues are empty and every captured graph with a collective is freed. It waits at
    // most a few seconds longer than timeout_s for peers.
    void (*close)(ls_collective *collective, double timeout_s);
} ls_collective_api;

// A row of plugins.def: a collective library that dist.backend can name.
typedef struct {
    const char *name, *title; // "nccl", as in ls_collective_api.name; "NCCL", for messages
    const char *device;       // value of device.type whose plugin contains it: "cuda"
    // Environment variable for tests. "1" allows ranks to share a GPU; the library is then told that each rank has a
    // host of its own (NCCL_HOSTID).
    const char *shared_gpu_variable;
    // Environment variable for the library. "0", set in ordered mode, stops network switches from adding values.
    const char *network_sums_variable;
} ls_collective_row;

const ls_collective_row *ls_collective_find(const char *name); // NULL: no collective has that name

#endif
