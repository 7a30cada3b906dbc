#include "base/philox.h"
#include "config/purpose.h"
#include "support/cmocka.h"

// Random123 1.14, tests/kat_vectors, "philox4x32 10".
static const struct {
    uint32_t counter[4], key[2], expected[4];
} known[] = {
    { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
    { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff }, { 0xffffffff, 0xffffffff },
        { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
    { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 }, { 0xa4093822, 0x299f31d0 },
        { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
};

static void known_answers(void **state) {
    (void)state;
    for (size_t row = 0; row < sizeof known / sizeof *known; row++) {
        ls_philox_block block = ls_philox(known[row].counter, known[row].key);
        for (int i = 0; i < 4; i++)
            if (block.v[i] != known[row].expected[i])
                fail_msg("row %zu, word %d: %08x, expected %08x", row, i, block.v[i], known[row].expected[i]);
    }
}

static void stream_is_as_documented(void **state) {
    (void)state;
    const uint64_t seed = 0x0123456789ABCDEFu, index = 0x1122334455667788u;
    const uint32_t key[2] = { 0x89ABCDEF, 0x01234567u ^ (uint32_t)LS_PURPOSE_AUGMENT * 0x9E3779B9u };
    const uint32_t counter[4] = { 0x55667788, 0x11223344, 5, 6 };
    ls_philox_block expected = ls_philox(counter, key), got = ls_random_block(seed, LS_PURPOSE_AUGMENT, 5, 6, index);
    for (int i = 0; i < 4; i++) assert_int_equal(got.v[i], expected.v[i]);
    for (uint64_t i = 0; i < 9; i++)
        assert_int_equal(ls_random_word(seed, LS_PURPOSE_INIT, 1, 2, i),
            ls_random_block(seed, LS_PURPOSE_INIT, 1, 2, i / 4).v[i % 4]);
    assert_int_not_equal(ls_random_word(1, LS_PURPOSE_INIT, 0, 0, 0), ls_random_word(1, LS_PURPOSE_SHUFFLE, 0, 0, 0));
}

static void ranges(void **state) {
    (void)state;
    assert_true(ls_unit_float(0) == 0.0f);
    assert_true(ls_unit_float(0xFFFFFFFF) == 1.0f - 0x1p-24f);
    assert_true(ls_unit_float(0x80000000) == 0.5f);
    assert_int_equal(ls_below(0, 7), 0);
    assert_int_equal(ls_below(0xFFFFFFFF, 7), 6);
    assert_int_equal(ls_below(0xFFFFFFFF, 1), 0);
    assert_int_equal(ls_below(0xFFFFFFFF, 0xFFFFFFFF), 0xFFFFFFFE);
    double sum = 0;
    for (uint64_t i = 0; i < 100000; i++) sum += (double)ls_unit_float(ls_random_word(3, LS_PURPOSE_INIT, 0, 0, i));
    assert_true(sum / 100000 > 0.5 - 5 * 0.000913 && sum / 100000 < 0.5 + 5 * 0.000913); // 5 standard errors
}

// Two uses of one number would draw the same words.
static void purposes_are_distinct(void **state) {
    (void)state;
    static const struct {
        const char *name;
        ls_purpose purpose;
    } purposes[] = {
        { "INIT", LS_PURPOSE_INIT },
        { "SHUFFLE", LS_PURPOSE_SHUFFLE },
        { "DROPOUT", LS_PURPOSE_DROPOUT },
        { "SYNTHETIC", LS_PURPOSE_SYNTHETIC },
        { "VALIDATION", LS_PURPOSE_VALIDATION },
        { "BALANCE", LS_PURPOSE_BALANCE },
#define PURPOSE(NAME, number) { #NAME, LS_PURPOSE_##NAME },
#include "config/augmentations.def"
    };
    for (size_t i = 0; i < sizeof purposes / sizeof purposes[0]; i++)
        for (size_t k = 0; k < i; k++)
            if (purposes[i].purpose == purposes[k].purpose)
                fail_msg("%s and %s are both %d", purposes[i].name, purposes[k].name, purposes[i].purpose);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(stream_is_as_documented),
        cmocka_unit_test(ranges),
        cmocka_unit_test(purposes_are_distinct),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
