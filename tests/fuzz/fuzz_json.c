// Any JSON file of ours.
#include "base/json.h"
#include "fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    cJSON *tree;
    if (fuzz_refused(ls_json_read_file(fuzz_file(0, data, bytes), &tree), LS_STORAGE, LS_OK)) return 0;
    char *text = cJSON_PrintUnformatted(tree);
    fuzz_expect(text != NULL, "no text");
    cJSON_free(text);
    cJSON_Delete(tree);
    return 0;
}
