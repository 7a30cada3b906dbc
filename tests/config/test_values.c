#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "config/values.h"
#include "support/cmocka.h"

static void expect_message(ls_status status, const char *text, const char *message) {
    char expected[512];
    snprintf(expected, sizeof expected, "x: %s", message ? message : "");
    if (message ? status.code != LS_USAGE || strcmp(status.text, expected) != 0 : ls_failed(status))
        fail_msg("'%s': %s", text, status.text ? status.text : "accepted");
}

#define GROUP_WORDS "lr=, decay=, momentum=, end= or frozen_after= with a number, kind= with an optimizer, or frozen"
#define CHW_MESSAGE "expected channels x height x width, each from 1 to 65535, as 3x32x32"
#define HW_MESSAGE "expected height x width, each from 1 to 65535, as 64x64"

static void shapes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        ls_chw expected;
        const char *message;
    } rows[] = {
        { "3x32x32", { 3, 32, 32 }, NULL },
        { "1x1x65535", { 1, 1, 65535 }, NULL },
        { "", { 0 }, CHW_MESSAGE },
        { "3x32", { 0 }, CHW_MESSAGE },
        { "3x32x32x1", { 0 }, CHW_MESSAGE },
        { "0x32x32", { 0 }, CHW_MESSAGE },
        { "3x32x65536", { 0 }, CHW_MESSAGE },
        { "3 x 32 x 32", { 0 }, CHW_MESSAGE },
        { "-3x32x32", { 0 }, CHW_MESSAGE },
        { "3X32X32", { 0 }, CHW_MESSAGE },
        { "3x32x99999999999", { 0 }, CHW_MESSAGE },
        { "9x65535x65535", { 0 }, "expected at most 2147483647 elements, these are 38653526025" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_chw shape = { 0 };
        expect_message(ls_parse_chw("x", rows[i].text, &shape), rows[i].text, rows[i].message);
        if (!rows[i].message && !ls_chw_equal(shape, rows[i].expected)) fail_msg("%s", rows[i].text);
    }
    int h = 0, w = 0;
    expect_message(ls_parse_hw("x", "64x48", &h, &w), "64x48", NULL);
    assert_true(h == 64 && w == 48);
    static const char *const bad[] = { "", "64", "64x", "64x48x3", "0x5", "ax5" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_message(ls_parse_hw("x", bad[i], &h, &w), bad[i], HW_MESSAGE);
}

static void resolutions(void **state) {
    (void)state;
    ls_resolutions r;
    expect_message(ls_parse_resolutions("x", "", &r), "", NULL);
    assert_int_equal(r.count, 0);
    expect_message(ls_parse_resolutions("x", "0:24, 3 : 28,6:32x40 , 9:24", &r), "four", NULL);
    assert_int_equal(r.count, 4);
    assert_true(r.step[1].epoch == 3 && r.step[1].h == 28 && r.step[1].w == 28);
    assert_true(r.step[2].epoch == 6 && r.step[2].h == 32 && r.step[2].w == 40);
    static const int expected[] = { 0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 0 }; // the fourth is the first again
    for (int epoch = 0; epoch < 11; epoch++) assert_int_equal(ls_resolutions_find(&r, epoch), expected[epoch]);
    static const char *const bad[] = { "24", "0:", ":24", "0:24x", "0:24x24x3", "0:65536", "0:0", "0:-1", "0:24,",
        ",0:24", "0:24,,1:28", "x:24", "0.5:24", "0:24;1:28",
        "0:24 and so on, for more characters than any resolution by epoch can have" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_message(ls_parse_resolutions("x", bad[i], &r), bad[i],
            "expected epoch:pixels with commas between, as 0:24, 3:28, 6:32x40");
    expect_message(ls_parse_resolutions("x", "-1:24", &r), "-1:24",
        "epoch -1; expected the first to be 0, and each to be above the one before");
}

static void reals(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int count;
        double expected[3];
        const char *message;
    } rows[] = {
        { "", 0, { 0 }, NULL },
        { "1", 1, { 1 }, NULL },
        { "0.5, 1,2e-3", 3, { 0.5, 1, 2e-3 }, NULL },
        { " -1 ,\t2 ", 2, { -1, 2 }, NULL },
        { "1,,2", 0, { 0 }, "'' is no number; expected numbers with commas between, as 0.5, 1, 2e-3" },
        { "1,", 0, { 0 }, "'' is no number; expected numbers with commas between, as 0.5, 1, 2e-3" },
        { "1 2", 0, { 0 }, "'1 2' is no number; expected numbers with commas between, as 0.5, 1, 2e-3" },
        { "1, nan", 0, { 0 }, "'nan' is no number; expected numbers with commas between, as 0.5, 1, 2e-3" },
        { "1, 2, 3, 4", 0, { 0 }, "expected at most 3 numbers" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double got[3];
        int count = -1;
        expect_message(ls_parse_reals("x", rows[i].text, got, 3, &count), rows[i].text, rows[i].message);
        if (rows[i].message) continue;
        assert_int_equal(count, rows[i].count);
        for (int j = 0; j < count; j++) assert_true(got[j] == rows[i].expected[j]);
    }
}

static void groups(void **state) {
    (void)state;
    ls_groups got;
    assert_int_equal(ls_parse_groups("x", "", &got).code, LS_OK);
    assert_int_equal(got.count, 0);
    assert_int_equal(
        ls_parse_groups("x", "*.bias decay=0;  head.* lr=10   decay=1e-4 ; conv? lr=0.5;", &got).code, LS_OK);
    assert_int_equal(got.count, 3);
    assert_string_equal(got.group[0].pattern, "*.bias");
    assert_true(got.group[0].lr == 1 && got.group[0].decay == 0);
    assert_string_equal(got.group[1].pattern, "head.*");
    assert_true(got.group[1].lr == 10 && got.group[1].decay == 1e-4);
    assert_string_equal(got.group[2].pattern, "conv?");
    assert_true(got.group[2].lr == 0.5 && isnan(got.group[2].decay));
    assert_true(got.group[2].kind == -1 && !got.group[2].frozen && isnan(got.group[2].end));

    const char *all = "a kind=adamw momentum=0.8 end=2.5; b frozen; c frozen_after=0.25";
    assert_int_equal(ls_parse_groups("x", all, &got).code, LS_OK);
    assert_true(got.count == 3 && got.group[0].kind == LS_OPTIMIZER_ADAMW && !got.group[0].frozen);
    assert_true(got.group[0].momentum == 0.8 && got.group[0].end == 2.5 && isnan(got.group[0].frozen_after));
    assert_true(got.group[1].frozen && got.group[2].frozen_after == 0.25 && got.group[2].lr == 1);

    char longer[1024], many[1024] = "", pattern_message[256];
    memset(longer, 'p', sizeof longer);
    longer[64] = 0;
    snprintf(pattern_message, sizeof pattern_message,
        "'%.64s': expected a name pattern of at most 63 characters, as *.bias, before lr= and the others", longer);
    for (int i = 0; i < 33; i++) strcat(many, "a lr=1;");
    const struct {
        const char *text, *message;
    } rows[] = {
        { longer, pattern_message },
        { many, "expected at most 32 groups" },
        { "*.bias", "'*.bias': expected after the pattern " GROUP_WORDS },
        { "lr=1", "'lr=1': expected a name pattern of at most 63 characters, as *.bias, before lr= and the others" },
        { "a lr=x", "'lr=x' after 'a': expected " GROUP_WORDS },
        { "a lr=-1", "'lr=-1' after 'a': expected " GROUP_WORDS },
        { "a rat=1", "'rat=1' after 'a': expected " GROUP_WORDS },
        { "a decay", "'decay' after 'a': expected " GROUP_WORDS },
        { "a momentum=1", "'momentum=1' after 'a': expected " GROUP_WORDS },
        { "a kind=adam", "'kind=adam' after 'a': expected " GROUP_WORDS
                         "; did you mean adamw? (Adam without decay is adamw with optimizer.weight_decay = 0)" },
        { "a rate=2", "'rate=2' after 'a': expected " GROUP_WORDS "; did you mean lr=?" },
        { "a frozen=1", "'frozen=1' after 'a': expected " GROUP_WORDS },
        { "a decay=", "'decay=' after 'a': expected " GROUP_WORDS },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_message(ls_parse_groups("x", rows[i].text, &got), rows[i].text, rows[i].message);
}

static void real_texts(void **state) {
    (void)state;
    static const struct {
        double value;
        const char *expected;
    } rows[] = {
        { 0, "0" },
        { 1, "1" },
        { 0.1, "0.1" },
        { 65536, "65536" },
        { 16777216, "16777216" },
        { 1e-8, "1e-8" },
        { 1e30, "1e30" },
        { -2.5, "-2.5" },
        { 1.0 / 3, "0.3333333333333333" },
        { 1e6, "1000000" },
        { 0.0001, "0.0001" },
        { 1.5e-10, "1.5e-10" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[32];
        assert_string_equal(ls_real_text(text, rows[i].value), rows[i].expected);
        double back = 0;
        assert_int_equal(ls_parse_real("x", text, -1e300, 1e300, &back).code, LS_OK);
        assert_true(back == rows[i].value);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),
        cmocka_unit_test(resolutions),
        cmocka_unit_test(reals),
        cmocka_unit_test(groups),
        cmocka_unit_test(real_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
