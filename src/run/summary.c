#include "run/summary.h"

#include <math.h>
#include "base/json.h"

static void add_gpus(cJSON *tree, const ls_gpu_sample *all) {
    const struct {
        const char *name;
        double value;
    } rows[] = { { "mean_utilisation", all->utilisation }, { "mean_clock_mhz", all->clock_mhz },
        { "peak_memory_bytes", all->memory_bytes }, { "peak_power_watts", all->power_watts },
        { "peak_temperature_c", all->temperature_c } };
    if (all->samples == 0) return;
    char slowed[96];
    cJSON *gpus = ls_json_add_object(tree, "gpus");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!isnan(rows[i].value)) ls_json_add_real(gpus, rows[i].name, rows[i].value);
    if (all->slowed) ls_json_add_text(gpus, "slowed_by", ls_gpu_slowed_text(all->slowed, slowed));
}

static void add_energy(cJSON *tree, const ls_run_energy *e, int64_t samples) {
    char source[LS_ENERGY_SOURCE_BYTES];
    cJSON *energy = ls_json_add_object(tree, "energy");
    if (isnan(e->joules)) {
        ls_json_add_text(energy, "unknown", e->missing);
        return;
    }
    ls_json_add_real(energy, "joules", e->joules);
    if (samples > 0) ls_json_add_real(energy, "joules_per_image", e->joules / (double)samples);
    cJSON *sources = ls_json_add_array(energy, "sources");
    for (int i = 0; ls_run_energy_source(e, i, source); i++) ls_json_append(sources, ls_json_string(source));
    if (e->missing[0]) ls_json_add_text(energy, "without", e->missing);
}

static void add_last_part(cJSON *tree, const ls_train_summary *s) {
    cJSON *part = ls_json_add_object(tree, "last_part");
    ls_json_add_int(part, "updates", s->part_updates);
    ls_json_add_int(part, "samples", s->part_samples);
    ls_json_add_real(part, "seconds", s->part_seconds);
    ls_json_add_real(part, "images_per_second", s->part_images_per_second);
}

static void add_early_stop(cJSON *tree, const ls_train_evaluation *e) {
    cJSON *stop = ls_json_add_object(tree, "stopped_early");
    ls_json_add_int(stop, "without_improvement", e->without_improvement);
    ls_json_add_int(stop, "best_update", e->best_update);
    ls_json_add_real(stop, "best_val_accuracy", e->best_accuracy);
}

static void add_result(cJSON *tree, const ls_train_summary *s) {
    if (s->resumed_at) ls_json_add_int(tree, "resumed_at_update", s->resumed_at);
    ls_json_add_int(tree, "epochs", s->epochs);
    ls_json_add_int(tree, "updates", s->updates);
    ls_json_add_int(tree, "skipped_updates", s->skipped);
    ls_json_add_int(tree, "samples_seen", s->samples_seen);
    ls_json_add_real(tree, "train_loss", s->train_loss);
    ls_train_evaluation_json(&s->evaluation, tree);
    ls_json_add_real(tree, "train_images_per_second", s->train_images_per_second);
    ls_json_add_real(tree, "wall_seconds", s->wall_seconds);
    ls_json_add_real(tree, "time_to_first_update_seconds", s->time_to_first_update_seconds);
    ls_startup_json(&s->startup, ls_json_add_object(tree, "startup_seconds"));
    ls_json_add_real(tree, "comm_seconds_exposed", s->comm_seconds_exposed);
    ls_json_add_real(tree, "loader_wait_seconds", s->loader_wait_seconds);
    if (s->time.seconds > 0) ls_run_time_json(&s->time, ls_json_add_object(tree, "time"));
    if (s->verdict.text[0]) ls_verdict_json(&s->verdict, ls_json_add_object(tree, "verdict"));
    cJSON *peak = ls_json_add_object(tree, "peak_memory_bytes");
    ls_json_add_int(peak, "device", (int64_t)s->peak_device_bytes);
    ls_json_add_int(peak, "host", (int64_t)s->peak_host_bytes);
    add_gpus(tree, &s->gpus);
    add_energy(tree, &s->energy, s->part_samples);
    if (s->stragglers[0]) {
        cJSON *stragglers = ls_json_add_object(tree, "stragglers");
        ls_json_add_real(stragglers, "others_waited_share", s->stragglers_share);
        ls_json_add_text(stragglers, "message", s->stragglers);
    }
    if (s->replica_checks.count > 0) {
        cJSON *checks = ls_json_add_object(tree, "replica_checks");
        ls_json_add_int(checks, "count", s->replica_checks.count);
        ls_json_add_real(checks, "seconds", s->replica_checks.seconds);
    }
    if (s->cross_checks.count > 0) {
        cJSON *checks = ls_json_add_object(tree, "cross_checks");
        ls_json_add_int(checks, "count", s->cross_checks.count);
        ls_json_add_int(checks, "differences", s->cross_checks.differences);
        if (s->cross_checks.wrong_rank >= 0) ls_json_add_int(checks, "last_wrong_rank", s->cross_checks.wrong_rank);
        ls_json_add_real(checks, "seconds", s->cross_checks.seconds);
    }
    if (s->best_update >= 0) {
        cJSON *best = ls_json_add_object(tree, "best_checkpoint");
        ls_json_add_int(best, "update", s->best_update);
        ls_json_add_real(best, s->evaluation.val_samples > 0 ? "val_accuracy" : "test_accuracy", s->best_accuracy);
    }
    ls_json_add_hash(tree, "weights_hash", s->weights_hash);
}

ls_status ls_summary_write(const char *path, const ls_train_info *info, const ls_train_summary *summary) {
    cJSON *tree = cJSON_CreateObject();
    ls_json_add_text(tree, "status", summary->status);
    ls_run_info_json(info, tree);
    add_result(tree, summary);
    if (summary->stopped_early) add_early_stop(tree, &summary->evaluation);
    if (summary->resumed_at) add_last_part(tree, summary);
    if (info->parts) ls_json_add_item(tree, "parts", cJSON_Duplicate(info->parts, 1));
    ls_status status = ls_json_write_file(path, tree);
    cJSON_Delete(tree);
    return status;
}
