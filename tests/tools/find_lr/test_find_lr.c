// The suggestion from curves whose answer is known.
#include <math.h>
#include <stdlib.h>

#include "support/cmocka.h"
#include "tools/find_lr/find_lr.h"

enum { UPDATES = 100 };

// Fills a test with a loss that scatters by 0.01 and falls from `high` to `low` around update `middle`, and rises from update `end`.
static void fill(ls_find_lr *test, double high, double low, int middle, int end) {
    static double rate[UPDATES], loss[UPDATES], smooth[UPDATES];
    *test = (ls_find_lr){ .from = 1e-6, .to = 10, .planned = UPDATES, .rate = rate, .loss = loss, .smooth = smooth };
    for (int i = 0; i < UPDATES; i++) {
        rate[i] = 1e-6 * pow(1e7, i / (UPDATES - 1.0));
        loss[i] = (i % 2 ? 0.01 : -0.01) + low + (high - low) / (1 + exp((i - middle) / 4.0)) +
                  (i > end ? 0.1 * (i - end) : 0);
    }
    test->count = UPDATES;
}

static void suggestions(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double high, low;
        int middle, end, expected; // expected: the update that is suggested
    } rows[] = {
        { "an early fall", 2.3, 0.5, 30, 80, 30 },
        { "a late fall", 2.3, 0.5, 60, 90, 60 },
        { "a fall that a rise cuts off", 2.3, 0.5, 60, 62, 59 },
        { "a flat loss", 2.3, 2.2999, 50, 99, -1 },
        { "a loss that only rises", 2.3, 2.3, 50, 10, -1 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_find_lr test;
        fill(&test, rows[i].high, rows[i].low, rows[i].middle, rows[i].end);
        ls_find_lr_suggest(&test);
        if (abs(test.suggested - rows[i].expected) > 2)
            fail_msg("%s: update %d, expected %d", rows[i].name, test.suggested, rows[i].expected);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(suggestions) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
