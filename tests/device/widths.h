// widths.h - the widths of vectors that a test can choose here (device tests are linked with 16-wide kernels for AVX2):
// for (int width = LS_TEST_NARROWEST; width <= widest(); width *= 2)
#ifndef LS_TESTS_DEVICE_WIDTHS_H
#define LS_TESTS_DEVICE_WIDTHS_H

#include "system/cpus.h"

enum { LS_TEST_NARROWEST = 4 };

static inline int widest(void) {
    ls_cpus cpus;
    ls_cpus_detect(&cpus);
    return cpus.has_avx2 ? 16 : LS_TEST_NARROWEST;
}

#endif
