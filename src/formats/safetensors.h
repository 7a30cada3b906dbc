// safetensors.h - a file of named tensors in the safetensors format, which PyTorch and other tools also read and write.
//   8 bytes   length N of the header, little-endian
//   N bytes   JSON, padded with spaces:
//             {"name": {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}, ..,
//              "__metadata__": {"key": "text"}}
//   the rest  row-major little-endian values; offsets count from here; every byte belongs to exactly one tensor
// Written   the data begin at a multiple of 64 bytes; tensors keep the order given
// Read      a file may have tensors of other dtypes (`dtypes` in safetensors.c), such as the integer counters of a
//           state_dict; only tensors of a type in ls_dtype can be taken out
// Limits    a header of 16 MiB and 2 million JSON values: enough for about 140,000 tensors; each has a name of 1 to
//           1024 bytes, at most 8 dimensions, at most 2^48 elements
// Errors    LS_STORAGE: path, tensor or byte, value found, value expected
// Source    github.com/huggingface/safetensors, README, "Format"
#ifndef LS_FORMATS_SAFETENSORS_H
#define LS_FORMATS_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>
#include "base/shape.h"
#include "base/status.h"

enum { LS_SAFETENSORS_RANK_MAX = 8 };

typedef struct {
    const char *name;
    // To write: tensors with larger elements come first, so that each begins at a multiple of its element size (else
    // LS_INTERNAL).
    ls_dtype dtype;
    int rank;
    int64_t dim[LS_SAFETENSORS_RANK_MAX];
    const void *data; // as many values as the product of dim[0..rank-1]; rank 0: one value
} ls_safetensors_tensor;

typedef struct {
    const char *key, *text;
} ls_metadata_entry;

typedef struct {          // describes a whole file
    uint64_t bytes, hash; // length of the file; ls_hash of all its bytes
} ls_safetensors_digest;

// Writes the file atomically: it appears whole or not at all. All names must differ (else LS_INTERNAL). digest may be
// NULL. LS_STORAGE: the file cannot be written.
LS_CHECKED ls_status ls_safetensors_write(const char *path, const ls_safetensors_tensor *tensors, int tensor_count,
    const ls_metadata_entry *entries, int entry_count, ls_safetensors_digest *digest);

typedef struct ls_safetensors ls_safetensors;

// Reads the whole file and checks all but the values: lengths, JSON, types and shapes; that the tensors cover the data
// without gap or overlap; that no name occurs twice.
LS_CHECKED ls_status ls_safetensors_read(const char *path, ls_safetensors **out);
void ls_safetensors_free(ls_safetensors *file);
// Finds the tensor with exactly this name, type and shape. *data is borrowed from file. LS_STORAGE names the nearest
// name, or both shapes or types.
LS_CHECKED ls_status ls_safetensors_find(
    const ls_safetensors *file, const ls_safetensors_tensor *wanted, const void **data);
int ls_safetensors_index(const ls_safetensors *file, const char *name); // index of this tensor; -1: not found
const char *ls_safetensors_path(const ls_safetensors *file);            // path that it was read from
int ls_safetensors_count(const ls_safetensors *file);
const char *ls_safetensors_name(const ls_safetensors *file, int index); // indices have the order of the data
// Describes tensor `index`; its data and name are borrowed from file. Returns 0 if its type is not in ls_dtype.
int ls_safetensors_get(const ls_safetensors *file, int index, ls_safetensors_tensor *tensor);
ls_safetensors_digest ls_safetensors_digest_of(const ls_safetensors *file); // of the file as it was read
// Returns the text of a key in __metadata__, or NULL.
const char *ls_safetensors_metadata(const ls_safetensors *file, const char *key);

#endif
