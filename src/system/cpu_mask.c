#include "system/cpu_mask.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ls_cpu_mask_count(const ls_cpu_mask *mask) {
    int count = 0;
    for (int i = 0; i < LS_CPU_MASK_CPUS / 64; i++) count += __builtin_popcountll(mask->bits[i]);
    return count;
}

int ls_cpu_mask_first(const ls_cpu_mask *mask) {
    for (int i = 0; i < LS_CPU_MASK_CPUS / 64; i++)
        if (mask->bits[i]) return i * 64 + __builtin_ctzll(mask->bits[i]);
    return -1;
}

int ls_cpu_mask_equal(const ls_cpu_mask *a, const ls_cpu_mask *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

ls_cpu_mask ls_cpu_mask_both(const ls_cpu_mask *a, const ls_cpu_mask *b) {
    ls_cpu_mask both;
    for (int i = 0; i < LS_CPU_MASK_CPUS / 64; i++) both.bits[i] = a->bits[i] & b->bits[i];
    return both;
}

ls_cpu_mask ls_cpu_mask_parse(const char *text) {
    ls_cpu_mask mask = { { 0 } };
    while (*text >= '0' && *text <= '9') {
        char *end;
        long first = strtol(text, &end, 10), last = first;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        for (long cpu = first; cpu <= last && cpu < LS_CPU_MASK_CPUS; cpu++) ls_cpu_mask_add(&mask, (int)cpu);
        text = *end == ',' ? end + 1 : end;
    }
    return mask;
}

char *ls_cpu_mask_text(const ls_cpu_mask *mask, char *text, size_t bytes) {
    size_t used = 0;
    text[0] = '\0';
    for (int cpu = 0; cpu < LS_CPU_MASK_CPUS; cpu++) {
        if (!ls_cpu_mask_has(mask, cpu)) continue;
        int last = cpu;
        while (last + 1 < LS_CPU_MASK_CPUS && ls_cpu_mask_has(mask, last + 1)) last++;
        char range[32];
        int length = snprintf(range, sizeof range, last > cpu ? "%s%d-%d" : "%s%d", used ? "," : "", cpu, last);
        if (used + (size_t)length + sizeof ",..." > bytes) {
            snprintf(text + used, bytes - used, ",...");
            break;
        }
        memcpy(text + used, range, (size_t)length + 1);
        used += (size_t)length;
        cpu = last;
    }
    return text;
}

int ls_cpu_mask_of_thread(ls_cpu_mask *mask) {
    cpu_set_t set[LS_CPU_MASK_CPUS / CPU_SETSIZE];
    *mask = (ls_cpu_mask){ { 0 } };
    memset(set, 0, sizeof set);
    if (sched_getaffinity(0, sizeof set, set) != 0) return 0;
    for (int cpu = 0; cpu < LS_CPU_MASK_CPUS; cpu++)
        if (CPU_ISSET_S((size_t)cpu, sizeof set, set)) ls_cpu_mask_add(mask, cpu);
    return 1;
}

int ls_cpu_mask_bind(const ls_cpu_mask *mask) {
    cpu_set_t set[LS_CPU_MASK_CPUS / CPU_SETSIZE];
    memset(set, 0, sizeof set);
    for (int cpu = 0; cpu < LS_CPU_MASK_CPUS; cpu++)
        if (ls_cpu_mask_has(mask, cpu)) CPU_SET_S((size_t)cpu, sizeof set, set);
    return sched_setaffinity(0, sizeof set, set) == 0;
}
