#include "cli/eval_data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "base/log.h"

// Reads the file `name` in the folder of the weights. Returns NULL if it does not exist or cannot be read. The caller
// frees the tree with cJSON_Delete.
static cJSON *read_beside(const char *weights, const char *name) {
    char path[2 * LS_TEXT_BYTES];
    cJSON *tree = NULL;
    const char *slash = strrchr(weights, '/');
    const int length = slash ? (int)(slash + 1 - weights) : 0;
    if ((size_t)snprintf(path, sizeof path, "%.*s%s", length, weights, name) >= sizeof path) return NULL;
    if (!ls_path_exists(path) || ls_failed(ls_json_read_file(path, &tree))) return NULL;
    return tree;
}

static uint64_t hash_from(const char *text) {
    return text ? strtoull(text, NULL, 16) : 0;
}

// Returns the identity of the data set that the folder of the weights records, or 0 if it is not recorded.
static uint64_t find_recorded(const char *weights, int validation) {
    cJSON *summary = read_beside(weights, "summary.json"), *manifest = read_beside(weights, "manifest.json");
    const cJSON *set = ls_json_get(manifest, validation ? "validation_data" : "test_data");
    const ls_dataset_info facts = { .checksum = hash_from(ls_json_get_text(set, "checksum")),
        .content = hash_from(ls_json_get_text(set, "content")) };
    uint64_t recorded = hash_from(ls_json_get_text(summary, validation ? "val_data" : "test_data"));
    if (!recorded) recorded = ls_dataset_identity(&facts);
    cJSON_Delete(summary);
    cJSON_Delete(manifest);
    return recorded;
}

void ls_eval_compare_data(const char *weights, const ls_train_info *info) {
    const int validation = info->cfg->eval_split != LS_EVAL_TEST;
    const ls_dataset_info *facts = validation ? info->val_data : info->test_data;
    if (!facts) return; // eval.split = validation without such pictures: refused later
    const uint64_t recorded = find_recorded(weights, validation), now = ls_dataset_identity(facts);
    if (!recorded || recorded == now) return;
    ls_alert("%s: these %s data (%016" PRIx64 ") are not those of its run (%016" PRIx64
             "): pictures or labels have changed, or others are chosen. Do not compare the result with the run's",
        weights, validation ? "validation" : "test", now, recorded);
}
