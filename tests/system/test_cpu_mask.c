#include "system/cpu_mask.h"
#include <string.h>
#include "support/cmocka.h"

typedef struct {
    const char *name, *text;
    int count, first;
    const char *back; // as text again, in so many bytes
    size_t bytes;
} list;

static const list lists[] = {
    { "none", "", 0, -1, "", 64 },
    { "one", "5\n", 1, 5, "5", 64 },
    { "range", "0-3\n", 4, 0, "0-3", 64 },
    { "several", "0-3,8,64-127", 69, 0, "0-3,8,64-127", 64 },
    { "not in order", "8,0-3", 5, 0, "0-3,8", 64 },
    { "neighbours", "4,5,6,8", 4, 4, "4-6,8", 64 },
    { "the last one", "8191", 1, 8191, "8191", 64 },
    { "beyond", "8190-9000", 2, 8190, "8190-8191", 64 },
    { "something after it", "1-2 x", 2, 1, "1-2", 64 },
    { "no list", "x", 0, -1, "", 64 },
    { "cut", "0,2,4,6,8,10,12,14,16", 9, 0, "0,2,4,6,...", 12 },
};

static void parsing_and_printing(void **state) {
    (void)state;
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
        char text[64];
        ls_cpu_mask mask = ls_cpu_mask_parse(lists[l].text);
        ls_cpu_mask_text(&mask, text, lists[l].bytes);
        int count = ls_cpu_mask_count(&mask), first = ls_cpu_mask_first(&mask);
        if (count != lists[l].count || first != lists[l].first || strcmp(text, lists[l].back) != 0)
            fail_msg("%s: %d from %d, '%s'; expected %d from %d, '%s'", lists[l].name, count, first, text,
                lists[l].count, lists[l].first, lists[l].back);
    }
}

static void both(void **state) {
    (void)state;
    ls_cpu_mask a = ls_cpu_mask_parse("0-3,70"), b = ls_cpu_mask_parse("2-9,70-71"),
                expected = ls_cpu_mask_parse("2-3,70");
    ls_cpu_mask got = ls_cpu_mask_both(&a, &b);
    assert_true(ls_cpu_mask_equal(&got, &expected));
    assert_false(ls_cpu_mask_equal(&got, &a));
}

static void binding(void **state) {
    (void)state;
    ls_cpu_mask before, one = { { 0 } }, got, nowhere = { { 0 } };
    assert_true(ls_cpu_mask_of_thread(&before));
    ls_cpu_mask_add(&one, ls_cpu_mask_first(&before));
    assert_true(ls_cpu_mask_bind(&one));
    assert_true(ls_cpu_mask_of_thread(&got) && ls_cpu_mask_equal(&got, &one));
    assert_true(ls_cpu_mask_bind(&before));
    assert_true(ls_cpu_mask_of_thread(&got) && ls_cpu_mask_equal(&got, &before));
    assert_false(ls_cpu_mask_bind(&nowhere));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(parsing_and_printing), cmocka_unit_test(both),
        cmocka_unit_test(binding) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
