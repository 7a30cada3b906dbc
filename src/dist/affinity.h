// affinity.h - which cores a rank stays on: those near its GPU, shared fairly
// among the ranks that are near the same ones.
//
// A rank that its launcher has bound stays where it is; so does one whose GPU has no memory node in the kernel's files
// (a machine with one memory node, a virtual one). Cores are given out whole, with their SMT siblings.
// `root` stands before /sys; "" outside tests.
//
// Source: Documentation/ABI/testing/sysfs-bus-pci of the kernel, local_cpulist and numa_node.
#ifndef LS_DIST_AFFINITY_H
#define LS_DIST_AFFINITY_H

#include "system/cpu_mask.h"

// One rank's part.
typedef struct {
    int32_t host;     // ls_comm_info.host_index
    int32_t moves;    // 0: it stays where it is
    ls_cpu_mask cpus; // that it may have: near its GPU, and allowed; empty where moves is 0
} ls_affinity_view;

// pci: "0000:3b:00.0"; "": no GPU. bound: by the launcher.
ls_affinity_view ls_affinity_look(const char *root, const char *pci, int host, int bound, const ls_cpu_mask *allowed);
// This rank's cores; empty: it stays where it is.
ls_cpu_mask ls_affinity_share(const char *root, const ls_affinity_view *views, int ranks, int rank);

#endif
