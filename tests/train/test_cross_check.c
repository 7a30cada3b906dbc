// The majority of the ranks that have computed the same gradient decides which rank is wrong.
#include "train/cross_check.h"
#include "support/cmocka.h"

typedef struct {
    const char *name;
    int count;
    ls_cross_check_vote votes[4];
    int wrong;
} judgement;

static const judgement rows[] = {
    { "the owner", 3, { { 1, 7 }, { 0, 8 }, { 2, 8 } }, 1 },
    { "the checker", 3, { { 1, 7 }, { 0, 8 }, { 2, 7 } }, 0 },
    { "three different gradients", 3, { { 1, 7 }, { 0, 8 }, { 2, 9 } }, -1 },
    { "two ranks: the owner's first", 4, { { 1, 7 }, { 0, 8 }, { 0, 8 }, { 1, 8 } }, 1 },
    { "two ranks: the owner's second, too", 4, { { 1, 7 }, { 0, 8 }, { 0, 8 }, { 1, 9 } }, 1 },
    { "two ranks: the checker's first", 4, { { 1, 7 }, { 0, 8 }, { 0, 7 }, { 1, 7 } }, 0 },
    { "two ranks: the checker never repeats", 4, { { 1, 7 }, { 0, 8 }, { 0, 9 }, { 1, 7 } }, 0 },
    { "two ranks: each repeats its own", 4, { { 1, 7 }, { 0, 8 }, { 0, 8 }, { 1, 7 } }, -1 },
    { "two ranks: none repeats", 4, { { 1, 7 }, { 0, 8 }, { 0, 9 }, { 1, 6 } }, -1 },
    { "two ranks: both have been wrong", 4, { { 1, 7 }, { 0, 8 }, { 0, 7 }, { 1, 9 } }, -1 },
};

static void judges(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int wrong = ls_cross_check_judge(rows[i].votes, rows[i].count);
        if (wrong != rows[i].wrong) fail_msg("%s: rank %d, expected %d", rows[i].name, wrong, rows[i].wrong);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(judges) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
