// cpus.h - how many cores this process may use.
#ifndef LS_BASE_CPUS_H
#define LS_BASE_CPUS_H

typedef struct {
    int mask_cpus;      // logical processors in the affinity mask
    int mask_cores;     // physical cores among them (SMT siblings counted once)
    double quota_cpus;  // cgroup v1 or v2 limit, the smallest on the way to the root; 0 = none
    int online_cpus;    // of the machine
    int has_avx2, has_avx512, has_avx512_bf16, has_amx_bf16;
    char model[64];     // "AMD EPYC ..."
} ls_cpus;

void ls_cpus_detect(ls_cpus *cpus);
// Threads for one of `ranks_here` ranks on this host: max(1, min(mask_cores, quota) / sharing), where ranks that are bound to
// different cores do not share. `bound` says whether the mask is narrower than the machine.
int ls_cpus_threads_per_rank(const ls_cpus *cpus, int ranks_here);

#endif
