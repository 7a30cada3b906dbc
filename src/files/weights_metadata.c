#include "files/weights_metadata.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic_file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/version.h"

static const char version_key[] = "lockstep.version", network_key[] = "lockstep.network",
                  dataset_key[] = "lockstep.dataset", mean_key[] = "lockstep.mean", std_key[] = "lockstep.std",
                  classes_key[] = "lockstep.classes", resize_key[] = "lockstep.resize", init_key[] = "lockstep.init",
                  decoder_key[] = "lockstep.decoder";
static const char *const resize_rules[] = { [LS_RESIZE_STRETCH] = "bilinear", [LS_RESIZE_CROP] = "bilinear, crop" };

// --- writing -------------------------------------------------------------------------------------

// Takes over `text`; NULL: there was no memory for it.
static ls_status add(ls_weights_metadata *metadata, const char *key, char *text) {
    if (!text) return ls_no_memory(0, "%s", key);
    metadata->texts[metadata->count] = text;
    metadata->list[metadata->count++] = (ls_metadata_entry){ key, text };
    return LS_SUCCESS;
}

// "0.4914,0.4822,0.4465": digits that read back to the same floats.
static char *join_numbers(const float *numbers, int count) {
    enum { NUMBER_BYTES = 24 };
    const size_t bytes = (size_t)count * NUMBER_BYTES + 1;
    char *text = calloc(bytes, 1);
    size_t used = 0;
    for (int i = 0; text && i < count; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%.9g", i ? "," : "", (double)numbers[i]);
    return text;
}

static char *join_classes(const ls_dataset *dataset) {
    cJSON *list = cJSON_CreateArray();
    const int classes = ls_dataset_get_info(dataset)->classes;
    for (int i = 0; i < classes; i++) ls_json_append(list, ls_json_string(ls_dataset_class(dataset, i)));
    char *text = ls_json_text(list, 0);
    cJSON_Delete(list);
    return text;
}

// The first part of a run says what it began with.
static ls_status add_init(ls_weights_metadata *metadata, const cJSON *parts) {
    const char *hash = ls_json_get_text(ls_json_get(cJSON_GetArrayItem(parts, 0), "init"), "hash");
    return hash ? add(metadata, init_key, strdup(hash)) : LS_SUCCESS;
}

static ls_status add_all(
    ls_weights_metadata *metadata, const ls_graph *graph, const ls_dataset *dataset, const cJSON *parts) {
    const ls_dataset_info *info = ls_dataset_get_info(dataset);
    LS_TRY(add(metadata, "format", strdup("pt")));
    LS_TRY(add(metadata, version_key, strdup(ls_version())));
    LS_TRY(add(metadata, network_key, ls_text_as_utf8(graph->text)));
    LS_TRY(add(metadata, dataset_key, strdup(info->name)));
    LS_TRY(add(metadata, mean_key, join_numbers(info->mean, info->shape.c)));
    LS_TRY(add(metadata, std_key, join_numbers(info->std, info->shape.c)));
    LS_TRY(add(metadata, classes_key, join_classes(dataset)));
    LS_TRY(add_init(metadata, parts));
    if (info->decoder[0]) LS_TRY(add(metadata, decoder_key, strdup(info->decoder)));
    return add(metadata, resize_key, strdup(resize_rules[info->resize]));
}

ls_status ls_weights_metadata_new(
    const ls_graph *graph, const ls_dataset *dataset, const cJSON *parts, ls_weights_metadata **out) {
    ls_weights_metadata *metadata;
    LS_TRY(LS_NEW(metadata, 1, "metadata of weights"));
    ls_status status = add_all(metadata, graph, dataset, parts);
    return LS_GIVE(status, metadata, out, ls_weights_metadata_free);
}

void ls_weights_metadata_free(ls_weights_metadata *metadata) {
    if (!metadata) return;
    for (int i = 0; i < metadata->count; i++) free(metadata->texts[i]);
    free(metadata);
}

// --- reading -------------------------------------------------------------------------------------

static ls_status find(const char *path, const ls_safetensors *file, const char *key, const char **text) {
    *text = ls_safetensors_metadata(file, key);
    if (*text) return LS_SUCCESS;
    return ls_fail(LS_STORAGE,
        "%s: does not say what network and pictures its weights are for: '%s' is missing from its __metadata__ "
        "(weights "
        "of another program?); name a configuration that does, by --config CONFIG.ini",
        path, key);
}

static ls_status read_numbers(
    const char *path, const ls_safetensors *file, const char *key, int positive, int count, float *numbers) {
    const char *text, *at;
    LS_TRY(find(path, file, key, &text));
    at = text;
    for (int i = 0; i < count; i++) {
        char *end;
        numbers[i] = strtof(at, &end);
        const int good =
            end != at && *end == (i < count - 1 ? ',' : 0) && numbers[i] > (positive ? 0 : -1e6f) && numbers[i] < 1e6f;
        if (!good)
            return ls_fail(LS_STORAGE,
                "%s: '%s' of its __metadata__ is '%.80s', expected %d %snumber%s separated by commas: the file is "
                "damaged",
                path, key, text, count, positive ? "positive " : "", count == 1 ? "" : "s");
        at = end + 1;
    }
    return LS_SUCCESS;
}

static ls_status read_classes(const char *path, const ls_safetensors *file, ls_weights_info *info) {
    const char *text;
    LS_TRY(find(path, file, classes_key, &text));
    const int wanted = info->graph->classes;
    LS_TRY(LS_NEW(info->classes, wanted, "%s", path));
    cJSON *list = cJSON_Parse(text), *name;
    ls_status status = LS_SUCCESS;
    int count = 0, good = cJSON_IsArray(list) && cJSON_GetArraySize(list) == wanted;
    cJSON_ArrayForEach(name, list) {
        good = good && cJSON_IsString(name);
        if (good) LS_TRY_GOTO(LS_NEW_TEXT(info->classes[count], name->valuestring, "%s", path));
        count += good;
    }
    if (!good)
        status = ls_fail(LS_STORAGE, "%s: '%s' of its __metadata__ is no JSON list of %d names: the file is damaged",
            path, classes_key, wanted);
done:
    cJSON_Delete(list);
    return status;
}

// How pictures become pixels.
static ls_status read_resize(const char *path, const ls_safetensors *file, ls_weights_info *info) {
    const char *rule, *decoder = ls_safetensors_metadata(file, decoder_key);
    LS_TRY(find(path, file, resize_key, &rule));
    snprintf(info->decoder, sizeof info->decoder, "%s", decoder ? decoder : "");
    for (info->resize = LS_RESIZE_STRETCH; info->resize <= LS_RESIZE_CROP; info->resize++)
        if (strcmp(rule, resize_rules[info->resize]) == 0) return LS_SUCCESS;
    return ls_fail(LS_STORAGE, "%s: its pictures are resized by the rule '%.40s', and this program has '%s' and '%s'",
        path, rule, resize_rules[LS_RESIZE_STRETCH], resize_rules[LS_RESIZE_CROP]);
}

static ls_status read_all(const char *path, const ls_safetensors *file, ls_weights_info *info) {
    const char *network, *dataset;
    LS_TRY(find(path, file, network_key, &network));
    char where[LS_TEXT_BYTES];
    snprintf(where, sizeof where, "%s (%s)", path, network_key);
    ls_status status = ls_graph_parse(where, network, &info->graph);
    if (status.code == LS_USAGE) status.code = LS_STORAGE; // not the user's words here: the file is damaged
    LS_TRY(status);
    LS_TRY(find(path, file, dataset_key, &dataset));
    snprintf(info->dataset, sizeof info->dataset, "%s", dataset);
    const int channels = info->graph->input.c, most = (int)(sizeof info->mean / sizeof info->mean[0]);
    if (channels > most)
        return ls_fail(
            LS_STORAGE, "%s: pictures of %d channels, at most %d are known: the file is damaged", path, channels, most);
    LS_TRY(read_numbers(path, file, mean_key, 0, channels, info->mean));
    LS_TRY(read_numbers(path, file, std_key, 1, channels, info->std));
    LS_TRY(read_resize(path, file, info));
    return read_classes(path, file, info);
}

ls_status ls_weights_info_read(const char *path, const ls_safetensors *file, ls_weights_info **out) {
    ls_weights_info *info;
    LS_TRY(LS_NEW(info, 1, "%s", path));
    ls_status status = read_all(path, file, info);
    return LS_GIVE(status, info, out, ls_weights_info_free);
}

static ls_status take_dataset(const ls_dataset *dataset, ls_weights_info *info) {
    const ls_dataset_info *d = ls_dataset_get_info(dataset);
    const ls_graph *g = info->graph;
    if (!ls_chw_equal(d->shape, g->input) || d->classes != g->classes)
        return ls_fail(LS_USAGE,
            "%s: the network takes pictures of %dx%dx%d and has %d classes, but data.dataset = %s has %dx%dx%d and "
            "%d",
            g->path, g->input.c, g->input.h, g->input.w, g->classes, d->name, d->shape.c, d->shape.h, d->shape.w,
            d->classes);
    snprintf(info->dataset, sizeof info->dataset, "%s", d->name);
    memcpy(info->mean, d->mean, sizeof info->mean);
    memcpy(info->std, d->std, sizeof info->std);
    info->resize = d->resize;
    memcpy(info->decoder, d->decoder, sizeof info->decoder);
    LS_TRY(LS_NEW(info->classes, d->classes, "names of %d classes", d->classes));
    for (int i = 0; i < d->classes; i++)
        LS_TRY(LS_NEW_TEXT(info->classes[i], ls_dataset_class(dataset, i), "names of %d classes", d->classes));
    return LS_SUCCESS;
}

typedef struct {
    const ls_config *cfg;
    ls_dataset *dataset; // NULL: not opened yet
} data_source;

static ls_status find_data(void *context, ls_chw *shape, int *classes) {
    data_source *source = context;
    LS_TRY(ls_dataset_open(source->cfg, LS_SPLIT_TRAIN, &source->dataset));
    *shape = ls_dataset_get_info(source->dataset)->shape;
    *classes = ls_dataset_get_info(source->dataset)->classes;
    return LS_SUCCESS;
}

static ls_status configure(const ls_config *cfg, ls_weights_info *info) {
    char path[2 * LS_TEXT_BYTES];
    data_source source = { .cfg = cfg };
    LS_TRY(ls_config_path(cfg, LS_OPTION_model_file, path, sizeof path));
    ls_status status = ls_graph_read_for(path, &(ls_graph_data){ find_data, &source }, &info->graph);
    if (!source.dataset) LS_THEN(status, ls_dataset_open(cfg, LS_SPLIT_TRAIN, &source.dataset));
    LS_THEN(status, take_dataset(source.dataset, info));
    ls_dataset_free(source.dataset);
    return status;
}

ls_status ls_weights_info_configured(const ls_config *cfg, ls_weights_info **out) {
    ls_weights_info *info;
    LS_TRY(LS_NEW(info, 1, "metadata of weights"));
    ls_status status = configure(cfg, info);
    return LS_GIVE(status, info, out, ls_weights_info_free);
}

void ls_weights_info_free(ls_weights_info *info) {
    if (!info) return;
    for (int i = 0; info->classes && i < info->graph->classes; i++) free(info->classes[i]);
    free(info->classes);
    ls_graph_free(info->graph);
    free(info);
}
