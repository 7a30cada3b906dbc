// execute.h - computes a network's steps for one picture in this program, as the kernels of the exported C file do.
#ifndef LS_DEPLOY_EXECUTE_H
#define LS_DEPLOY_EXECUTE_H

#include "deploy/network.h"

// observe is called after each step that completes an output, with the output's values (ls_network_elements floats).
typedef struct {
    void (*observe)(void *context, int step, const float *values);
    void *context;
} ls_step_observer;

// Computes the logits of one picture in floats. pixels: planar (C,H,W). slab: slab_elements floats.
// observer: NULL is allowed. The network may be lowered for int8; it then need not be quantised.
void ls_execute_float(
    const ls_network *network, const uint8_t *pixels, float *slab, float *logits, const ls_step_observer *observer);
// Computes the logits of one picture in integers. The network must be quantised (quantise.h). slab: slab_elements
// bytes. Several threads may call it, each with its own slab.
void ls_execute_int8(const ls_network *network, const uint8_t *pixels, int8_t *slab, float *logits);

#endif
