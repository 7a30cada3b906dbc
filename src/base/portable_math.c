#include "base/portable_math.h"

#include <math.h>

static const double LN2 = 0.69314718055994531;

// x = m * 2^e with m between sqrt(1/2) and sqrt(2), and log(m) = 2 artanh((m - 1) / (m + 1)).
double ls_portable_log(double x) {
    int exponent;
    double m = frexp(x, &exponent);
    if (m < 0.70710678118654752) {
        m *= 2;
        exponent--;
    }
    const double s = (m - 1) / (m + 1), square = s * s;
    double sum = 0;
    for (int k = 21; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
    return exponent * LN2 + 2 * s * sum;
}

// x = n * log(2) + r with |r| <= log(2) / 2, then Taylor's series. n * log(2) is subtracted in two parts for accuracy.
double ls_portable_exp(double x) {
    static const double LN2_HIGH = 0x1.62e42fee00000p-1, LN2_LOW = 0x1.a39ef35793c76p-33;
    if (x > 700) x = 700;
    if (!(x > -700)) x = -700;
    const int n = (int)floor(x / LN2 + 0.5);
    const double r = (x - n * LN2_HIGH) - n * LN2_LOW;
    double sum = 1;
    for (int k = 18; k >= 1; k--) sum = 1 + sum * r / k;
    return ldexp(sum, n);
}
