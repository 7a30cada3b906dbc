// write_arrays.h - writes numbers, constant arrays and names in a form that is valid in C99 and in C++.
#ifndef LS_DEPLOY_WRITE_ARRAYS_H
#define LS_DEPLOY_WRITE_ARRAYS_H

#include <stdint.h>
#include <stdio.h>

// Writes a finite number with enough digits to read the same float back: "0.5f".
void ls_write_float(FILE *file, float value);
// Write the array "static const TYPE NAME_NUMBER[COUNT]"; number -1: only NAME.
void ls_write_floats(FILE *file, const char *name, int number, const float *values, int64_t count);
void ls_write_ints(FILE *file, const char *name, int number, const int32_t *values, int64_t count);
void ls_write_bytes(FILE *file, const char *type, const char *name, int number, const void *values, int64_t count);
// Writes a name inside a comment of C: characters that could end the comment or that a compiler would warn about
// become '_'.
void ls_write_plain(FILE *file, const char *name);

#endif
