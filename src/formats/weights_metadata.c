#include "formats/weights_metadata.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic_file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/version.h"
#include "config/values.h"

static const char version_key[] = "lockstep.version", network_key[] = "lockstep.network",
                  dataset_key[] = "lockstep.dataset", mean_key[] = "lockstep.mean", std_key[] = "lockstep.std",
                  classes_key[] = "lockstep.classes", resize_key[] = "lockstep.resize", init_key[] = "lockstep.init",
                  decoder_key[] = "lockstep.decoder", labels_key[] = "lockstep.labels";
static const char *const resize_rules[] = { [LS_RESIZE_STRETCH] = "bilinear", [LS_RESIZE_CROP] = "bilinear, crop" };

// --- writing -------------------------------------------------------------------------------------

// Adds an entry to the metadata, which take over `text` and free it.
static void add(ls_weights_metadata *metadata, const char *key, char *text) {
    metadata->texts[metadata->count] = text;
    metadata->list[metadata->count++] = (ls_metadata_entry){ key, text };
}

// Returns a text such as "0.4914,0.4822,0.4465", with enough digits to read back the same floats.
static char *join_numbers(const float *numbers, int count) {
    enum { NUMBER_BYTES = 24 };
    const size_t bytes = (size_t)count * NUMBER_BYTES + 1;
    char *text = ls_new(bytes, 1, "numbers of channels");
    size_t used = 0;
    for (int i = 0; i < count; i++)
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

// Adds the hash of the weights file from which the run began, if the run's first part has one.
static void add_init(ls_weights_metadata *metadata, const cJSON *parts) {
    const char *hash = ls_json_get_text(ls_json_get(cJSON_GetArrayItem(parts, 0), "init"), "hash");
    if (hash) add(metadata, init_key, ls_new_text(hash));
}

static void add_all(
    ls_weights_metadata *metadata, const ls_graph *graph, const ls_dataset *dataset, const cJSON *parts) {
    const ls_dataset_info *info = ls_dataset_get_info(dataset);
    add(metadata, "format", ls_new_text("pt"));
    add(metadata, version_key, ls_new_text(ls_version()));
    add(metadata, network_key, ls_text_as_utf8(graph->text));
    add(metadata, dataset_key, ls_new_text(info->name));
    add(metadata, mean_key, join_numbers(info->mean, info->shape.c));
    add(metadata, std_key, join_numbers(info->std, info->shape.c));
    add(metadata, classes_key, join_classes(dataset));
    if (info->label_rows) add(metadata, labels_key, ls_new_text("several"));
    add_init(metadata, parts);
    if (info->decoder[0]) add(metadata, decoder_key, ls_new_text(info->decoder));
    add(metadata, resize_key, ls_new_text(resize_rules[info->resize]));
}

ls_status ls_weights_metadata_new(
    const ls_graph *graph, const ls_dataset *dataset, const cJSON *parts, ls_weights_metadata **out) {
    *out = ls_new(1, sizeof **out, "metadata of weights");
    add_all(*out, graph, dataset, parts);
    return LS_SUCCESS;
}

void ls_weights_metadata_free(ls_weights_metadata *metadata) {
    if (!metadata) return;
    for (int i = 0; i < metadata->count; i++) free(metadata->texts[i]);
    free(metadata);
}

// --- reading -------------------------------------------------------------------------------------

// Reads the numbers of a key into numbers[0..*count). wanted: the number of values; 0: any number up to MOST. *count
// stays 0 if the file has no such key.
static ls_status read_numbers(const char *path, const ls_safetensors *file, const char *key, int positive, int wanted,
    float *numbers, int *count) {
    enum { MOST = (int)(sizeof((ls_weights_info *)0)->mean / sizeof(float)) };
    const char *text = ls_safetensors_metadata(file, key), *at = text;
    if (!text) return LS_SUCCESS;
    for (int more = 1; more;) {
        char *end;
        float number = strtof(at, &end);
        more = *end == ',';
        const int good = *count < (wanted ? wanted : MOST) && end != at && (more || !*end) &&
                         number > (positive ? 0 : -1e6f) && number < 1e6f;
        if (good) numbers[(*count)++] = number;
        if (!good || (!more && wanted && *count < wanted))
            return ls_fail(LS_STORAGE,
                "%s: '%s' of its __metadata__ is '%.80s', expected %d %snumber%s separated by commas: the file is "
                "damaged",
                path, key, text, wanted ? wanted : 1, positive ? "positive " : "", wanted == 1 ? "" : "s");
        at = end + 1;
    }
    return LS_SUCCESS;
}

static ls_status read_classes(const char *path, const ls_safetensors *file, ls_weights_info *info) {
    const char *text = ls_safetensors_metadata(file, classes_key);
    if (!text) return LS_SUCCESS;
    info->several = ls_safetensors_metadata(file, labels_key) != NULL;
    cJSON *list = cJSON_Parse(text), *name;
    const int count = cJSON_GetArraySize(list), wanted = info->graph ? info->graph->classes : count;
    ls_status status = LS_SUCCESS;
    int good = cJSON_IsArray(list) && count == wanted;
    info->classes = ls_new(count + 1, sizeof *info->classes, "%s", path);
    cJSON_ArrayForEach(name, list) {
        good = good && cJSON_IsString(name);
        if (good) info->classes[info->class_count] = ls_new_text(name->valuestring);
        info->class_count += good;
    }
    if (!good)
        status = ls_fail(LS_STORAGE, "%s: '%s' of its __metadata__ is no JSON list of %d names: the file is damaged",
            path, classes_key, wanted);
    cJSON_Delete(list);
    return status;
}

// Reads decoder and resize rule. Without a decoder the training pictures were not files, so nothing was resized.
static ls_status read_resize(const char *path, const ls_safetensors *file, ls_weights_info *info) {
    const char *rule = ls_safetensors_metadata(file, resize_key), *decoder = ls_safetensors_metadata(file, decoder_key);
    int resize = LS_RESIZE_STRETCH;
    snprintf(info->decoder, sizeof info->decoder, "%s", decoder ? decoder : "");
    if (!rule) return LS_SUCCESS;
    while (resize <= LS_RESIZE_CROP && strcmp(rule, resize_rules[resize]) != 0) resize++;
    if (resize <= LS_RESIZE_CROP) {
        if (decoder) info->resize = resize;
        return LS_SUCCESS;
    }
    return ls_fail(LS_STORAGE, "%s: its pictures are resized by the rule '%.40s', and this program has '%s' and '%s'",
        path, rule, resize_rules[LS_RESIZE_STRETCH], resize_rules[LS_RESIZE_CROP]);
}

static ls_status read_network(const char *path, const ls_safetensors *file, ls_weights_info *info) {
    const char *network = ls_safetensors_metadata(file, network_key);
    char where[LS_TEXT_BYTES];
    if (!network) return LS_SUCCESS;
    snprintf(where, sizeof where, "%s (%s)", path, network_key);
    ls_status status = ls_graph_parse(where, network, &info->graph);
    // The user did not write this text, so a wrong network means a damaged file.
    if (status.code == LS_USAGE) status.code = LS_STORAGE;
    LS_TRY(status);
    info->input = info->graph->input;
    const int channels = info->input.c, most = (int)(sizeof info->mean / sizeof info->mean[0]);
    if (channels <= most) return LS_SUCCESS;
    return ls_fail(
        LS_STORAGE, "%s: pictures of %d channels, at most %d are known: the file is damaged", path, channels, most);
}

static ls_status read_all(const char *path, const ls_safetensors *file, ls_weights_info *info) {
    const char *dataset = ls_safetensors_metadata(file, dataset_key);
    LS_TRY(read_network(path, file, info));
    snprintf(info->dataset, sizeof info->dataset, "%s", dataset ? dataset : "");
    LS_TRY(read_numbers(path, file, mean_key, 0, info->input.c, info->mean, &info->mean_count));
    LS_TRY(read_numbers(path, file, std_key, 1, info->input.c, info->std, &info->std_count));
    LS_TRY(read_resize(path, file, info));
    return read_classes(path, file, info);
}

static ls_weights_info *new_info(void) {
    ls_weights_info *info = ls_new(1, sizeof *info, "metadata of weights");
    info->resize = LS_RESIZE_UNKNOWN;
    return info;
}

ls_status ls_weights_info_read(const char *path, const ls_safetensors *file, ls_weights_info **out) {
    ls_weights_info *info = new_info();
    ls_status status = read_all(path, file, info);
    return LS_GIVE_OR_FREE(status, info, out, ls_weights_info_free);
}

ls_status ls_weights_info_check(const char *path, const ls_weights_info *info) {
    const char *missing = !info->graph         ? network_key
                          : !info->dataset[0]  ? dataset_key
                          : !info->mean_count  ? mean_key
                          : !info->std_count   ? std_key
                          : !info->class_count ? classes_key
                                               : NULL;
    if (!missing) return LS_SUCCESS;
    return ls_fail(LS_STORAGE,
        "%s: does not say what network and pictures its weights are for: '%s' is missing from its __metadata__ "
        "(weights of another program?); name a configuration that does, by --config CONFIG.ini",
        path, missing);
}

// --- of a configuration ----------------------------------------------------------------------------

static void take_dataset(const ls_dataset *dataset, ls_weights_info *info) {
    const ls_dataset_info *d = ls_dataset_get_info(dataset);
    info->input = d->shape;
    snprintf(info->dataset, sizeof info->dataset, "%s", d->name);
    info->mean_count = info->std_count = d->shape.c;
    memcpy(info->mean, d->mean, sizeof info->mean);
    memcpy(info->std, d->std, sizeof info->std);
    if (d->decoder[0]) info->resize = d->resize;
    memcpy(info->decoder, d->decoder, sizeof info->decoder);
    info->several = d->label_rows > 0;
    info->classes = ls_new(d->classes, sizeof *info->classes, "names of %d classes", d->classes);
    for (; info->class_count < d->classes; info->class_count++)
        info->classes[info->class_count] = ls_text_as_utf8(ls_dataset_class(dataset, info->class_count));
}

ls_status ls_weights_info_of_data(const ls_dataset *dataset, ls_weights_info **out) {
    *out = new_info();
    take_dataset(dataset, *out);
    return LS_SUCCESS;
}

static ls_status check_network(const ls_weights_info *info) {
    const ls_graph *g = info->graph;
    const ls_chw d = info->input;
    if (ls_chw_equal(d, g->input) && info->class_count == g->classes) return LS_SUCCESS;
    return ls_fail(LS_USAGE,
        "%s: the network takes pictures of %dx%dx%d and has %d classes, but data.dataset = %s has %dx%dx%d and %d",
        g->path, g->input.c, g->input.h, g->input.w, g->classes, info->dataset, d.c, d.h, d.w, info->class_count);
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
    LS_TRY(ls_config_network(cfg, path, sizeof path));
    ls_status status = ls_graph_read_for(path, &(ls_graph_data){ find_data, &source }, &info->graph);
    if (!source.dataset) LS_THEN(status, ls_dataset_open(cfg, LS_SPLIT_TRAIN, &source.dataset));
    if (!ls_failed(status)) take_dataset(source.dataset, info);
    LS_THEN(status, check_network(info));
    ls_dataset_free(source.dataset);
    return status;
}

ls_status ls_weights_info_configured(const ls_config *cfg, ls_weights_info **out) {
    ls_weights_info *info = new_info();
    ls_status status = configure(cfg, info);
    return LS_GIVE_OR_FREE(status, info, out, ls_weights_info_free);
}

static ls_status take_numbers(const ls_config *cfg, int option, const char *text, float *numbers, int *count) {
    enum { MOST = (int)(sizeof((ls_weights_info *)0)->mean / sizeof(float)) };
    char where[LS_STATUS_TEXT_BYTES / 2];
    double values[MOST];
    LS_TRY(ls_parse_reals(ls_config_where(cfg, option, where, sizeof where), text, values, MOST, count));
    for (int i = 0; i < *count; i++) {
        numbers[i] = (float)values[i];
        if (option == LS_OPTION_data_std && !(numbers[i] > 0))
            return ls_fail(LS_USAGE, "%s: number %d is not positive", where, i + 1);
    }
    return LS_SUCCESS;
}

static ls_status take_by_hand(const ls_config *cfg, ls_weights_info *info) {
    char where[LS_STATUS_TEXT_BYTES / 2];
    LS_TRY(take_numbers(cfg, LS_OPTION_data_mean, cfg->data_mean, info->mean, &info->mean_count));
    LS_TRY(take_numbers(cfg, LS_OPTION_data_std, cfg->data_std, info->std, &info->std_count));
    if (cfg->line[LS_OPTION_data_resize]) info->resize = cfg->data_resize;
    if (!cfg->line[LS_OPTION_data_image_size]) return LS_SUCCESS;
    ls_config_where(cfg, LS_OPTION_data_image_size, where, sizeof where);
    return ls_parse_hw(where, cfg->data_image_size, &info->input.h, &info->input.w);
}

ls_status ls_weights_info_by_hand(const ls_config *cfg, ls_weights_info **out) {
    ls_weights_info *info = new_info();
    ls_status status = take_by_hand(cfg, info);
    return LS_GIVE_OR_FREE(status, info, out, ls_weights_info_free);
}

void ls_weights_info_free(ls_weights_info *info) {
    if (!info) return;
    for (int i = 0; i < info->class_count; i++) free(info->classes[i]);
    free(info->classes);
    ls_graph_free(info->graph);
    free(info);
}
