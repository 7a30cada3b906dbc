// cmd_verdict.c - `train verdict RUN... [--json]`: reads the files of runs and prints where their time went and what
// they waited for.
#include <stdio.h>
#include "base/text.h"
#include "command/commands.h"
#include "command/report.h"
#include "cli/run_verdict.h"

// --- tables --------------------------------------------------------------------------------------

static void put_row(ls_table *table, int *row, const char *name, double seconds, double whole) {
    ls_table_put(table, *row, 0, "  %s", name);
    ls_table_put(table, *row, 1, "%.1f s", seconds);
    ls_table_put(table, (*row)++, 2, "%.1f %%", 100 * seconds / whole);
}

static ls_status print_parts(const ls_run_time *t) {
    const struct {
        const char *name;
        double seconds;
    } rows[] = { { "loader", t->loader_wait }, { "communication", t->communication }, { "evaluation", t->evaluation },
        { "checkpoints", t->checkpoint }, { "other", ls_run_time_other(t) } };
    enum { ROWS = sizeof rows / sizeof *rows };
    ls_table table;
    int row = 0;
    LS_TRY(ls_table_new(3, 1 + LS_OP_KIND_COUNT + ROWS, &table));
    put_row(&table, &row, "compute", t->compute, t->seconds);
    for (int k = 0; t->kinds_known && k < LS_OP_KIND_COUNT; k++) {
        char name[32];
        snprintf(name, sizeof name, "  %s", ls_op_kind_name((ls_op_kind)k));
        if (t->kind[k] > 0) put_row(&table, &row, name, t->kind[k], t->seconds);
    }
    for (int i = 0; i < ROWS; i++) put_row(&table, &row, rows[i].name, rows[i].seconds, t->seconds);
    table.rows = row;
    ls_table_print(&table, stdout);
    ls_table_free(&table);
    return LS_SUCCESS;
}

static ls_status print_ranks(const ls_verdict_facts *f) {
    static const char *const heads[] = { "  rank", "compute", "loader", "waits for sums", "waits for a core" };
    enum { COLUMNS = sizeof heads / sizeof *heads };
    ls_table table;
    LS_TRY(ls_table_new(COLUMNS, 1 + f->ranks, &table));
    for (int c = 0; c < COLUMNS; c++) ls_table_put(&table, 0, c, "%s", heads[c]);
    for (int r = 0; r < f->ranks; r++) {
        const ls_rank_time *t = &f->each[r];
        const double seconds[] = { t->compute, t->loader_wait, t->wait, t->core_wait / f->threads };
        ls_table_put(&table, 1 + r, 0, "  %d", r);
        for (int c = 1; c < COLUMNS; c++)
            ls_table_put(&table, 1 + r, c, "%.1f %%", 100 * seconds[c - 1] / f->each_seconds);
    }
    ls_table_print(&table, stdout);
    ls_table_free(&table);
    return LS_SUCCESS;
}

static ls_status print_run(const char *path, const ls_run_verdict *run) {
    const ls_run_time *t = &run->facts.time;
    ls_text_print(stdout, path);
    printf(": update %lld of %lld, %.1f s since the first one of part %lld\n", (long long)run->update,
        (long long)run->planned, t->seconds, (long long)run->part);
    if (!run->verdict.text[0]) {
        printf("too short to say what it waited for\n");
        return LS_SUCCESS;
    }
    LS_TRY(print_parts(t));
    if (run->facts.ranks > 1) LS_TRY(print_ranks(&run->facts));
    printf("%s\n", run->verdict.text);
    return LS_SUCCESS;
}

// --- JSON ----------------------------------------------------------------------------------------

static void add_run(cJSON *runs, const char *path, const ls_run_verdict *run) {
    cJSON *object = ls_json_append(runs, cJSON_CreateObject());
    ls_json_add_text(object, "path", path);
    ls_json_add_int(object, "part", run->part);
    ls_json_add_int(object, "update", run->update);
    ls_json_add_int(object, "updates_planned", run->planned);
    ls_run_time_json(&run->facts.time, ls_json_add_object(object, "time"));
    if (run->verdict.text[0]) ls_verdict_json(&run->verdict, ls_json_add_object(object, "verdict"));
}

// --- the command ---------------------------------------------------------------------------------

static ls_status each_run(const ls_args *args, cJSON *runs) {
    for (int i = 0; i < args->file_count; i++) {
        ls_run_verdict *run;
        LS_TRY(ls_run_verdict_read(args->files[i], &run));
        if (runs) add_run(runs, args->files[i], run);
        if (!runs && i > 0) putchar('\n');
        ls_status status = runs ? LS_SUCCESS : print_run(args->files[i], run);
        ls_run_verdict_free(run);
        LS_TRY(status);
    }
    return LS_SUCCESS;
}

static ls_status work(const ls_args *args) {
    cJSON *tree = args->json ? cJSON_CreateObject() : NULL;
    ls_status status = each_run(args, args->json ? ls_json_add_array(tree, "runs") : NULL);
    if (args->json) LS_THEN(status, ls_json_write_line(stdout, "standard output", tree));
    cJSON_Delete(tree);
    ls_keep_first(&status, ls_command_flush(stdout));
    return status;
}

ls_status ls_cmd_verdict(const ls_args *args, ls_comm *comm) {
    return ls_command_agree(comm, ls_comm_get_info(comm)->rank == 0 ? work(args) : LS_SUCCESS);
}
