#include "command/commands.h"
#include "tools/bench/layers.h"

#include <stdlib.h>
#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/version.h"
#include "tools/bench/figures.h"
#include "tools/bench/peak.h"
#include "command/report.h"

enum { STEP_ROUNDS = 5 };
static const double PEAK_SECONDS = 0.5;

typedef struct {
    const ls_train_info *info;
    ls_layer_time *rows;
    int count;
    double total; // seconds of all instructions together
    ls_bench_limits limits;
    double update_s;           // median seconds of a whole update
    double times[STEP_ROUNDS]; // GFLOP/s of an update over GFLOP/s of the matrix product in the same round; sorted
    double flops;              // operations of the convolutions and linear layers in an update
} layers;

static double floor_of(const layers *l, const ls_layer_time *row) {
    return ls_bench_floor_s(&l->limits, row->flops, (double)row->bytes);
}

static ls_status print_table(const layers *l, FILE *file) {
    static const char *const head[] = { "operator", "layer", "algorithm", "chosen", "us", "floor, us", "time / floor",
        "of total", "GFLOP/s", "of peak", "GB/s", "of bandwidth" };
    enum { COLUMNS = sizeof head / sizeof head[0] };
    ls_table table;
    LS_TRY(ls_table_new(COLUMNS, l->count + 1, &table));
    for (int column = 0; column < COLUMNS; column++) ls_table_put(&table, 0, column, "%s", head[column]);
    double floors = 0;
    for (int i = 0; i < l->count; i++) {
        const ls_layer_time *row = &l->rows[i];
        const double gflops = row->flops / row->seconds * 1e-9, gbytes = (double)row->bytes / row->seconds * 1e-9;
        const double floor_s = floor_of(l, row);
        floors += floor_s;
        ls_table_put(&table, i + 1, 0, "%s", row->op);
        ls_table_put(&table, i + 1, 1, "%s", row->layer);
        ls_table_put(&table, i + 1, 2, "%s", row->algorithm);
        ls_table_put(&table, i + 1, 3, "%s", row->chosen ? row->chosen : "");
        ls_table_put(&table, i + 1, 4, "%.1f", row->seconds * 1e6);
        ls_table_put(&table, i + 1, 5, "%.1f", floor_s * 1e6);
        if (floor_s > 0) ls_table_put(&table, i + 1, 6, "%.2f", row->seconds / floor_s);
        ls_table_put(&table, i + 1, 7, "%.1f %%", 100 * row->seconds / l->total);
        ls_table_put(&table, i + 1, 8, "%.0f", gflops);
        ls_table_put(&table, i + 1, 9, "%.0f %%", 100 * gflops / l->limits.gflops);
        ls_table_put(&table, i + 1, 10, "%.0f", gbytes);
        ls_table_put(&table, i + 1, 11, "%.0f %%", 100 * gbytes / l->limits.gbytes);
    }
    ls_table_print(&table, file);
    ls_table_free(&table);
    fprintf(file,
        "%d instructions: %.3f ms for a micro-batch of %d and the optimizer; their floors add up to %.3f ms (%.0f "
        "%%).\n"
        "A floor is the larger of FLOP / %.0f GFLOP/s (a matrix product, measured now) and bytes / %.0f GB/s (adding "
        "arrays in memory, measured now).\n",
        l->count, l->total * 1e3, l->info->batches.micro_batch, floors * 1e3, 100 * floors / l->total, l->limits.gflops,
        l->limits.gbytes);
    fprintf(file,
        "A whole update takes %.3f ms: %.0f GFLOP/s of convolutions and linear layers, %.2f times the matrix product "
        "(median of %d, in turns with it; %.2f to %.2f).\n",
        l->update_s * 1e3, l->flops / l->update_s * 1e-9, l->times[STEP_ROUNDS / 2], STEP_ROUNDS, l->times[0],
        l->times[STEP_ROUNDS - 1]);
    return ls_command_flush(file);
}

static ls_status write_json(const layers *l, const char *folder) {
    char path[LS_TEXT_BYTES];
    LS_TRY(ls_path_join(path, sizeof path, folder, "layers.json"));
    cJSON *tree = cJSON_CreateObject();
    ls_json_add_text(tree, "version", ls_version());
    ls_json_add_text(tree, "device", l->info->device_info.name);
    ls_json_add_text(tree, "libraries", l->info->device_info.libraries);
    ls_json_add_text(tree, "model", l->info->graph->path);
    ls_json_add_text(tree, "precision", ls_config_choice("train.precision", l->info->cfg->train_precision));
    ls_json_add_int(tree, "micro_batch", l->info->batches.micro_batch);
    ls_json_add_real(tree, "matmul_gflops", l->limits.gflops);
    ls_json_add_real(tree, "bandwidth_gbytes", l->limits.gbytes);
    ls_json_add_real(tree, "update_seconds", l->update_s);
    ls_json_add_real(tree, "update_gflops", l->flops / l->update_s * 1e-9);
    ls_json_add_real(tree, "update_times_matmul", l->times[STEP_ROUNDS / 2]);
    cJSON *list = ls_json_add_array(tree, "instructions");
    for (int i = 0; i < l->count; i++) {
        const ls_layer_time *row = &l->rows[i];
        cJSON *item = cJSON_CreateObject();
        ls_json_add_text(item, "operator", row->op);
        ls_json_add_text(item, "layer", row->layer);
        ls_json_add_text(item, "algorithm", row->algorithm);
        if (row->chosen) ls_json_add_text(item, "chosen", row->chosen);
        ls_json_add_real(item, "seconds", row->seconds);
        ls_json_add_real(item, "flops", row->flops);
        ls_json_add_int(item, "bytes", (int64_t)row->bytes);
        ls_json_add_real(item, "floor_seconds", floor_of(l, row));
        ls_json_add_real(item, "times_floor", row->seconds / floor_of(l, row));
        ls_json_append(list, item);
    }
    ls_status status = ls_json_write_file(path, tree);
    cJSON_Delete(tree);
    if (!ls_failed(status)) ls_info("report    %s", path);
    return status;
}

static ls_status measure_limits(layers *l, ls_bench_peak *peak) {
    LS_TRY(ls_bench_peak_measure(peak, PEAK_SECONDS, &l->limits.gflops));
    return ls_bench_peak_bandwidth(peak, PEAK_SECONDS, &l->limits.gbytes);
}

static int compare_reals(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Measures the rate of updates and of a matrix product in turns. On a machine whose speed changes, only their ratio is
// reliable.
static ls_status measure_updates(layers *l, ls_trainer *trainer, ls_bench_peak *peak) {
    double seconds[STEP_ROUNDS];
    l->flops = 0;
    for (int i = 0; i < l->count; i++) {
        const ls_op_kind kind = l->rows[i].kind;
        if (kind == LS_OP_KIND_CONVOLUTION || kind == LS_OP_KIND_LINEAR)
            l->flops += l->rows[i].flops * l->info->batches.per_rank;
    }
    LS_TRY(ls_trainer_updates(trainer, 1, NULL));
    for (int round = 0; round < STEP_ROUNDS; round++) {
        const double start = ls_clock_seconds();
        double elapsed = 0, gflops;
        int64_t updates = 0;
        for (; elapsed < PEAK_SECONDS; elapsed = ls_clock_seconds() - start, updates++)
            LS_TRY(ls_trainer_updates(trainer, 1, NULL));
        LS_TRY(ls_bench_peak_measure(peak, PEAK_SECONDS, &gflops));
        seconds[round] = elapsed / (double)updates;
        l->times[round] = l->flops / seconds[round] * 1e-9 / gflops;
    }
    qsort(seconds, STEP_ROUNDS, sizeof *seconds, compare_reals);
    qsort(l->times, STEP_ROUNDS, sizeof *l->times, compare_reals);
    l->update_s = seconds[STEP_ROUNDS / 2];
    return LS_SUCCESS;
}

ls_status ls_bench_layers(const ls_config *cfg, ls_comm *comm, double seconds, const char *folder) {
    if (ls_comm_get_info(comm)->world_size > 1)
        return ls_fail(LS_USAGE, "bench --layers times one rank; start it without mpirun");
    ls_trainer *trainer;
    ls_bench_peak *peak = NULL;
    LS_TRY(ls_trainer_new(cfg, comm, &trainer));
    layers l = { .info = ls_trainer_get_info(trainer) };
    ls_status status = ls_bench_peak_new(ls_trainer_device(trainer), ls_config_storage(cfg), &peak);
    if (!ls_failed(status)) status = measure_limits(&l, peak);
    if (!ls_failed(status)) status = ls_trainer_layer_times(trainer, seconds, &l.rows, &l.count);
    for (int i = 0; !ls_failed(status) && i < l.count; i++) l.total += l.rows[i].seconds;
    if (!ls_failed(status)) status = measure_updates(&l, trainer, peak);
    if (!ls_failed(status)) { // the table is printed even if the file cannot be written
        status = folder ? write_json(&l, folder) : LS_SUCCESS;
        ls_keep_first(&status, print_table(&l, stdout));
    }
    free(l.rows);
    ls_bench_peak_free(peak);
    ls_trainer_free(trainer);
    return status;
}
