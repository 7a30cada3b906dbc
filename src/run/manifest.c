#include "run/manifest.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "base/hash.h"
#include "base/pinned_folder.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/version.h"

static const char format[] = "lockstep checkpoint";
static const char hash_member[] = ",\n\t\"manifest_hash\":\t\"", hash_end[] = "\"\n}\n";

// --- counters: writing and reading use one table -------------------------------------------------

typedef enum { INT64, INT32, REAL } counter_type;

static const struct {
    const char *section, *name;
    counter_type type;
    size_t offset;
    int optional; // 1: it may be missing, because earlier versions of the program did not write it; it is then 0
} counters[] = {
#define COUNTER(section, name, type, field) \
    { section, name, type, offsetof(ls_train_counters, field), 0 }
#define OPTIONAL(section, name, type, field) \
    { section, name, type, offsetof(ls_train_counters, field), 1 }
    COUNTER("cursor", "epoch", INT64, epoch),
    COUNTER("cursor", "window", INT64, window),
    COUNTER("cursor", "update", INT64, update),
    COUNTER("cursor", "samples", INT64, samples),
    COUNTER("update", "applied", INT64, applied),
    COUNTER("update", "skipped", INT64, skipped),
    COUNTER("update", "finite_in_row", INT32, finite_in_row),
    COUNTER("update", "skipped_in_row", INT32, skipped_in_row),
    COUNTER("update", "loss_scale", REAL, loss_scale),
    COUNTER("sums", "since_report_loss", REAL, since_report.loss_sum),
    COUNTER("sums", "since_report_correct", INT64, since_report.correct),
    COUNTER("sums", "since_report_count", INT64, since_report.count),
    COUNTER("sums", "of_epoch_loss", REAL, of_epoch.loss_sum),
    COUNTER("sums", "of_epoch_correct", INT64, of_epoch.correct),
    COUNTER("sums", "of_epoch_count", INT64, of_epoch.count),
    COUNTER("sums", "last_epoch_loss", REAL, last_epoch_loss),
    COUNTER("sums", "seconds", REAL, seconds),
    OPTIONAL("steady", "seconds", REAL, steady.seconds),
    OPTIONAL("steady", "samples", INT64, steady.samples),
    COUNTER("evaluation", "update", INT64, evaluation.update),
    COUNTER("evaluation", "epoch", INT64, evaluation.epoch),
    COUNTER("evaluation", "test_loss", REAL, evaluation.test_loss),
    COUNTER("evaluation", "test_accuracy", REAL, evaluation.test_accuracy),
    COUNTER("evaluation", "test_samples", INT64, evaluation.test_samples),
    OPTIONAL("evaluation", "val_loss", REAL, evaluation.val_loss),
    OPTIONAL("evaluation", "val_accuracy", REAL, evaluation.val_accuracy),
    OPTIONAL("evaluation", "val_samples", INT64, evaluation.val_samples),
    OPTIONAL("evaluation", "best_accuracy", REAL, evaluation.best_accuracy),
    OPTIONAL("evaluation", "best_update", INT64, evaluation.best_update),
    OPTIONAL("evaluation", "without_improvement", INT64, evaluation.without_improvement),
    OPTIONAL("evaluation", "tta_loss", REAL, evaluation.tta_loss),
    OPTIONAL("evaluation", "tta_accuracy", REAL, evaluation.tta_accuracy),
    OPTIONAL("evaluation", "tta_samples", INT64, evaluation.tta_samples),
#undef COUNTER
#undef OPTIONAL
};
enum { COUNTERS = sizeof counters / sizeof counters[0] };

void ls_manifest_add_counters(cJSON *tree, const ls_train_counters *values) {
    for (int i = 0; i < COUNTERS; i++) {
        const char *at = (const char *)values + counters[i].offset, *name = counters[i].name;
        cJSON *section = ls_json_get(tree, counters[i].section);
        if (!section) section = ls_json_add_object(tree, counters[i].section);
        switch (counters[i].type) {
        case INT64:
            ls_json_add_int(section, name, *(const int64_t *)(const void *)at);
            break;
        case INT32:
            ls_json_add_int(section, name, *(const int32_t *)(const void *)at);
            break;
        case REAL:
            ls_json_add_real(section, name, *(const double *)(const void *)at);
            break;
        }
    }
}

static const cJSON *member(const cJSON *tree, const char *section, const char *name) {
    return ls_json_get(ls_json_get(tree, section), name);
}

ls_status ls_manifest_counters(const char *path, const cJSON *manifest, ls_train_counters *values) {
    *values = (ls_train_counters){ 0 };
    for (int i = 0; i < COUNTERS; i++) {
        char *at = (char *)values + counters[i].offset;
        const cJSON *item = member(manifest, counters[i].section, counters[i].name);
        int64_t whole = 0;
        if (!item && counters[i].optional) continue;
        int good = counters[i].type == REAL
                       ? cJSON_IsNull(item) || (cJSON_IsNumber(item) && isfinite(item->valuedouble))
                       : ls_json_whole(item, counters[i].type == INT32 ? INT32_MAX : LS_JSON_WHOLE_MAX, &whole);
        if (!good)
            return ls_fail(LS_STORAGE, "%s: has no valid %s.%s: damaged, or of another version of the program", path,
                counters[i].section, counters[i].name);
        if (counters[i].type == INT64) *(int64_t *)(void *)at = whole;
        if (counters[i].type == INT32) *(int32_t *)(void *)at = (int32_t)whole;
        if (counters[i].type == REAL) *(double *)(void *)at = cJSON_IsNull(item) ? NAN : item->valuedouble;
    }
    if (!(values->loss_scale > 0 && values->loss_scale <= (double)FLT_MAX) ||
        values->applied + values->skipped != values->update)
        return ls_fail(LS_STORAGE,
            "%s: its counters contradict each other (update %" PRId64 " = %" PRId64 " applied + %" PRId64
            " skipped, loss scale %g)",
            path, values->update, values->applied, values->skipped, values->loss_scale);
    return LS_SUCCESS;
}

// --- writing -------------------------------------------------------------------------------------

static void add_config(cJSON *tree, const ls_train_info *info) {
    cJSON *config = ls_json_add_object(tree, "config");
    const char *name;
    char value[LS_TEXT_BYTES];
    for (int i = 0; ls_config_value(info->cfg, i, &name, value, sizeof value); i++) {
        if (i == LS_OPTION_data_path) continue;
        const int is_path = i == LS_OPTION_model_file || i == LS_OPTION_model_init || i == LS_OPTION_distill_weights;
        const char *slash = is_path ? strrchr(value, '/') : NULL;
        ls_json_add_text(config, name, slash ? slash + 1 : value);
    }
}

static cJSON *add_set(cJSON *tree, const char *section, const ls_dataset_info *facts) {
    cJSON *set = ls_json_add_object(tree, section);
    ls_json_add_int(set, "samples", facts->count);
    ls_json_add_hash(set, "checksum", facts->checksum);
    if (facts->content) ls_json_add_hash(set, "content", facts->content);
    return set;
}

static void add_info(cJSON *tree, const ls_train_info *info) {
    const ls_dataset_info *data = info->train_data;
    const ls_batches *b = &info->batches;
    ls_json_add_text(tree, "format", format);
    ls_json_add_int(tree, "format_version", LS_CHECKPOINT_VERSION);
    if (info->run.id[0]) ls_json_add_text(tree, "run", info->run.id);
    ls_json_add_text(tree, "program", ls_version());
    ls_json_add_text(tree, "libraries", info->device_info.libraries);
    ls_json_add_text(tree, "device", info->device);
    ls_json_add_text(tree, "arithmetic", info->arithmetic);
    ls_json_add_real(tree, "written", ls_clock_unix_seconds());
    add_config(tree, info);
    const char *slash = strrchr(info->graph->path, '/');
    cJSON *network = ls_json_add_object(tree, "network");
    ls_json_add_text(network, "name", slash ? slash + 1 : info->graph->path);
    ls_json_add_hash(network, "hash", info->graph->hash);
    if (info->teacher.path[0]) ls_json_add_hash(ls_json_add_object(tree, "teacher"), "hash", info->teacher.hash);
    cJSON *set = add_set(tree, "data", data);
    ls_json_add_text(set, "name", data->name);
    if (data->decoder[0]) ls_json_add_text(set, "decoder", data->decoder);
    add_set(tree, "test_data", info->test_data);
    if (info->val_data) add_set(tree, "validation_data", info->val_data);
    cJSON *batches = ls_json_add_object(tree, "batches");
    ls_json_add_int(batches, "global_batch", b->global_batch);
    ls_json_add_int(batches, "micro_batch", b->micro_batch);
    ls_json_add_int(batches, "world_size", b->world_size);
    cJSON *random = ls_json_add_object(tree, "random");
    ls_json_add_text(random, "generator", "philox4x32-10");
    ls_json_add_int(random, "seed", info->cfg->run_seed);
    if (info->parts) ls_json_add_item(tree, "parts", cJSON_Duplicate(info->parts, 1));
}

static void add_files(cJSON *tree, const ls_snapshot *s, const ls_manifest_file *files, int count) {
    cJSON *list = ls_json_add_array(tree, "files");
    for (int f = 0; f < count; f++) {
        cJSON *file = ls_json_append(list, cJSON_CreateObject());
        ls_json_add_text(file, "name", files[f].name);
        ls_json_add_int(file, "bytes", (int64_t)files[f].digest.bytes);
        ls_json_add_hash(file, "hash", files[f].digest.hash);
        cJSON *tensors = ls_json_add_object(file, "tensors");
        for (int i = files[f].first; i < files[f].end; i++)
            ls_json_add_hash(tensors, s->tensors[i].name, ls_snapshot_hash(&s->tensors[i]));
    }
}

char *ls_manifest_text(const ls_snapshot *s, const ls_train_info *info, const ls_manifest_file *files, int count) {
    cJSON *tree = cJSON_CreateObject();
    add_info(tree, info);
    ls_manifest_add_counters(tree, &s->counters);
    add_files(tree, s, files, count);
    char *body = ls_json_text(tree, 1);
    cJSON_Delete(tree);
    const size_t bytes = strlen(body) - 2; // without the "\n}" at its end
    char hash[17];
    ls_hash_text(ls_hash(body, bytes), hash);
    char *text = ls_new_textf("%.*s%s%s%s", (int)bytes, body, hash_member, hash, hash_end);
    cJSON_free(body);
    return text;
}

// --- reading -------------------------------------------------------------------------------------

// Checks the hash at the end of the manifest, which covers all bytes before it.
static ls_status check_hash(const char *path, const char *text, size_t bytes) {
    const size_t tail = strlen(hash_member) + 16 + strlen(hash_end);
    const char *at = text + (bytes > tail ? bytes - tail : 0);
    if (bytes <= tail || memcmp(at, hash_member, strlen(hash_member)) != 0 ||
        memcmp(text + bytes - strlen(hash_end), hash_end, strlen(hash_end)) != 0)
        return ls_fail(LS_STORAGE, "%s: does not end with its own hash: cut off, or no manifest of a checkpoint", path);
    char expected[17];
    ls_hash_text(ls_hash(text, bytes - tail), expected);
    if (memcmp(at + strlen(hash_member), expected, 16) == 0) return LS_SUCCESS;
    return ls_fail(LS_STORAGE, "%s: damaged: its text has the hash %s, but it promises %.16s", path, expected,
        at + strlen(hash_member));
}

ls_status ls_manifest_parse(const char *path, const char *text, size_t bytes, cJSON **manifest) {
    LS_TRY(check_hash(path, text, bytes));
    *manifest = cJSON_ParseWithLength(text, bytes);
    if (!*manifest) return ls_fail(LS_STORAGE, "%s: is no JSON", path);
    const char *name = ls_json_get_text(*manifest, "format");
    int64_t version = 0;
    int known = name && strcmp(name, format) == 0 &&
                ls_json_whole(ls_json_get(*manifest, "format_version"), INT32_MAX, &version);
    if (known && version == LS_CHECKPOINT_VERSION) return LS_SUCCESS;
    cJSON_Delete(*manifest);
    *manifest = NULL;
    if (!known) return ls_fail(LS_STORAGE, "%s: is no manifest of a checkpoint (its format is no '%s')", path, format);
    return ls_fail(LS_STORAGE,
        "%s: has format version %lld, this program (%s) reads version %d: use the one that wrote it", path,
        (long long)version, ls_version(), LS_CHECKPOINT_VERSION);
}

const char *ls_manifest_run(const cJSON *manifest) {
    return ls_run_identity_text(ls_json_get(manifest, "run"));
}

static const cJSON *file_entry(const cJSON *manifest, const char *name) {
    const cJSON *entry;
    cJSON_ArrayForEach(entry, ls_json_get(manifest, "files")) {
        const char *text = ls_json_get_text(entry, "name");
        if (text && strcmp(text, name) == 0) return entry;
    }
    return NULL;
}

static int hash_is(const cJSON *item, uint64_t hash) {
    char text[17];
    ls_hash_text(hash, text);
    const char *promised = cJSON_GetStringValue(item);
    return promised && strcmp(promised, text) == 0;
}

// Returns the name of the first tensor that differs from the manifest or is missing; NULL: all are the same.
static const char *differing_tensor(const cJSON *tensors, const ls_safetensors *file) {
    int count = ls_safetensors_count(file);
    for (int i = 0; i < count; i++) {
        ls_safetensors_tensor tensor;
        if (!ls_safetensors_get(file, i, &tensor)) return ls_safetensors_name(file, i);
        size_t elements = 1;
        for (int d = 0; d < tensor.rank; d++) elements *= (size_t)tensor.dim[d];
        uint64_t hash = ls_hash(tensor.data, elements * ls_dtype_bytes(tensor.dtype));
        if (!hash_is(ls_json_get(tensors, tensor.name), hash)) return ls_safetensors_name(file, i);
    }
    if (cJSON_GetArraySize(tensors) == count) return NULL; // no name occurs twice in a file, so none is missing
    const cJSON *item;
    cJSON_ArrayForEach(item, tensors) {
        int found = 0;
        for (int i = 0; i < count && !found; i++) found = strcmp(ls_safetensors_name(file, i), item->string) == 0;
        if (!found) return item->string;
    }
    return "";
}

ls_status ls_manifest_check_length(const cJSON *manifest, const char *path, const char *name) {
    struct stat info;
    int64_t bytes = -1;
    const cJSON *entry = file_entry(manifest, name);
    if (!ls_json_whole(ls_json_get(entry, "bytes"), LS_JSON_WHOLE_MAX, &bytes) || ls_pinned_stat(path, &info) != 0)
        return LS_SUCCESS; // reading the file reports the error
    if (info.st_size == bytes) return LS_SUCCESS;
    return ls_fail(
        LS_STORAGE, "%s: damaged: %lld bytes, but its manifest says %" PRId64, path, (long long)info.st_size, bytes);
}

ls_status ls_manifest_verify(const cJSON *manifest, const char *path, const char *name, const ls_safetensors *file) {
    const cJSON *entry = file_entry(manifest, name);
    if (!entry) return ls_fail(LS_STORAGE, "%s: its checkpoint's manifest does not name it", path);
    ls_safetensors_digest digest = ls_safetensors_digest_of(file);
    int64_t bytes = -1;
    int same_length =
        ls_json_whole(ls_json_get(entry, "bytes"), LS_JSON_WHOLE_MAX, &bytes) && bytes == (int64_t)digest.bytes;
    int same = same_length && hash_is(ls_json_get(entry, "hash"), digest.hash);
    const char *tensor = differing_tensor(ls_json_get(entry, "tensors"), file);
    if (same && !tensor) return LS_SUCCESS;
    return ls_fail(LS_STORAGE,
        "%s: damaged: %" PRIu64 " bytes of hash %016" PRIx64 ", which its manifest does not have%s%s%s", path,
        digest.bytes, digest.hash, tensor ? "; the first tensor that differs is '" : "; its header differs",
        tensor ? tensor : "", tensor ? "'" : "");
}

// --- continuing a run from a checkpoint ----------------------------------------------------------

// Options that may not change when a run continues from a checkpoint: another value would make it another run.
static const int fixed_options[] = { LS_OPTION_run_seed, LS_OPTION_data_dataset, LS_OPTION_data_shape,
    LS_OPTION_data_classes, LS_OPTION_data_train_samples, LS_OPTION_data_test_samples, LS_OPTION_data_image_size,
    LS_OPTION_data_channels, LS_OPTION_data_test_fraction, LS_OPTION_data_validation_fraction, LS_OPTION_data_shuffle,
    LS_OPTION_data_balance, LS_OPTION_data_drop_last, LS_OPTION_train_global_batch, LS_OPTION_train_precision,
    LS_OPTION_train_quantise, LS_OPTION_optimizer_kind, LS_OPTION_average_kind };

static int is_fixed(int option) {
    for (size_t i = 0; i < sizeof fixed_options / sizeof fixed_options[0]; i++)
        if (fixed_options[i] == option) return 1;
    return 0;
}

static int begins_with_one_of(const char *name, const char *const *beginnings, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0) return 1;
    return 0;
}

// Returns 1 for options that tell where things are or how to continue a run: their changes are not recorded.
static int is_no_part_of_the_record(const char *name) {
    static const char *const names[] = { "run.name", "run.resume", "run.adopt", "data.path", "model.file", "model.init",
        "model.override", "distill.weights" };
    return begins_with_one_of(name, names, sizeof names / sizeof names[0]);
}

// Returns 1 for options about the machine, saving, logging and how far to run: changes are recorded but not reported.
static int is_free(const char *name) {
    static const char *const rooms[] = { "run.max", "run.cross_check", "train.max_updates", "checkpoint.", "log.",
        "data.workers", "data.prefetch", "data.loader", "data.cache", "device.", "dist." };
    static const char *const rounding[] = { "device.tf32", "device.winograd", "dist.reduce_dtype" };
    return begins_with_one_of(name, rooms, sizeof rooms / sizeof rooms[0]) &&
           !begins_with_one_of(name, rounding, sizeof rounding / sizeof rounding[0]);
}

static const char *name_of(int option) {
    char unused[LS_TEXT_BYTES];
    const char *name = "";
    ls_config defaults;
    ls_config_defaults(&defaults);
    ls_config_value(&defaults, option, &name, unused, sizeof unused);
    return name;
}

int ls_manifest_records(int option) {
    return !is_no_part_of_the_record(name_of(option));
}

int ls_manifest_decides(int option) {
    const char *name = name_of(option);
    static const int more[] = { LS_OPTION_data_path, LS_OPTION_model_init, LS_OPTION_model_init_rules,
        LS_OPTION_model_override, LS_OPTION_distill_weights, LS_OPTION_train_max_updates,
        LS_OPTION_device_type }; // they affect the result, though a run may continue with other values
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        if (more[i] == option) return 1;
    return !is_no_part_of_the_record(name) && !is_free(name);
}

static void add_change(cJSON *changed, const char *name, const char *before, const char *now) {
    cJSON *change = ls_json_append(changed, cJSON_CreateObject());
    ls_json_add_text(change, "option", name);
    ls_json_add_text(change, "before", before);
    ls_json_add_text(change, "now", now);
}

char *ls_manifest_changes_text(const cJSON *changed, char *dst, size_t bytes) {
    const cJSON *change;
    dst[0] = 0;
    cJSON_ArrayForEach(change, changed) {
        const char *name = ls_json_get_text(change, "option");
        const char *before = ls_json_get_text(change, "before");
        const char *now = ls_json_get_text(change, "now");
        size_t used = strlen(dst);
        if (name && before && now && !is_free(name))
            snprintf(dst + used, bytes - used, "%s%s %s, now %s", used ? "; " : "", name, before, now);
    }
    return dst;
}

// Compares each option with the manifest's. An option that the manifest lacks has come since. The version that wrote
// the manifest behaved like the option's default. Damage shows in the manifest's hash.
static ls_status compare_options(const char *path, const cJSON *manifest, const ls_train_info *info, cJSON *changed) {
    const char *name;
    char now[LS_TEXT_BYTES], preset[LS_TEXT_BYTES];
    ls_config defaults;
    ls_config_defaults(&defaults);
    for (int i = 0; ls_config_value(info->cfg, i, &name, now, sizeof now); i++) {
        ls_config_value(&defaults, i, &name, preset, sizeof preset);
        const char *recorded = cJSON_GetStringValue(member(manifest, "config", name));
        const char *before = recorded ? recorded : preset;
        if (strcmp(before, now) == 0 || is_no_part_of_the_record(name)) continue;
        if (is_fixed(i))
            return ls_fail(LS_USAGE,
                "%s: was made with %s = %s, but now it is %s: that would be another run; set it back, or start a new "
                "run in another folder (--run-dir)",
                path, name, before, now);
        add_change(changed, name, before, now);
    }
    return LS_SUCCESS;
}

// Writes into text how a data set has changed, from its number of samples before and now.
static void describe_change(const cJSON *samples, int64_t count, char text[96]) {
    const double before = cJSON_GetNumberValue(samples);
    const long long now = count, missing = before >= (double)now ? (long long)before - now : 0;
    snprintf(text, 96, "of as many samples, but other ones, or changed");
    if (missing > 0) snprintf(text, 96, "%lld samples fewer: %lld instead of %.0f", missing, now, before);
    if (before < (double)now) snprintf(text, 96, "more samples: %lld instead of %.0f", now, before);
}

// Returns 1 if the contents of the data set's files are the same. If an earlier version wrote the manifest, without a
// hash of contents, warns and returns 1.
static int has_content(const char *path, const cJSON *set, const char *what, const ls_dataset_info *facts) {
    const cJSON *before = ls_json_get(set, "content");
    if (!before && facts->content)
        ls_alert("%s: was made by an earlier version of the program, which knew pictures by names and sizes: those of "
                 "the %s "
                 "data are the same, but whether the pictures are cannot be said",
            path, what);
    return !before || !facts->content || hash_is(before, facts->content);
}

static ls_status compare_set(const char *path, const cJSON *manifest, const char *section, const char *what,
    const ls_train_info *info, const ls_dataset_info *set) {
    const cJSON *before = ls_json_get(manifest, section);
    const int same_files = hash_is(ls_json_get(before, "checksum"), set->checksum);
    if (same_files && has_content(path, before, what, set)) return LS_SUCCESS;
    char changed[96] = "of the same names and sizes, but their contents have changed";
    if (!same_files) describe_change(ls_json_get(before, "samples"), set->count, changed);
    return ls_fail(LS_DATA,
        "%s: the %s data are not those that it was made with (%s): they are %s; bring the old files back%s, or "
        "start a new run in another folder (--run-dir)",
        path, what, set->name, changed,
        info->cfg->data_dataset == LS_DATASET_FOLDER
            ? " (one that is broken goes to its old place, and data.broken = skip goes on without it)"
            : "");
}

// Fails if the validation data have changed, or if the folder val/ was added or removed since the checkpoint was made.
static ls_status compare_validation(const char *path, const cJSON *manifest, const ls_train_info *info) {
    const int before = ls_json_get(manifest, "validation_data") != NULL, now = info->val_data != NULL;
    if (before && now) return compare_set(path, manifest, "validation_data", "validation", info, info->val_data);
    if (before == now) return LS_SUCCESS;
    return ls_fail(LS_DATA,
        "%s: was made %s validation data, and now there are %s; bring the old files back, or start a new run in "
        "another "
        "folder (--run-dir)",
        path, before ? "with" : "without", now ? "some" : "none");
}

// Fails if a data set has changed since the checkpoint was made. Manifests of earlier versions lack the test data.
static ls_status compare_data(const char *path, const cJSON *manifest, const ls_train_info *info) {
    LS_TRY(compare_set(path, manifest, "data", "training", info, info->train_data));
    LS_TRY(compare_validation(path, manifest, info));
    if (!ls_json_get(manifest, "test_data")) return LS_SUCCESS;
    return compare_set(path, manifest, "test_data", "test", info, info->test_data);
}

// Fails if the teacher is another file than that of the checkpoint, or if only one of the two has a teacher.
static ls_status compare_teacher(const char *path, const cJSON *manifest, const ls_train_info *info) {
    const char *before = cJSON_GetStringValue(member(manifest, "teacher", "hash"));
    char now[17] = "none";
    if (info->teacher.path[0]) ls_hash_text(info->teacher.hash, now);
    if (strcmp(before ? before : "none", now) == 0) return LS_SUCCESS;
    return ls_fail(LS_DATA,
        "%s: was made with the teacher of hash %s, but now distill.weights has the hash %s (%s): bring the old file "
        "back, "
        "or start a new run in another folder (--run-dir)",
        path, before ? before : "none", now, info->teacher.path[0] ? info->teacher.path : "empty");
}

static ls_status check_cursor(const char *path, const cJSON *manifest, const ls_train_info *info) {
    ls_train_counters c;
    LS_TRY(ls_manifest_counters(path, manifest, &c));
    const ls_batches *b = &info->batches;
    // Divides instead of multiplying, because an epoch read from a file may overflow.
    int64_t of_epoch = c.window < b->windows ? c.window * b->global_batch : 0;
    int fits = c.window < b->windows && c.epoch == c.update / b->windows && c.window == c.update % b->windows &&
               c.samples >= of_epoch && (c.samples - of_epoch) / b->samples == c.epoch &&
               (c.samples - of_epoch) % b->samples == 0;
    if (fits) return LS_SUCCESS;
    return ls_fail(LS_STORAGE,
        "%s: its cursor (epoch %" PRId64 ", window %" PRId64 ", update %" PRId64 ", %" PRId64
        " samples) fits no epoch of %" PRId64 " updates and %" PRId64 " samples",
        path, c.epoch, c.window, c.update, c.samples, b->windows, b->samples);
}

static void compare_network(const cJSON *manifest, const ls_train_info *info, cJSON *changed) {
    if (hash_is(member(manifest, "network", "hash"), info->graph->hash)) return;
    const char *name = cJSON_GetStringValue(member(manifest, "network", "name"));
    const char *hash = cJSON_GetStringValue(member(manifest, "network", "hash"));
    const char *slash = strrchr(info->graph->path, '/');
    char before[LS_TEXT_BYTES], now[LS_TEXT_BYTES], text[17];
    ls_hash_text(info->graph->hash, text);
    snprintf(before, sizeof before, "%.500s (hash %.16s)", name ? name : "?", hash ? hash : "?");
    snprintf(now, sizeof now, "%.500s (hash %s)", slash ? slash + 1 : info->graph->path, text);
    add_change(changed, "the network", before, now);
}

// Adds a change of the picture decoder, which affects pixels, to `changed`. Manifests of earlier versions lack it.
static void compare_decoder(const cJSON *manifest, const ls_train_info *info, cJSON *changed) {
    const char *before = cJSON_GetStringValue(member(manifest, "data", "decoder")), *now = info->train_data->decoder;
    if (before && strcmp(before, now) != 0) add_change(changed, "the decoder of pictures", before, now);
}

// With run.deterministic, adds a change of the micro-batch to `changed`, because it affects the bits of the result.
static void compare_micro_batch(const cJSON *manifest, const ls_train_info *info, cJSON *changed) {
    int64_t micro = 0;
    ls_json_whole(member(manifest, "batches", "micro_batch"), INT32_MAX, &micro);
    if (!info->cfg->run_deterministic || micro == info->batches.micro_batch) return;
    char before[24], now[24];
    snprintf(before, sizeof before, "%" PRId64, micro);
    snprintf(now, sizeof now, "%d", info->batches.micro_batch);
    add_change(changed, "the micro-batch", before, now);
}

// With run.deterministic, adds a change of processor, GPU, library or algorithm to `changed`, because it gives other
// bits. Manifests of earlier versions lack this text.
static void compare_arithmetic(const cJSON *manifest, const ls_train_info *info, cJSON *changed) {
    const char *before = ls_json_get_text(manifest, "arithmetic");
    if (!info->cfg->run_deterministic || !before || strcmp(before, info->arithmetic) == 0) return;
    add_change(changed, "the arithmetic (other bits from here on)", before, info->arithmetic);
}

ls_status ls_manifest_suits(const char *path, const cJSON *manifest, const ls_train_info *info, cJSON *changed) {
    LS_TRY(compare_options(path, manifest, info, changed));
    LS_TRY(compare_data(path, manifest, info));
    LS_TRY(compare_teacher(path, manifest, info));
    LS_TRY(check_cursor(path, manifest, info));
    compare_network(manifest, info, changed);
    compare_decoder(manifest, info, changed);
    compare_micro_batch(manifest, info, changed);
    compare_arithmetic(manifest, info, changed);
    return LS_SUCCESS;
}
