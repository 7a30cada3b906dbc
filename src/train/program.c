#include "train/program.h"

#include <assert.h>
#include <stdlib.h>

void ls_program_free(ls_program *program) {
    if (!program) return;
    for (int i = 0; i < program->count; i++)
        if (!program->instructions[i].plan_is_shared) program->device->api->plan_free(program->instructions[i].plan);
    ls_arena_free(program->arena);
    free(program->instructions);
    free(program);
}

static ls_buffer param_buffer(const ls_arenas *arenas, const ls_ref *ref) {
    if (ref->copy == LS_PARAM_WORKING) return ls_arenas_working(arenas, ref->index);
    return ref->copy == LS_PARAM_GRAD ? ls_arenas_grad(arenas, ref->index) : ls_arenas_weight(arenas, ref->index);
}

void ls_program_bind(ls_program *program, ls_slab *activations, ls_slab *workspace) {
    assert(activations->bytes >= program->activation_bytes);
    program->workspace = workspace ? ls_buffer_at(workspace, 0, workspace->bytes) : (ls_buffer){ 0 };
    for (int i = 0; i < program->count; i++) {
        ls_instruction *instruction = &program->instructions[i];
        for (int a = 0; a < instruction->arg_count; a++) {
            const ls_ref *ref = &instruction->refs[a];
            if (ref->kind == LS_REF_SLOT)
                instruction->args[a] = ls_buffer_at(activations, ls_arena_offset(program->arena, ref->index),
                    ls_arena_slot_bytes(program->arena, ref->index));
            else if (ref->kind == LS_REF_PARAM)
                instruction->args[a] = param_buffer(program->arenas, ref);
        }
    }
}

void ls_instruction_args(const ls_instruction *instruction, const ls_program_inputs *inputs, ls_buffer *args) {
    for (int a = 0; a < instruction->arg_count; a++)
        args[a] = instruction->refs[a].kind == LS_REF_INPUT ? inputs->buffer[instruction->refs[a].index]
                                                            : instruction->args[a];
}

void ls_program_run(
    const ls_program *program, const ls_program_inputs *inputs, ls_queue *queue, const ls_program_hooks *hooks) {
    for (int i = 0; i < program->count; i++) {
        const ls_instruction *instruction = &program->instructions[i];
        ls_buffer args[LS_OP_ARGS_MAX];
        ls_instruction_args(instruction, inputs, args);
        ls_plan_run(instruction->plan, args, program->workspace, queue);
        if (instruction->completes && hooks->complete) hooks->complete(hooks->context, instruction->completes);
    }
}

double ls_program_flops(const ls_program *program) {
    double flops = 0;
    for (int i = 0; i < program->count; i++) flops += ls_op_flops(&program->instructions[i].plan->desc);
    return flops;
}

void ls_program_print(const ls_program *program, FILE *file) {
    fprintf(file, "%4s  %-26s %-20s %-32s %10s\n", "", "operator", "layer", "algorithm", "MFLOP");
    for (int i = 0; i < program->count; i++) {
        const ls_plan *plan = program->instructions[i].plan;
        char op[32];
        snprintf(
            op, sizeof op, "%s%s", ls_op_name(plan->desc.op), program->instructions[i].plan_is_shared ? " again" : "");
        fprintf(file, "%4d  %-26s %-20s %-32s %10.2f\n", i, op, plan->desc.layer,
            plan->algorithm ? plan->algorithm : "", ls_op_flops(&plan->desc) / 1e6);
    }
}
