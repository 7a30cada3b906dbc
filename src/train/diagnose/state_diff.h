// state_diff.h - compares two states of training bit for bit: which facts and tensors differ, and by how much.
//
// A state is what decides how training goes on: network, data and seed, counters, and tensors by name. Nothing else in
// the program compares the tensors of two states.
#ifndef LS_TRAIN_DIAGNOSE_STATE_DIFF_H
#define LS_TRAIN_DIAGNOSE_STATE_DIFF_H

#include "base/json.h"
#include "formats/safetensors.h"
#include "run/snapshot.h"

// --- one tensor

typedef struct {
    int64_t elements, differing; // all elements; those whose bits differ
    int64_t first;               // index of the first element that differs; -1: no element does
    double first_a, first_b;     // its two values
    int one_bit;                 // these two differ in a single bit
    double largest_absolute;     // |a - b|; infinite where a value is not finite
    double largest_relative;     // |a - b| / max(|a|, |b|)
} ls_tensor_difference;

void ls_tensor_compare(
    ls_dtype dtype, int64_t elements, const void *a, const void *b, ls_tensor_difference *difference);

// --- whole states

typedef struct {
    ls_safetensors_tensor *tensors; // data NULL: of a type that is not compared
    int count;
    const cJSON *facts; // a checkpoint's manifest, or what it says of counters; NULL: tensors alone are known
    cJSON *own;         // facts that belong to this state
} ls_state;

// Both borrow names and values; release by ls_state_free.
ls_state ls_state_of_snapshot(const ls_snapshot *snapshot);
// optimizer and manifest: of the weights' checkpoint; both NULL: weights alone.
ls_state ls_state_of_files(const ls_safetensors *weights, const ls_safetensors *optimizer, const cJSON *manifest);
void ls_state_free(ls_state *state); // {0} is allowed

// Facts as JSON: equal to the last bit; as text into dst, "none" for NULL. ls_fact_text returns dst.
int ls_fact_same(const cJSON *a, const cJSON *b);
const char *ls_fact_text(const cJSON *item, char *dst, size_t bytes);

typedef struct { // the texts live during the call
    int is_tensor;
    const char *name; // "cursor.update", "conv1.weight"
    const char *a, *b, *note;
} ls_state_difference;

// Calls `found` for each fact that differs, then for each tensor that differs, in the order of a's tensors, and last
// for the tensors that only b has. Facts are compared where both states have them. Returns how many times it called.
int ls_state_diff(const ls_state *a, const ls_state *b,
    void (*found)(void *context, const ls_state_difference *difference), void *context);

#endif
