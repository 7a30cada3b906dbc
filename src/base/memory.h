// memory.h - host memory: small objects, data, tensors, and the memory that the process uses.
#ifndef LS_BASE_MEMORY_H
#define LS_BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"

#define LS_RETURNS_MEMORY __attribute__((returns_nonnull, warn_unused_result))

// --- small objects, for free(): structs, lists, names, tables of layers or ranks
//
// These functions never return NULL. Without memory they end the program (ls_out_of_memory), so callers check nothing.
// `what` names the purpose in that message: ls_new(2 * ranks, sizeof *sums, "sums of %d ranks", ranks).
#define ls_new(count, bytes_each, ...) ls_new_zeroed((size_t)(count), bytes_each, __VA_ARGS__)
char *ls_new_text(const char *text) LS_RETURNS_MEMORY; // a copy
char *ls_new_textf(const char *format, ...) LS_PRINTF(1, 2) LS_RETURNS_MEMORY;
// Returns the array with room for one more element after its `count` elements; the array may move. It starts as NULL
// with count 0, and only this macro makes it larger: its capacity is a power of two. New elements are not zeroed.
#define ls_grow(array, count, bytes_each, ...) ls_grow_array(array, (size_t)(count), bytes_each, __VA_ARGS__)
// Opens a stream that writes to *text (open_memstream). *text is complete after ls_text_stream_close.
FILE *ls_text_stream(char **text, size_t *bytes) LS_RETURNS_MEMORY;
void ls_text_stream_close(FILE *stream);

void *ls_new_zeroed(size_t count, size_t bytes_each, const char *what, ...) LS_PRINTF(3, 4) LS_RETURNS_MEMORY;
void *ls_grow_array(void *array, size_t count, size_t bytes_each, const char *what, ...)
    LS_PRINTF(4, 5) LS_RETURNS_MEMORY;

// --- data, for free(): its size depends on files, pictures, samples or the user's input
//
// Stores a pointer to zeroed memory at `out`. Without memory the pointer is NULL and the status is LS_DEVICE with
// "order of 60000 samples: no host memory for 468.8 KiB".
#define ls_try_new(out, count, bytes_each, ...) ls_try_new_zeroed(out, (size_t)(count), bytes_each, __VA_ARGS__)
LS_CHECKED ls_status ls_try_new_zeroed(void *out, size_t count, size_t bytes_each, const char *what, ...)
    LS_PRINTF(4, 5);
// Returns LS_DEVICE with "WHAT: no host memory for SIZE", for data allocated by other means. bytes 0: the size is
// unknown.
LS_CHECKED ls_status ls_no_memory(size_t bytes, const char *what, ...) LS_PRINTF(2, 3);

// --- the end of a program without memory

// Ends the program with exit code 4 (LS_DEVICE) and one line: "error: out of memory: 128 bytes for sums of 8 ranks...".
// bytes 0: the size is unknown. Any thread may call it, even while it holds locks: it allocates nothing, runs no atexit
// handlers and flushes no streams. If several threads call it, the first one ends the program and the others wait.
_Noreturn void ls_out_of_memory(size_t bytes, const char *what, ...) LS_PRINTF(2, 3);
// Like ls_out_of_memory, with the whole text after "error: ".
_Noreturn void ls_out_of_memory_as(const char *text);
// Sets a function that ls_out_of_memory_as calls instead of printing the text and ending the process; NULL: no
// function. `end` prints the text, also ends the other ranks (dist/comm_mpi.c), and does not return. It must allocate
// nothing.
void ls_out_of_memory_set_end(void (*end)(const char *text));

// Older forms of ls_new, ls_new_text and ls_grow, for code that checks a status. They always give LS_SUCCESS, because
// without memory the program ends.
#define LS_NEW(out, count, ...) ((out) = ls_new(count, sizeof *(out), __VA_ARGS__), LS_SUCCESS)
#define LS_NEW_BYTES(out, bytes, ...) ((out) = ls_new(1, bytes, __VA_ARGS__), LS_SUCCESS)
#define LS_NEW_TEXT(out, text, ...) ((out) = ls_new_text(text), LS_SUCCESS)
#define LS_GROW(array, count, ...) ((array) = ls_grow(array, count, sizeof *(array), __VA_ARGS__), LS_SUCCESS)

// --- memory for tensors

// Returns zeroed memory, aligned to 64 bytes. Above 1 MiB it is aligned to 2 MiB and advised to use huge pages.
// LS_DEVICE without memory; the message names `what`.
LS_CHECKED ls_status ls_memory_new(size_t bytes, const char *what, void **out);
void ls_memory_free(void *memory); // NULL is allowed

// --- the memory that the process uses

size_t ls_memory_peak_bytes(void); // peak resident set of this process

// Returns the number of allocations (malloc family) of this process so far. It is 0 unless the counting allocator of
// tests/support/ is linked, which overrides this weak function. Tests then check that an update allocates nothing.
uint64_t ls_allocation_count(void);
// Call with 1 before and with 0 after a call of a library that allocates by itself: oneDNN puts the arguments of every
// call on the heap. This thread's allocations in between are not counted as ours. Does nothing without the counting
// allocator.
void ls_allocation_of_library(int inside);

#endif
