#include "sweep/statistics.h"

#include <float.h>
#include <math.h>

enum { FRACTION_STEPS = 10000, HALVINGS = 200 };

// Returns the continued fraction of the incomplete beta function, by Lentz's method. It converges fast for
// x < (a + 1)/(a + b + 2).
static double beta_fraction(double a, double b, double x) {
    const double tiny = DBL_MIN / DBL_EPSILON;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double result = d;
    for (int m = 1; m <= FRACTION_STEPS; m++) {
        const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        for (int half = 0; half < 2; half++) {
            const double term = half ? odd : even;
            d = 1 + term * d;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = 1 + term / c;
            if (fabs(c) < tiny) c = tiny;
            result *= c * d;
        }
        if (fabs(c * d - 1) < DBL_EPSILON) break;
    }
    return result;
}

// Returns I_x(a, b). rest: 1 - x; the caller computes it separately, so that the smaller of the two has full precision.
static double incomplete_beta(double a, double b, double x, double rest) {
    if (x <= 0) return 0;
    if (rest <= 0) return 1;
    const double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(rest));
    if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, rest) / b;
}

double ls_student_two_sided(double t, double freedom) {
    if (isnan(t)) return t;
    if (isinf(t)) return 0;
    const double square = t * t, sum = freedom + square;
    return incomplete_beta(freedom / 2, 0.5, freedom / sum, square / sum);
}

double ls_student_critical(double p, double freedom) {
    double low = 0, high = 1;
    while (ls_student_two_sided(high, freedom) > p) high *= 2;
    for (int i = 0; i < HALVINGS && high - low > DBL_EPSILON * high; i++) {
        const double middle = low + (high - low) / 2;
        if (ls_student_two_sided(middle, freedom) > p)
            low = middle;
        else
            high = middle;
    }
    return low + (high - low) / 2;
}

ls_statistics ls_statistics_of(const double *values, int count) {
    ls_statistics s = { .count = count, .mean = NAN, .deviation = NAN, .half_width = NAN };
    if (count < 1) return s;
    double sum = 0, squares = 0;
    int alike = 1;
    for (int i = 0; i < count; i++) {
        sum += values[i];
        alike = alike && values[i] == values[0];
    }
    s.mean = alike ? values[0] : sum / count; // equal values have exactly this mean: rounding must not add spread
    for (int i = 0; i < count; i++) squares += (values[i] - s.mean) * (values[i] - s.mean);
    if (count < 2) return s;
    s.deviation = sqrt(squares / (count - 1));
    s.half_width = ls_student_critical(0.05, count - 1) * s.deviation / sqrt(count);
    return s;
}

ls_paired_test ls_paired_test_of(const double *differences, int count) {
    ls_paired_test test = { .difference = ls_statistics_of(differences, count), .t = NAN, .p = NAN };
    const ls_statistics *d = &test.difference;
    if (count < 2) return test;
    test.t = d->mean == 0 ? 0 : d->mean / (d->deviation / sqrt(count)); // infinite if all are equal
    test.p = ls_student_two_sided(test.t, count - 1);
    return test;
}

void ls_holm(double *p, int count) {
    int left = 0;
    double highest = 0; // largest corrected value so far: corrected values never decrease
    for (int i = 0; i < count; i++) left += !isnan(p[i]);
    for (; left > 0; left--) {
        int next = -1;
        for (int i = 0; i < count; i++)
            if (!isnan(p[i]) && !signbit(p[i]) && (next < 0 || p[i] < p[next])) next = i;
        highest = fmax(highest, fmin(1, left * p[next]));
        p[next] = -highest; // the sign marks a value that is done
    }
    for (int i = 0; i < count; i++) p[i] = fabs(p[i]);
}
