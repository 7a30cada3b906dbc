#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/text.h"

enum { SMALL_ALIGN = 64, HUGE_PAGE = 2 << 20, HUGE_FROM = 1 << 20 };

static ls_status fail_memory(size_t bytes, const char *what, va_list values) {
    char text[LS_STATUS_TEXT_BYTES], size[24];
    vsnprintf(text, sizeof text, what, values);
    return ls_fail(
        LS_DEVICE, "%s: no host memory%s%s", text, bytes ? " for " : "", bytes ? ls_text_bytes(size, bytes) : "");
}

ls_status ls_no_memory(size_t bytes, const char *what, ...) {
    va_list values;
    va_start(values, what);
    ls_status status = fail_memory(bytes, what, values);
    va_end(values);
    return status;
}

ls_status ls_grow(void *array, size_t element_bytes, size_t count, const char *what, ...) {
    if (count & (count - 1)) return LS_SUCCESS; // no power of two: there is room
    size_t bytes = (count ? 2 * count : 1) * element_bytes;
    void *now; // copied, as `array` points to a pointer of some other type
    memcpy(&now, array, sizeof now);
    void *larger = realloc(now, bytes);
    if (larger) {
        memcpy(array, &larger, sizeof larger);
        return LS_SUCCESS;
    }
    va_list values;
    va_start(values, what);
    ls_status status = fail_memory(bytes, what, values);
    va_end(values);
    return status;
}

ls_status ls_memory_new(size_t bytes, const char *what, void **out) {
    size_t align = bytes > HUGE_FROM ? HUGE_PAGE : SMALL_ALIGN;
    size_t rounded = (bytes + align - 1) / align * align;
    void *memory = NULL;
    if (rounded < bytes || posix_memalign(&memory, align, rounded ? rounded : align) != 0) {
        char text[24];
        return ls_fail(LS_DEVICE, "%s: no host memory for %s; lower train.micro_batch or data.prefetch", what,
            ls_text_bytes(text, bytes));
    }
    if (bytes > HUGE_FROM) {
        madvise(memory, rounded, MADV_HUGEPAGE); // advice: whether it is followed changes only speed
        // Dropping the pages makes them read as 0 and be placed where they are first touched, without touching them.
        if (madvise(memory, rounded, MADV_DONTNEED) == 0) {
            *out = memory;
            return LS_SUCCESS;
        }
    }
    memset(memory, 0, rounded);
    *out = memory;
    return LS_SUCCESS;
}

void ls_memory_free(void *memory) {
    free(memory);
}

size_t ls_memory_peak_bytes(void) {
    // Not getrusage: its ru_maxrss is inherited over exec, so it would show the peak of the starting shell or Python.
    char text[4096];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t got = read(fd, text, sizeof text - 1);
        close(fd);
        text[got > 0 ? got : 0] = 0;
        const char *line = strstr(text, "VmHWM:");
        if (line) return (size_t)strtoull(line + 6, NULL, 10) * 1024;
    }
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (size_t)usage.ru_maxrss * 1024 : 0;
}

__attribute__((weak)) uint64_t ls_allocation_count(void) {
    return 0;
}

__attribute__((weak)) void ls_allocation_of_library(int inside) {
    (void)inside;
}
