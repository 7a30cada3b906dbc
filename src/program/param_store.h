// param_store.h - the flat memory of a network on a device: master weights, gradients, optimizer state, statistics.
//
// A tensor has the same element offset in all slabs; the slab `state` has a range with these offsets for each of its
// state_tensors. Three parts follow each other:
//   1. trained tensors, in the order in which the backward pass completes them (the network's last layer first), so
//   that a gradient bucket is a contiguous range
//   2. statistics that move (running mean and variance); their sums per update are reduced like gradients
//   3. frozen tensors and statistics that never change; only slabs of weights have this part
#ifndef LS_PROGRAM_PARAM_STORE_H
#define LS_PROGRAM_PARAM_STORE_H

#include "device/device.h"
#include "model/graph.h"
#include "program/param_rules.h"

typedef struct {
    ls_dtype storage;            // type of activations and of the weights that operators read
    const ls_param_rules *rules; // which parameters are trained; NULL: all. Borrowed
    int state_tensors;           // tensors that the optimizer keeps for each trained tensor
    int frozen;                  // no parameter is trained and no statistic moves, whatever the rules say
    int averaged;                // keeps a running average of trained tensors and moving statistics
    int ordered;                 // gradients are summed as 64-bit fixed point
    int wire;                    // gradients travel between ranks in bf16
    int reduced;                 // slabs that are summed over ranks lie in memory for collectives (LS_MEMORY_REDUCED)
} ls_param_store_options;

typedef struct { // bytes of each slab; 0: there is no such slab
    size_t weight, grad, state, average, copy, fixed, wire, rounded;
} ls_param_store_sizes;

typedef struct {
    ls_device *device;
    const ls_graph *graph;
    int64_t *offset;   // by the graph's parameter index: number of its first element in the store
    int64_t *elements; // by the graph's parameter index: with the device's padding, rounded up to 64-byte lines
    int64_t trained_elements, statistic_elements, frozen_elements; // sizes of the three parts
    int *order; // parameter indices in the store's order: trained_params, then statistic_params, then the frozen ones
    int trained_params, statistic_params;
    ls_param_store_options options;
    ls_dtype storage; // type of the weights that operators read
    ls_param_store_sizes sizes;
    // NULL: the store has no such slab. copy: weights in 16 bits, only with 16-bit storage. fixed: gradients as fixed
    // point, with options.ordered. wire: gradients in bf16, with options.wire.
    ls_slab *weight, *grad, *state, *average, *copy, *fixed, *wire;
    // Weight gradients of convolutions in 16 bits, only with 16-bit storage on devices with LS_ROUNDS_GRADIENTS. All 0
    // except from a micro-batch's backward pass to ls_param_store_widen.
    ls_slab *rounded;
    ls_plan *widen;
} ls_param_store;

// Decides the place of every tensor and the size of every slab. ls_param_store_allocate then allocates the memory.
LS_CHECKED ls_status ls_param_store_new(
    ls_device *device, const ls_graph *graph, const ls_param_store_options *options, ls_param_store **out);
LS_CHECKED ls_status ls_param_store_allocate(ls_param_store *store);
void ls_param_store_free(ls_param_store *store);
// Sets the initial weights; running means become 0 and variances 1.
LS_CHECKED ls_status ls_param_store_init(ls_param_store *store, uint64_t seed);
ls_buffer ls_param_store_weight(const ls_param_store *a, int param); // the fp32 master, or the statistic
// Returns the weight in the storage type: its 16-bit copy, or with fp32 storage the master.
ls_buffer ls_param_store_working(const ls_param_store *a, int param);
// Returns the fp32 gradient, or for a statistic the sum of this update.
ls_buffer ls_param_store_grad(const ls_param_store *a, int param);
// Enqueues work that adds the slab `rounded` (gradients in 16 bits) to the fp32 gradients and clears it, if it exists.
void ls_param_store_widen(const ls_param_store *store, ls_queue *queue);
int ls_param_store_trains(const ls_param_store *a, int param);
int ls_param_store_changes(const ls_param_store *a, int param); // whether it is trained, or a statistic that moves
// Returns the number of elements, from the start of the store, that the 16-bit copy holds.
int64_t ls_param_store_working_elements(const ls_param_store *a);
// Set the fp32 master of one tensor from canonical values, or write the master's canonical values into `values`.
void ls_param_store_import(ls_param_store *store, int param, const float *values);
void ls_param_store_export(const ls_param_store *store, int param, float *values);
// Hashes the canonical weights and statistics in the graph's order. The hash does not depend on device or layout.
LS_CHECKED ls_status ls_param_store_hash(ls_param_store *store, uint64_t *hash);
// Returns `count` elements of a slab from element `first` on.
ls_buffer ls_param_store_range(ls_slab *slab, int64_t first, int64_t count, size_t element_bytes);

#endif
