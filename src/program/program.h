// program.h - a network compiled for (device, micro-batch, precision): a flat list of instructions over one slab.
//
// The list is data: --dry-run prints it, a profiler times it per row, tests replay it.
// compile.h makes it; then it is bound to slabs, which several programs that never run at the same time share;
// then it is run, over and over, allocating nothing.
#ifndef LS_PROGRAM_PROGRAM_H
#define LS_PROGRAM_PROGRAM_H

#include <stdio.h>
#include "program/buffer_planner.h"
#include "program/param_store.h"

// What changes from run to run, in memory that the device can read.
typedef enum {
    LS_INPUT_NONE,
    LS_INPUT_PIXELS,        // uint8 (N,C,H,W), or of the whole data set
    LS_INPUT_LABELS,        // int32[N]
    LS_INPUT_AUGMENT,       // ls_augment_sample[N]
    LS_INPUT_INDEX,         // int32[N], where pixels are the whole data set's; else absent
    LS_INPUT_MICRO,         // ls_micro_input
    LS_INPUT_TABLE,         // augment's float[C][256]
    LS_INPUT_CLASS_WEIGHTS, // float[classes]; absent without
    LS_INPUT_STATE,         // ls_train_state
    LS_INPUT_RESULT,        // ls_micro_result
    LS_INPUT_COUNT
} ls_program_input;

typedef struct {
    ls_buffer buffer[LS_INPUT_COUNT];
} ls_program_inputs;

typedef enum { LS_REF_NONE, LS_REF_INPUT, LS_REF_SLOT, LS_REF_PARAM } ls_ref_kind;
typedef enum { LS_PARAM_MASTER, LS_PARAM_WORKING, LS_PARAM_GRAD, LS_PARAM_ROUNDED } ls_param_copy;

// An argument before memory is placed.
typedef struct {
    ls_ref_kind kind;
    int index;          // input, activation slot, or parameter of the graph
    ls_param_copy copy; // parameter: which of its arrays
} ls_ref;

typedef struct {
    ls_plan *plan;
    int plan_is_shared; // recomputed: the plan is that of the first time
    int arg_count;
    ls_ref refs[LS_OP_ARGS_MAX];
    ls_buffer args[LS_OP_ARGS_MAX]; // by ls_program_bind; inputs stay empty until the run
    int completes; // trained gradients complete after it: the first `completes` of the store's order; 0: no news
    // Synchronised batch norm: so many LS_F64 of argument reduce_arg are summed over ranks after it; 0: nothing is.
    int64_t reduce_count;
    int reduce_arg;
} ls_instruction;

typedef struct {
    ls_device *device;
    const ls_param_store *store; // borrowed
    ls_instruction *instructions;
    int count;
    ls_buffer_planner *planner; // lifetimes of activations and their gradients, by instruction number
    ls_nchw logits_shape;
    ls_ref logits;
    ls_dtype storage;
    size_t activation_bytes, workspace_bytes;
    int blocks;            // of recomputation (recompute.c); 1: nothing is computed a second time
    size_t all_kept_bytes; // activations if nothing were computed a second time
    ls_buffer workspace;
} ls_program;

void ls_program_free(ls_program *program); // NULL is allowed
// Slabs of at least activation_bytes and workspace_bytes; borrowed, as is the parameter store, which has its memory by now.
void ls_program_bind(ls_program *program, ls_slab *activations, ls_slab *workspace);
struct ls_work_clock;

// What a run calls between and around instructions; all may be NULL.
typedef struct {
    struct ls_work_clock *clock; // sees every instruction (work_clock.h)
    void *context;
    void (*complete)(void *context, int up_to); // gradients of the first up_to parameters of the store's order are
    // Synchronised batch norm: these sums (LS_F64) are to be those over all ranks before the next instruction reads
    // them. NULL: they stay this rank's own.
    void (*reduce)(void *context, ls_buffer sums, int64_t count);
} ls_program_hooks;

// Runs all instructions in order on one queue.
void ls_program_run(
    const ls_program *program, const ls_program_inputs *inputs, ls_queue *queue, const ls_program_hooks *hooks);
// Takes part, without a micro-batch, in a run of other ranks: the same hooks are called in the same order, with zeros
// as sums. The order is the network's alone: programs of any micro-batch, recomputing or not, call the same.
void ls_program_join(const ls_program *program, ls_queue *queue, const ls_program_hooks *hooks);
// The arguments of one instruction in a run with these inputs.
void ls_instruction_args(const ls_instruction *instruction, const ls_program_inputs *inputs, ls_buffer *args);
// How much these hold, so much is read or written at least once; of a resident data set only the batch counts.
size_t ls_instruction_bytes(const ls_instruction *instruction, const ls_buffer *args);
// The logits of its last run, as host floats (N, classes); the queue must have finished.
void ls_program_export_logits(const ls_program *program, float *logits);
// The instruction table: number, operator, layer, algorithm, MFLOP; what is computed a second time says "again";
// and what is summed over ranks in between.
void ls_program_print(const ls_program *program, FILE *file);

#endif
