#include "cli/commands.h"
#include "cli/bench_layers.h"

#include <stdlib.h>
#include "base/atomic_file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/version.h"
#include "cli/bench_peak.h"
#include "cli/report.h"

static const double PEAK_SECONDS = 0.5;

typedef struct {
    const ls_train_facts *facts;
    ls_layer_time *rows;
    int count;
    double total, gflops, gbytes; // seconds of all instructions; the device's measured limits
} layers;

// The time that this instruction's arithmetic and bytes would take at the measured limits.
static double limit_of(const layers *l, const ls_layer_time *row) {
    double arithmetic = row->flops / (l->gflops * 1e9), moving = (double)row->bytes / (l->gbytes * 1e9);
    return arithmetic > moving ? arithmetic : moving;
}

static ls_status print_table(const layers *l, FILE *file) {
    static const char *const head[] = { "operator", "layer", "algorithm", "us", "of total", "GFLOP/s", "GB/s",
        "of limit" };
    enum { COLUMNS = sizeof head / sizeof head[0] };
    ls_table table;
    LS_TRY(ls_table_new(COLUMNS, l->count + 1, &table));
    for (int column = 0; column < COLUMNS; column++) ls_table_put(&table, 0, column, "%s", head[column]);
    double limits = 0;
    for (int i = 0; i < l->count; i++) {
        const ls_layer_time *row = &l->rows[i];
        limits += limit_of(l, row);
        ls_table_put(&table, i + 1, 0, "%s", row->op);
        ls_table_put(&table, i + 1, 1, "%s", row->layer);
        ls_table_put(&table, i + 1, 2, "%s", row->algorithm);
        ls_table_put(&table, i + 1, 3, "%.1f", row->seconds * 1e6);
        ls_table_put(&table, i + 1, 4, "%.1f %%", 100 * row->seconds / l->total);
        ls_table_put(&table, i + 1, 5, "%.0f", row->flops / row->seconds * 1e-9);
        ls_table_put(&table, i + 1, 6, "%.0f", (double)row->bytes / row->seconds * 1e-9);
        ls_table_put(&table, i + 1, 7, "%.0f %%", 100 * limit_of(l, row) / row->seconds);
    }
    ls_table_print(&table, file);
    ls_table_free(&table);
    fprintf(file,
        "%d instructions, %.3f ms a micro-batch of %d and the optimizer; the measured limits are %.0f GFLOP/s (matrix "
        "product) and "
        "%.0f GB/s (adding arrays), which alone would take %.3f ms: %.0f %%\n",
        l->count, l->total * 1e3, l->facts->batches.micro_batch, l->gflops, l->gbytes, limits * 1e3,
        100 * limits / l->total);
    return ls_command_flush(file);
}

static ls_status write_json(const layers *l, const char *folder) {
    char path[LS_TEXT_BYTES];
    LS_TRY(ls_path_join(path, sizeof path, folder, "layers.json"));
    cJSON *tree = cJSON_CreateObject();
    ls_json_add_text(tree, "version", ls_version());
    ls_json_add_text(tree, "device", l->facts->device_facts.name);
    ls_json_add_text(tree, "libraries", l->facts->device_facts.libraries);
    ls_json_add_text(tree, "model", l->facts->graph->path);
    ls_json_add_text(tree, "precision", ls_config_choice("train.precision", l->facts->cfg->train_precision));
    ls_json_add_int(tree, "micro_batch", l->facts->batches.micro_batch);
    ls_json_add_real(tree, "matmul_gflops", l->gflops);
    ls_json_add_real(tree, "bandwidth_gbytes", l->gbytes);
    cJSON *list = ls_json_add_array(tree, "instructions");
    for (int i = 0; i < l->count; i++) {
        const ls_layer_time *row = &l->rows[i];
        cJSON *item = cJSON_CreateObject();
        ls_json_add_text(item, "operator", row->op);
        ls_json_add_text(item, "layer", row->layer);
        ls_json_add_text(item, "algorithm", row->algorithm);
        ls_json_add_real(item, "seconds", row->seconds);
        ls_json_add_real(item, "flops", row->flops);
        ls_json_add_int(item, "bytes", (int64_t)row->bytes);
        ls_json_add_real(item, "share_of_limit", limit_of(l, row) / row->seconds);
        ls_json_append(list, item);
    }
    ls_status status = ls_json_write_file(path, tree);
    cJSON_Delete(tree);
    return status;
}

static ls_status measure_limits(layers *l, ls_device *device) {
    const ls_config *cfg = l->facts->cfg;
    ls_dtype storage = cfg->train_precision == LS_PRECISION_BF16   ? LS_BF16
                       : cfg->train_precision == LS_PRECISION_FP16 ? LS_F16
                                                                   : LS_F32;
    ls_bench_peak *peak;
    LS_TRY(ls_bench_peak_new(device, storage, &peak));
    ls_status status = ls_bench_peak_measure(peak, PEAK_SECONDS, &l->gflops);
    if (!ls_failed(status)) status = ls_bench_peak_bandwidth(peak, PEAK_SECONDS, &l->gbytes);
    ls_bench_peak_free(peak);
    return status;
}

ls_status ls_bench_layers(const ls_config *cfg, ls_comm *comm, double seconds, const char *folder) {
    if (ls_comm_about(comm)->world_size > 1)
        return ls_fail(LS_USAGE, "bench --layers times one rank; start it without mpirun");
    ls_trainer *trainer;
    LS_TRY(ls_trainer_new(cfg, comm, &trainer));
    layers l = { .facts = ls_trainer_about(trainer) };
    ls_status status = measure_limits(&l, ls_trainer_device(trainer));
    if (!ls_failed(status)) status = ls_trainer_layer_times(trainer, seconds, &l.rows, &l.count);
    for (int i = 0; !ls_failed(status) && i < l.count; i++) l.total += l.rows[i].seconds;
    if (!ls_failed(status)) status = print_table(&l, stdout);
    if (!ls_failed(status)) status = write_json(&l, folder);
    free(l.rows);
    ls_trainer_free(trainer);
    return status;
}
