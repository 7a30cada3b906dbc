// As the C library has them; and known bits, in which no machine may differ.
#include <math.h>

#include "base/philox.h"
#include "config/purpose.h"
#include "base/portable_math.h"
#include "support/cmocka.h"

static void check(const char *name, double x, double got, double expected) {
    if (fabs(got - expected) > 1e-15 * fabs(expected)) fail_msg("%s(%a) is %a, expected %a", name, x, got, expected);
}

static void as_the_c_library(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 100000; i++) {
        const double u = (ls_random_word(1, LS_PURPOSE_INIT, 0, 0, 2 * i) + 0.5) * 0x1p-32;
        const double v = (ls_random_word(1, LS_PURPOSE_INIT, 0, 0, 2 * i + 1) + 0.5) * 0x1p-32;
        check("exp", 40 * (u - 0.5), ls_portable_exp(40 * (u - 0.5)), exp(40 * (u - 0.5)));
        check("exp", 1400 * (v - 0.5), ls_portable_exp(1400 * (v - 0.5)), exp(1400 * (v - 0.5)));
        if (fabs(u / v - 1) > 0.01) check("log", u / v, ls_portable_log(u / v), log(u / v));
    }
    assert_true(ls_portable_exp(1e9) == ls_portable_exp(700) && ls_portable_exp(-INFINITY) == ls_portable_exp(-700));
    assert_true(ls_portable_exp(0) == 1 && ls_portable_log(1) == 0);
}

static void known_bits(void **state) {
    (void)state;
    static const struct {
        double x, exp, log;
    } rows[] = {
        { 0x1p-7, 0x1.0202015600446p+0, -0x1.3687a9f1af2b1p+2 },
        { 0x1.3333333333333p-2, 0x1.599058c8c1a96p+0, -0x1.34378fcbda72p+0 },
        { 0x1.5555555555555p+0, 0x1.e596e8d9c6536p+1, 0x1.269621134db92p-2 },
        { 0x1.5be76c8b43958p+1, 0x1.e4ccbbe617877p+3, 0x1.fff268eee4bbp-1 },
        { 0x1.48p+3, 0x1.b9ea2aed2a0f1p+14, 0x1.29e43c6118f56p+1 },
        { 0x1.edd2f1a9fbe77p+6, 0x1.1428e1cbc0143p+178, 0x1.343774f3e2362p+2 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const double e = ls_portable_exp(rows[i].x), l = ls_portable_log(rows[i].x);
        if (e != rows[i].exp || l != rows[i].log)
            fail_msg("{ %a, %a, %a }, expected %a and %a", rows[i].x, e, l, rows[i].exp, rows[i].log);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_c_library),
        cmocka_unit_test(known_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
