// file_type.h - finds the type of a file by its first bytes, so that a message about a wrong file can name it.
#ifndef LS_CONFIG_FILE_TYPE_H
#define LS_CONFIG_FILE_TYPE_H

#include <stddef.h>
#include "base/status.h"

//    NAME           text in messages
#define LS_FILE_TYPES(X) \
    X(UNKNOWN, "a file of an unknown type") \
    X(MISSING, "not there") \
    X(FOLDER, "a folder") \
    X(SWEEP, "the folder of a sweep or race, whose runs are in folders in it") \
    X(CONFIGURATION, "a configuration") \
    X(NETWORK, "a network file") \
    X(WEIGHTS, "a safetensors file") \
    X(PICTURE, "a picture") \
    X(ONNX, "an ONNX model") \
    X(TORCH, "a PyTorch file (scripts/torch_to_safetensors.py converts weights)") \
    X(HDF5, "an HDF5 file") \
    X(JSON, "a JSON file") \
    X(HTML, "an HTML page") \
    X(ARCHIVE, "an archive")

typedef enum {
#define LS_FILE_TYPE_ENUM(NAME, text) LS_FILE_TYPE_##NAME,
    LS_FILE_TYPES(LS_FILE_TYPE_ENUM)
#undef LS_FILE_TYPE_ENUM
} ls_file_type;

// Returns the type of the file. UNKNOWN: another type, a file that cannot be read, a pipe or a device.
ls_file_type ls_file_type_of(const char *path);
const char *ls_file_type_text(ls_file_type type); // "a picture"

// Refuses a path whose type is known (MISSING: it does not exist) and is not in `accepted`, a set of 1u <<
// LS_FILE_TYPE_*. A file of an unknown type passes, because the function that reads it reports errors. expected, for
// the message: "weights (a .safetensors file, or the folder of a run or checkpoint)". A refusal is LS_USAGE.
LS_CHECKED ls_status ls_expect_file_type(const char *path, unsigned accepted, const char *expected);

// Writes the path that was probably meant into dst: each part that does not exist is replaced by the nearest name in
// its folder. Returns 0, with "" in dst, if there is no such path.
int ls_nearest_path(const char *path, char *dst, size_t bytes);

#endif
