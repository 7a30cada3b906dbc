// program.h - a network compiled for a device, a micro-batch size and a precision: a flat list of instructions.
//
// The list is data: --dry-run prints it, a profiler times each instruction, tests replay it. compile.h makes a program.
// It is then bound to slabs, which programs can share if they never run at the same time. After that it can run any
// number of times and allocates nothing.
#ifndef LS_PROGRAM_PROGRAM_H
#define LS_PROGRAM_PROGRAM_H

#include <stdio.h>
#include "program/buffer_planner.h"
#include "program/param_store.h"

// Buffers that each run of a program passes, in memory that the device can access.
typedef enum {
    LS_INPUT_NONE,
    LS_INPUT_PIXELS,        // uint8 (N,C,H,W), where N counts the micro-batch or the whole data set
    LS_INPUT_LABELS,        // int32[N]
    LS_INPUT_AUGMENT,       // ls_augment_sample[N]
    LS_INPUT_INDEX,         // int32 for each sample of the batch: its number, if PIXELS are the whole set; else absent
    LS_INPUT_MICRO,         // ls_micro_input
    LS_INPUT_TABLE,         // float[C][256]: normalised value of each pixel value, for augmentation
    LS_INPUT_CLASS_WEIGHTS, // float[classes]; absent if classes have no weights
    LS_INPUT_LABEL_SETS,    // uint8[rows, classes]; absent unless pictures have several labels
    LS_INPUT_STATE,         // ls_train_state
    LS_INPUT_RESULT,        // ls_micro_result
    LS_INPUT_COUNT
} ls_program_input;

typedef struct {
    ls_buffer buffer[LS_INPUT_COUNT];
} ls_program_inputs;

typedef enum { LS_REF_NONE, LS_REF_INPUT, LS_REF_SLOT, LS_REF_PARAM, LS_REF_TEACHER } ls_ref_kind;
typedef enum { LS_PARAM_MASTER, LS_PARAM_WORKING, LS_PARAM_GRAD, LS_PARAM_ROUNDED } ls_param_copy;

// An argument of an instruction before it has an address.
typedef struct {
    ls_ref_kind kind;
    int index;          // number of the input, of the activation slot, or of the parameter in its graph
    ls_param_copy copy; // of a parameter: which of its arrays
} ls_ref;

typedef struct {
    ls_plan *plan;
    int plan_is_shared; // recomputation: another instruction owns the plan
    int arg_count;
    ls_ref refs[LS_OP_ARGS_MAX];
    ls_buffer args[LS_OP_ARGS_MAX]; // set by ls_program_bind, but those of inputs stay empty (ls_instruction_args)
    // After the instruction the gradients of the first `completes` parameters of the store are complete; 0: no change.
    int completes;
    // Synchronised batch norm: the number of doubles in argument reduce_arg that are then summed over ranks; 0: no sum.
    int64_t reduce_count;
    int reduce_arg;
} ls_instruction;

typedef struct {
    ls_device *device;
    const ls_param_store *store, *teacher; // borrowed; teacher NULL: the network learns from labels only
    ls_instruction *instructions;
    int count;
    ls_buffer_planner *planner; // places of activations and their gradients; lifetimes are instruction numbers
    ls_nchw logits_shape;
    ls_ref logits;
    ls_dtype storage;
    size_t activation_bytes, workspace_bytes;
    int blocks;            // number of blocks of recomputation (recompute.c); 1: no recomputation
    size_t all_kept_bytes; // size of activations without recomputation
    ls_buffer workspace;
} ls_program;

void ls_program_free(ls_program *program); // NULL is allowed
// Gives all arguments but inputs their addresses. The slabs have at least activation_bytes and workspace_bytes, and are
// borrowed. workspace NULL: no instruction needs one. The parameter stores must have their memory.
void ls_program_bind(ls_program *program, ls_slab *activations, ls_slab *workspace);
struct ls_work_clock;

// Functions that a run calls between instructions, and its clock. All may be NULL.
typedef struct {
    struct ls_work_clock *clock; // sees every instruction (work_clock.h)
    void *context;
    // The gradients of the first up_to parameters of the store are complete.
    void (*complete)(void *context, int up_to);
    // Synchronised batch norm: replaces these doubles by their sums over all ranks, before the next instruction reads
    // them. NULL: they stay this rank's own.
    void (*reduce)(void *context, ls_buffer sums, int64_t count);
} ls_program_hooks;

// Enqueues all instructions in order on one queue, and calls the hooks after each.
void ls_program_run(
    const ls_program *program, const ls_program_inputs *inputs, ls_queue *queue, const ls_program_hooks *hooks);
// Takes part in the other ranks' run without a micro-batch: calls the same hooks in the same order, with zeros as sums.
// The order does not depend on the micro-batch or on recomputation.
void ls_program_join(const ls_program *program, ls_queue *queue, const ls_program_hooks *hooks);
// Sets args to the arguments of one instruction in a run with these inputs.
void ls_instruction_args(const ls_instruction *instruction, const ls_program_inputs *inputs, ls_buffer *args);
// Returns the bytes of all arguments together: about the least that the instruction moves. Of LS_INPUT_PIXELS only the
// batch's pixels count.
size_t ls_instruction_bytes(const ls_instruction *instruction, const ls_buffer *args);
// Writes the logits of an evaluating program's last run into logits, float (N, classes). The queue must have finished.
void ls_program_export_logits(const ls_program *program, float *logits);
// Prints the table of instructions: number, operator, layer, algorithm, MFLOP, how the algorithm was chosen. Recomputed
// operators are marked "again". Sums over ranks have lines of their own.
void ls_program_print(const ls_program *program, FILE *file);

#endif
