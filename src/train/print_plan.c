// print_plan.c - the plan of a run as a person reads it (--dry-run).
#include "base/text.h"
#include "formats/weights_map.h"
#include "train/run_session.h"

// Returns the training program that needs the most memory, whose instructions are printed.
static const ls_program *largest(const ls_run_session *session) {
    const ls_program *most = NULL;
    for (int p = 0; p < LS_RUN_EVAL_PROGRAM; p++) {
        const ls_program *program = session->compute.program[p];
        if (program && (!most || program->activation_bytes > most->activation_bytes)) most = program;
    }
    return most;
}

static int ended_params(const ls_run_plan *plan, int64_t epoch) {
    int count = 0;
    for (int p = 0; p < plan->graph->param_count; p++) count += ls_param_rules_ended(plan->rules, p, epoch);
    return count;
}

static void print_stage(const ls_run_session *session, int64_t first, int64_t end, FILE *file) {
    const ls_run_plan *plan = session->plan;
    const ls_program *program = ls_run_session_full_program(session, first);
    const ls_graph *graph = ls_run_plan_graph_of(plan, ls_run_plan_stage_of(plan, first));
    char bytes[32], epochs[48], size[32];
    snprintf(
        epochs, sizeof epochs, end - first > 1 ? "s %lld to %lld" : "  %lld", (long long)first, (long long)end - 1);
    snprintf(size, sizeof size, "%dx%d", graph->input.h, graph->input.w);
    fprintf(file, "  epoch%-14s  %9s  %12s  %9.3f MFLOP a sample", epochs, size,
        ls_text_bytes(bytes, program->activation_bytes), ls_graph_training_flops(graph) * 1e-6);
    const int ended = ended_params(plan, first);
    if (ended)
        fprintf(file, ", without the gradients of %d tensor%s whose rate has ended", ended, ended == 1 ? "" : "s");
    fprintf(file, "%s\n", program == largest(session) ? "  (the program above)" : "");
}

static void print_stages(const ls_run_session *session, FILE *file) {
    const ls_run_plan *plan = session->plan;
    if (plan->stage_count == 1 && !plan->cfg->train_resolution[0]) return;
    fprintf(file, "\nstages, and the activations of a micro-batch\n");
    for (int i = 0; i < plan->stage_count; i++)
        print_stage(session, plan->stage[i].epoch,
            i + 1 < plan->stage_count ? plan->stage[i + 1].epoch : plan->cfg->train_epochs, file);
}

static void print_memory(const ls_run_session *session, FILE *file) {
    const ls_train_info *f = &session->plan->info;
    const ls_program *program = largest(session);
    char unshared[32];
    ls_memory_plan_print(f->memory, file);
    fprintf(file, "  (activations would be %s if no two shared memory)\n",
        ls_text_bytes(unshared, ls_buffer_planner_unshared_bytes(program->planner)));
    if (f->cfg->train_recompute == LS_RECOMPUTE_BLOCKS) {
        char kept[32], recomputed[32];
        fprintf(file, "  (train.recompute: %d block%s; a micro-batch needs %s, without %s)\n", program->blocks,
            program->blocks == 1 ? ", as more would not need less" : "s",
            ls_text_bytes(recomputed, program->activation_bytes), ls_text_bytes(kept, program->all_kept_bytes));
    }
}

static void print_batches(const ls_run_plan *plan, FILE *file) {
    const ls_train_info *f = &plan->info;
    const ls_batches *b = &f->batches;
    fprintf(file, "run\n");
    fprintf(file, "  device        %s: %s (%s)\n", f->device, f->device_info.name, f->device_info.libraries);
    for (int rank = 0; b->world_size > 1 && rank < b->world_size;) {
        char line[LS_RANK_TABLE_LINE_BYTES];
        rank = ls_rank_table_line(f->places, b->world_size, rank, line);
        fprintf(file, "  %s\n", line);
    }
    fprintf(file, "  data          %s: %lld training", f->train_data->name, (long long)f->train_data->count);
    if (f->val_data) fprintf(file, ", %lld validation", (long long)f->val_data->count);
    fprintf(file, " and %lld test samples, %d classes\n", (long long)f->test_data->count, f->train_data->classes);
    fprintf(file, "  batch         %d = %d (micro-batch) x %d (accumulation) x %d (ranks)\n", b->global_batch,
        b->micro_batch, b->per_rank, b->world_size);
    fprintf(file, "  updates       %lld an epoch, %lld in all\n", (long long)b->windows, (long long)f->updates_planned);
}

void ls_run_session_print(const ls_run_session *session, FILE *file) {
    const ls_run_plan *plan = session->plan;
    ls_graph_print(plan->graph, file);
    fprintf(file, "\n");
    if (plan->init_map) {
        fprintf(file, "first weights, of %s\n", plan->info.init.path);
        ls_weights_map_print(plan->init_map, file);
        fprintf(file, "\n");
    }
    print_batches(plan, file);
    if (plan->info.teacher.path[0])
        fprintf(file, "  teacher       %s, %g of the loss at temperature %g\n", plan->info.teacher.path,
            plan->cfg->distill_share, plan->cfg->distill_temperature);
    fprintf(file, "\n");
    ls_optimizer_print(ls_update_optimizer(session->update), file);
    fprintf(file, "\nprogram of one micro-batch\n");
    ls_program_print(largest(session), file);
    print_stages(session, file);
    fprintf(file, "\n");
    print_memory(session, file);
}
