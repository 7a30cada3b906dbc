// memory_plan.h - the memory that one rank's run takes, by slab, known before any of it is allocated.
#ifndef LS_PROGRAM_MEMORY_PLAN_H
#define LS_PROGRAM_MEMORY_PLAN_H

#include <stdio.h>
#include "config/config.h"
#include "device/device.h"

typedef struct {
    size_t weights, gradients, optimizer, activations, workspace;
    size_t inputs;              // the device's input slots, and the resident data set
    size_t control;             // the update's records and workspace, the normalisation table; 0: not made yet, small
    size_t ring;                // in host memory, which the device reads or copies; 0: not made yet
    int own_memory;             // the device's memory is not the host's; then these are known:
    size_t free_bytes, reserve; // free before the first slab; of that kept free for driver and libraries
} ls_memory_plan;

// Asks the device what is free now.
LS_CHECKED ls_status ls_memory_plan_look(ls_memory_plan *plan, ls_device *device);
size_t ls_memory_plan_bytes(
    const ls_memory_plan *plan); // of the device: all rows, without the ring where that is the host's
int ls_memory_plan_fits(const ls_memory_plan *plan);               // always, where the device's memory is the host's
void ls_memory_plan_print(const ls_memory_plan *plan, FILE *file); // the table
// LS_DEVICE: what does not fit, the table, and what to change in this configuration. NULL: it is no training run, and
// only another device helps.
ls_status ls_memory_plan_refuse(const ls_memory_plan *plan, const ls_config *cfg, int micro_batch);

#endif
