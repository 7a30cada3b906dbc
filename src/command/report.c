#include "command/report.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/version.h"
#include "command/progress.h"
#include "device/gpu/plugin.h"
#include "train/diagnose/verdict.h"
#include "train/never_reached.h"

ls_status ls_table_new(int columns, int rows, ls_table *out) {
    *out = (ls_table){ columns, rows, NULL };
    return LS_NEW(out->cell, columns * rows, "table of %d x %d cells", columns, rows);
}

void ls_table_free(ls_table *table) {
    free(table->cell);
    table->cell = NULL;
}

static char *cell_at(const ls_table *table, int row, int column) {
    return table->cell[row * table->columns + column];
}

void ls_table_put(ls_table *table, int row, int column, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(cell_at(table, row, column), LS_TABLE_CELL_BYTES, format, args);
    va_end(args);
}

static int column_width(const ls_table *table, int column) {
    int width = 0;
    for (int row = 0; row < table->rows; row++) {
        int length = ls_text_columns(cell_at(table, row, column));
        if (length > width) width = length;
    }
    return width;
}

void ls_table_print(const ls_table *table, FILE *file) {
    for (int row = 0; row < table->rows; row++) {
        for (int column = 0; column < table->columns; column++) {
            const char *cell = cell_at(table, row, column);
            int width = column_width(table, column) + (int)strlen(cell) - ls_text_columns(cell); // in bytes
            fprintf(file, "%s%*s", column ? "  " : "", column ? width : -width, cell);
        }
        fputc('\n', file);
    }
}

static const char *plural(int64_t count) {
    return count == 1 ? "" : "s";
}

int ls_report_why_not_gpu(const char *why) {
    const int said = why && ls_gpu_expected();
    if (said) ls_info("%s", why);
    return said;
}

static void report_data(const ls_train_info *info) {
    char validation[48] = "";
    if (info->val_data)
        snprintf(validation, sizeof validation, " %lld to validate with,", (long long)info->val_data->count);
    ls_info("data      %s, %lld to train on,%s %lld to test on", info->train_data->name,
        (long long)info->train_data->count, validation, (long long)info->test_data->count);
    if (info->train_data->note[0]) ls_info("data      %s", info->train_data->note);
    if (info->train_data->decoder[0]) ls_info("data      JPEG decoded by %s", info->train_data->decoder);
}

// Returns 1 if all ranks compute on the CPU of the same host: then one line about the device describes all of them.
static int ranks_are_alike(const ls_train_info *info) {
    for (int rank = 1; rank < info->comm->world_size; rank++)
        if (strcmp(info->places[rank].host, info->places[0].host) != 0 ||
            strcmp(info->places[rank].name, info->places[0].name) != 0)
            return 0;
    return !ls_device_is_gpu(info->device);
}

static void report_device(const ls_train_info *info) {
    const int world_size = info->comm->world_size, said = ls_report_why_not_gpu(info->why_not_gpu);
    ls_info("device    %s (%s), %d rank%s of %d thread%s, %s%s", info->device, info->device_info.name, world_size,
        plural(world_size), info->threads, plural(info->threads),
        ls_config_choice("train.precision", info->cfg->train_precision), info->why_not_gpu && !said ? "; no GPU" : "");
    for (int rank = 0; !ranks_are_alike(info) && world_size > 1 && rank < world_size;) {
        char line[LS_RANK_TABLE_LINE_BYTES];
        rank = ls_rank_table_line(info->places, world_size, rank, line);
        ls_info("%s", line);
    }
    if (info->warning[0]) ls_warn("%s", info->warning);
    if (info->sums[0] && ls_device_is_gpu(info->device)) // on CPUs the sums always go through MPI
        ls_info("sums      of gradients by %s%s%s", info->sums,
            info->why_not_collective[0] ? " through host memory: " : "", info->why_not_collective);
}

// Prints "batch     128 = 32 x 2 accumulated x 2 ranks; 2345 updates"; factors of 1 are left out.
static void report_batch(const ls_train_info *info) {
    const ls_batches *batches = &info->batches;
    const int world_size = info->comm->world_size;
    char factors[96] = "";
    ls_text_room room = { factors, sizeof factors };
    if (batches->per_rank * world_size > 1) ls_text_put(&room, " = %d", batches->micro_batch);
    if (batches->per_rank > 1) ls_text_put(&room, " x %d accumulated", batches->per_rank);
    if (world_size > 1) ls_text_put(&room, " x %d ranks", world_size);
    ls_info("batch     %d%s; %lld updates", batches->global_batch, factors, (long long)info->updates_planned);
}

static void warn(void *context, const char *line) {
    (void)context;
    ls_warn("%s", line);
}

void ls_report_options(const ls_train_info *info) {
    char unused[LS_STATUS_TEXT_BYTES / 2];
    if (ls_config_unused(info->cfg, unused, sizeof unused)[0]) ls_info("no effect %s", unused);
    ls_never_reached(info, warn, NULL);
}

void ls_report_start(const ls_train_info *info, const char *run_folder) {
    ls_info("lockstep %s", ls_version());
    ls_info("network   %s, %lld parameters", info->graph->path, (long long)info->parameters);
    if (info->init.path[0])
        ls_info("init      %d of %d tensors of %s: %s", info->init.taken, info->init.all, info->init.path,
            info->init.which);
    if (info->teacher.path[0])
        ls_info("teacher   %s, %g of the loss at temperature %g", info->teacher.path, info->cfg->distill_share,
            info->cfg->distill_temperature);
    report_data(info);
    report_device(info);
    report_batch(info);
    ls_report_options(info);
    if (info->resumed_at)
        ls_info("resumed   after update %lld of %lld", (long long)info->resumed_at, (long long)info->updates_planned);
    if (info->parts && cJSON_GetArraySize(info->parts) > 1)
        ls_info("run       %s, part %d", run_folder, cJSON_GetArraySize(info->parts));
    else
        ls_info("run       %s", run_folder);
}

// Prints "GPUs      93 % busy; at most 61.2 GiB, 640 W, 68 C; slowed by power cap".
static void report_gpus(const ls_gpu_sample *all) {
    char line[256] = "", memory[32], slowed[96];
    size_t used = 0;
    if (all->samples == 0) return;
    if (!isnan(all->utilisation)) used += (size_t)snprintf(line, sizeof line, "%.0f %% busy; ", 100 * all->utilisation);
    used += (size_t)snprintf(line + used, sizeof line - used, "at most");
    if (!isnan(all->memory_bytes))
        used += (size_t)snprintf(
            line + used, sizeof line - used, " %s,", ls_text_bytes(memory, (uint64_t)all->memory_bytes));
    if (!isnan(all->power_watts))
        used += (size_t)snprintf(line + used, sizeof line - used, " %.0f W,", all->power_watts);
    if (!isnan(all->temperature_c))
        used += (size_t)snprintf(line + used, sizeof line - used, " %.0f C,", all->temperature_c);
    line[used - 1] = '\0';
    if (all->slowed)
        snprintf(line + used - 1, sizeof line - used, "; slowed by %s", ls_gpu_slowed_text(all->slowed, slowed));
    ls_info("GPUs      %s", line);
}

// Prints "energy    1.23 kJ, 0.0451 J a picture: 2 processor packages (RAPL)".
static void report_energy(const ls_run_energy *e, int64_t samples) {
    char line[256] = "", joules[32], source[LS_ENERGY_SOURCE_BYTES];
    ls_text_room room = { line, sizeof line };
    if (isnan(e->joules)) return;
    ls_text_si(joules, e->joules);
    ls_text_put(&room, "%s%sJ", joules, strchr(joules, ' ') ? "" : " ");
    if (samples > 0) ls_text_put(&room, ", %.3g J a picture", e->joules / (double)samples);
    for (int i = 0; ls_run_energy_source(e, i, source); i++) ls_text_put(&room, "%s%s", i ? ", " : ": ", source);
    ls_info("energy    %s", line);
}

void ls_report_end(const ls_train_info *info, const ls_train_summary *summary, const char *run_folder) {
    const ls_train_evaluation *e = &summary->evaluation;
    char took[32], memory[32], tta[64] = "";
    if (e->tta_samples > 0) snprintf(tta, sizeof tta, " (%.2f %% with test-time augmentation)", 100 * e->tta_accuracy);
    ls_info("%s: test accuracy %.2f %% of %lld%s, after %lld update%s in %s (%.0f images/s in training, %s a rank)",
        summary->status, 100 * e->test_accuracy, (long long)e->test_samples, tta, (long long)summary->updates,
        plural(summary->updates), ls_progress_duration(took, sizeof took, summary->wall_seconds),
        summary->train_images_per_second, ls_text_bytes(memory, summary->peak_host_bytes));
    if (summary->stopped_early)
        ls_info("stopped   early: no validation accuracy above %.2f %% (of update %lld) in %lld evaluations",
            100 * e->best_accuracy, (long long)e->best_update, (long long)e->without_improvement);
    if (summary->resumed_at)
        ls_info("of these, %lld update%s in %s in this part (%.0f images/s)", (long long)summary->part_updates,
            plural(summary->part_updates), ls_progress_duration(took, sizeof took, summary->part_seconds),
            summary->part_images_per_second);
    if (summary->skipped > 0)
        ls_info("%lld update%s skipped: overflow in %s", (long long)summary->skipped, plural(summary->skipped),
            ls_config_choice("train.precision", info->cfg->train_precision));
    report_gpus(&summary->gpus);
    report_energy(&summary->energy, summary->part_samples);
    if (summary->verdict.text[0]) {
        char shares[LS_VERDICT_SHARES_BYTES];
        ls_info("time      %s", ls_verdict_shares(&summary->time, shares));
        ls_info("verdict   %s", summary->verdict.text);
    }
    if (summary->best_update >= 0)
        ls_info("best      %s/checkpoints/update-%012lld, %s accuracy %.2f %%", run_folder,
            (long long)summary->best_update, e->val_samples > 0 ? "validation" : "test", 100 * summary->best_accuracy);
    ls_info("weights   %s/weights.safetensors, results %s/summary.json", run_folder, run_folder);
}
