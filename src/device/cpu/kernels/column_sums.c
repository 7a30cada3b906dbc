// column_sums.c - sums of a matrix's columns, for gradients of biases.
#include "device/cpu/kernels/kernels.h"

void LS_KERNEL(column_sums)(const void *a, size_t stride, int rows, int columns, float *sums) {
    const stored *from = a;
    int j = 0;
    for (; j + LS_VL <= columns; j += LS_VL) {
        vf s = { 0 };
        for (int i = 0; i < rows; i++) s += load(from + (size_t)i * stride + j);
        store(sums + j, load(sums + j) + s);
    }
    for (; j < columns; j++) {
        float s = 0;
        for (int i = 0; i < rows; i++) s += number(from + (size_t)i * stride + (size_t)j);
        sums[j] += s;
    }
}
