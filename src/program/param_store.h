// param_store.h - the flat memory of a network on a device: master weights, gradients, optimizer state, statistics.
//
// All its slabs share one element offset per tensor. Trained tensors come first, in the order in which the backward pass
// completes them (the network's last layer first), so that a gradient bucket is a contiguous range; then the statistics
// (running mean and variance), whose per-update sums are reduced like gradients; last, with weights only, what is
// frozen, statistics that stay as they are included.
#ifndef LS_PROGRAM_PARAM_STORE_H
#define LS_PROGRAM_PARAM_STORE_H

#include "device/device.h"
#include "model/graph.h"
#include "program/param_rules.h"

typedef struct {
    ls_dtype storage;            // of activations and of the weights that operators read
    const ls_param_rules *rules; // which parameters are trained; NULL: all. Borrowed
    int state_tensors;           // tensors that the optimizer keeps of every trained one
    int averaged;                // there is a running average of what is trained and of the statistics
    int ordered;                 // gradients are summed as 64-bit fixed point
    int wire;                    // gradients travel between ranks in bf16
    int reduced;                 // what is summed over ranks lies in memory for collectives (LS_MEMORY_REDUCED)
} ls_param_store_options;

typedef struct { // of each slab; 0: there is none
    size_t weight, grad, state, average, copy, fixed, wire, rounded;
} ls_param_store_sizes;

typedef struct {
    ls_device *device;
    const ls_graph *graph;
    int64_t *offset;   // by parameter index of the graph: first element
    int64_t *elements; // with the device's padding, rounded to 64-byte lines
    int64_t trained_elements, statistic_elements, frozen_elements; // in this order
    int *order; // parameter indices in the store's order: trained_params trained ones, the statistics, frozen ones
    int trained_params, statistic_params;
    ls_param_store_options options;
    ls_dtype storage; // of the working copy
    ls_param_store_sizes sizes;
    ls_slab *weight, *grad, *state, *average, *copy, *fixed,
        *wire; // copy: 16-bit storage only; fixed, wire: as options say
    // Part of the gradients in 16 bits, where the device has them (LS_ROUNDS_GRADIENTS): zero but between a micro-batch's
    // backward pass and ls_param_store_widen.
    ls_slab *rounded;
    ls_plan *widen;
} ls_param_store;

// Decides where everything lies and how much memory it takes; the memory comes with ls_param_store_allocate.
LS_CHECKED ls_status ls_param_store_new(
    ls_device *device, const ls_graph *graph, const ls_param_store_options *options, ls_param_store **out);
LS_CHECKED ls_status ls_param_store_allocate(ls_param_store *store);
void ls_param_store_free(ls_param_store *store);
LS_CHECKED ls_status ls_param_store_init(ls_param_store *store, uint64_t seed); // initial weights; statistics 0 and 1
ls_buffer ls_param_store_weight(const ls_param_store *a, int param);            // fp32 master (or the statistic)
ls_buffer ls_param_store_working(
    const ls_param_store *a, int param); // what operators read: the 16-bit copy, or the master
ls_buffer ls_param_store_grad(
    const ls_param_store *a, int param); // fp32 gradient (or the statistic's sum of this update)
// Adds what is in `rounded` to the gradients. Nothing where there is none.
void ls_param_store_widen(const ls_param_store *store, ls_queue *queue);
int ls_param_store_trains(const ls_param_store *a, int param);
int ls_param_store_changes(const ls_param_store *a, int param);   // it is trained, or a statistic that moves
int64_t ls_param_store_working_elements(const ls_param_store *a); // of what the 16-bit copy has, from the first on
// Of canonical weights and statistics, in graph order: independent of device and layout.
// The fp32 master of one tensor, from and to canonical values.
void ls_param_store_import(ls_param_store *store, int param, const float *values);
void ls_param_store_export(const ls_param_store *store, int param, float *values);
LS_CHECKED ls_status ls_param_store_hash(ls_param_store *store, uint64_t *hash);
ls_buffer ls_param_store_range(ls_slab *slab, int64_t first, int64_t count, size_t element_bytes); // of elements

#endif
