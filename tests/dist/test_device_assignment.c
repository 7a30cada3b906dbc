// Which GPU each rank takes: situations as tables.
#include <stdio.h>
#include <string.h>
#include "dist/device_assignment.h"
#include "support/cmocka.h"

enum { RANKS_MAX = 8 };

// A rank as "HOST:GPUS": the digit of its host, then a letter for each GPU that it sees, in its order.
// Expected: the letter that it takes, '-' for none; and the lowest rank of the same GPU.
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

static ls_device_assignment_view view_of(const char *text) {
    ls_device_assignment_view view = { .host = text[0] - '0' };
    for (const char *gpu = text + 2; *gpu; gpu++) view.gpu[view.count++] = (uint64_t)*gpu;
    return view;
}

static void choices(void **state) {
    (void)state;
    for (size_t s = 0; s < sizeof situations / sizeof *situations; s++) {
        const situation *row = &situations[s];
        ls_device_assignment_view views[RANKS_MAX];
        int taken[RANKS_MAX], first[RANKS_MAX], ranks = 0;
        for (; ranks < RANKS_MAX && row->ranks[ranks]; ranks++) views[ranks] = view_of(row->ranks[ranks]);
        ls_device_assignment_choose(views, ranks, row->share, taken, first);
        char took[RANKS_MAX + 1] = "", firsts[RANKS_MAX + 1] = "";
        for (int r = 0; r < ranks; r++) {
            took[r] = taken[r] < 0 ? '-' : (char)views[r].gpu[taken[r]];
            firsts[r] = (char)('0' + first[r]);
        }
        if (strcmp(took, row->taken) != 0 || strcmp(firsts, row->first) != 0)
            fail_msg("%s: took %s, first %s; expected %s, %s", row->name, took, firsts, row->taken, row->first);
    }
}

// --- the table at the start ----------------------------------------------------------------------

static ls_rank_info place(const char *host, const char *device, const char *name, const char *uuid, const char *cpus) {
    ls_rank_info p = { .host = "" };
    snprintf(p.host, sizeof p.host, "%s", host);
    snprintf(p.device, sizeof p.device, "%s", device);
    snprintf(p.name, sizeof p.name, "%s", name);
    snprintf(p.uuid, sizeof p.uuid, "%s", uuid);
    if (uuid[0]) snprintf(p.pci, sizeof p.pci, "0000:01:00.0");
    snprintf(p.cpus, sizeof p.cpus, "%s", cpus);
    return p;
}

static void expect_table(const char *name, const ls_rank_info *places, int ranks, const char *expected) {
    char text[2048] = "", line[LS_RANK_TABLE_LINE_BYTES];
    for (int rank = 0; rank < ranks;) {
        rank = ls_rank_table_line(places, ranks, rank, line);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s\n", line);
    }
    if (strcmp(text, expected) != 0) fail_msg("%s:\n%sexpected:\n%s", name, text, expected);
}

static void tables(void **state) {
    (void)state;
    ls_rank_info gpus[3] = { place("a", "cuda", "H100", "GPU-0", "0-7"), place("a", "cuda", "H100", "GPU-1", "8-15"),
        place("b", "cuda", "H200", "GPU-2", "") };
    expect_table("three GPUs", gpus, 3,
        "rank 0    a  H100  GPU-0  0000:01:00.0  CPUs 0-7\n"
        "rank 1    a  H100  GPU-1  0000:01:00.0  CPUs 8-15\n"
        "rank 2    b  H200  GPU-2  0000:01:00.0\n");
    ls_rank_info cpus[4] = { place("a", "cpu", "EPYC", "", "0-7"), place("a", "cpu", "EPYC", "", "0-7"),
        place("a", "cpu", "EPYC", "", "8"), place("b", "cpu", "EPYC", "", "8") };
    expect_table("processors", cpus, 4,
        "ranks 0-1 a  EPYC  CPUs 0-7\n"
        "rank 2    a  EPYC  CPUs 8\n"
        "rank 3    b  EPYC  CPUs 8\n");
    ls_rank_info many[20];
    for (int r = 0; r < 20; r++) many[r] = place(r < 12 ? "a" : "b", "cuda", "H100", r % 2 ? "GPU-1" : "GPU-0", "0-7");
    expect_table("many ranks", many, 20,
        "ranks 0-11 a  12 x H100\n"
        "ranks 12-19 b  8 x H100\n");
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(choices), cmocka_unit_test(tables) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
