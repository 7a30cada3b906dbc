#include "train/diagnose/inspect.h"

#include "base/memory.h"
#include "train/diagnose/nonfinite_search.h"

static void print_head(const ls_run_plan *plan, const ls_nonfinite *r, const ls_tensor_table *table, FILE *file) {
    const ls_batches *b = &plan->info.batches;
    fprintf(file, "update %lld (epoch %lld), micro-batch %d of %d (rank %d of %d), %d samples, loss scale %g\n",
        (long long)r->update, (long long)r->epoch, table->micro, b->micro_batches, table->micro / b->per_rank,
        b->world_size, table->samples, (double)r->loss_scale);
    fprintf(file, "on %s: %s, %s\n\n", plan->info.device, plan->info.device_info.name,
        ls_dtype_name(ls_config_storage(plan->cfg)));
    fprintf(file, "  %4s %-8s %-16s %-25s %-32s %9s %12s %12s %12s %10s\n", "", "", "layer", "operator", "tensor",
        "elements", "minimum", "maximum", "mean", "not finite");
}

static void print_row(const ls_tensor_stats *stats, int is_first, FILE *file) {
    char bad[32];
    snprintf(bad, sizeof bad, stats->beyond ? "%lld beyond" : "%lld",
        (long long)(stats->beyond ? stats->beyond : stats->nans + stats->infs));
    fprintf(file, "%c %4d %-8s %-16s %-25s %-32s %9lld %12.4g %12.4g %12.4g %10s\n", is_first ? '>' : ' ',
        stats->instruction, stats->backward ? "backward" : "forward", stats->layer, stats->op, stats->tensor,
        (long long)stats->count, stats->min, stats->max, stats->mean, bad);
}

static void print_end(const ls_nonfinite *r, FILE *file) {
    char text[1024];
    if (!ls_tensor_stats_is_bad(&r->bad)) {
        fprintf(file, "\nno value that is not finite reaches the loss or the gradient of a weight\n");
        return;
    }
    fprintf(file, "\nfirst      %s\n", ls_nonfinite_origin(&r->bad, text, sizeof text));
    for (int i = 0; i < r->sample_count; i++)
        fprintf(file, "%s %lld%s%s", i ? "," : "samples   ", (long long)r->samples[i], r->names[i][0] ? " " : "",
            r->names[i]);
    if (r->sample_count) fputc('\n', file);
    fprintf(file, "cause      %s: %s\n", ls_nonfinite_cause_name(r->cause),
        ls_nonfinite_advice(r->cause, &r->bad, r->loss_scale, text, sizeof text));
}

static void print(const ls_run_plan *plan, const ls_nonfinite *r, const ls_tensor_table *table, FILE *file) {
    int marked = r->rank < 0; // a bad tensor that does no harm is not marked
    print_head(plan, r, table, file);
    for (int i = 0; i < table->count; i++) {
        const int first = !marked && ls_tensor_stats_is_bad(&table->row[i]) && !table->row[i].inert;
        print_row(&table->row[i], first, file);
        marked |= first;
    }
    print_end(r, file);
}

ls_status ls_run_inspect(ls_run_session *session, const ls_run_progress *progress, FILE *file) {
    ls_nonfinite *report = ls_new(1, sizeof *report, "report of an inspection");
    ls_tensor_table table;
    ls_status status = ls_run_tensors(session, progress, report, &table);
    if (!ls_failed(status) && session->plan->info.comm->rank == 0) print(session->plan, report, &table, file);
    free(table.row);
    free(report);
    return status;
}
