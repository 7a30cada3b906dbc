// tensor_diff.h - two tensors of one type and length, compared bit for bit.
#ifndef LS_TRAIN_DIAGNOSE_TENSOR_DIFF_H
#define LS_TRAIN_DIAGNOSE_TENSOR_DIFF_H

#include "base/shape.h"
#include "files/safetensors.h"
#include "files/snapshot.h"

typedef struct {
    int64_t elements, differing; // elements whose bits differ
    int64_t first;               // -1: none does
    double first_a, first_b;     // the values there
    double largest_absolute;     // |a - b|; infinite where one of them is not finite
    double largest_relative;     // |a - b| / max(|a|, |b|)
} ls_tensor_difference;

void ls_tensor_compare(
    ls_dtype dtype, int64_t elements, const void *a, const void *b, ls_tensor_difference *difference);
int64_t ls_safetensors_elements(const ls_safetensors_tensor *tensor);
// "[17] is 0.25 and 0.5; 3 of 40 elements differ, at most by 0.25 (relative 0.5)" into dst; returns dst. 200 bytes do.
const char *ls_tensor_difference_text(const ls_tensor_difference *difference, char *dst, size_t bytes);

// The first tensor of two snapshots of one network that differs: its index; -1: none.
int ls_snapshot_compare(const ls_snapshot *a, const ls_snapshot *b, ls_tensor_difference *difference);
// The counters that differ, "update 8 and 9; ..." into dst; "" for none. How long training took does not count.
void ls_counters_compare(const ls_train_counters *a, const ls_train_counters *b, char *dst, size_t bytes);

#endif
