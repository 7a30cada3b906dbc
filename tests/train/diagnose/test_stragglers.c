// Who is late, and why: what is said of times as ranks would measure them.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "support/cmocka.h"
#include "train/diagnose/stragglers.h"

enum { RANKS = 8 };

typedef struct {
    const char *what;
    int ranks;
    double wait[RANKS], loader[RANKS], cores[RANKS]; // in 10 s
    const char *hosts, *cpus[RANKS];                 // hosts: a letter a rank; "": all on one
    double clock[RANKS];                             // 0: unknown
    const char *expected;                            // "": nobody
} row;

#define UNKNOWN "its cause is not among those known here (data, cores, a GPU's clock)"

static const row rows[] = {
    { "all alike", 4, { 1, 1.1, 0.9, 1 }, .expected = "" },
    { "nobody waits", 2, { 0, 0 }, .expected = "" },
    { "a little late", 2, { 0.1, 0.9 }, .expected = "" },
    { "one of two", 2, { 0.2, 4.2 },
        .expected = "rank 0 (host a) arrives last: the others wait 0.40 s of every second for it; " UNKNOWN },
    { "one of four", 4, { 2, 2.1, 1.9, 0.2 }, .cpus = { "0-3", "4-7", "8-11", "12-15" },
        .expected =
            "rank 3 (host a, cpus 12-15) arrives last: the others wait 0.18 s of every second for it; " UNKNOWN },
    { "one of two hosts", 4, { 2, 2, 0, 0.1 }, .hosts = "aabb",
        .expected = "ranks 2, 3 (host b) arrive last: the others wait 0.20 s of every second for them; " UNKNOWN },
    { "some of both hosts", 8, { 2, 0, 2, 2, 2, 2, 0, 2 }, .hosts = "aaaabbbb",
        .expected = "ranks 1, 6 arrive last: the others wait 0.20 s of every second for them; " UNKNOWN },
    { "one is faster than the others", 4, { 0.1, 0, 3, 0.1 }, .expected = "" },
    { "late in turns", 4, { 2, 2.5, 2, 2.5 }, .expected = "" },
    { "its data", 4, { 2, 2, 0, 2 }, .loader = { 0, 0.1, 1.6, 0 },
        .expected = "rank 2 (host a) arrives last: the others wait 0.20 s of every second for it; its loader waits "
                    "0.16 s: slow data (data.workers, or where the files are)" },
    { "everybody's data", 2, { 2, 0 }, .loader = { 3, 3 },
        .expected = "rank 1 (host a) arrives last: the others wait 0.20 s of every second for it; " UNKNOWN },
    { "a busy neighbour", 2, { 5, 0 }, .cores = { 0.5, 5.5 },
        .expected = "rank 1 (host a) arrives last: the others wait 0.50 s of every second for it; its threads wait "
                    "0.55 s for cores on which others run" },
    { "fewer cores", 3, { 5, 0, 5 }, .cpus = { "0-3", "4-5", "6-9" },
        .expected = "rank 1 (host a, cpus 4-5) arrives last: the others wait 0.50 s of every second for it; its share "
                    "of cores is 2, the others' 4" },
    { "two on the same cores", 4, { 5, 0, 5, 0 }, .cpus = { "0-1", "2-3", "4-5", "2-3" },
        .expected = "ranks 1, 3 (host a) arrive last: the others wait 0.50 s of every second for them; their share of "
                    "cores is 1, the others' 2" },
    { "the same cores on other hosts", 2, { 5, 0 }, .cpus = { "0-3", "0-3" }, .hosts = "ab",
        .expected = "rank 1 (host b, cpus 0-3) arrives last: the others wait 0.50 s of every second for it; " UNKNOWN },
    { "a slow GPU", 2, { 5, 0 }, .clock = { 1755, 900 },
        .expected = "rank 1 (host a) arrives last: the others wait 0.50 s of every second for it; its GPU runs at 900 "
                    "MHz, the others' at 1755" },
    { "a GPU just not slow", 2, { 5, 0 }, .clock = { 2000, 1800 },
        .expected = "rank 1 (host a) arrives last: the others wait 0.50 s of every second for it; " UNKNOWN },
    { "cores just not few", 2, { 5, 0 }, .cpus = { "0-3", "4-6" },
        .expected = "rank 1 (host a, cpus 4-6) arrives last: the others wait 0.50 s of every second for it; " UNKNOWN },
    { "a GPU that tells nothing", 2, { 5, 0 }, .clock = { 1755, 0 },
        .expected = "rank 1 (host a) arrives last: the others wait 0.50 s of every second for it; " UNKNOWN },
};

static void judge(const row *r, char text[LS_STRAGGLERS_TEXT_BYTES]) {
    ls_rank_time spent[RANKS];
    ls_rank_info places[RANKS];
    ls_gpu_sample gpus[RANKS];
    uint64_t late[RANKS];
    memset(places, 0, sizeof places);
    for (int i = 0; i < r->ranks; i++) {
        spent[i] = (ls_rank_time){ .wait = r->wait[i], .loader_wait = r->loader[i], .core_wait = r->cores[i] };
        snprintf(places[i].host, sizeof places[i].host, "%c", r->hosts ? r->hosts[i] : 'a');
        snprintf(places[i].cpus, sizeof places[i].cpus, "%s", r->cpus[i] ? r->cpus[i] : "");
        gpus[i] = (ls_gpu_sample){ r->clock[i] > 0, NAN, NAN, NAN, NAN, r->clock[i], 0, NAN, 0 };
    }
    ls_straggler_info facts = { r->ranks, 10, spent, places, r->clock[0] > 0 ? gpus : NULL };
    double share = ls_stragglers_find(&facts, late);
    text[0] = '\0';
    if (share >= 0.1) ls_stragglers_text(&facts, late, share, text);
}

static void test_verdicts(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[LS_STRAGGLERS_TEXT_BYTES];
        judge(&rows[i], text);
        if (strcmp(text, rows[i].expected) != 0)
            fail_msg("%s: \"%s\", expected \"%s\"", rows[i].what, text, rows[i].expected);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_verdicts) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
