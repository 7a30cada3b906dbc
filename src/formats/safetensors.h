// safetensors.h - tensors by name in one file, as PyTorch's and other tools' safetensors read and write them.
//   8 bytes   length N of the header, little-endian
//   N bytes   JSON, padded with spaces:
//             {"name": {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}, ..,
//              "__metadata__": {"key": "text"}}
//   the rest  row-major little-endian values; offsets count from here; every byte belongs to exactly one tensor
// Written   data at a multiple of 64 bytes, tensors in the order given
// Read      any dtype of the format may be there, so that a state_dict's integer counters do no harm;
//           what ls_dtype has can be taken out
// Limits    a header of 16 MiB and 2 million JSON values, which some 140,000 tensors have
// Errors    LS_STORAGE: path, tensor or byte, what was found, what was expected
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
    ls_dtype dtype; // larger ones first, so that each begins at a multiple of its elements (else LS_INTERNAL)
    int rank;
    int64_t dim[LS_SAFETENSORS_RANK_MAX];
    const void *data; // product of dim[0..rank-1] values (rank 0: one)
} ls_safetensors_tensor;

typedef struct {
    const char *key, *text;
} ls_metadata_entry;

typedef struct {          // of a whole file
    uint64_t bytes, hash; // hash: ls_hash of all of it
} ls_safetensors_digest;

// The file appears whole or not at all. Names must differ (else LS_INTERNAL: they are ours). digest may be NULL.
LS_CHECKED ls_status ls_safetensors_write(const char *path, const ls_safetensors_tensor *tensors, int tensor_count,
    const ls_metadata_entry *entries, int entry_count, ls_safetensors_digest *digest);

typedef struct ls_safetensors ls_safetensors;

// Reads the whole file and checks all of it: lengths, JSON, types, shapes,
// that offsets cover the data once, duplicate names.
LS_CHECKED ls_status ls_safetensors_read(const char *path, ls_safetensors **out);
void ls_safetensors_free(ls_safetensors *file);
// The tensor of exactly this name, type and shape; *data is borrowed from file.
// Refusals name the nearest name, or both shapes.
LS_CHECKED ls_status ls_safetensors_find(
    const ls_safetensors *file, const ls_safetensors_tensor *wanted, const void **data);
int ls_safetensors_index(const ls_safetensors *file, const char *name); // of the tensor of this name; -1: there is none
int ls_safetensors_count(const ls_safetensors *file);
const char *ls_safetensors_name(const ls_safetensors *file, int index); // in the order of their data
// Tensor `index`, data and name borrowed from file. 0: it has a type that ls_dtype does not have.
int ls_safetensors_get(const ls_safetensors *file, int index, ls_safetensors_tensor *tensor);
ls_safetensors_digest ls_safetensors_digest_of(const ls_safetensors *file); // as it was read
// Text of __metadata__, or NULL.
const char *ls_safetensors_metadata(const ls_safetensors *file, const char *key);

#endif
