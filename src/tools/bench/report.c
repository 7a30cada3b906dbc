#include "tools/bench/report.h"

#include <math.h>
#include <stdarg.h>
#include "base/text.h"
#include "command/commands.h"
#include "command/report.h"

// --- cells of a column: its heading in row 0, the value in row l->row ----------------------------

typedef struct {
    ls_table *table;
    int row, column;
} line;

static void put_text(line *l, const char *head, const char *format, ...) LS_PRINTF(3, 4);
static void put_text(line *l, const char *head, const char *format, ...) {
    char text[LS_TABLE_CELL_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ls_table_put(l->table, 0, l->column, "%s", head);
    ls_table_put(l->table, l->row, l->column++, "%s", text);
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

// --- rows of the tables --------------------------------------------------------------------------

enum { THROUGHPUT_COLUMNS = 10, TIME_COLUMNS = 11, LINK_COLUMNS = 4 };

static void put_throughput(const ls_bench *bench, int index, line *l) {
    const ls_bench_result *r = &bench->result[index];
    const ls_bench_figures f = ls_bench_figures_of(bench->result, index);
    const ls_bench_spread *rate = &f.images_per_second;
    put_text(l, "arrangement", "%s", r->name);
    put_text(l, "threads", "%d x %d", r->ranks, r->threads);
    put_text(l, "cores or GPUs", "%.4g %s%s%s", r->units, ls_device_is_gpu(r->device) ? "GPU" : "core",
        r->units > 1 ? "s" : "", r->shared ? ", shared" : "");
    put_text(l, "batch", "%d", r->global_batch);
    put_real(l, "images/s", 1, rate->median);
    put_range(l, "lowest to highest", rate->lowest, rate->highest);
    put_range(l, "95 % interval", rate->low_95, rate->high_95);
    put_real(l, "speed-up", 2, f.speed_up);
    put_share(l, "efficiency", f.efficiency);
    put_share(l, "by core or GPU", f.unit_efficiency);
}

static void put_time(const ls_bench *bench, int index, line *l) {
    const ls_bench_result *r = &bench->result[index];
    const ls_bench_figures f = ls_bench_figures_of(bench->result, index);
    char memory[24];
    put_text(l, "arrangement", "%s", r->name);
    put_real(l, "update, ms", 2, f.update_s * 1e3);
    put_share(l, "loader wait", f.loader_wait);
    put_share(l, "comm exposed", f.comm_exposed);
    put_share(l, "comm cost", f.comm_cost);
    put_real(l, "bus GB/s", 2, f.bus_gbytes);
    put_real(l, "GFLOP/s", 1, f.gflops);
    put_real(l, "matmul", 1, f.peak_gflops);
    put_share(l, "share", f.share_of_peak);
    put_text(l, "memory a rank", "%s", r->memory_bytes ? ls_text_bytes(memory, r->memory_bytes) : "-");
    put_real(l, "first update, s", 2, r->first_update_s);
}

static void put_link(const ls_bench *bench, int index, line *l) {
    const ls_bench_link *link = &bench->link[index];
    const ls_allreduce_fit *fit = &link->fit;
    put_text(l, "ranks", "%d%s", link->ranks, link->shared ? ", shared cores" : "");
    put_real(l, "latency, us", 1, fit->known ? fit->latency_s * 1e6 : NAN);
    put_real(l, "MB/s", 1, fit->known ? fit->bytes_per_s * 1e-6 : NAN);
    put_share(l, "off by", fit->known ? fit->rms : NAN);
}

static ls_status print_table(
    const ls_bench *bench, int rows, int columns, void (*put)(const ls_bench *bench, int index, line *l), FILE *file) {
    ls_table table;
    LS_TRY(ls_table_new(columns, rows + 1, &table));
    for (int i = 0; i < rows; i++) put(bench, i, &(line){ .table = &table, .row = i + 1 });
    ls_table_print(&table, file);
    ls_table_free(&table);
    return LS_SUCCESS;
}

// --- the report ----------------------------------------------------------------------------------

static const char about_efficiency[] =
    "Efficiency: images/s of a rank, over those of a rank in the same arrangement with the fewest ranks, which has "
    "the\n"
    "same global batch (strong scaling) or, in rows that say weak, the same batch for each rank. By core or GPU: the\n"
    "same for each core or GPU that the ranks really have.\n";
static const char about_time[] = "\nWhere the time goes. Comm exposed: share of the time that computation waited for "
                                 "sums over ranks. Comm cost: share\n"
                                 "that the same computation without communication saves. Bus: 2 (p-1)/p bytes of the "
                                 "gradients' buckets / time under\n"
                                 "way. GFLOP/s as direct convolution counts them: Winograd needs fewer, so the share "
                                 "of the measured rate of matrix\n"
                                 "products can pass 100 %.\n";
static const char about_links[] = "\nAll-reduces of 8 bytes to 8 MiB of host memory, as a line: an all-reduce of n "
                                  "bytes takes latency + n / (MB/s).\n"
                                  "Off by: root of the mean square of the relative differences.\n";

ls_status ls_bench_print(const ls_bench *bench, FILE *file) {
    const ls_bench_result *first = &bench->result[0];
    const int count = bench->plan.count;
    fprintf(file, "%s on %s, %s, %s\n\n", first->model, first->device_name, first->dataset, first->precision);
    fprintf(file, "Training throughput, medians of %d round%s. Speed-up: over %s.\n%s", bench->rounds,
        bench->rounds == 1 ? "" : "s", first->name, about_efficiency);
    LS_TRY(print_table(bench, count, THROUGHPUT_COLUMNS, put_throughput, file));
    fputs(about_time, file);
    LS_TRY(print_table(bench, count, TIME_COLUMNS, put_time, file));
    if (bench->link_count > 0) fputs(about_links, file);
    if (bench->link_count > 0) LS_TRY(print_table(bench, bench->link_count, LINK_COLUMNS, put_link, file));
    for (int i = 0; i < count; i++)
        if (bench->result[i].failure[0]) fprintf(file, "\nleft out: %s\n", bench->result[i].failure);
    return ls_command_flush(file);
}
