// Against scipy.stats 1.17: t.sf, t.isf, ttest_rel and its confidence_interval.
#include <math.h>

#include "sweep/statistics.h"
#include "support/cmocka.h"

static void expect_near(const char *what, double got, double expected) {
    if (!(fabs(got - expected) <= 1e-9 * fabs(expected))) fail_msg("%s: %.17g, expected %.17g", what, got, expected);
}

static void student(void **state) {
    (void)state;
    static const struct {
        double t, freedom, p; // 2 * stats.t.sf(abs(t), freedom)
    } rows[] = {
        { 0, 5, 1.0 },
        { 0.001, 3, 0.9992648949694609 },
        { 0.5, 1, 0.7048327646991335 },
        { 1, 1, 0.5 },
        { 2, 2, 0.18350341907227397 },
        { 2.5, 4, 0.06676654481198814 },
        { -2.5, 4, 0.06676654481198814 },
        { 3.3, 24, 0.003011900788798234 },
        { 40, 3, 3.4380680789158506e-05 },
        { 1.96, 1e6, 0.04999606758526985 },
        { 8, 30.5, 5.558154401836166e-09 },
        { INFINITY, 3, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_near("two-sided p", ls_student_two_sided(rows[i].t, rows[i].freedom), rows[i].p);
    assert_true(isnan(ls_student_two_sided(NAN, 3)));
}

static void critical(void **state) {
    (void)state;
    static const struct {
        double p, freedom, t; // stats.t.isf(p / 2, freedom)
    } rows[] = {
        { 0.05, 1, 12.706204736174705 },
        { 0.05, 2, 4.302652729749464 },
        { 0.05, 4, 2.7764451051977943 },
        { 0.05, 24, 2.063898561628026 },
        { 0.05, 999, 1.9623414611334498 },
        { 0.01, 3, 5.840909309733357 },
        { 0.5, 7, 0.7111417780817866 },
        { 1e-6, 10, 10.516489956914905 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_near("critical t", ls_student_critical(rows[i].p, rows[i].freedom), rows[i].t);
}

static void paired(void **state) {
    (void)state;
    static const double a[] = { 91.21, 91.4, 90.98, 91.55, 91.3 }, b[] = { 90.9, 91.35, 90.7, 91.1, 91.32 };
    double differences[5];
    for (int i = 0; i < 5; i++) differences[i] = a[i] - b[i];
    const ls_paired_test test = ls_paired_test_of(differences, 5);
    assert_int_equal(test.difference.count, 5);
    expect_near("mean", test.difference.mean, 0.21400000000000147);
    expect_near("deviation", test.difference.deviation, 0.1942421169571584);
    expect_near("half of the interval", test.difference.half_width, 0.24118344356058846);
    expect_near("t", test.t, 2.4635159185919457);
    expect_near("p", test.p, 0.06942857276838214);
}

static void few_and_alike(void **state) {
    (void)state;
    static const double same[] = { 0.1, 0.1, 0.1 }, none[] = { 0, 0, 0 };
    const ls_statistics one = ls_statistics_of(same, 1), all = ls_statistics_of(same, 3),
                        no = ls_statistics_of(same, 0);
    assert_true(one.count == 1 && one.mean == 0.1 && isnan(one.deviation) && isnan(one.half_width));
    assert_true(all.count == 3 && all.mean == 0.1 && all.deviation == 0 && all.half_width == 0);
    assert_true(no.count == 0 && isnan(no.mean));
    assert_true(isnan(ls_paired_test_of(same, 1).p));
    assert_true(ls_paired_test_of(same, 3).p == 0 && isinf(ls_paired_test_of(same, 3).t));
    assert_true(ls_paired_test_of(none, 3).p == 1);
}

static void holm(void **state) {
    (void)state;
    double p[] = { 0.01, 0.04, NAN, 0.03, 0.005, 0 }; // five hypotheses
    static const double expected[] = { 0.03, 0.06, NAN, 0.06, 0.02, 0 };
    ls_holm(p, 6);
    for (int i = 0; i < 6; i++)
        if (i != 2) expect_near("adjusted p", p[i], expected[i]);
    assert_true(isnan(p[2]));
    double large[] = { 0.6, 0.7 };
    ls_holm(large, 2);
    assert_true(large[0] == 1 && large[1] == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(student),
        cmocka_unit_test(critical),
        cmocka_unit_test(paired),
        cmocka_unit_test(few_and_alike),
        cmocka_unit_test(holm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
