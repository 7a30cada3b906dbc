#include "dist/affinity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "system/cpus.h"

// Reads the first line of the file `name` of a PCI device in /sys. Returns 0 if it cannot be read.
static int read_line(const char *root, const char *pci, const char *name, char *line, size_t bytes) {
    char path[1200];
    snprintf(path, sizeof path, "%.1024s/sys/bus/pci/devices/%.32s/%s", root, pci, name);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    int found = fgets(line, (int)bytes, file) != NULL;
    fclose(file);
    return found;
}

ls_affinity_view ls_affinity_look(const char *root, const char *pci, int host, int bound, const ls_cpu_mask *allowed) {
    ls_affinity_view view = { .host = host };
    char node[32], list[8192];
    if (bound || !pci[0] || !read_line(root, pci, "numa_node", node, sizeof node) || atoi(node) < 0) return view;
    if (!read_line(root, pci, "local_cpulist", list, sizeof list)) return view;
    ls_cpu_mask near = ls_cpu_mask_parse(list);
    view.cpus = ls_cpu_mask_both(&near, allowed);
    view.moves = ls_cpu_mask_first(&view.cpus) >= 0;
    return view;
}

// Numbers the cores of the mask from 0, in the order of their first processors. number_of[cpu]: the number of the core
// of a processor. Returns the number of cores.
static int number_cores(const char *root, const ls_cpu_mask *mask, int number_of[LS_CPU_MASK_CPUS]) {
    int cores = 0;
    for (int cpu = 0; cpu < LS_CPU_MASK_CPUS; cpu++) {
        if (!ls_cpu_mask_has(mask, cpu)) continue;
        int first = ls_cpus_core_of(root, cpu, mask);
        number_of[cpu] = first == cpu ? cores++ : number_of[first];
    }
    return cores;
}

ls_cpu_mask ls_affinity_share(const char *root, const ls_affinity_view *views, int ranks, int rank) {
    const ls_affinity_view *mine = &views[rank];
    int sharers = 0, place = 0, number_of[LS_CPU_MASK_CPUS];
    if (!mine->moves) return mine->cpus;
    for (int r = 0; r < ranks; r++) {
        if (!views[r].moves || views[r].host != mine->host || !ls_cpu_mask_equal(&views[r].cpus, &mine->cpus)) continue;
        place += r < rank;
        sharers++;
    }
    int cores = number_cores(root, &mine->cpus, number_of);
    if (cores < sharers) return mine->cpus; // too few for a core each: leave it to the system's scheduler
    ls_cpu_mask share = { { 0 } };
    for (int cpu = 0; cpu < LS_CPU_MASK_CPUS; cpu++) {
        if (ls_cpu_mask_has(&mine->cpus, cpu) && number_of[cpu] >= cores * place / sharers &&
            number_of[cpu] < cores * (place + 1) / sharers)
            ls_cpu_mask_add(&share, cpu);
    }
    return share;
}
