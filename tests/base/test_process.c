// What belongs to the process: log lines, clocks, memory.
#include <malloc.h>
#include <string.h>
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
    double start = ls_clock_seconds(), age = ls_clock_since_process_start();
    ls_clock_sleep(0.03);
    ls_clock_sleep(-1);
    assert_true(ls_clock_seconds() - start >= 0.03);
    double older = ls_clock_since_process_start();
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
    char *text;
    assert_int_equal(LS_NEW(pair, 3, "pairs").code, LS_OK);
    for (int i = 0; i < 3; i++) assert_true(pair[i].a == 0 && pair[i].b == 0);
    free(pair);
    assert_int_equal(LS_NEW_BYTES(pair, sizeof *pair + 5, "pair").code, LS_OK);
    for (size_t i = 0; i < sizeof *pair + 5; i++) assert_int_equal(((char *)pair)[i], 0);
    free(pair);
    assert_int_equal(LS_NEW_TEXT(text, "as it is", "text").code, LS_OK);
    assert_string_equal(text, "as it is");
    free(text);
    assert_string_equal(ls_no_memory(0, "%s %d", "queue", 7).text, "queue 7: no host memory");
    assert_string_equal(ls_no_memory(3 << 20, "queue").text, "queue: no host memory for 3.0 MiB");
#if LS_COUNTS_ALLOCATIONS
    ls_status status = LS_NEW(pair, (size_t)1 << 56, "%d pairs", 2);
    assert_int_equal(status.code, LS_DEVICE);
    assert_null(pair);
    assert_string_equal(status.text, "2 pairs: no host memory for 1.0 EiB");
    assert_int_equal(LS_NEW(pair, SIZE_MAX / 8, "pairs").code, LS_DEVICE); // the product is no size_t
#endif
}

static void grows(void **state) {
    (void)state;
    int *numbers = NULL, count = 0;
    for (; count < 1000; count++) {
        assert_int_equal(LS_GROW(numbers, count, "numbers").code, LS_OK);
        numbers[count] = count; // a sanitizer or malloc's own check sees where there is no room
    }
    for (int i = 0; i < count; i++) assert_int_equal(numbers[i], i);
#if LS_COUNTS_ALLOCATIONS
    uint64_t before = ls_allocation_count();
    for (; count < 1024; count++) assert_int_equal(LS_GROW(numbers, count, "numbers").code, LS_OK);
    assert_int_equal(ls_allocation_count(), before);
    int *same = numbers;
    ls_status status = ls_grow(&numbers, (size_t)1 << 55, 16, "%d numbers", 16);
    assert_int_equal(status.code, LS_DEVICE);
    assert_string_equal(status.text, "16 numbers: no host memory for 1.0 EiB");
    assert_ptr_equal(numbers, same);
#endif
    free(numbers);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_lines),
        cmocka_unit_test(clocks),
        cmocka_unit_test(memory),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(small_things),
        cmocka_unit_test(grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
