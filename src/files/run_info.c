#include "files/run_info.h"

#include "base/json.h"
#include "base/version.h"

void ls_run_info_json(const ls_train_info *facts, cJSON *object) {
    const ls_config *cfg = facts->cfg;
    if (facts->run.id[0]) ls_json_add_text(object, "run", facts->run.id);
    ls_json_add_text(object, "version", ls_version());
    ls_json_add_text(object, "config", cfg->file);
    ls_json_add_text(object, "device", facts->device);
    ls_json_add_text(object, "device_name", facts->device_facts.name);
    ls_json_add_text(object, "libraries", facts->device_facts.libraries);
    ls_json_add_text(object, "precision", ls_config_choice("train.precision", cfg->train_precision));
    ls_json_add_bool(object, "deterministic", cfg->run_deterministic);
    ls_json_add_text(object, "communicator", facts->comm->backend);
    if (facts->sums[0]) ls_json_add_text(object, "gradient_sums", facts->sums);
    ls_json_add_int(object, "world_size", facts->comm->world_size);
    ls_json_add_int(object, "threads_per_rank", facts->threads);
    ls_json_add_text(object, "dataset", facts->train_data->name);
    ls_json_add_int(object, "train_samples", facts->train_data->count);
    if (facts->train_data->broken) ls_json_add_int(object, "train_broken", facts->train_data->broken);
    if (facts->test_data->broken) ls_json_add_int(object, "test_broken", facts->test_data->broken);
    ls_json_add_text(object, "model", facts->graph->path);
    ls_json_add_int(object, "parameters", facts->parameters);
    ls_json_add_int(object, "seed", cfg->run_seed);
    ls_json_add_int(object, "global_batch", facts->batches.global_batch);
    ls_json_add_int(object, "micro_batch", facts->batches.micro_batch);
    ls_json_add_int(object, "accumulation_steps", facts->batches.per_rank);
}
