// write_c.h - writes a network as one C99 file without dependencies, for microcontrollers:
//   int NAME_predict(const uint8_t *pixels, float *logits);
// The file has the weights as constants, static buffers in one slab, and the kernels that the network uses
// (kernels_float.h, kernels_int8.h). NAME_predict calls no functions of the C library but those of math.h, if an
// activation or a group norm needs them. The file's first comment gives shapes, classes, multiplications and bytes.
// It compiles as C99 and as C++ without warnings (-Wall -Wextra -Wconversion -pedantic).
#ifndef LS_DEPLOY_WRITE_C_H
#define LS_DEPLOY_WRITE_C_H

#include "deploy/network.h"

// The picture and the logits with which the file checks itself: a `main` that returns 0 if NAME_predict gives these
// logits, as floats within 1e-5 of the largest of them, from an int8 network exactly. It prints the first difference.
typedef struct {
    const uint8_t *pixels; // planar (C,H,W); NULL: no main
    const float *logits;
} ls_write_c_test;

// Writes the file `path`. name: its function is called NAME_predict. LS_STORAGE: the file cannot be written.
LS_CHECKED ls_status ls_write_c(
    const char *path, const char *name, const ls_network *network, const ls_write_c_test *test);
// Sets `name` to `given`, the user's choice, or if that is NULL to the file name in `path` without its ending.
// LS_USAGE: this is no C identifier of at most 63 bytes.
enum { LS_WRITE_C_NAME_BYTES = 64 };
LS_CHECKED ls_status ls_write_c_name(const char *given, const char *path, char name[LS_WRITE_C_NAME_BYTES]);

#endif
