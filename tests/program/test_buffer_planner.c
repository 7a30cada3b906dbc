#include "program/buffer_planner.h"
#include "base/philox.h"
#include "config/purpose.h"
#include "support/cmocka.h"

enum { MAX_SLOTS = 200, USES = 120 };

typedef struct {
    size_t bytes;
    int first, last;
} lifetime;

static uint32_t word(uint32_t plan, uint32_t what, uint32_t i) {
    return ls_random_word(7, LS_PURPOSE_SYNTHETIC, plan, what, i);
}

static void check_plan(
    const ls_buffer_planner *planner, const lifetime *slot, int count, uint32_t plan, double *worst) {
    size_t end = 0, peak = 0;
    for (int i = 0; i < count; i++) {
        size_t a = ls_buffer_planner_offset(planner, i);
        if (a % LS_BUFFER_PLANNER_ALIGN) fail_msg("plan %u, slot %d: offset %zu is not aligned", plan, i, a);
        if (a + slot[i].bytes > end) end = a + slot[i].bytes;
        for (int j = 0; j < i; j++) {
            size_t b = ls_buffer_planner_offset(planner, j);
            int together = slot[i].first <= slot[j].last && slot[j].first <= slot[i].last;
            if (together && a < b + slot[j].bytes && b < a + slot[i].bytes)
                fail_msg("plan %u: slot %d at %zu+%zu (uses %d..%d) overlaps slot %d at %zu+%zu (uses %d..%d)", plan, i,
                    a, slot[i].bytes, slot[i].first, slot[i].last, j, b, slot[j].bytes, slot[j].first, slot[j].last);
        }
    }
    for (int use = 0; use < USES + 10; use++) { // no plan can be smaller than what lives at one time
        size_t live = 0;
        for (int i = 0; i < count; i++)
            if (slot[i].first <= use && use <= slot[i].last)
                live +=
                    (slot[i].bytes + LS_BUFFER_PLANNER_ALIGN - 1) / LS_BUFFER_PLANNER_ALIGN * LS_BUFFER_PLANNER_ALIGN;
        if (live > peak) peak = live;
    }
    size_t bytes = ls_buffer_planner_bytes(planner);
    if (bytes < end || bytes >= end + LS_BUFFER_PLANNER_ALIGN || bytes % LS_BUFFER_PLANNER_ALIGN || bytes < peak ||
        bytes > ls_buffer_planner_unshared_bytes(planner))
        fail_msg("plan %u: %zu bytes, slots end at %zu, live at most %zu, unshared %zu", plan, bytes, end, peak,
            ls_buffer_planner_unshared_bytes(planner));
    double ratio = peak ? (double)bytes / (double)peak : 1;
    if (ratio > *worst) *worst = ratio;
}

static void random_lifetimes_never_overlap(void **state) {
    (void)state;
    double worst = 0;
    for (uint32_t plan = 0; plan < 100; plan++) {
        lifetime slot[MAX_SLOTS];
        int count = (int)ls_below(word(plan, 0, 0), MAX_SLOTS + 1);
        ls_buffer_planner *planner;
        planner = ls_buffer_planner_new();
        for (int i = 0; i < count; i++) {
            slot[i].bytes = ls_below(word(plan, 1, (uint32_t)i), plan % 2 ? 1000000 : 400);
            slot[i].first = (int)ls_below(word(plan, 2, (uint32_t)i), USES);
            slot[i].last = slot[i].first + (int)ls_below(word(plan, 3, (uint32_t)i), 10);
            int number = -1;
            assert_int_equal(
                ls_buffer_planner_book(planner, "x", slot[i].bytes, slot[i].first, slot[i].last, &number).code, LS_OK);
            assert_int_equal(number, i);
        }
        for (int i = 0; i < count; i += 5) {
            int use = (int)ls_below(word(plan, 4, (uint32_t)i), USES);
            ls_buffer_planner_extend(planner, i, use);
            if (use < slot[i].first) slot[i].first = use;
            if (use > slot[i].last) slot[i].last = use;
        }
        ls_buffer_planner_fix(planner);
        check_plan(planner, slot, count, plan, &worst);
        ls_buffer_planner_free(planner);
    }
    print_message("largest plan: %.3f of what lives at one time\n", worst);
    assert_true(worst < 1.3);
}

static void a_chain_shares(void **state) {
    (void)state;
    ls_buffer_planner *planner;
    int slot[4];
    planner = ls_buffer_planner_new();
    for (int i = 0; i < 4; i++)
        assert_int_equal(ls_buffer_planner_book(planner, "x", 1024, i, i + 1, &slot[i]).code, LS_OK);
    ls_buffer_planner_fix(planner);
    assert_int_equal(ls_buffer_planner_bytes(planner), 2048);
    assert_int_equal(ls_buffer_planner_unshared_bytes(planner), 4096);
    assert_int_equal(ls_buffer_planner_offset(planner, slot[0]), ls_buffer_planner_offset(planner, slot[2]));
    ls_buffer_planner_free(planner);
}

// What is alive at one time is a chain's two neighbours, and never more than the slab.
static void the_peak_is_the_least(void **state) {
    (void)state;
    static const struct {
        int first, last;
        size_t bytes;
    } rows[] = { { 0, 1, 1024 }, { 1, 2, 2048 }, { 2, 5, 128 }, { 3, 3, 2944 }, { 4, 9, 256 } };
    ls_buffer_planner *planner = ls_buffer_planner_new();
    int slot;
    assert_int_equal(ls_buffer_planner_peak(planner), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(
            ls_buffer_planner_book(planner, "x", rows[i].bytes, rows[i].first, rows[i].last, &slot).code, LS_OK);
    }
    assert_int_equal(ls_buffer_planner_peak(planner), 1024 + 2048);
    ls_buffer_planner_fix(planner);
    assert_true(ls_buffer_planner_bytes(planner) >= 1024 + 2048);
    ls_buffer_planner_free(planner);
}

static void too_large_is_refused(void **state) {
    (void)state;
    ls_buffer_planner *planner;
    int slot;
    planner = ls_buffer_planner_new();
    ls_status status = ls_buffer_planner_book(planner, "conv1.out", SIZE_MAX, 0, 0, &slot);
    assert_int_equal(status.code, LS_DEVICE);
    assert_string_equal(status.text, "conv1.out: 18446744073709551615 bytes are more than can be addressed");
    ls_buffer_planner_fix(planner);
    assert_int_equal(ls_buffer_planner_bytes(planner), 0);
    ls_buffer_planner_free(planner);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_lifetimes_never_overlap),
        cmocka_unit_test(a_chain_shares),
        cmocka_unit_test(the_peak_is_the_least),
        cmocka_unit_test(too_large_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
