// memory_plan.h - the memory that one rank of a run needs, by purpose, computed before its slabs are allocated.
#ifndef LS_PROGRAM_MEMORY_PLAN_H
#define LS_PROGRAM_MEMORY_PLAN_H

#include <stdio.h>
#include "config/config.h"
#include "device/device.h"

typedef struct {
    size_t weights, gradients, optimizer, activations, workspace;
    size_t teacher;             // weights of the teacher; its activations and workspace are in those of the programs
    size_t inputs;              // input slots on the device, and the data set with data.loader = resident
    size_t control;             // small buffers of update, loss and augmentation; 0: not planned yet
    size_t ring;                // prefetch ring, and gradients for run.cross_check, in host memory; 0: not planned yet
    int own_memory;             // the device has its own memory; only then free_bytes and reserve are set
    size_t free_bytes, reserve; // free on the device; the part of it to keep free for driver and libraries
} ls_memory_plan;

// Sets own_memory, free_bytes and reserve from the device's present state.
LS_CHECKED ls_status ls_memory_plan_look(ls_memory_plan *plan, ls_device *device);
// Returns the bytes that the run needs on the device. The ring counts only if the device uses the host's memory.
size_t ls_memory_plan_bytes(const ls_memory_plan *plan);
int ls_memory_plan_fits(const ls_memory_plan *plan);               // always 1 if the device uses the host's memory
void ls_memory_plan_print(const ls_memory_plan *plan, FILE *file); // prints the plan as a table
// Returns LS_DEVICE with a message: the memory needed and free, the table, and options of the configuration that would
// help. cfg NULL: not a training run, so the message suggests another device.
ls_status ls_memory_plan_refuse(const ls_memory_plan *plan, const ls_config *cfg, int micro_batch);

#endif
