// device_assignment.h - assigns a device to each rank: a GPU for each rank of a host, chosen by all ranks together.
//
// Every rank lists the GPUs that it sees, the ranks exchange the lists, and all make the same choice. In the order of
// ranks, each takes one of the GPUs that it sees: the one with the fewest ranks of its host so far, or the first of
// several. So if all GPUs are visible, rank r of a host has GPU r; if each task sees one GPU (srun --gpus-per-task), it
// has that one. Two ranks on one GPU are refused unless device.share allows it. A device's collectives refuse them in
// any case (except in tests: ls_collective_row.shared_gpu_variable).
//
// With device.type = auto, GPUs are used on all ranks or on none. A run never computes on a mixture, and is refused if
// only some of its ranks have GPUs. No GPU is opened before the choice is made.
//
// Cores (device.affinity): the calling thread, and so each thread that it starts later, stays on cores near the GPU
// (affinity.h) until the assignment is freed. The variable LOCKSTEP_SYS_ROOT of the environment is put before /sys, for
// tests.
#ifndef LS_DIST_DEVICE_ASSIGNMENT_H
#define LS_DIST_DEVICE_ASSIGNMENT_H

#include "config/config.h"
#include "device/device.h"
#include "dist/comm.h"
#include "dist/rank_table.h"

enum { LS_DEVICE_ASSIGNMENT_GPUS_MAX = 64, LS_DEVICE_ASSIGNMENT_TEXT_BYTES = 512 };

typedef struct ls_device_assignment ls_device_assignment;

// Chooses a GPU for each rank. Collective. mine: this rank's status so far. All ranks return the same failure.
// LS_USAGE: more ranks than GPUs (without device.share), or ranks share a GPU and dist.backend refuses this.
// LS_DEVICE: a rank finds no GPU, but device.type asks for one, or with auto another rank has found one.
LS_CHECKED ls_status ls_device_assignment_new(
    ls_comm *comm, ls_status mine, const ls_config *cfg, ls_device_assignment **out);
// Opens the chosen device; options->index is ignored. With device.type = auto, all ranks take the cpu if no rank can
// open its GPU. If any rank fails, all fail, and no rank has a device. Collective.
LS_CHECKED ls_status ls_device_assignment_open(
    ls_device_assignment *assignment, ls_comm *comm, const ls_device_options *options, ls_device **out);
void ls_device_assignment_free(ls_device_assignment *assignment); // NULL is allowed

// Returns one line that says why no GPU is used. NULL: a GPU is used, or device.type excludes GPUs.
const char *ls_device_assignment_why_not_gpu(const ls_device_assignment *assignment);
// Returns 1 if several ranks share some GPU; the result is the same on all ranks.
int ls_device_assignment_shares(const ls_device_assignment *assignment);
// Returns 1 if this thread was moved to cores near its GPU.
int ls_device_assignment_moved(const ls_device_assignment *assignment);
const ls_rank_info *ls_device_assignment_ranks(const ls_device_assignment *assignment); // [world_size]; filled by open

// The GPUs that one rank sees, as the choice of GPUs needs them; public for tests.
typedef struct {
    int32_t host;                                // as ls_comm_info.host_index
    int32_t code;                                // LS_OK: the rank sees GPUs; else the code of the failure
    int32_t count;                               // number of GPUs
    uint64_t gpu[LS_DEVICE_ASSIGNMENT_GPUS_MAX]; // hash that identifies each GPU
} ls_device_assignment_view;

// Chooses a GPU for each rank. share: several ranks may take one GPU. taken[rank]: index of the GPU in the rank's own
// list; -1: no GPU is left. first[rank]: the lowest rank with the same GPU.
void ls_device_assignment_choose(const ls_device_assignment_view *views, int ranks, int share, int *taken, int *first);

#endif
