// Which GPU each rank takes: situations as tables.
#include <string.h>
#include "dist/placement.h"
#include "support/cmocka.h"

enum { RANKS_MAX = 8 };

// A rank as "HOST:GPUS": the digit of its host, then a letter for each GPU that it sees, in its order. Expected: the
// letter that it takes, '-' for none; and the lowest rank of the same GPU.
typedef struct {
    const char *name;
    int share;
    const char *ranks[RANKS_MAX];
    const char *taken, *first;
} situation;

static const situation situations[] = {
    { "alone", 0, { "0:a" }, "a", "0" },
    { "alone, two GPUs", 0, { "0:ab" }, "a", "0" },
    { "all visible", 0, { "0:abcd", "0:abcd", "0:abcd", "0:abcd" }, "abcd", "0123" },
    { "fewer ranks than GPUs", 0, { "0:abcd", "0:abcd" }, "ab", "01" },
    { "one visible each", 0, { "0:a", "0:b", "0:c" }, "abc", "012" },
    { "two visible each", 0, { "0:ab", "0:cd" }, "ac", "01" },
    { "each begins with another", 0, { "0:ab", "0:ba" }, "ab", "01" },
    { "the second sees more than the first", 0, { "0:a", "0:ab" }, "ab", "01" },
    { "one visible, two ranks", 0, { "0:a", "0:a" }, "a-", "01" },
    { "three ranks, two GPUs", 0, { "0:ab", "0:ab", "0:ab" }, "ab-", "012" },
    { "the same names on two hosts", 0, { "0:ab", "0:ab", "1:ab", "1:ab" }, "abab", "0123" },
    { "ranks by turns on two hosts", 0, { "0:ab", "1:ab", "0:ab", "1:ab" }, "aabb", "0123" },
    { "one host is full", 0, { "0:ab", "1:a", "0:ab", "1:a" }, "aab-", "0123" },
    { "no GPU", 0, { "0:", "0:" }, "--", "01" },
    { "shared: enough for all", 1, { "0:ab", "0:ab" }, "ab", "01" },
    { "shared: three on two", 1, { "0:ab", "0:ab", "0:ab" }, "aba", "010" },
    { "shared: four on one", 1, { "0:a", "0:a", "0:a", "0:a" }, "aaaa", "0000" },
    { "shared: five on two", 1, { "0:ab", "0:ab", "0:ab", "0:ab", "0:ab" }, "ababa", "01010" },
    { "shared: on each host", 1, { "0:a", "1:a", "0:a", "1:a" }, "aaaa", "0101" },
    { "shared: one rank has no choice", 1, { "0:ab", "0:ab", "0:a", "0:ab" }, "abab", "0101" },
    { "shared: no GPU", 1, { "0:", "0:a" }, "-a", "01" },
};

static ls_placement_view view_of(const char *text) {
    ls_placement_view view = { .host = text[0] - '0' };
    for (const char *gpu = text + 2; *gpu; gpu++) view.gpu[view.count++] = (uint64_t)*gpu;
    return view;
}

static void choices(void **state) {
    (void)state;
    for (size_t s = 0; s < sizeof situations / sizeof *situations; s++) {
        const situation *row = &situations[s];
        ls_placement_view views[RANKS_MAX];
        int taken[RANKS_MAX], first[RANKS_MAX], ranks = 0;
        for (; ranks < RANKS_MAX && row->ranks[ranks]; ranks++) views[ranks] = view_of(row->ranks[ranks]);
        ls_placement_choose(views, ranks, row->share, taken, first);
        char took[RANKS_MAX + 1] = "", firsts[RANKS_MAX + 1] = "";
        for (int r = 0; r < ranks; r++) {
            took[r] = taken[r] < 0 ? '-' : (char)views[r].gpu[taken[r]];
            firsts[r] = (char)('0' + first[r]);
        }
        if (strcmp(took, row->taken) != 0 || strcmp(firsts, row->first) != 0)
            fail_msg("%s: took %s, first %s; expected %s, %s", row->name, took, firsts, row->taken, row->first);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(choices) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
