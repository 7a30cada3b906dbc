// arenas.h - the flat memory of a network on a device: master weights, gradients, optimizer state, statistics.
//
// All arenas share one element offset per tensor. Trained tensors come first, in the order in which the backward pass
// completes them (the network's last layer first), so that a gradient bucket is a contiguous range; then the statistics
// (running mean and variance), whose per-update sums are reduced like gradients.
#ifndef LS_TRAIN_ARENAS_H
#define LS_TRAIN_ARENAS_H

#include "device/device.h"
#include "model/graph.h"

typedef struct {
    ls_dtype storage; // of activations and of the weights that operators read
    int state_arenas; // tensors that the optimizer keeps of every trained one
    int ordered;      // gradients are summed as 64-bit fixed point
    int wire;         // gradients travel between ranks in bf16
    int reduced;      // there are other ranks: what is summed lies in memory for collectives (LS_MEMORY_REDUCED)
} ls_arenas_options;

typedef struct { // of each slab; 0: there is none
    size_t weight, grad, state, copy, fixed, wire;
} ls_arenas_sizes;

typedef struct {
    ls_device *device;
    const ls_graph *graph;
    int64_t *offset;                              // by parameter index of the graph: first element
    int64_t *elements;                            // with the device's padding, rounded to 64-byte lines
    int64_t trained_elements, statistic_elements; // trained come first
    int *order; // parameter indices in arena order: trained_params trained ones, then the statistics
    int trained_params;
    ls_arenas_options options;
    ls_dtype storage; // of the working copy
    ls_arenas_sizes sizes;
    ls_slab *weight, *grad, *state, *copy, *fixed, *wire; // copy: 16-bit storage only; fixed, wire: as options say
} ls_arenas;

// Decides where everything lies and how much memory it takes; the memory comes with ls_arenas_allocate.
LS_CHECKED ls_status ls_arenas_new(
    ls_device *device, const ls_graph *graph, const ls_arenas_options *options, ls_arenas **out);
LS_CHECKED ls_status ls_arenas_allocate(ls_arenas *arenas);
void ls_arenas_free(ls_arenas *arenas);
LS_CHECKED ls_status ls_arenas_init(ls_arenas *arenas, uint64_t seed); // initial weights; statistics 0 and 1
ls_buffer ls_arenas_weight(const ls_arenas *a, int param);             // fp32 master (or the statistic)
ls_buffer ls_arenas_working(const ls_arenas *a, int param); // what operators read: the 16-bit copy, or the master
ls_buffer ls_arenas_grad(const ls_arenas *a, int param);    // fp32 gradient (or the statistic's sum of this update)
// Of canonical weights and statistics, in graph order: independent of device and layout.
LS_CHECKED ls_status ls_arenas_hash(ls_arenas *arenas, uint64_t *hash);
ls_buffer ls_arenas_range(ls_slab *slab, int64_t first, int64_t count, size_t element_bytes); // of elements

#endif
