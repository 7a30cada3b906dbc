// cpus.h - the cores and the memory that this process may use, and the vector instructions of the processor.
#ifndef LS_SYSTEM_CPUS_H
#define LS_SYSTEM_CPUS_H

#include <stdint.h>
#include "system/cpu_mask.h"

// The vector instructions of every processor that this program is compiled for.
#if defined(__x86_64__)
#define LS_CPUS_BASELINE "SSE2"
#elif defined(__aarch64__)
#define LS_CPUS_BASELINE "NEON"
#else
#define LS_CPUS_BASELINE "4-wide vectors"
#endif

typedef struct {
    int mask_cpus;     // logical processors in the affinity mask
    int mask_cores;    // physical cores among them (SMT siblings counted once)
    double quota_cpus; // cgroup v1 or v2 limit: the smallest from the process's group to the root; 0: no limit
    int online_cpus;   // processors of the machine that are online
    int host_cpus;     // processors for all ranks of this host: the cgroup's cpuset or online_cpus, at least mask_cpus
    int has_avx2, has_avx512, has_avx512_bf16,
        has_amx_bf16; // has_avx2 needs FMA, too; has_avx512 needs F, BW, DQ and VL
    int is_old;       // 1: an x86-64 processor that lacks AVX2 or FMA
    char model[64];   // "AMD EPYC ..."
} ls_cpus;

void ls_cpus_detect(ls_cpus *cpus);
// Returns the number of threads for one of `ranks_here` ranks on this host, at least 1. It is the smallest of
//   mask_cores,
//   this rank's share of the host's cores, host_cpus * (mask_cores / mask_cpus) / ranks_here, rounded down,
//   this rank's share of the quota, rounded to nearest.
// So ranks bound to different cores use their own cores, and ranks that share a mask divide it.
int ls_cpus_threads_per_rank(const ls_cpus *cpus, int ranks_here);

// Return the limits that cgroups set for this process. `root` is put before the paths of the system's files, here and
// below ("" outside tests).
double ls_cpus_quota(const char *root);        // processors; 0: no limit
double ls_cpus_memory_limit(const char *root); // bytes; no limit: 0, or a number near 2^63 (cgroup v1)
// Returns how many processes of this process's cgroup (or of the nearest mounted group above it) the kernel has killed
// for lack of memory so far; -1: unknown.
int64_t ls_cpus_oom_kills(const char *root);
int ls_cpus_cpuset_count(const char *root); // number of processors in the cgroup's cpuset; 0: unknown
// Returns the first processor of cpu's core (its SMT siblings) that is in the mask `among`, or cpu itself if cpu is not
// in the mask or the system does not list the siblings.
int ls_cpus_core_of(const char *root, int cpu, const ls_cpu_mask *among);

#endif
