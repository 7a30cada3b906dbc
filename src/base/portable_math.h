// portable_math.h - log and exp with the same bits on every machine; C libraries differ in the last bit. Both use only
// basic arithmetic of doubles, without fused multiply-add, and frexp, ldexp and floor, which are exact.
#ifndef LS_BASE_PORTABLE_MATH_H
#define LS_BASE_PORTABLE_MATH_H

// Natural logarithm of x > 0, with a relative error of at most 1e-15.
double ls_portable_log(double x);
// e^x, with a relative error of at most 1e-15. x is clamped to [-700, 700].
double ls_portable_exp(double x);

#endif
