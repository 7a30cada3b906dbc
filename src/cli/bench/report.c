#include "cli/commands.h"
#include "cli/bench/report.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include "base/text.h"
#include "device/device.h"

enum { THROUGHPUT, TIME, KINDS, LINKS };

typedef struct {
    const ls_bench_findings *findings;
    int index; // of what the row is about
    const ls_bench_result *r;
    ls_bench_figures f; // of results
    ls_table *table;
    int row, column;
} line;

// --- cells: the head's word in row 0, the value in its row ---------------------------------------

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
    return ls_device_is_gpu(r->device) ? "GPU" : "core";
}

// --- lines ---------------------------------------------------------------------------------------

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
    for (int k = 0; k < LS_OP_KIND_COUNT; k++) put_share(l, ls_op_kind_name((ls_op_kind)k), l->f.kind[k]);
}

static void put_link(line *l) {
    const ls_bench_link *link = &l->findings->links[l->index];
    const ls_allreduce_fit *fit = &link->fit;
    put_text(l, "ranks", "%d%s", link->ranks, link->shared ? ", shared cores" : "");
    put_real(l, "latency, us", 1, fit->known ? fit->latency_s * 1e6 : NAN);
    put_real(l, "MB/s", 1, fit->known ? fit->bytes_per_s * 1e-6 : NAN);
    put_share(l, "off by", fit->known ? fit->rms : NAN);
}

// --- heads ---------------------------------------------------------------------------------------

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

static const struct {
    int columns;
    void (*put)(line *l);
    const char *head;
} kinds_of_table[LS_BENCH_TABLES] = {
    [THROUGHPUT] = { 10, put_throughput, "" },
    [TIME] = { 11, put_time,
        "Where the time goes. Comm exposed: share of the time that computation waited for sums over ranks; comm cost: "
        "by what share the same computation without communication is shorter; bus: of the gradients' buckets, 2 "
        "(p-1)/p bytes / time under way. GFLOP/s as direct convolution counts them: Winograd needs fewer, so the share "
        "of the measured matrix multiplication rate may pass 100 %." },
    [KINDS] = { 1 + LS_OP_KIND_COUNT, put_kinds, "Time of an update's instructions by kind, each timed by itself." },
    [LINKS] = { 4, put_link,
        "All-reduces of 8 bytes to 8 MiB of host memory, as a line: an all-reduce of n bytes takes latency + n / "
        "(MB/s). "
        "Off by: root of the mean square of the relative differences." },
};

static int rows_of(const ls_bench_findings *b, int t) {
    return t == LINKS ? b->link_count : b->count;
}

static ls_status new_table(const ls_bench_findings *findings, int t, ls_bench_table *out) {
    int rows = rows_of(findings, t);
    if (rows == 0) return LS_SUCCESS;
    LS_TRY(ls_table_new(kinds_of_table[t].columns, rows + 1, &out->table));
    snprintf(out->head, sizeof out->head, "%s", kinds_of_table[t].head);
    for (int i = 0; i < rows; i++) {
        line l = { .findings = findings, .index = i, .table = &out->table, .row = i + 1 };
        if (t <= KINDS) {
            l.r = &findings->results[i];
            l.f = ls_bench_figures_of(findings->results, i);
        }
        kinds_of_table[t].put(&l);
    }
    return LS_SUCCESS;
}

ls_status ls_bench_tables_new(const ls_bench_findings *findings, ls_bench_table tables[LS_BENCH_TABLES]) {
    memset(tables, 0, sizeof *tables * LS_BENCH_TABLES);
    ls_status status = LS_SUCCESS;
    for (int t = 0; t < LS_BENCH_TABLES && !ls_failed(status); t++) status = new_table(findings, t, &tables[t]);
    if (ls_failed(status))
        ls_bench_tables_free(tables);
    else
        say_throughput(findings, tables[THROUGHPUT].head);
    return status;
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
        if (!tables[t].head[0]) continue;
        fputc('\n', file);
        print_wrapped(file, tables[t].head);
        ls_table_print(&tables[t].table, file);
    }
    for (int i = 0; i < findings->count; i++)
        if (findings->results[i].failure[0]) fprintf(file, "\nleft out: %s\n", findings->results[i].failure);
    ls_bench_tables_free(tables);
    return ls_command_flush(file);
}
