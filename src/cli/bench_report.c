#include "cli/bench_report.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include "base/text.h"

enum { THROUGHPUT, TIME, KINDS };

typedef struct {
    const ls_bench_findings *findings;
    const ls_bench_result *r;
    ls_bench_figures f;
    ls_table *table;
    int row, column;
} line;

// ---- cells: the head's word in row 0, the value in its row ----

static ls_table *next_column(line *l, const char *head) {
    ls_table_put(l->table, 0, l->column, "%s", head);
    return l->table;
}

static void put_text(line *l, const char *head, const char *format, ...) LS_PRINTF(3, 4);
static void put_text(line *l, const char *head, const char *format, ...) {
    char text[LS_TABLE_CELL_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ls_table_put(next_column(l, head), l->row, l->column, "%s", text);
    l->column++;
}

static void put_real(line *l, const char *head, int digits, double value) {
    if (isfinite(value))
        put_text(l, head, "%.*f", digits, value);
    else
        put_text(l, head, "-");
}

static void put_share(line *l, const char *head, double share) {
    if (isfinite(share))
        put_text(l, head, "%.1f %%", 100 * share);
    else
        put_text(l, head, "-");
}

static void put_range(line *l, const char *head, double low, double high) {
    if (isfinite(low) && isfinite(high))
        put_text(l, head, "%.1f to %.1f", low, high);
    else
        put_text(l, head, "-");
}

static void put_bytes(line *l, const char *head, size_t bytes) {
    char text[24];
    put_text(l, head, "%s", bytes ? ls_text_bytes(text, bytes) : "-");
}

static const char *unit_of(const ls_bench_result *r) {
    return strcmp(r->device, "cuda") == 0 ? "GPU" : "core";
}

// ---- lines ----

static void put_throughput(line *l) {
    const ls_bench_spread *rate = &l->f.images_per_second;
    put_text(l, "arrangement", "%s", l->r->name);
    put_text(l, "threads", "%d x %d", l->r->ranks, l->r->threads);
    put_text(l, "cores or GPUs", "%.4g %s%s%s", l->r->units, unit_of(l->r), l->r->units > 1 ? "s" : "",
        l->r->shared ? ", shared" : "");
    put_text(l, "batch", "%d", l->r->global_batch);
    put_real(l, "images/s", 1, rate->median);
    put_range(l, "lowest to highest", rate->lowest, rate->highest);
    put_range(l, "95 % interval", rate->low_95, rate->high_95);
    put_real(l, "speed-up", 2, l->f.speed_up);
    put_share(l, "efficiency", l->f.efficiency);
    put_share(l, "by core or GPU", l->f.unit_efficiency);
}

static void put_time(line *l) {
    put_text(l, "arrangement", "%s", l->r->name);
    put_real(l, "update, ms", 2, l->f.update_s * 1e3);
    put_share(l, "loader wait", l->f.loader_wait);
    put_share(l, "comm exposed", l->f.comm_exposed);
    put_share(l, "comm cost", l->f.comm_cost);
    put_real(l, "bus GB/s", 2, l->f.bus_gbytes);
    put_real(l, "GFLOP/s", 1, l->f.gflops);
    put_real(l, "matmul", 1, l->f.peak_gflops);
    put_share(l, "share", l->f.share_of_peak);
    put_bytes(l, "memory a rank", l->r->memory_bytes);
    put_real(l, "first update, s", 2, l->r->first_update_s);
}

static void put_kinds(line *l) {
    put_text(l, "arrangement", "%s", l->r->name);
    for (int k = 0; k < LS_BENCH_KIND_COUNT; k++) put_share(l, ls_bench_kind_name((ls_bench_kind)k), l->f.kind[k]);
}

// ---- heads ----

static void say_throughput(const ls_bench_findings *b, char *head) {
    const ls_bench_result *r = b->results;
    int weak = 0, strong = 0;
    for (int i = 0; i < b->count; i++) {
        weak |= r[i].weak;
        strong |= !r[i].weak && r[i].ranks > 1;
    }
    snprintf(head, LS_BENCH_HEAD_BYTES,
        "Training throughput, medians of %d round%s. Speed-up: over %s. Efficiency: images/s of one rank over that of "
        "one in the same arrangement of the fewest ranks%s%s%s; by core or GPU: the same over those really given.",
        b->rounds, b->rounds == 1 ? "" : "s", r[0].name, strong || weak ? ", " : "",
        strong ? "at the same global batch (strong scaling)" : "",
        weak ? strong ? ", or for rows that say weak the same batch a rank" : "at the same batch a rank (weak scaling)"
             : "");
}

static void (*const put[LS_BENCH_TABLES])(
    line *l) = { [THROUGHPUT] = put_throughput, [TIME] = put_time, [KINDS] = put_kinds };
static const int columns[LS_BENCH_TABLES] = { [THROUGHPUT] = 10, [TIME] = 11, [KINDS] = 1 + LS_BENCH_KIND_COUNT };
static const char *const heads[LS_BENCH_TABLES] = {
    [TIME] =
        "Where the time goes. Comm exposed: shares of the time that computation waited for sums over ranks; comm "
        "cost: what a share of the time is more than the same computation without communication; bus: of the "
        "gradients' buckets, 2 (p-1)/p bytes / time under way. GFLOP/s as direct convolution counts them: Winograd "
        "needs fewer, so the share of the measured matrix multiplication rate may pass 100 %.",
    [KINDS] = "Time of an update's instructions by kind, each timed by itself.",
};

ls_status ls_bench_tables_new(const ls_bench_findings *findings, ls_bench_table tables[LS_BENCH_TABLES]) {
    memset(tables, 0, sizeof *tables * LS_BENCH_TABLES);
    for (int t = 0; t < LS_BENCH_TABLES; t++) {
        ls_status status = ls_table_new(columns[t], findings->count + 1, &tables[t].table);
        if (ls_failed(status)) {
            ls_bench_tables_free(tables);
            return status;
        }
        if (heads[t]) snprintf(tables[t].head, LS_BENCH_HEAD_BYTES, "%s", heads[t]);
        for (int i = 0; i < findings->count; i++) {
            line l = { .findings = findings,
                .r = &findings->results[i],
                .f = ls_bench_figures_of(findings->results, i),
                .table = &tables[t].table,
                .row = i + 1 };
            put[t](&l);
        }
    }
    say_throughput(findings, tables[THROUGHPUT].head);
    return LS_SUCCESS;
}

void ls_bench_tables_free(ls_bench_table tables[LS_BENCH_TABLES]) {
    for (int t = 0; t < LS_BENCH_TABLES; t++) ls_table_free(&tables[t].table);
}

// Words of a sentence, at most 120 characters a line.
static void print_wrapped(FILE *file, const char *text) {
    enum { WIDTH = 120 };
    size_t column = 0;
    while (*text) {
        size_t length = strcspn(text, " ");
        if (column > 0 && column + 1 + length > WIDTH) {
            fputc('\n', file);
            column = 0;
        }
        fprintf(file, "%s%.*s", column ? " " : "", (int)length, text);
        column += length + (column > 0);
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', file);
}

ls_status ls_bench_print(const ls_bench_findings *findings, FILE *file) {
    const ls_bench_result *first = &findings->results[0];
    ls_bench_table tables[LS_BENCH_TABLES];
    LS_TRY(ls_bench_tables_new(findings, tables));
    fprintf(file, "%s on %s, %s, %s\n", first->model, first->device_name, first->dataset, first->precision);
    for (int t = 0; t < LS_BENCH_TABLES; t++) {
        fputc('\n', file);
        print_wrapped(file, tables[t].head);
        ls_table_print(&tables[t].table, file);
    }
    for (int i = 0; i < findings->count; i++)
        if (findings->results[i].failure[0]) fprintf(file, "\nleft out: %s\n", findings->results[i].failure);
    ls_bench_tables_free(tables);
    return fflush(file) == 0 ? LS_SUCCESS : ls_fail(LS_STORAGE, "standard output: cannot be written");
}
