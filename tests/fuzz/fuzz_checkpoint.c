// A checkpoint. The input is its manifest.json and weights.safetensors (fuzz_part) and its state.safetensors. Read as
// it stands, and with the manifest's hash of itself put right; then compared with a run that might go on from it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "fuzz/checkpoint_facts.h"
#include "fuzz/target.h"
#include "run/manifest.h"
#include "run/run_parts.h"

static void read_checkpoint(void) {
    ls_checkpoint *checkpoint;
    if (fuzz_refused(ls_checkpoint_read(fuzz_folder(), &checkpoint), LS_STORAGE, LS_OK)) return;
    ls_snapshot *snapshot;
    if (ls_failed(ls_snapshot_new(fuzz_facts()->graph, fuzz_facts()->rules, &snapshot))) abort();
    fuzz_refused(ls_checkpoint_take(checkpoint, snapshot), LS_STORAGE, LS_OK);
    ls_snapshot_free(snapshot);
    ls_checkpoint_free(checkpoint);
}

// What a good hash lets through must be refused by what it says.
static void parse_manifest(const char *text, size_t bytes) {
    cJSON *manifest = NULL;
    ls_train_counters counters;
    if (fuzz_refused(ls_manifest_parse("manifest", text, bytes, &manifest), LS_STORAGE, LS_OK)) return;
    if (!fuzz_refused(ls_manifest_counters("manifest", manifest, &counters), LS_STORAGE, LS_OK)) {
        char changes[4096];
        cJSON *changed = cJSON_CreateArray();
        ls_status status = ls_manifest_suits("manifest", manifest, fuzz_facts(), changed);
        ls_manifest_changes_text(changed, changes, sizeof changes);
        if (status.code != LS_DATA) fuzz_refused(status, LS_STORAGE, LS_USAGE);
        cJSON_Delete(ls_run_parts_new(fuzz_facts(), manifest, &counters, changed));
    }
    cJSON_Delete(manifest);
}

static void mend_hash(char *text, size_t bytes) {
    static const char before[] = ",\n\t\"manifest_hash\":\t\"";
    const size_t tail = sizeof before - 1 + 16 + 4; // and "\"\n}\n"
    char hash[17];
    if (bytes <= tail) return;
    ls_hash_text(ls_hash(text, bytes - tail), hash);
    memcpy(text + bytes - 20, hash, 16);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const char *const names[] = { "manifest.json", "weights.safetensors", "state.safetensors" };
    size_t manifest_bytes, weights_bytes;
    const uint8_t *manifest = fuzz_part(&data, &bytes, &manifest_bytes);
    const uint8_t *weights = fuzz_part(&data, &bytes, &weights_bytes);
    fuzz_file(0, manifest, manifest_bytes);
    fuzz_file(1, weights, weights_bytes);
    fuzz_file(2, data, bytes);
    for (int i = 0; i < 3; i++) fuzz_link(fuzz_folder(), names[i], i);
    read_checkpoint();

    char *mended = malloc(manifest_bytes + 1);
    if (!mended) abort();
    memcpy(mended, manifest, manifest_bytes);
    mended[manifest_bytes] = 0;
    mend_hash(mended, manifest_bytes);
    fuzz_file(0, mended, manifest_bytes);
    read_checkpoint();
    parse_manifest(mended, manifest_bytes);
    free(mended);
    return 0;
}
