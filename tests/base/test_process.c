// What belongs to the process: log lines, clocks, memory.
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "support/alloc_count.c"
#include "support/cmocka.h"

static void log_lines(void **state) {
    (void)state;
    static const struct {
        int rank;
        ls_log_level limit, level;
        const char *expected;
    } rows[] = {
        { 0, LS_LOG_INFO, LS_LOG_INFO, "text 5\n" },
        { 0, LS_LOG_INFO, LS_LOG_DEBUG, "" },
        { 0, LS_LOG_DEBUG, LS_LOG_DEBUG, "text 5\n" },
        { 0, LS_LOG_ERROR, LS_LOG_INFO, "" },
        { 0, LS_LOG_ERROR, LS_LOG_WARNING, "" },
        { 0, LS_LOG_ALERT, LS_LOG_WARNING, "" },
        { 0, LS_LOG_ALERT, LS_LOG_ALERT, "warning: text 5\n" },
        { 0, LS_LOG_ERROR, LS_LOG_ALERT, "" },
        { 0, LS_LOG_INFO, LS_LOG_WARNING, "warning: text 5\n" },
        { 3, LS_LOG_INFO, LS_LOG_INFO, "" },
        { 3, LS_LOG_INFO, LS_LOG_WARNING, "rank 3: warning: text 5\n" },
        { 3, LS_LOG_ERROR, LS_LOG_ERROR, "rank 3: error: text 5\n" },
    };
    int ends[2], stderr_before = dup(STDERR_FILENO);
    assert_int_equal(pipe(ends), 0);
    char longer[3 * LS_STATUS_TEXT_BYTES], got[3 * LS_STATUS_TEXT_BYTES];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = 0;
    for (size_t row = 0; row <= sizeof rows / sizeof *rows; row++) {
        int last = row == sizeof rows / sizeof *rows;
        dup2(ends[1], STDERR_FILENO);
        ls_log_setup(last ? 0 : rows[row].rank, 4, last ? LS_LOG_INFO : rows[row].limit);
        if (last)
            ls_info("%s", longer);
        else
            ls_log(rows[row].level, "text %d", 5);
        dup2(stderr_before, STDERR_FILENO);
        assert_int_equal(write(ends[1], "", 1), 1); // so that the read never blocks
        ssize_t bytes = read(ends[0], got, sizeof got);
        assert_true(bytes >= 1 && got[bytes - 1] == 0);
        if (last) { // cut, but one line
            assert_true(
                bytes > LS_STATUS_TEXT_BYTES && got[bytes - 2] == '\n' && strspn(got, "x") == (size_t)bytes - 2);
        } else if (strcmp(got, rows[row].expected) != 0) {
            fail_msg("row %zu: '%s', expected '%s'", row, got, rows[row].expected);
        }
    }
    ls_log_setup(0, 1, LS_LOG_INFO);
    close(ends[0]), close(ends[1]), close(stderr_before);
}

static void clocks(void **state) {
    (void)state;
    double start = ls_clock_seconds(), age = ls_clock_since_start();
    ls_clock_sleep(0.03);
    ls_clock_sleep(-1);
    assert_true(ls_clock_seconds() - start >= 0.03);
    double older = ls_clock_since_start();
    assert_true(age >= 0 && age < 600 && older - age >= 0.029 && older - age < 60);
    assert_true(ls_clock_unix_seconds() > 1.6e9);
}

static void memory(void **state) {
    (void)state;
    mallopt(M_MMAP_THRESHOLD, 1 << 28); // large blocks from the heap too, so that freed ones come back dirty
    mallopt(M_TRIM_THRESHOLD, 1 << 28);
    static const size_t sizes[] = { 0, 1, 63, 64, 65, 4097, 1 << 20, (1 << 20) + 1, 5000001 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int again = 0; again < 2; again++) { // the second may get the first's used pages
            unsigned char *bytes = NULL;
            ls_status status = ls_memory_new(sizes[i], "test", (void **)&bytes);
            if (ls_failed(status)) fail_msg("%s", status.text);
            assert_non_null(bytes);
            assert_int_equal((uintptr_t)bytes % (sizes[i] > 1 << 20 ? 2 << 20 : 64), 0);
            for (size_t j = 0; j < sizes[i]; j++)
                if (bytes[j]) fail_msg("%zu bytes, time %d: byte %zu is %d", sizes[i], again, j, bytes[j]);
            memset(bytes, 0xAA, sizes[i]);
            ls_memory_free(bytes);
        }
    }
    ls_memory_free(NULL);
    size_t peak = ls_memory_peak_bytes();
    assert_true(peak > 1 << 20 && peak < (size_t)1 << 40);
    assert_int_equal(peak % (size_t)sysconf(_SC_PAGESIZE), 0);
}

static void no_memory(void **state) {
    (void)state;
#if LS_COUNTS_ALLOCATIONS // the sanitizers' allocators end the program instead
    void *none = NULL;
    ls_status status = ls_memory_new((size_t)1 << 60, "activations", &none);
    assert_int_equal(status.code, LS_DEVICE);
    assert_string_equal(
        status.text, "activations: no host memory for 1.0 EiB; lower train.micro_batch or data.prefetch");
    uint64_t before = ls_allocation_count();
    assert_int_equal(ls_memory_new(10, "test", &none).code, LS_OK);
    assert_int_equal(ls_allocation_count(), before + 1);
    ls_memory_free(none);
#else
    skip();
#endif
}

static void small_things(void **state) {
    (void)state;
    struct {
        int64_t a, b;
    } * pair;
    pair = ls_new(3, sizeof *pair, "pairs");
    for (int i = 0; i < 3; i++) assert_true(pair[i].a == 0 && pair[i].b == 0);
    free(pair);
    free(ls_new(0, 16, "nothing")); // not NULL
    char *text = ls_new_text("as it is"), *printed = ls_new_textf("%s %d", text, 7);
    assert_string_equal(printed, "as it is 7");
    free(text);
    free(printed);
    size_t bytes;
    FILE *stream = ls_text_stream(&text, &bytes);
    fprintf(stream, "%d lines", 3);
    ls_text_stream_close(stream);
    assert_string_equal(text, "3 lines");
    free(text);
}

static void data(void **state) {
    (void)state;
    int64_t *sums;
    assert_int_equal(ls_try_new(&sums, 3, sizeof *sums, "sums").code, LS_OK);
    for (int i = 0; i < 3; i++) assert_int_equal(sums[i], 0);
    free(sums);
    assert_string_equal(ls_no_memory(0, "%s %d", "queue", 7).text, "queue 7: no host memory");
    assert_string_equal(ls_no_memory(3 << 20, "queue").text, "queue: no host memory for 3.0 MiB");
#if LS_COUNTS_ALLOCATIONS // the sanitizers' allocators end the program instead
    ls_status status = ls_try_new(&sums, (size_t)1 << 57, sizeof *sums, "%d sums", 2);
    assert_int_equal(status.code, LS_DEVICE);
    assert_null(sums);
    assert_string_equal(status.text, "2 sums: no host memory for 1.0 EiB");
    assert_int_equal(ls_try_new(&sums, SIZE_MAX / 4, sizeof *sums, "sums").code, LS_DEVICE); // the product overflows
#endif
}

static void grows(void **state) {
    (void)state;
    int *numbers = NULL, count = 0;
    for (; count < 1000; count++) {
        numbers = ls_grow(numbers, count, sizeof *numbers, "numbers");
        numbers[count] = count; // a sanitizer or malloc's own check sees where there is no room
    }
    for (int i = 0; i < count; i++) assert_int_equal(numbers[i], i);
#if LS_COUNTS_ALLOCATIONS
    uint64_t before = ls_allocation_count();
    for (; count < 1024; count++) numbers = ls_grow(numbers, count, sizeof *numbers, "numbers");
    assert_int_equal(ls_allocation_count(), before);
#endif
    free(numbers);
}

// --- without memory ------------------------------------------------------------------------------

#if LS_COUNTS_ALLOCATIONS
static void new_fails(void) {
    free(ls_new((size_t)1 << 56, 16, "%d pairs\n", 2));
}

static void new_overflows(void) {
    free(ls_new(SIZE_MAX / 8, 16, "pairs"));
}

static void grow_fails(void) {
    free(ls_grow(NULL, (size_t)1 << 55, 16, "numbers of %s", "a list"));
}

static void say_and_end(const char *text) {
    dprintf(STDERR_FILENO, "told: %s\n", text);
    _exit(9);
}

static void hook_is_called(void) {
    ls_out_of_memory_set_end(say_and_end);
    new_fails();
}

static void say_and_end_slowly(const char *text) {
    dprintf(STDERR_FILENO, "told: %s\n", text);
    ls_clock_sleep(0.3);
    _exit(9);
}

static void end_that_fails_too(const char *text) {
    (void)text;
    new_fails();
}

static void hook_fails(void) {
    ls_out_of_memory_set_end(end_that_fails_too);
    new_fails();
}

static void *fail_in_thread(void *unused) {
    new_fails();
    return unused;
}

// Streams and handlers of exit() stay untouched: their locks may be held by a thread that waits for this one.
static void hang(void) {
    pause();
}

static void threads_fail(void) {
    pthread_t threads[8];
    atexit(hang);
    printf("not flushed");
    flockfile(stdout);
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, fail_in_thread, NULL);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
}

// The others wait while the first one ends the program.
static void threads_fail_together(void) {
    ls_out_of_memory_set_end(say_and_end_slowly);
    threads_fail();
}
#endif

static void ends_without_memory(void **state) {
    (void)state;
#if LS_COUNTS_ALLOCATIONS
    static const struct {
        void (*run)(void);
        int exit_code;
        const char *expected;
    } rows[] = {
        { new_fails, LS_DEVICE, "error: out of memory: 1152921504606846976 bytes for 2 pairs?\n" },
        { new_overflows, LS_DEVICE, "error: out of memory: 18446744073709551615 bytes for pairs\n" },
        { grow_fails, LS_DEVICE, "error: out of memory: 1152921504606846976 bytes for numbers of a list\n" },
        { hook_is_called, 9, "told: out of memory: 1152921504606846976 bytes for 2 pairs?\n" },
        { hook_fails, LS_DEVICE, "" },
        { threads_fail, LS_DEVICE, "error: out of memory: 1152921504606846976 bytes for 2 pairs?\n" },
        { threads_fail_together, 9, "told: out of memory: 1152921504606846976 bytes for 2 pairs?\n" },
    };
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        int ends[2], how;
        char got[4096];
        size_t length = 0;
        assert_int_equal(pipe(ends), 0);
        const pid_t child = fork();
        if (child == 0) {
            dup2(ends[1], STDERR_FILENO);
            dup2(ends[1], STDOUT_FILENO);
            close(ends[0]), close(ends[1]);
            rows[row].run();
            _exit(0);
        }
        close(ends[1]);
        for (ssize_t more; (more = read(ends[0], got + length, sizeof got - 1 - length)) > 0;) length += (size_t)more;
        got[length] = 0;
        close(ends[0]);
        assert_int_equal(waitpid(child, &how, 0), child);
        if (!WIFEXITED(how) || WEXITSTATUS(how) != rows[row].exit_code || strcmp(got, rows[row].expected) != 0)
            fail_msg("row %zu: status %x, '%s', expected '%s'", row, (unsigned)how, got, rows[row].expected);
    }
#else
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_lines),
        cmocka_unit_test(clocks),
        cmocka_unit_test(memory),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(small_things),
        cmocka_unit_test(data),
        cmocka_unit_test(grows),
        cmocka_unit_test(ends_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
