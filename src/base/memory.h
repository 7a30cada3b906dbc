// memory.h - host memory for tensors, and what the process uses.
#ifndef LS_BASE_MEMORY_H
#define LS_BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

// Zeroed; 64-byte aligned, above 1 MiB aligned to 2 MiB and advised to huge pages.
// LS_DEVICE when there is none, naming `what`.
LS_CHECKED ls_status ls_memory_new(size_t bytes, const char *what, void **out);
void ls_memory_free(void *memory); // NULL is allowed
size_t ls_memory_peak_bytes(void); // peak resident set of this process

// Allocations (malloc family) of the calling process so far. 0 unless the counting allocator of tests/support/ is
// linked, which overrides this weak function: the training loop uses it to show that an update allocates nothing.
uint64_t ls_allocation_count(void);
// Brackets a call into a library that allocates by itself (oneDNN puts the arguments of every call on the heap):
// what this thread allocates between ls_allocation_of_library(1) and (0) is not counted as ours.
// Does nothing without the counting allocator.
void ls_allocation_of_library(int inside);

#endif
