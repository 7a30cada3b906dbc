// statistics.h - few numbers measured: mean, spread, Student's t, a paired test, several tests at once.
//
// Source  Student (1908); Holm, A simple sequentially rejective multiple test procedure (1979); the distribution of t by the
//         regularised incomplete beta function, its continued fraction as in Numerical Recipes, 6.4. Against scipy.stats:
//         tests/sweep/test_statistics.c
#ifndef LS_SWEEP_STATISTICS_H
#define LS_SWEEP_STATISTICS_H

// The probability that |t| is at least this large with so many degrees of freedom (above 0); NAN for NAN.
double ls_student_two_sided(double t, double freedom);
// The t which |t| exceeds with probability p (0 < p < 1): 12.706 for p = 0.05 and one degree of freedom.
double ls_student_critical(double p, double freedom);

typedef struct {
    int count;
    double mean;       // NAN of none
    double deviation;  // the sample's, over count - 1; NAN of fewer than two
    double half_width; // the 95 % interval of the mean is mean +- this, by Student's t; NAN of fewer than two
} ls_statistics;

ls_statistics ls_statistics_of(const double *values, int count);

// a[i] - b[i] for what belongs together.
typedef struct {
    ls_statistics difference;
    double t, p; // of no difference in the mean, two-sided; NAN of fewer than two pairs. All alike: p = 1; all the same
                 // other than 0: p = 0, t infinite
} ls_paired_test;

// differences[i] = a[i] - b[i]
ls_paired_test ls_paired_test_of(const double *differences, int count);

// Holm's step-down method, in place: p[i] becomes the smallest level at which that hypothesis is rejected among all `count`.
// NAN stays, and is none of them.
void ls_holm(double *p, int count);

#endif
