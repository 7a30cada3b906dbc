// program.h - a network compiled for (device, micro-batch, precision): a flat list of instructions over one activation slab.
//
// The list is data: --dry-run prints it, the profiler times it per row, tests replay it.
#ifndef LS_TRAIN_PROGRAM_H
#define LS_TRAIN_PROGRAM_H

#include <stdio.h>
#include "device/device.h"
#include "model/graph.h"
#include "train/arenas.h"

typedef struct {
    ls_plan *plan;
    ls_buffer args[LS_OP_ARGS_MAX];
    int completes_param; // arena position up to which gradients are complete after it, exclusive; -1: none
} ls_instruction;

typedef struct {
    ls_nchw shape;     // micro_batch and the network's input
    int training;
    ls_dtype storage;
    float label_smoothing;
    uint64_t seed;     // dropout
    int pad;
    ls_pad_mode pad_mode;
} ls_program_options;

// What changes from run to run, in memory that the device can read.
typedef struct {
    ls_buffer pixels, labels, placement; // the batch
    ls_buffer micro;                     // ls_micro_input
    ls_buffer table;                     // augment's
    ls_buffer state;                     // ls_train_state
    ls_buffer result;                    // ls_micro_result
} ls_program_inputs;

typedef struct {
    ls_device *device;
    ls_instruction *instructions;
    int count;
    ls_slab *activations; // shared: the largest program of a device owns it
    size_t activation_bytes, unshared_bytes, workspace_bytes;
    ls_buffer workspace, logits;
    ls_nchw logits_shape;
    ls_dtype storage;
} ls_program;

// compile: see compile.h. Runs all instructions; after each one that completes parameters, calls complete (may be NULL).
void ls_program_run(const ls_program *program, const ls_program_inputs *inputs, ls_queue *queue,
    void (*complete)(void *context, int up_to), void *context);
void ls_program_free(ls_program *program);
double ls_program_flops(const ls_program *program);
void ls_program_print(const ls_program *program, FILE *file); // instruction table: operator, layer, algorithm, bytes

#endif
