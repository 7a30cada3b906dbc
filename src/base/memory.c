#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/scope.h"
#include "base/text.h"

enum { SMALL_ALIGN = 64, HUGE_PAGE = 2 << 20, HUGE_FROM = 1 << 20 };

// --- the end of a program without memory

static _Atomic(void (*)(const char *text)) end_of_program;

void ls_out_of_memory_set_end(void (*end)(const char *text)) {
    atomic_store(&end_of_program, end);
}

void ls_out_of_memory_as(const char *text) {
    static atomic_flag ends = ATOMIC_FLAG_INIT;
    static _Thread_local int ends_here;
    if (ends_here) _exit(LS_DEVICE); // `end` itself ran out of memory
    ends_here = 1;
    if (atomic_flag_test_and_set(&ends))
        for (;;) pause();
    ls_scope_enter(NULL); // all runs of this process end
    void (*end)(const char *text) = atomic_load(&end_of_program);
    if (end) end(text);
    ls_log(LS_LOG_ERROR, "%s", text);
    _exit(LS_DEVICE);
}

// Writes the message into text (LS_STATUS_TEXT_BYTES).
static void describe(char *text, size_t bytes, const char *what, va_list values) {
    char size[32] = "memory";
    ls_text_room room = { text, LS_STATUS_TEXT_BYTES };
    if (bytes) snprintf(size, sizeof size, "%zu bytes", bytes);
    ls_text_put(&room, "out of memory: %s for ", size);
    vsnprintf(room.at, room.left, what, values);
    ls_text_replace_controls(text);
}

void ls_out_of_memory(size_t bytes, const char *what, ...) {
    char text[LS_STATUS_TEXT_BYTES];
    va_list values;
    va_start(values, what);
    describe(text, bytes, what, values);
    va_end(values);
    ls_out_of_memory_as(text);
}

// --- small objects

// Returns the size of an array, or SIZE_MAX if it overflows.
static size_t bytes_of(size_t count, size_t bytes_each) {
    size_t bytes;
    return __builtin_mul_overflow(count, bytes_each, &bytes) ? SIZE_MAX : bytes;
}

void *ls_new_zeroed(size_t count, size_t bytes_each, const char *what, ...) {
    void *made = calloc(count ? count : 1, bytes_each); // calloc may return NULL for 0 elements
    if (made) return made;
    char text[LS_STATUS_TEXT_BYTES];
    va_list values;
    va_start(values, what);
    describe(text, bytes_of(count, bytes_each), what, values);
    va_end(values);
    ls_out_of_memory_as(text);
}

char *ls_new_text(const char *text) {
    char *copy = strdup(text);
    if (!copy) ls_out_of_memory(strlen(text) + 1, "the text \"%.80s\"", text);
    return copy;
}

char *ls_new_textf(const char *format, ...) {
    va_list values;
    char *text;
    va_start(values, format);
    if (vasprintf(&text, format, values) < 0) ls_out_of_memory(0, "a text of the form \"%s\"", format);
    va_end(values);
    return text;
}

void *ls_grow_array(void *array, size_t count, size_t bytes_each, const char *what, ...) {
    if (count & (count - 1)) return array; // not a power of two: there is still room
    const size_t bytes = bytes_of(count ? 2 * count : 1, bytes_each);
    void *larger = realloc(array, bytes);
    if (larger) return larger;
    char text[LS_STATUS_TEXT_BYTES];
    va_list values;
    va_start(values, what);
    describe(text, bytes, what, values);
    va_end(values);
    ls_out_of_memory_as(text);
}

FILE *ls_text_stream(char **text, size_t *bytes) {
    FILE *stream = open_memstream(text, bytes);
    if (!stream) ls_out_of_memory(0, "a text");
    return stream;
}

void ls_text_stream_close(FILE *stream) {
    const int failed = ferror(stream);
    if (fclose(stream) != 0 || failed) ls_out_of_memory(0, "a text"); // a stream in memory fails only without memory
}

// --- data

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

ls_status ls_try_new_zeroed(void *out, size_t count, size_t bytes_each, const char *what, ...) {
    void *made = calloc(count ? count : 1, bytes_each);
    memcpy(out, &made, sizeof made); // `out` points to a pointer of some other type
    if (made) return LS_SUCCESS;
    va_list values;
    va_start(values, what);
    ls_status status = fail_memory(bytes_of(count, bytes_each), what, values);
    va_end(values);
    return status;
}

// --- tensors

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
        madvise(memory, rounded, MADV_HUGEPAGE); // the kernel may ignore this; that costs only speed
        // Dropped pages read as 0. Each is placed near the thread that touches it first, and we touch none here.
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
    // getrusage comes second: its ru_maxrss survives exec, so it may be the peak of the shell that started us.
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
