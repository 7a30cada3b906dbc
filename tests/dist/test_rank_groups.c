// Ranks in groups, and the words for them.
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "dist/rank_groups.h"
#include "support/cmocka.h"

enum { RANKS_MAX = 64 };

static void show(uint64_t value, char text[LS_RANK_GROUPS_VALUE_BYTES]) {
    snprintf(text, LS_RANK_GROUPS_VALUE_BYTES, "%c", (char)value);
}

// A letter a rank.
static int values_of(const char *letters, uint64_t values[RANKS_MAX]) {
    int ranks = (int)strlen(letters);
    for (int r = 0; r < ranks; r++) values[r] = (uint64_t)letters[r];
    return ranks;
}

static void test_texts(void **state) {
    static const struct {
        const char *letters;
        size_t bytes;
        const char *expected;
        int largest; // its lowest rank
    } rows[] = {
        { "a", 256, "rank 0: a", 0 },
        { "ab", 256, "rank 0: a, rank 1: b", 0 },
        { "ba", 256, "rank 0: b, rank 1: a", 0 },
        { "abaa", 256, "ranks 0, 2, 3: a, rank 1: b", 0 },
        { "baaaa", 256, "rank 0: b, ranks 1-4: a", 1 },
        { "aabba", 256, "ranks 0, 1, 4: a, ranks 2, 3: b", 0 },
        { "aaabbbbccaaa", 256, "ranks 0-2, 9-11: a, ranks 3-6: b, ranks 7, 8: c", 0 },
        { "abcdef", 256, "rank 0: a, rank 1: b, rank 2: c, rank 3: d, rank 4: e, rank 5: f", 0 },
        { "abcdefg", 256, "rank 0: a, rank 1: b, rank 2: c, rank 3: d, rank 4: e, rank 5: f and 1 more group", 0 },
        { "abcdefgha", 256, "ranks 0, 8: a, rank 1: b, rank 2: c, rank 3: d, rank 4: e, rank 5: f and 2 more groups",
            0 },
        { "abcd", 64, "rank 0: a, rank 1: b, rank 2: c and 1 more group", 0 },
        { "ababababababababababababababababababababababababababababababab", 512,
            "ranks 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 42, 44, 46, 48, 50, "
            "52, 54, 56, 58, ...: a, "
            "ranks 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43, 45, 47, 49, 51, "
            "53, 55, 57, 59, ...: b",
            0 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t values[RANKS_MAX];
        char text[512];
        int ranks = values_of(rows[i].letters, values);
        ls_rank_groups_text(values, ranks, show, text, rows[i].bytes);
        if (strcmp(text, rows[i].expected) != 0)
            fail_msg("%s: \"%s\", expected \"%s\"", rows[i].letters, text, rows[i].expected);
        int largest = ls_rank_groups_largest(values, ranks);
        if (largest != rows[i].largest)
            fail_msg("%s: largest group is that of rank %d, expected %d", rows[i].letters, largest, rows[i].largest);
    }
}

// Whatever the room, the text ends inside it.
static void test_room(void **state) {
    uint64_t values[RANKS_MAX];
    (void)state;
    int ranks = values_of("abacadaeafagahaiajakalamanaoapaqarasatauavawaxayazaAaBaCaDaEaF", values);
    for (size_t bytes = 48; bytes < 512; bytes++) {
        char text[512 + 1];
        memset(text, '#', sizeof text);
        ls_rank_groups_text(values, ranks, show, text, bytes);
        assert_non_null(memchr(text, '\0', bytes));
        assert_int_equal(text[bytes], '#');
        ls_rank_groups_list(values, ranks, 'a', text, bytes);
        assert_non_null(memchr(text, '\0', bytes));
        assert_int_equal(text[bytes], '#');
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
