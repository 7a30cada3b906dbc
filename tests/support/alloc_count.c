// alloc_count.c - counts every allocation of the process, the libraries' too but for calls that say they are a
// library's own (ls_allocation_of_library). A test includes this file (#include "support/alloc_count.c") and reads
// ls_allocation_count() before and after. Not with sanitizers, which bring their own malloc: there the count stays 0,
// and LS_COUNTS_ALLOCATIONS is 0.
#include "base/memory.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define LS_COUNTS_ALLOCATIONS 0
#else
#define LS_COUNTS_ALLOCATIONS 1

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

static atomic_ullong allocation_count;

uint64_t ls_allocation_count(void) {
    return atomic_load(&allocation_count);
}

static _Thread_local int in_library;

void ls_allocation_of_library(int inside) {
    in_library = inside;
}

// glibc's own functions below the names that are replaced here; its free() takes what they return.
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

static void count_one(void) {
    if (!in_library) atomic_fetch_add_explicit(&allocation_count, 1, memory_order_relaxed);
}

void *malloc(size_t bytes) {
    count_one();
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    count_one();
    return __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes) {
    count_one();
    return __libc_realloc(old, bytes);
}

void *reallocarray(void *old, size_t count, size_t bytes) {
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(old, total);
}

void *memalign(size_t alignment, size_t bytes) {
    count_one();
    return __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    return memalign(alignment, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes) {
    void *memory = memalign(alignment, bytes);
    if (!memory) return ENOMEM;
    *out = memory;
    return 0;
}

#endif
