#include "tools/bench/place.h"

#include <stdio.h>
#include <string.h>
#include "system/cpus.h"

// Writes the machine's identity into *place: the kernel's boot id, or the host's name if the id cannot be read.
static void name_machine(ls_bench_place *place) {
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!file || fscanf(file, "%63s", place->machine) != 1)
        snprintf(place->machine, sizeof place->machine, "%s", place->host);
    if (file) fclose(file);
}

void ls_bench_place_look(const char *host, ls_bench_place *place) {
    *place = (ls_bench_place){ .cores_of_cpu = 1 };
    snprintf(place->host, sizeof place->host, "%s", host);
    name_machine(place);
    ls_cpus cpus;
    ls_cpus_detect(&cpus);
    place->quota = cpus.quota_cpus;
    if (cpus.mask_cpus > 0 && cpus.mask_cores > 0) place->cores_of_cpu = (double)cpus.mask_cores / cpus.mask_cpus;
    (void)ls_cpu_mask_of_thread(&place->mask); // the mask stays empty if the system does not tell it
}

// Returns the cores that all ranks on one machine may use together, within the quota. first: the machine's lowest rank.
// *here: the number of ranks on the machine.
static double cores_of_machine(const ls_bench_place *places, int ranks, int first, int *here) {
    ls_cpu_mask mask = { 0 };
    *here = 0;
    for (int r = first; r < ranks; r++) {
        if (strcmp(places[r].machine, places[first].machine) != 0) continue;
        for (int i = 0; i < LS_CPU_MASK_CPUS / 64; i++) mask.bits[i] |= places[r].mask.bits[i];
        ++*here;
    }
    double cores = ls_cpu_mask_count(&mask) * places[first].cores_of_cpu, quota = places[first].quota;
    return quota > 0 && quota < cores ? quota : cores;
}

static int is_first_of_machine(const ls_bench_place *places, int rank) {
    for (int other = 0; other < rank; other++)
        if (strcmp(places[other].machine, places[rank].machine) == 0) return 0;
    return 1;
}

double ls_bench_place_cores(const ls_bench_place *places, int ranks, int threads, int *shared) {
    double all = 0;
    *shared = 0;
    for (int r = 0; r < ranks; r++) {
        if (!is_first_of_machine(places, r)) continue;
        int here;
        double cores = cores_of_machine(places, ranks, r, &here), wanted = (double)here * threads;
        if (cores > 0 && wanted > cores + 0.01) {
            *shared = 1;
            wanted = cores;
        }
        all += wanted;
    }
    return all;
}

int ls_bench_place_hosts(const ls_bench_place *places, int ranks) {
    int hosts = 0;
    for (int r = 0; r < ranks; r++) {
        int seen = 0;
        for (int other = 0; other < r; other++) seen |= strcmp(places[other].host, places[r].host) == 0;
        hosts += !seen;
    }
    return hosts;
}

int ls_bench_place_gpus(const ls_rank_info *places, int ranks) {
    int gpus = 0;
    for (int r = 0; r < ranks; r++) {
        int seen = 0;
        for (int other = 0; other < r && places[r].uuid[0]; other++)
            seen |= strcmp(places[other].uuid, places[r].uuid) == 0;
        gpus += !seen;
    }
    return gpus;
}

size_t ls_bench_place_free_bytes(void) {
    FILE *file = fopen("/proc/meminfo", "re");
    char line[128];
    unsigned long long kib = 0;
    while (file && !kib && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu", &kib) != 1) kib = 0;
    if (file) fclose(file);
    return (size_t)kib * 1024;
}
