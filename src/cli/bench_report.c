// bench_report.c - the results of a benchmark as a table, bench.json and bench.csv.

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/version.h"
#include "cli/bench.h"
#include "cli/report.h"

static int compare_reals(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

ls_bench_figures ls_bench_figures_of(const ls_bench *bench, int index) {
    const ls_bench_arrangement *a = &bench->arrangement[index], *base = &bench->arrangement[0];
    double sorted[LS_BENCH_REPEATS_MAX];
    memcpy(sorted, a->images_per_second, sizeof sorted[0] * (size_t)a->count);
    qsort(sorted, (size_t)a->count, sizeof sorted[0], compare_reals);
    int middle = a->count / 2;
    ls_bench_figures f = {
        .median = a->count % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2,
        .lowest = sorted[0],
        .highest = sorted[a->count - 1],
        .loader_wait = a->loader_wait_seconds / a->train_seconds,
        .comm_exposed = a->comm_exposed_seconds / a->train_seconds,
    };
    double base_median = index == 0 ? f.median : ls_bench_figures_of(bench, 0).median;
    f.spread = (f.highest - f.lowest) / f.median;
    f.speed_up = f.median / base_median;
    f.efficiency = f.speed_up * base->ranks / a->ranks;
    f.gflops = f.median * a->facts->flops_per_sample * 1e-9;
    f.share_of_peak = f.gflops / a->peak_gflops;
    return f;
}

ls_status ls_bench_print(const ls_bench *bench, FILE *file) {
    static const char *const head[] = { "arrangement", "threads", "images/s", "spread", "speed-up", "efficiency",
        "loader wait", "comm exposed", "GFLOP/s", "matmul", "share" };
    enum { COLUMNS = sizeof head / sizeof head[0] };
    ls_table table;
    LS_TRY(ls_table_new(COLUMNS, bench->count + 1, &table));
    for (int column = 0; column < COLUMNS; column++) ls_table_put(&table, 0, column, "%s", head[column]);
    for (int i = 0; i < bench->count; i++) {
        const ls_bench_arrangement *a = &bench->arrangement[i];
        ls_bench_figures f = ls_bench_figures_of(bench, i);
        int column = 0;
        ls_table_put(&table, i + 1, column++, "%s", a->name);
        ls_table_put(&table, i + 1, column++, "%d x %d", a->ranks, a->facts->threads);
        ls_table_put(&table, i + 1, column++, "%.1f", f.median);
        ls_table_put(&table, i + 1, column++, "%.1f %%", 100 * f.spread);
        ls_table_put(&table, i + 1, column++, "%.2f", f.speed_up);
        ls_table_put(&table, i + 1, column++, "%.1f %%", 100 * f.efficiency);
        ls_table_put(&table, i + 1, column++, "%.1f %%", 100 * f.loader_wait);
        ls_table_put(&table, i + 1, column++, "%.1f %%", 100 * f.comm_exposed);
        ls_table_put(&table, i + 1, column++, "%.1f", f.gflops);
        ls_table_put(&table, i + 1, column++, "%.1f", a->peak_gflops);
        ls_table_put(&table, i + 1, column++, "%.1f %%", 100 * f.share_of_peak);
    }
    ls_table_print(&table, file);
    ls_table_free(&table);
    return LS_SUCCESS;
}

// ---- files ----

// One row a figure, the same in both files. X(name, expression of a (arrangement), f (figures), b (batches))
#define INT_COLUMNS(X) \
    X("ranks", a->ranks) \
    X("threads_per_rank", a->facts->threads) \
    X("global_batch", b->global_batch) \
    X("micro_batch", b->micro_batch) \
    X("accumulation_steps", b->per_rank) \
    X("updates_per_measurement", a->updates)
#define REAL_COLUMNS(X) \
    X("images_per_second", f.median) \
    X("images_per_second_lowest", f.lowest) \
    X("images_per_second_highest", f.highest) \
    X("speed_up", f.speed_up) \
    X("efficiency", f.efficiency) \
    X("loader_wait_share", f.loader_wait) \
    X("comm_exposed_share", f.comm_exposed) \
    X("gflops", f.gflops) \
    X("matmul_peak_gflops", a->peak_gflops) \
    X("share_of_matmul_peak", f.share_of_peak)

static void add_arrangement(const ls_bench *bench, int index, cJSON *list) {
    const ls_bench_arrangement *a = &bench->arrangement[index];
    const ls_batches *b = &a->facts->batches;
    ls_bench_figures f = ls_bench_figures_of(bench, index);
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "arrangement", a->name);
    cJSON_AddStringToObject(row, "device", a->facts->device);
    cJSON_AddStringToObject(row, "device_name", a->facts->device_facts.name);
#define ADD_INT(name, value) ls_json_add_int(row, name, value);
    INT_COLUMNS(ADD_INT)
#undef ADD_INT
#define ADD_REAL(name, value) ls_json_add_real(row, name, value);
    REAL_COLUMNS(ADD_REAL)
#undef ADD_REAL
    cJSON_AddItemToObject(row, "measurements", cJSON_CreateDoubleArray(a->images_per_second, a->count));
    cJSON_AddItemToArray(list, row);
}

static ls_status write_json(const ls_bench *bench, const char *path) {
    const ls_train_facts *facts = bench->arrangement[0].facts;
    cJSON *tree = cJSON_CreateObject();
    cJSON_AddStringToObject(tree, "version", ls_version());
    cJSON_AddStringToObject(tree, "compiler", ls_version_compiler());
    cJSON_AddStringToObject(tree, "libraries", facts->device_facts.libraries);
    cJSON_AddStringToObject(tree, "host", ls_comm_about(bench->comm)->host);
    ls_json_add_real(tree, "time", ls_clock_unix_seconds());
    cJSON_AddStringToObject(tree, "config", facts->cfg->file);
    cJSON_AddStringToObject(tree, "model", facts->graph->path);
    cJSON_AddStringToObject(tree, "dataset", facts->train_data->name);
    cJSON_AddStringToObject(tree, "precision", ls_config_choice("train.precision", facts->cfg->train_precision));
    ls_json_add_real(tree, "flops_per_sample", facts->flops_per_sample);
    ls_json_add_int(tree, "world_size", bench->world_size);
    cJSON *list = cJSON_AddArrayToObject(tree, "arrangements");
    for (int i = 0; i < bench->count; i++) add_arrangement(bench, i, list);
    ls_status status = ls_json_write_file(path, tree);
    cJSON_Delete(tree);
    return status;
}

static void print_csv(const ls_bench *bench, FILE *file) {
    fputs("arrangement,device", file);
#define NAME(name, value) fputs("," name, file);
    INT_COLUMNS(NAME)
    REAL_COLUMNS(NAME)
#undef NAME
    fputc('\n', file);
    for (int i = 0; i < bench->count; i++) {
        const ls_bench_arrangement *a = &bench->arrangement[i];
        const ls_batches *b = &a->facts->batches;
        ls_bench_figures f = ls_bench_figures_of(bench, i);
        fprintf(file, "%s,%s", a->name, a->facts->device);
#define PUT_INT(name, value) fprintf(file, ",%lld", (long long)(value));
        INT_COLUMNS(PUT_INT)
#undef PUT_INT
#define PUT_REAL(name, value) fprintf(file, ",%.6g", value);
        REAL_COLUMNS(PUT_REAL)
#undef PUT_REAL
        fputc('\n', file);
    }
}

static ls_status write_csv(const ls_bench *bench, const char *path) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    if (!memory) return ls_fail(LS_STORAGE, "%s: open_memstream: %s", path, strerror(errno));
    print_csv(bench, memory);
    ls_status status =
        fclose(memory) ? ls_fail(LS_STORAGE, "%s: out of memory", path) : ls_write_file(path, text, bytes);
    free(text);
    return status;
}

ls_status ls_bench_write(const ls_bench *bench, const char *folder) {
    char path[LS_TEXT_BYTES];
    LS_TRY(ls_path_join(path, sizeof path, folder, "bench.json"));
    LS_TRY(write_json(bench, path));
    LS_TRY(ls_path_join(path, sizeof path, folder, "bench.csv"));
    return write_csv(bench, path);
}
