// portable_math.h - functions of the C library whose last bit differs from machine to machine: here it does not. They use
// additions, multiplications and divisions of doubles, which are not fused where no vector kernels are compiled.
#ifndef LS_BASE_PORTABLE_MATH_H
#define LS_BASE_PORTABLE_MATH_H

// Natural logarithm of x > 0, within 1e-15 of it, relative.
double ls_portable_log(double x);
// e^x, within 1e-15 of it, relative; x beyond +-700 counts as +-700.
double ls_portable_exp(double x);

#endif
