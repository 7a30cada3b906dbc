// The thread that does something again and again: when it calls, and that it ends when it is told to.
#include <stdatomic.h>
#include "base/clock.h"
#include "system/ticker.h"
#include "support/cmocka.h"

typedef struct {
    atomic_int calls, inside;
} counter;

static void count(void *context) {
    counter *c = context;
    atomic_store(&c->inside, 1);
    ls_clock_sleep(0.02);
    atomic_fetch_add(&c->calls, 1);
    atomic_store(&c->inside, 0);
}

static void calls_at_once_and_again(void **state) {
    (void)state;
    counter c = { 0 };
    ls_ticker *ticker = NULL;
    assert_int_equal(ls_ticker_start("test", 0.01, count, &c, &ticker).code, LS_OK);
    while (atomic_load(&c.calls) < 3) ls_clock_sleep(0.001); // a hang ends by the test's timeout
    ls_ticker_stop(ticker);
    const int calls = atomic_load(&c.calls);
    ls_clock_sleep(0.1);
    assert_int_equal(atomic_load(&c.calls), calls);
    ls_ticker_stop(NULL);
}

// A long period delays neither the first call nor the end; the call that is under way is waited for.
static void stops_in_the_middle_of_a_period(void **state) {
    (void)state;
    counter c = { 0 };
    ls_ticker *ticker = NULL;
    assert_int_equal(ls_ticker_start("test", 86400.25, count, &c, &ticker).code, LS_OK);
    while (!atomic_load(&c.inside) && !atomic_load(&c.calls)) ls_clock_sleep(0.001);
    ls_ticker_stop(ticker);
    assert_int_equal(atomic_load(&c.calls), 1);
    assert_int_equal(atomic_load(&c.inside), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_at_once_and_again),
        cmocka_unit_test(stops_in_the_middle_of_a_period),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
