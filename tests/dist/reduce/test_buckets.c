// ls_buckets_cut: cases by hand, and for many sizes that nothing is left out or summed twice. dist.bucket_bytes = auto.
#include <stdint.h>
#include "dist/reduce/reducer.h"
#include "support/cmocka.h"

enum { MAX = 8 };

static const struct {
    const char *name;
    int tensors;
    int64_t elements[MAX];
    int64_t gap; // behind every tensor
    size_t element_bytes, bucket_bytes;
    int buckets;
    ls_range expected[MAX];
} rows[] = {
    { "no tensors", 0, { 0 }, 0, 4, 100, 0, { { 0, 0 } } },
    { "one, small", 1, { 3 }, 0, 4, 100, 1, { { 0, 3 } } },
    { "filled exactly", 4, { 5, 5, 5, 5 }, 0, 4, 40, 2, { { 0, 10 }, { 10, 10 } } },
    { "one byte more", 4, { 5, 5, 5, 5 }, 0, 4, 41, 2, { { 0, 15 }, { 15, 5 } } },
    { "the tensor that fills it ends it", 3, { 1, 1000, 1 }, 0, 4, 40, 2, { { 0, 1001 }, { 1001, 1 } } },
    { "int64", 3, { 5, 5, 5 }, 0, 8, 40, 3, { { 0, 5 }, { 5, 5 }, { 10, 5 } } },
    { "gaps inside, none at the end", 3, { 5, 5, 5 }, 3, 4, 50, 2, { { 0, 13 }, { 16, 5 } } },
    { "all in one", 3, { 5, 5, 5 }, 1, 4, 1000, 1, { { 0, 17 } } },
};

static int cut(int64_t *offsets, const int64_t *elements, int tensors, int64_t gap, size_t element_bytes,
    size_t bucket_bytes, ls_range *ranges) {
    for (int i = 0; i < tensors; i++) offsets[i] = i == 0 ? 0 : offsets[i - 1] + elements[i - 1] + gap;
    return ls_buckets_cut(offsets, elements, tensors, element_bytes, bucket_bytes, ranges);
}

static void cases_by_hand(void **state) {
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        int64_t offsets[MAX];
        ls_range ranges[MAX];
        int n = cut(offsets, rows[r].elements, rows[r].tensors, rows[r].gap, rows[r].element_bytes,
            rows[r].bucket_bytes, ranges);
        int same = n == rows[r].buckets;
        for (int b = 0; same && b < n; b++) {
            same = ranges[b].first == rows[r].expected[b].first && ranges[b].count == rows[r].expected[b].count;
        }
        if (same) continue;
        print_error("%s: %d buckets, expected %d\n", rows[r].name, n, rows[r].buckets);
        for (int b = 0; b < n; b++)
            print_error("  %lld + %lld\n", (long long)ranges[b].first, (long long)ranges[b].count);
        fail();
    }
}

static void every_element_once(void **state) {
    (void)state;
    enum { TENSORS = 50 };
    int64_t offsets[TENSORS], elements[TENSORS];
    ls_range ranges[TENSORS];
    for (unsigned trial = 0; trial < 2000; trial++) {
        for (unsigned i = 0; i < TENSORS; i++) elements[i] = 1 + (trial * 7919 + i * 104729) % 997 * (i % 3);
        int64_t gap = trial % 4;
        size_t bucket_bytes = 4 + trial * 13;
        int n = cut(offsets, elements, TENSORS, gap, 4, bucket_bytes, ranges);
        assert_in_range(n, 1, TENSORS);
        assert_int_equal(ranges[0].first, 0);
        for (int b = 0; b + 1 < n; b++) {
            assert_int_equal(ranges[b].first + ranges[b].count + gap, ranges[b + 1].first);
            assert_true((size_t)ranges[b].count * 4 >= bucket_bytes);
        }
        assert_int_equal(ranges[n - 1].first + ranges[n - 1].count, offsets[TENSORS - 1] + elements[TENSORS - 1]);
    }
}

static void size_of_auto(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t option;
        int on_queue;
        size_t bytes;
    } sizes[] = {
        { "as it is set, host memory", 12345, 0, 12345 },
        { "as it is set, a queue", 12345, 1, 12345 },
        { "auto, host memory", LS_AUTO, 0, 1 << 20 },
        { "auto, a queue", LS_AUTO, 1, 4 << 20 },
    };
    for (size_t r = 0; r < sizeof sizes / sizeof *sizes; r++) {
        static ls_config cfg;
        ls_config_defaults(&cfg);
        assert_int_equal(cfg.dist_bucket_bytes, LS_AUTO);
        cfg.dist_bucket_bytes = sizes[r].option;
        size_t bytes = ls_buckets_bytes(&cfg, sizes[r].on_queue);
        if (bytes != sizes[r].bytes) fail_msg("%s: %zu bytes, expected %zu", sizes[r].name, bytes, sizes[r].bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(cases_by_hand), cmocka_unit_test(every_element_once),
        cmocka_unit_test(size_of_auto) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
