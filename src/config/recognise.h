// recognise.h - recognises the kind of a file by its first bytes, so that a message about a wrong file can name the
// kind.
#ifndef LS_CONFIG_RECOGNISE_H
#define LS_CONFIG_RECOGNISE_H

#include <stddef.h>
#include "base/status.h"

//    NAME           text in messages
#define LS_CONTENTS(X) \
    X(UNKNOWN, "a file of an unknown kind") \
    X(MISSING, "not there") \
    X(FOLDER, "a folder") \
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
#define LS_CONTENT_ENUM(NAME, text) LS_CONTENT_##NAME,
    LS_CONTENTS(LS_CONTENT_ENUM)
#undef LS_CONTENT_ENUM
} ls_content;

// Returns the kind of the file. UNKNOWN: another kind, a file that cannot be read, a pipe or a device.
ls_content ls_recognise(const char *path);
const char *ls_content_text(ls_content content); // "a picture"

// Refuses a path whose kind is known (MISSING: it does not exist) and is not in `accepted`, a set of 1u <<
// LS_CONTENT_*. A file of an unknown kind passes, because the function that reads it reports errors. expected, for the
// message: "weights (a .safetensors file, or the folder of a run or checkpoint)". A refusal is LS_USAGE.
LS_CHECKED ls_status ls_expect_content(const char *path, unsigned accepted, const char *expected);

// Writes the path that was probably meant into dst: each part that does not exist is replaced by the nearest name in
// its folder. Returns 0, with "" in dst, if there is no such path.
int ls_nearest_path(const char *path, char *dst, size_t bytes);

#endif
