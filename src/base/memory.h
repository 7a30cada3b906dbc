// memory.h - host memory: small things, tensors, and what the process uses.
#ifndef LS_BASE_MEMORY_H
#define LS_BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"

// --- small things: of the C library's heap, for free()
//
// Each is an ls_status, as in LS_TRY(LS_NEW(sums, 2 * ranks, "sums of %d ranks", ranks)). What there is no memory for is
// NULL, and LS_DEVICE, "sums of 8 ranks: no host memory for 128 B". Arguments may be evaluated twice.
#define LS_NEW(out, count, ...) /* `count` elements of *out, zeroed */ \
    (((out) = calloc((size_t)(count), sizeof *(out))) ? LS_SUCCESS \
                                                      : ls_no_memory((size_t)(count) * sizeof *(out), __VA_ARGS__))
#define LS_NEW_BYTES(out, bytes, ...) /* a struct with something behind it, zeroed */ \
    (((out) = calloc(1, bytes)) ? LS_SUCCESS : ls_no_memory(bytes, __VA_ARGS__))
#define LS_NEW_TEXT(out, text, ...) /* a copy */ \
    (((out) = strdup(text)) ? LS_SUCCESS : ls_no_memory(strlen(text) + 1, __VA_ARGS__))
// Room for one more behind the `count` elements of `array`, which has room for the next power of two and no other
// number. An array that cannot grow stays as it is; what is new is not zeroed.
#define LS_GROW(array, count, ...) ls_grow(&(array), sizeof *(array), (size_t)(count), __VA_ARGS__)

LS_CHECKED ls_status ls_grow(void *array, size_t element_bytes, size_t count, const char *what, ...) LS_PRINTF(4, 5);
// The failure of all of these; bytes 0: it is not known how many.
LS_CHECKED ls_status ls_no_memory(size_t bytes, const char *what, ...) LS_PRINTF(2, 3);

// --- memory for tensors

// Zeroed; 64-byte aligned, above 1 MiB aligned to 2 MiB and advised to huge pages.
// LS_DEVICE when there is none, naming `what`.
LS_CHECKED ls_status ls_memory_new(size_t bytes, const char *what, void **out);
void ls_memory_free(void *memory); // NULL is allowed

// --- what the process uses

size_t ls_memory_peak_bytes(void); // peak resident set of this process

// Allocations (malloc family) of the calling process so far. 0 unless the counting allocator of tests/support/ is
// linked, which overrides this weak function: the training loop uses it to show that an update allocates nothing.
uint64_t ls_allocation_count(void);
// Brackets a call into a library that allocates by itself (oneDNN puts the arguments of every call on the heap):
// what this thread allocates between ls_allocation_of_library(1) and (0) is not counted as ours.
// Does nothing without the counting allocator.
void ls_allocation_of_library(int inside);

#endif
