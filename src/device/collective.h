// collective.h - sums over ranks on a device's own queues: NCCL or its like on GPUs, a stand-in on the emulated device.
//
// A collective runs like an operator: enqueued, in order on its queue, never waited for by the host, and it can
// be captured. All ranks of the group enqueue the same ones in the same order, each either captured on all ranks or
// on none; one queue carries them all. The host's own exchanges (the id, agreement) go through dist/comm.h.
//
// Source: NCCL 2.28 user guide; the order of the end is that of its "CUDA graph" and "communicator" chapters.
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

// How far the device has come, for the watchdog: read by any thread while collectives are under way.
typedef struct {
    int64_t completed; // collectives, since open
    int32_t last_tag;  // of the one completed last; -1: none
} ls_collective_progress;

typedef struct {
    const char *name; // "nccl"
    // Whether it can be used here, and "NCCL 2.28.9". LS_DEVICE, one line: library not found, too old, not loadable.
    ls_status (*probe)(char *version, size_t bytes);
    // On one rank: what the others need to find it.
    ls_status (*make_id)(uint8_t id[LS_COLLECTIVE_ID_BYTES]);
    // On all ranks at once. LS_COMM when they have not all met after timeout_s, LS_DEVICE for what the library refuses.
    ls_status (*open)(struct ls_device *device, const uint8_t id[LS_COLLECTIVE_ID_BYTES], int rank, int world_size,
        double timeout_s, ls_collective **out);
    // A slab (LS_MEMORY_REDUCED) whose ranges will be summed: registered where that makes sums faster. All ranks, in
    // the same order. Until close, and the slab must live as long.
    ls_status (*register_memory)(ls_collective *collective, struct ls_slab *slab);
    // data[0..count) becomes its sum or maximum over ranks, in place. LS_F32, LS_F64, LS_BF16, LS_I32, LS_I64.
    // tag: for progress and messages (the bucket's number). An error stays in the queue's device.
    void (*all_reduce)(ls_collective *collective, struct ls_buffer data, int64_t count, ls_dtype dtype, ls_collect op,
        int32_t tag, struct ls_queue *queue);
    // The device's clock in ns as int64, written to `ns` when the queue comes to it. Can be captured.
    void (*stamp)(ls_collective *collective, struct ls_buffer ns, struct ls_queue *queue);
    // LS_COMM: an error that the library noticed since (a peer is gone, the network failed). From any thread.
    ls_status (*health)(ls_collective *collective);
    ls_collective_progress (*progress)(const ls_collective *collective); // from any thread
    // All ranks, when their queues are empty and every captured graph that holds a collective is freed. With peers gone it
    // does not wait for them for longer than timeout_s.
    void (*close)(ls_collective *collective, double timeout_s);
} ls_collective_api;

// A row of plugins.def: a collective that dist.backend can name.
typedef struct {
    const char *name, *title; // "nccl", ls_collective_api.name; "NCCL", in messages
    const char *device;       // the word of device.type that has it: "cuda"
    // In the environment, for tests: "1" where ranks that share a GPU are not refused, as the library is made to take
    // each for a host of its own (NCCL_HOSTID).
    const char *shared_gpu_variable;
    // In the environment, for the library: "0" where switches of the network add nothing. Set in ordered mode.
    const char *network_sums_variable;
} ls_collective_row;

const ls_collective_row *ls_collective_find(const char *name); // NULL: no collective has that name

#endif
