#include "base/shape.h"

static const struct {
    size_t bytes;
    const char *name;
} dtypes[LS_DTYPE_COUNT] = {
#define LS_DTYPE_ROW(name, bytes, text) [LS_##name] = { bytes, text },
    LS_DTYPES(LS_DTYPE_ROW)
#undef LS_DTYPE_ROW
};

size_t ls_dtype_bytes(ls_dtype dtype) {
    return dtypes[dtype].bytes;
}

const char *ls_dtype_name(ls_dtype dtype) {
    return dtypes[dtype].name;
}
