// cpus.h - how many cores this process may use.
#ifndef LS_SYSTEM_CPUS_H
#define LS_SYSTEM_CPUS_H

#include <stdint.h>
#include "system/cpu_mask.h"

typedef struct {
    int mask_cpus;     // logical processors in the affinity mask
    int mask_cores;    // physical cores among them (SMT siblings counted once)
    double quota_cpus; // cgroup v1 or v2 limit, the smallest on the way to the root; 0 = none
    int online_cpus;   // of the machine
    int host_cpus;     // what all ranks of this host share: the cgroup's cpuset, or online_cpus where it names none
    int has_avx2, has_avx512, has_avx512_bf16,
        has_amx_bf16; // has_avx512: F, BW, DQ, VL, and the system saves the registers
    char model[64];   // "AMD EPYC ..."
} ls_cpus;

void ls_cpus_detect(ls_cpus *cpus);
// Threads for one of `ranks_here` ranks on this host, at least 1: the smallest of
//   mask_cores,
//   this rank's share of the host's cores, host_cpus / ranks_here,
//   its share of the quota, rounded to nearest.
// So ranks bound to different cores get what they are bound to, and ranks that share a mask divide it.
int ls_cpus_threads_per_rank(const ls_cpus *cpus, int ranks_here);

// The parts that read the system's files, which are looked for below `root` ("" outside tests).
double ls_cpus_quota(const char *root);
double ls_cpus_memory_limit(
    const char *root); // bytes that its cgroups allow this process, as ls_cpus_quota; 0: no limit
// How many processes of this process's cgroup the kernel has ended for lack of memory so far; -1: unknown.
int64_t ls_cpus_oom_kills(const char *root);
int ls_cpus_cpuset_count(const char *root); // 0 when the cgroup names none
// The first processor of cpu's core (its SMT siblings) among those of a mask; cpu itself where the system does not show it.
int ls_cpus_core_of(const char *root, int cpu, const ls_cpu_mask *among);

#endif
