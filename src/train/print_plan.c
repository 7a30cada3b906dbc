// print_plan.c - the plan of a run as a person reads it (--dry-run).
#include "base/text.h"
#include "train/trainer_internal.h"

static void print_memory(const ls_trainer *t, FILE *file) {
    const ls_train_info *f = &t->facts;
    const ls_program *program = ls_trainer_full(t);
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

static void print_batches(const ls_trainer *t, FILE *file) {
    const ls_train_info *f = &t->facts;
    const ls_batches *b = &f->batches;
    fprintf(file, "run\n");
    fprintf(file, "  device        %s: %s (%s)\n", f->device, f->device_info.name, f->device_info.libraries);
    for (int rank = 0; b->world_size > 1 && rank < b->world_size;) {
        char line[LS_RANK_TABLE_LINE_BYTES];
        rank = ls_rank_table_line(f->places, b->world_size, rank, line);
        fprintf(file, "  %s\n", line);
    }
    fprintf(file, "  data          %s: %lld training and %lld test samples, %d classes\n", f->train_data->name,
        (long long)f->train_data->count, (long long)f->test_data->count, f->train_data->classes);
    fprintf(file, "  batch         %d = %d (micro-batch) x %d (accumulation) x %d (ranks)\n", b->global_batch,
        b->micro_batch, b->per_rank, b->world_size);
    fprintf(file, "  updates       %lld an epoch, %lld in all\n", (long long)b->windows, (long long)f->updates_planned);
}

void ls_trainer_print_plan(const ls_trainer *t, FILE *file) {
    ls_graph_print(t->graph, file);
    fprintf(file, "\n");
    print_batches(t, file);
    fprintf(file, "\n");
    ls_optimizer_print(ls_update_optimizer(t->update), file);
    fprintf(file, "\nprogram of one micro-batch\n");
    ls_program_print(ls_trainer_full(t), file);
    fprintf(file, "\n");
    print_memory(t, file);
}
