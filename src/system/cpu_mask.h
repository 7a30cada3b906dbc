// cpu_mask.h - a set of logical processors, as the kernel numbers them.
#ifndef LS_SYSTEM_CPU_MASK_H
#define LS_SYSTEM_CPU_MASK_H

#include <stddef.h>
#include <stdint.h>

enum { LS_CPU_MASK_CPUS = 8192 };

typedef struct {
    uint64_t bits[LS_CPU_MASK_CPUS / 64];
} ls_cpu_mask;

static inline int ls_cpu_mask_has(const ls_cpu_mask *mask, int cpu) {
    return (int)(mask->bits[cpu / 64] >> (cpu % 64) & 1);
}
static inline void ls_cpu_mask_add(ls_cpu_mask *mask, int cpu) {
    mask->bits[cpu / 64] |= (uint64_t)1 << (cpu % 64);
}
int ls_cpu_mask_count(const ls_cpu_mask *mask);
int ls_cpu_mask_first(const ls_cpu_mask *mask); // -1: empty
int ls_cpu_mask_equal(const ls_cpu_mask *a, const ls_cpu_mask *b);
ls_cpu_mask ls_cpu_mask_both(const ls_cpu_mask *a, const ls_cpu_mask *b); // processors that are in both

// Returns the set of processors in a list as the kernel writes it: "0-3,8". Text after the list is ignored.
ls_cpu_mask ls_cpu_mask_parse(const char *text);
// Writes the mask as a list like "0-3,8"; a list that does not fit ends with "...". Returns text.
char *ls_cpu_mask_text(const ls_cpu_mask *mask, char *text, size_t bytes);

// Get and set the processors on which the calling thread, and each thread that it starts later, may run. Both return 0
// if the system refuses.
int ls_cpu_mask_of_thread(ls_cpu_mask *mask);
int ls_cpu_mask_bind(const ls_cpu_mask *mask);

#endif
