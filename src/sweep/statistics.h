// statistics.h - statistics of a few measurements: mean and spread, Student's t, a paired test, and a correction for
// several tests.
//
// Source  Student (1908); Holm, A simple sequentially rejective multiple test procedure (1979). The distribution of t
//         is computed by the regularised incomplete beta function, with its continued fraction as in Numerical
//         Recipes, 6.4. tests/sweep/test_statistics.c compares with scipy.stats
#ifndef LS_SWEEP_STATISTICS_H
#define LS_SWEEP_STATISTICS_H

// Returns the probability that |t| is at least this large. freedom: degrees of freedom, above 0. NAN if t is NAN.
double ls_student_two_sided(double t, double freedom);
// Returns the value that |t| exceeds with probability p (0 < p < 1): 12.706 for p = 0.05 and one degree of freedom.
double ls_student_critical(double p, double freedom);

typedef struct {
    int count;
    double mean;       // NAN if count is 0
    double deviation;  // standard deviation of the sample, with the divisor count - 1; NAN if count < 2
    double half_width; // the 95 % interval of the mean is mean +- half_width, by Student's t; NAN if count < 2
} ls_statistics;

ls_statistics ls_statistics_of(const double *values, int count);

// Result of a two-sided paired test: whether the mean of differences a[i] - b[i] is 0. t and p are NAN for fewer than
// two pairs. If all differences are 0, p is 1. If all are equal but not 0, p is 0 and t is infinite.
typedef struct {
    ls_statistics difference;
    double t, p;
} ls_paired_test;

// Tests whether the mean of the differences, differences[i] = a[i] - b[i], is 0.
ls_paired_test ls_paired_test_of(const double *differences, int count);

// Corrects the p values of several tests in place, by Holm's step-down method: p[i] becomes the smallest level at which
// its hypothesis is rejected, given all tests. NAN entries are left alone and not counted.
void ls_holm(double *p, int count);

#endif
