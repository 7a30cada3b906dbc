// device_assignment.h - which device each rank takes: one GPU for each rank of a host, chosen by all ranks together.
//
// Every rank lists the GPUs that it sees, the ranks exchange the lists, and all choose alike: in the order of ranks,
// each takes, of those that it sees, a GPU that the fewest ranks of its host have, the first of several. With all GPUs
// visible rank r of a host so has GPU r; with one visible per task (srun --gpus-per-task) each its own.
// Two ranks on one GPU are refused, unless device.share allows it, and never summed by a collective of the device, which refuses it
// too (but for tests: ls_collective_row.shared_gpu_variable).
//
// device.type = auto: GPUs on all ranks, or on none: a run never computes on a mixture, and never leaves GPUs idle that
// some of its ranks have. Nothing here opens a GPU before the choice is made.
//
// Cores (device.affinity): the calling thread, and so all that a run starts after it, stays on cores near the GPU
// (affinity.h) until the assignment is freed. LOCKSTEP_SYS_ROOT in the environment stands before /sys, for tests.
#ifndef LS_DIST_DEVICE_ASSIGNMENT_H
#define LS_DIST_DEVICE_ASSIGNMENT_H

#include "config/config.h"
#include "device/device.h"
#include "dist/comm.h"
#include "dist/rank_table.h"

enum { LS_DEVICE_ASSIGNMENT_GPUS_MAX = 64, LS_DEVICE_ASSIGNMENT_TEXT_BYTES = 512 };

typedef struct ls_device_assignment ls_device_assignment;

// All ranks call it, with their status so far: a failure of any is returned on all. LS_USAGE: more ranks than GPUs, two
// on one; LS_DEVICE: no GPU where one is needed.
LS_CHECKED ls_status ls_device_assignment_new(
    ls_comm *comm, ls_status mine, const ls_config *cfg, ls_device_assignment **out);
// All ranks call it. Opens the chosen device; options->index is not looked at. auto takes the cpu where no rank can
// open its GPU. On failure of any rank all fail, and none has a device.
LS_CHECKED ls_status ls_device_assignment_open(
    ls_device_assignment *assignment, ls_comm *comm, const ls_device_options *options, ls_device **out);
void ls_device_assignment_free(ls_device_assignment *assignment); // NULL is allowed

const char *ls_device_assignment_why_not_gpu(const ls_device_assignment *assignment); // one line, or NULL
int ls_device_assignment_shares(
    const ls_device_assignment *assignment); // some GPU has several ranks: the same on all ranks
int ls_device_assignment_moved(const ls_device_assignment *assignment);                 // to cores near its GPU
const ls_rank_info *ls_device_assignment_ranks(const ls_device_assignment *assignment); // [world_size], after open

// The choice itself, for tests.
typedef struct {
    int32_t host;                                // ls_comm_info.host_index
    int32_t code;                                // LS_OK: it sees GPUs; else why it has none
    int32_t count;                               // of GPUs
    uint64_t gpu[LS_DEVICE_ASSIGNMENT_GPUS_MAX]; // identifies it
} ls_device_assignment_view;

// taken[rank]: the number of its GPU in its own list; -1: none is left. first[rank]: the lowest rank of that GPU.
void ls_device_assignment_choose(const ls_device_assignment_view *views, int ranks, int share, int *taken, int *first);

#endif
