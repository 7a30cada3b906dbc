#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "support/cmocka.h"

static void distances(void **state) {
    (void)state;
    static const struct {
        const char *a, *b;
        int expected;
    } rows[] = {
        { "", "", 0 },
        { "abc", "", 3 },
        { "", "abc", 3 },
        { "epochs", "epochs", 0 },
        { "epohcs", "epochs", 1 },
        { "epoch", "epochs", 1 },
        { "epochss", "epochs", 1 },
        { "epachs", "epochs", 1 },
        { "kitten", "sitting", 3 },
        { "ab", "ba", 1 },
        { "abcd", "badc", 2 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int got = ls_text_distance(rows[i].a, rows[i].b), back = ls_text_distance(rows[i].b, rows[i].a);
        if (got != rows[i].expected || back != got)
            fail_msg("%s, %s: %d and back %d, expected %d", rows[i].a, rows[i].b, got, back, rows[i].expected);
    }
    char longer[300];
    memset(longer, 'a', sizeof longer);
    longer[299] = 0;
    assert_int_equal(ls_text_distance(longer, "a"), 299); // not computed, but far
}

static void nearest(void **state) {
    (void)state;
    static const char *const words[] = { "epochs", "rate", NULL, "", "micro_batch", "max_updates" };
    static const struct {
        const char *word, *expected;
    } rows[] = {
        { "epohcs", "epochs" },
        { "epoch", "epochs" },
        { "microbatch", "micro_batch" },
        { "max_update", "max_updates" },
        { "rte", "rate" },
        { "momentum", NULL },
        { "", NULL },
        { "xyz", NULL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *got = ls_text_nearest(rows[i].word, words, 6);
        if (got != rows[i].expected && (!got || !rows[i].expected || strcmp(got, rows[i].expected) != 0))
            fail_msg("'%s': %s, expected %s", rows[i].word, got ? got : "none",
                rows[i].expected ? rows[i].expected : "none");
    }
}

static void globs(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *text;
        int expected;
    } rows[] = {
        { "", "", 1 },
        { "", "a", 0 },
        { "*", "", 1 },
        { "*", "conv1.weight", 1 },
        { "*.bias", "conv1.bias", 1 },
        { "*.bias", "conv1.bias2", 0 },
        { "conv?.*", "conv1.weight", 1 },
        { "conv?.*", "conv10.weight", 0 },
        { "*a*b", "aXbXab", 1 },
        { "*ab", "aab", 1 },
        { "a*", "ba", 0 },
        { "**a", "bba", 1 },
        { "?", "", 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int got = ls_text_glob(rows[i].pattern, rows[i].text);
        if (got != rows[i].expected) fail_msg("'%s' on '%s': %d", rows[i].pattern, rows[i].text, got);
    }
}

static void replaced_names(void **state) {
    (void)state;
    char many[1001] = "";
    memset(many, 'a', sizeof many - 1);
    const struct {
        const char *pattern, *name, *text, *expected; // expected NULL: no match
    } rows[] = {
        { "fc.*", "head.*", "fc.weight", "head.weight" },
        { "fc.*", "head.*", "afc.weight", NULL },
        { "module.*", "*", "module.layer1.0.bias", "layer1.0.bias" },
        { "layer*.*.conv?.*", "group*.block*.*", "layer2.10.conv1.weight", "group2.block10.weight" },
        { "*.*", "*-*", "a.b.c", "a-b.c" }, // as short as possible
        { "*a*", "*", "banana", "b" },
        { "*.bias", "*.beta", "bn.weight", NULL },
        { "exact", "other", "exact", "other" },
        { "*", "x*", "", "x" },
        { "*****", "*", "ab", "" },
        { "a", "b", "", NULL },
        { "*a*a*a*a*a*a*a*q", "zz", many, NULL }, // not in the 8th power of the text's length
        { "*a?*", "<*|*>", "baac", "<b|c>" },
        { "*ab", "*", "abaab", "aba" },
    };
    char dst[64];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int matches = ls_text_replace(rows[i].pattern, rows[i].name, rows[i].text, dst, sizeof dst);
        if (matches != (rows[i].expected != NULL)) fail_msg("'%s' on '%s': %d", rows[i].pattern, rows[i].text, matches);
        if (matches && strcmp(dst, rows[i].expected) != 0)
            fail_msg("'%s -> %s' of '%s': '%s'", rows[i].pattern, rows[i].name, rows[i].text, dst);
    }
    char small[4]; // cut off, not overrun
    assert_int_equal(ls_text_replace("*", "*", "abcdef", small, sizeof small), 1);
    assert_string_equal(small, "abc");
}

static void sizes(void **state) {
    (void)state;
    char text[24];
    static const struct {
        uint64_t bytes;
        const char *expected;
    } bytes[] = {
        { 0, "0 B" },
        { 1023, "1023 B" },
        { 1024, "1.0 KiB" },
        { 1536, "1.5 KiB" },
        { 1048575, "1.0 MiB" },
        { 12897485, "12.3 MiB" },
        { UINT64_MAX, "16.0 EiB" },
    };
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        assert_string_equal(ls_text_bytes(text, bytes[i].bytes), bytes[i].expected);
    static const struct {
        double value;
        const char *expected;
    } si[] = {
        { 0, "0" },
        { 7, "7" },
        { 0.5, "0.50" },
        { 999, "999" },
        { 999.6, "1.00 k" },
        { 1234, "1.23 k" },
        { 12345, "12.3 k" },
        { 123456, "123 k" },
        { 1.234e9, "1.23 G" },
        { -5e12, "-5.00 T" },
        { 1e20, "100000 P" },
    };
    for (size_t i = 0; i < sizeof si / sizeof *si; i++)
        assert_string_equal(ls_text_si(text, si[i].value), si[i].expected);
    char padded[] = " \t a b \r\n", empty[] = "  ";
    assert_string_equal(ls_text_trim(padded), "a b");
    assert_string_equal(ls_text_trim(empty), "");
}

static void texts_from_elsewhere(void **state) {
    (void)state;
    static const struct {
        const char *text, *utf8, *printed; // NULL: as it is; as utf8
    } rows[] = {
        { "", NULL, NULL }, { "plain", NULL, NULL },
        { "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\xb8", NULL, NULL },               // 2, 3, 4 bytes
        { "caf\xe9", "caf\\xe9", NULL },                                        // Latin-1
        { "\xc3", "\\xc3", NULL },                                              // cut off
        { "\xe2\x82", "\\xe2\\x82", NULL }, { "\xc0\xaf", "\\xc0\\xaf", NULL }, // a longer form of '/'
        { "\xed\xa0\x80", "\\xed\\xa0\\x80", NULL },                            // a surrogate
        { "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80", NULL },                   // past the last code point
        { "\xe9t\xc3\xa9", "\\xe9t\xc3\xa9", NULL }, { "a\tb\nc\rd\\e", NULL, "a\\tb\\nc\\rd\\\\e" },
        { "\x1b[2J\x07\x7f", NULL, "\\x1b[2J\\x07\\x7f" },
        { "\xc2\x9b"
          "2J\xc2\xa0",
            NULL, "\\xc2\\x9b2J\xc2\xa0" }, // a terminal's CSI of one character
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *utf8 = ls_text_as_utf8(rows[i].text), *printed;
        size_t bytes;
        const char *expected = rows[i].utf8 ? rows[i].utf8 : rows[i].text;
        assert_string_equal(utf8, expected);
        FILE *file = open_memstream(&printed, &bytes);
        assert_non_null(file);
        ls_text_print(file, rows[i].text);
        assert_int_equal(fclose(file), 0);
        assert_string_equal(printed, rows[i].printed ? rows[i].printed : expected);
        free(printed);
        free(utf8);
    }
}

// Source: RFC 4648, section 10.
static void base64(void **state) {
    (void)state;
    static const char *const rows[] = { "", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy" };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = ls_text_base64("foobar", i);
        assert_string_equal(text, rows[i]);
        free(text);
    }
    char *all = ls_text_base64("\xfb\xef\xff", 3);
    assert_string_equal(all, "++//");
    free(all);
}

static void hashes(void **state) {
    (void)state;
    char text[17];
    ls_hash_text(ls_hash("", 0), text);
    assert_string_equal(text, "2d06800538d394c2"); // XXH3_64bits of nothing, from xxHash's own specification
    assert_true(ls_hash_more(0, "ab", 2) == ls_hash("ab", 2));
    assert_true(ls_hash_more(ls_hash("a", 1), "b", 1) != ls_hash_more(ls_hash("b", 1), "a", 1));
}

// Names as Linux (NFC) and macOS (NFD) write them: Latin, two marks, Hangul, kana, Cyrillic.
static void names_that_look_alike(void **state) {
    (void)state;
    static const struct {
        const char *a, *b;
        int alike;
    } rows[] = {
        { "caf\xc3\xa9", "cafe\xcc\x81", 1 },
        { "\xc3\xa9t\xc3\xa9", "e\xcc\x81te\xcc\x81", 1 },
        { "\xe1\xba\xbf", "e\xcc\x82\xcc\x81", 1 },
        { "\xea\xb0\x81", "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", 1 },
        { "\xe3\x81\x8c", "\xe3\x81\x8b\xe3\x82\x99", 1 },
        { "\xd0\xb9", "\xd0\xb8\xcc\x86", 1 },
        { "cafe", "cafe\xcc\x81", 0 },
        { "cafe", "caf\xc3\xa9", 0 },
        { "caf\xc3\xa9", "caf\xc3\xa9", 0 },
        { "caf\xc3\xa9", "caf\xc3\xa8", 0 },
        { "cafe\xcc\x81", "cafe\xcc\x80", 0 },
        { "caf\xc3\xa9s", "cafe\xcc\x81", 0 },
        { "caf\xc3\xa9", "thee\xcc\x81", 0 },
        { "\xff\xfe", "\xff\xcc\x81", 0 },
        { "", "\xcc\x81", 0 },
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        if (ls_text_looks_alike(rows[r].a, rows[r].b) != rows[r].alike) fail_msg("row %zu", r);
        if (ls_text_looks_alike(rows[r].b, rows[r].a) != rows[r].alike) fail_msg("row %zu, exchanged", r);
        if (rows[r].alike) assert_true(ls_text_is_decomposed(rows[r].b) && !ls_text_is_decomposed(rows[r].a));
    }
    char text[16];
    assert_string_equal("a\\xc3\\xa9 ~\\x7f", ls_text_escape(text, sizeof text, "a\xc3\xa9 ~\x7f"));
    assert_string_equal("", ls_text_escape(text, sizeof text, ""));
    assert_string_equal("abcd", ls_text_escape(text, 5, "abcdefgh"));
}

static void texts_are_cut_between_characters(void **state) {
    (void)state;
    assert_int_equal(ls_text_whole("abc", 9), 3);
    assert_int_equal(ls_text_whole("abc", 2), 2);
    assert_int_equal(ls_text_whole("", 2), 0);
    for (size_t most = 0; most < 9; most++) // 1, 2, 3 and 1 bytes
        assert_int_equal(
            ls_text_whole("a\xc3\xa4\xe2\x82\xacz", most), ((size_t[]){ 0, 1, 1, 3, 3, 3, 6, 7, 7 })[most]);
    assert_int_equal(ls_text_whole("\x80\x80", 1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distances),
        cmocka_unit_test(nearest),
        cmocka_unit_test(globs),
        cmocka_unit_test(replaced_names),
        cmocka_unit_test(sizes),
        cmocka_unit_test(texts_from_elsewhere),
        cmocka_unit_test(base64),
        cmocka_unit_test(hashes),
        cmocka_unit_test(names_that_look_alike),
        cmocka_unit_test(texts_are_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
