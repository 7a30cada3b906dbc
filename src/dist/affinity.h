// affinity.h - chooses the cores that a rank stays on: cores near its GPU, shared fairly with ranks near the same ones.
//
// A rank is not moved if it has no GPU, if it is bound, if it may use no core near its GPU, or if the kernel's files do
// not name these cores (one memory node, or a virtual machine). Cores are given out whole, with their SMT siblings. If
// they are fewer than the ranks that share them, each rank may use all of them. `root` is put before /sys: "" except in
// tests.
//
// Source: Documentation/ABI/testing/sysfs-bus-pci of the kernel, local_cpulist and numa_node.
#ifndef LS_DIST_AFFINITY_H
#define LS_DIST_AFFINITY_H

#include "system/cpu_mask.h"

// The facts about a rank that decide its cores.
typedef struct {
    int32_t host;     // as ls_comm_info.host_index
    int32_t moves;    // 0: the rank is not moved
    ls_cpu_mask cpus; // the allowed cores near the rank's GPU; empty if moves is 0
} ls_affinity_view;

// Collects the facts that decide this rank's cores. pci: its GPU, "0000:3b:00.0"; "": no GPU. bound: the rank must not
// be moved, because its launcher has bound it or device.affinity is off. allowed: the cores on which it may run now.
ls_affinity_view ls_affinity_look(const char *root, const char *pci, int host, int bound, const ls_cpu_mask *allowed);
// Returns the cores on which rank `rank` shall stay, from the facts of all ranks; empty: the rank is not moved.
ls_cpu_mask ls_affinity_share(const char *root, const ls_affinity_view *views, int ranks, int rank);

#endif
