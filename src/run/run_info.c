#include "run/run_info.h"

#include "base/json.h"
#include "base/version.h"

// Adds the identities of the data sets, which depend on their contents. Leaves out sets without an identity: held-out
// validation data follow from the training data.
static void add_data(const ls_train_info *info, cJSON *object) {
    const struct {
        const char *name;
        const ls_dataset_info *facts;
    } rows[] = { { "train_data", info->train_data }, { "val_data", info->val_data }, { "test_data", info->test_data } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].facts && rows[i].facts->source) ls_json_add_hash(object, rows[i].name, rows[i].facts->source);
}

void ls_run_info_json(const ls_train_info *info, cJSON *object) {
    const ls_config *cfg = info->cfg;
    if (info->run.id[0]) ls_json_add_text(object, "run", info->run.id);
    ls_json_add_text(object, "version", ls_version());
    ls_json_add_text(object, "config", cfg->file);
    ls_json_add_text(object, "device", info->device);
    ls_json_add_text(object, "device_name", info->device_info.name);
    ls_json_add_text(object, "libraries", info->device_info.libraries);
    ls_json_add_text(object, "precision", ls_config_choice("train.precision", cfg->train_precision));
    ls_json_add_bool(object, "deterministic", cfg->run_deterministic);
    ls_json_add_text(object, "communicator", info->comm->backend);
    if (info->sums[0]) ls_json_add_text(object, "gradient_sums", info->sums);
    ls_json_add_int(object, "world_size", info->comm->world_size);
    ls_json_add_int(object, "threads_per_rank", info->threads);
    ls_json_add_text(object, "dataset", info->train_data->name);
    ls_json_add_int(object, "train_samples", info->train_data->count);
    if (info->train_data->broken) ls_json_add_int(object, "train_broken", info->train_data->broken);
    if (info->val_data) ls_json_add_int(object, "val_samples", info->val_data->count);
    if (info->val_data && info->val_data->broken) ls_json_add_int(object, "val_broken", info->val_data->broken);
    if (info->test_data->broken) ls_json_add_int(object, "test_broken", info->test_data->broken);
    add_data(info, object);
    ls_json_add_text(object, "model", info->graph->path);
    ls_json_add_int(object, "parameters", info->parameters);
    if (info->teacher.path[0]) {
        cJSON *teacher = ls_json_add_object(object, "teacher");
        ls_json_add_text(teacher, "file", info->teacher.path);
        ls_json_add_hash(teacher, "hash", info->teacher.hash);
    }
    ls_json_add_int(object, "seed", cfg->run_seed);
    ls_json_add_int(object, "global_batch", info->batches.global_batch);
    ls_json_add_int(object, "micro_batch", info->batches.micro_batch);
    ls_json_add_int(object, "accumulation_steps", info->batches.per_rank);
}

int ls_run_energy_source(const ls_run_energy *e, int index, char text[LS_ENERGY_SOURCE_BYTES]) {
    const struct {
        int count;
        const char *what, *how;
    } rows[] = { { e->packages, "processor package", "RAPL" }, { e->memories, "memory domain", "RAPL" },
        { e->gpus_counted, "GPU", "NVML's energy counter" }, { e->gpus_integrated, "GPU", "NVML's power over time" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].count == 0 || index-- > 0) continue;
        snprintf(text, LS_ENERGY_SOURCE_BYTES, "%d %s%s (%s)", rows[i].count, rows[i].what,
            rows[i].count == 1 ? "" : "s", rows[i].how);
        return 1;
    }
    return 0;
}

void ls_train_evaluation_json(const ls_train_evaluation *e, cJSON *object) {
    if (e->val_samples > 0) {
        ls_json_add_real(object, "val_loss", e->val_loss);
        ls_json_add_real(object, "val_accuracy", e->val_accuracy);
        ls_json_add_int(object, "val_samples", e->val_samples);
    }
    if (e->test_samples > 0) {
        ls_json_add_real(object, "test_loss", e->test_loss);
        ls_json_add_real(object, "test_accuracy", e->test_accuracy);
        ls_json_add_int(object, "test_samples", e->test_samples);
    }
    if (e->tta_samples > 0) {
        ls_json_add_real(object, "tta_loss", e->tta_loss);
        ls_json_add_real(object, "tta_accuracy", e->tta_accuracy);
        ls_json_add_int(object, "tta_samples", e->tta_samples);
    }
}

void ls_verdict_json(const ls_verdict *verdict, cJSON *object) {
    static const char *const words[] = { [LS_BINDS_COMPUTE] = "compute",
        [LS_BINDS_LOADER] = "loader",
        [LS_BINDS_COMMUNICATION] = "communication",
        [LS_BINDS_LAUNCHES] = "launches",
        [LS_BINDS_CORES] = "cores" };
    ls_json_add_text(object, "binds", words[verdict->binds]);
    ls_json_add_text(object, "text", verdict->text);
    if (!verdict->option[0]) return;
    ls_json_add_text(object, "option", verdict->option);
    ls_json_add_text(object, "value", verdict->value);
}
