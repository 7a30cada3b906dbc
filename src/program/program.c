#include "program/program.h"

#include <assert.h>
#include <stdlib.h>
#include "program/work_clock.h"

void ls_program_free(ls_program *program) {
    if (!program) return;
    for (int i = 0; i < program->count; i++)
        if (!program->instructions[i].plan_is_shared) program->device->api->plan_free(program->instructions[i].plan);
    ls_buffer_planner_free(program->planner);
    free(program->instructions);
    free(program);
}

static ls_buffer param_buffer(const ls_param_store *store, const ls_ref *ref) {
    if (ref->copy == LS_PARAM_WORKING) return ls_param_store_working(store, ref->index);
    if (ref->copy == LS_PARAM_ROUNDED)
        return ls_param_store_range(
            store->rounded, store->offset[ref->index], store->elements[ref->index], ls_dtype_bytes(store->storage));
    return ref->copy == LS_PARAM_GRAD ? ls_param_store_grad(store, ref->index)
                                      : ls_param_store_weight(store, ref->index);
}

void ls_program_bind(ls_program *program, ls_slab *activations, ls_slab *workspace) {
    assert(activations->bytes >= program->activation_bytes);
    program->workspace = workspace ? ls_buffer_at(workspace, 0, workspace->bytes) : (ls_buffer){ 0 };
    for (int i = 0; i < program->count; i++) {
        ls_instruction *instruction = &program->instructions[i];
        for (int a = 0; a < instruction->arg_count; a++) {
            const ls_ref *ref = &instruction->refs[a];
            if (ref->kind == LS_REF_SLOT)
                instruction->args[a] = ls_buffer_at(activations, ls_buffer_planner_offset(program->planner, ref->index),
                    ls_buffer_planner_slot_bytes(program->planner, ref->index));
            else if (ref->kind == LS_REF_PARAM)
                instruction->args[a] = param_buffer(program->store, ref);
            else if (ref->kind == LS_REF_TEACHER)
                instruction->args[a] = param_buffer(program->teacher, ref);
        }
    }
}

void ls_instruction_args(const ls_instruction *instruction, const ls_program_inputs *inputs, ls_buffer *args) {
    for (int a = 0; a < instruction->arg_count; a++)
        args[a] = instruction->refs[a].kind == LS_REF_INPUT ? inputs->buffer[instruction->refs[a].index]
                                                            : instruction->args[a];
}

size_t ls_instruction_bytes(const ls_instruction *instruction, const ls_buffer *args) {
    const ls_op_desc *desc = &instruction->plan->desc;
    size_t bytes = 0;
    for (int a = 0; a < instruction->arg_count; a++) {
        const int is_pixels =
            instruction->refs[a].kind == LS_REF_INPUT && instruction->refs[a].index == LS_INPUT_PIXELS;
        bytes += is_pixels ? (size_t)ls_nchw_count(desc->attr.augment.shape) : args[a].bytes;
    }
    return bytes;
}

// Names the enqueued work for a profiler: a range for the layer, and in it a range for the operator.
static void begin_ranges(const ls_device_api *api, const ls_op_desc *desc) {
    if (!api->range_begin) return;
    api->range_begin(desc->layer);
    api->range_begin(ls_op_name(desc->op));
}

static void end_ranges(const ls_device_api *api) {
    if (!api->range_begin) return;
    api->range_end();
    api->range_end();
}

// Calls an instruction's hooks. Sums come first: the next instruction needs them, gradients only the update.
static void call_hooks(const ls_instruction *instruction, const ls_buffer *args, const ls_program_hooks *hooks) {
    if (instruction->reduce_count && hooks->reduce)
        hooks->reduce(hooks->context, args[instruction->reduce_arg], instruction->reduce_count);
    if (instruction->completes && hooks->complete) hooks->complete(hooks->context, instruction->completes);
}

void ls_program_run(
    const ls_program *program, const ls_program_inputs *inputs, ls_queue *queue, const ls_program_hooks *hooks) {
    for (int i = 0; i < program->count; i++) {
        const ls_instruction *instruction = &program->instructions[i];
        ls_buffer args[LS_OP_ARGS_MAX];
        ls_instruction_args(instruction, inputs, args);
        begin_ranges(program->device->api, &instruction->plan->desc);
        if (hooks->clock)
            ls_work_clock_begin_instruction(
                hooks->clock, instruction->plan, i, ls_instruction_bytes(instruction, args), queue);
        ls_plan_run(instruction->plan, args, program->workspace, queue);
        if (hooks->clock) ls_work_clock_end_instruction(hooks->clock, instruction->plan, queue);
        end_ranges(program->device->api);
        call_hooks(instruction, args, hooks);
    }
}

void ls_program_join(const ls_program *program, ls_queue *queue, const ls_program_hooks *hooks) {
    for (int i = 0; i < program->count; i++) {
        const ls_instruction *instruction = &program->instructions[i];
        size_t bytes = (size_t)instruction->reduce_count * sizeof(double);
        if (bytes) program->device->api->zero(instruction->args[instruction->reduce_arg], bytes, queue);
        call_hooks(instruction, instruction->args, hooks);
    }
}

void ls_program_export_logits(const ls_program *program, float *logits) {
    // The loss is the last instruction of a program that evaluates.
    const ls_buffer from = program->instructions[program->count - 1].args[LS_LOSS_LOGITS];
    program->device->api->activation_export(program->device, program->logits_shape, program->storage, from, logits);
}

void ls_program_print(const ls_program *program, FILE *file) {
    fprintf(file, "%4s  %-26s %-20s %-32s %10s  %s\n", "", "operator", "layer", "algorithm", "MFLOP", "chosen");
    for (int i = 0; i < program->count; i++) {
        const ls_instruction *instruction = &program->instructions[i];
        const ls_plan *plan = instruction->plan;
        char op[32];
        snprintf(op, sizeof op, "%s%s", ls_op_name(plan->desc.op), instruction->plan_is_shared ? " again" : "");
        fprintf(file, "%4d  %-26s %-20s %-32s %10.2f%s%s\n", i, op, plan->desc.layer,
            plan->algorithm ? plan->algorithm : "", ls_op_flops(&plan->desc) / 1e6, plan->chosen ? "  " : "",
            plan->chosen ? plan->chosen : "");
        if (instruction->reduce_count)
            fprintf(file, "%4s  %-26s %-20s %lld doubles\n", "", "  sum over ranks", plan->desc.layer,
                (long long)instruction->reduce_count);
    }
}
