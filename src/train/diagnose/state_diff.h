// state_diff.h - compares two states of training bit for bit: which facts and tensors differ, and by how much.
//
// A state is everything that decides how training continues: network, data and seed, counters, and named tensors. This
// is the only code that compares the tensors of two states.
#ifndef LS_TRAIN_DIAGNOSE_STATE_DIFF_H
#define LS_TRAIN_DIAGNOSE_STATE_DIFF_H

#include "base/json.h"
#include "formats/safetensors.h"
#include "run/snapshot.h"

// --- one tensor

typedef struct {
    int64_t elements, differing; // number of elements; number of elements whose bits differ
    int64_t first;               // index of the first element that differs; -1: no element does
    double first_a, first_b;     // values of the first element that differs, in a and in b
    int one_bit;                 // 1: first_a and first_b differ in a single bit
    double largest_absolute;     // largest |a - b|; infinite if a or b of a pair that differs is not finite
    double largest_relative;     // largest |a - b| / max(|a|, |b|); infinite likewise
} ls_tensor_difference;

void ls_tensor_compare(
    ls_dtype dtype, int64_t elements, const void *a, const void *b, ls_tensor_difference *difference);

// --- whole states

typedef struct {
    ls_safetensors_tensor *tensors; // data NULL: the type is not supported, so the tensor counts as different
    int count;
    const cJSON *facts; // a checkpoint's manifest, or its part about counters; NULL: only the tensors are known
    cJSON *own;         // facts that this struct owns, or NULL
} ls_state;

// Returns the state in a snapshot. The state borrows names and values. Release it with ls_state_free.
ls_state ls_state_of_snapshot(const ls_snapshot *snapshot);
// Returns the state in files: weights, and the optimizer's tensors and manifest of the same checkpoint. optimizer NULL:
// only weights; manifest NULL: no facts. The state borrows names and values. Release it with ls_state_free.
ls_state ls_state_of_files(const ls_safetensors *weights, const ls_safetensors *optimizer, const cJSON *manifest);
void ls_state_free(ls_state *state); // {0} is allowed

int ls_fact_same(const cJSON *a, const cJSON *b); // whether two facts are equal, numbers to the last bit
// Writes a fact as text, or "none" for NULL, into dst and returns dst.
const char *ls_fact_text(const cJSON *item, char *dst, size_t bytes);

typedef struct { // the texts are valid during the call; note: details, or ""
    int is_tensor;
    const char *name; // "cursor.update", "conv1.weight"
    const char *a, *b, *note;
} ls_state_difference;

// Calls `found` for each fact that differs, then for each tensor that differs, in the order of a's tensors, and last
// for the tensors that only b has. Facts are compared only if both states have some. Returns the number of calls.
int ls_state_diff(const ls_state *a, const ls_state *b,
    void (*found)(void *context, const ls_state_difference *difference), void *context);

#endif
