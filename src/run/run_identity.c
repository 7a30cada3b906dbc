#include "run/run_identity.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include "base/atomic_file.h"
#include "base/memory.h"
#include "base/version.h"

enum { FORMAT_VERSION = 1, BYTES_MAX = 65536 };

static const char format[] = "lockstep run";

ls_status ls_run_identity_new(ls_run_identity *out) {
    unsigned char bits[(LS_RUN_ID_BYTES - 1) / 2];
    *out = (ls_run_identity){ .id = "" };
    if (getrandom(bits, sizeof bits, 0) != (ssize_t)sizeof bits)
        return ls_fail(LS_DEVICE, "the run's identity: getrandom: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bits; i++) snprintf(out->id + 2 * i, 3, "%02x", bits[i]);
    return LS_SUCCESS;
}

const char *ls_run_identity_text(const cJSON *item) {
    const char *text = cJSON_GetStringValue(item);
    return text && strlen(text) == LS_RUN_ID_BYTES - 1 && strspn(text, "0123456789abcdef") == strlen(text) ? text : "";
}

int ls_run_identity_owns(const ls_run_identity *identity, const char *id, int64_t update) {
    if (strcmp(identity->id, id) == 0) return 1;
    for (int i = 0; i < identity->adopted_count; i++)
        if (strcmp(identity->adopted[i].id, id) == 0 && update <= identity->adopted[i].update) return 1;
    return 0;
}

ls_status ls_run_identity_adopt(ls_run_identity *identity, const char *id, int64_t update) {
    int at = 0;
    while (at < identity->adopted_count && strcmp(identity->adopted[at].id, id) != 0) at++;
    if (at == LS_RUN_ADOPTED_MAX)
        return ls_fail(LS_USAGE, "run.adopt: a run takes checkpoints of %d other runs at most", LS_RUN_ADOPTED_MAX);
    snprintf(identity->adopted[at].id, LS_RUN_ID_BYTES, "%s", id);
    identity->adopted[at].update = update;
    if (at == identity->adopted_count) identity->adopted_count++;
    return LS_SUCCESS;
}

void ls_run_identity_close(ls_run_identity *identity, int64_t update) {
    for (int i = 0; i < identity->adopted_count; i++)
        if (identity->adopted[i].update == INT64_MAX) identity->adopted[i].update = update;
}

int ls_run_identity_covers(const ls_run_identity *identity, const ls_run_identity *other) {
    int covers = strcmp(identity->id, other->id) == 0;
    for (int i = 0; i < other->adopted_count; i++)
        covers &= ls_run_identity_owns(identity, other->adopted[i].id, other->adopted[i].update);
    return covers;
}

static ls_status take(const char *path, const cJSON *tree, ls_run_identity *out) {
    const cJSON *item, *version = ls_json_get(tree, "format_version");
    if (!cJSON_IsNumber(version) || version->valuedouble != FORMAT_VERSION)
        return ls_fail(LS_STORAGE, "%s: is of another version of the program than this one (%s): use that one", path,
            ls_version());
    snprintf(out->id, sizeof out->id, "%s", ls_run_identity_text(ls_json_get(tree, "run")));
    if (!out->id[0]) return ls_fail(LS_STORAGE, "%s: damaged: names no run", path);
    cJSON_ArrayForEach(item, ls_json_get(tree, "adopted")) {
        int64_t update;
        const char *id = ls_run_identity_text(ls_json_get(item, "run"));
        if (!ls_json_whole(ls_json_get(item, "update"), LS_JSON_WHOLE_MAX, &update))
            return ls_fail(LS_STORAGE, "%s: damaged: a run is adopted without an update", path);
        LS_TRY(ls_run_identity_adopt(out, id, update));
    }
    return LS_SUCCESS;
}

ls_status ls_run_identity_read(const char *path, ls_run_identity *out, int *known) {
    char *text = NULL;
    size_t bytes = 0;
    *out = (ls_run_identity){ .id = "" };
    *known = 0;
    if (!ls_path_exists(path))
        return errno == ENOENT
                   ? LS_SUCCESS
                   : ls_fail(ls_io_code(errno, LS_STORAGE), "%s: cannot be read: %s", path, strerror(errno));
    LS_TRY(ls_read_beginning(path, BYTES_MAX, &text, &bytes));
    cJSON *tree = cJSON_ParseWithLength(text, bytes);
    const char *name = ls_json_get_text(tree, "format");
    *known = name && strcmp(name, format) == 0;
    ls_status status = *known ? take(path, tree, out) : LS_SUCCESS;
    if (!tree && strstr(text, format)) status = ls_fail(LS_STORAGE, "%s: damaged: no valid JSON", path);
    cJSON_Delete(tree);
    free(text);
    return status;
}

ls_status ls_run_identity_write(const char *path, const ls_run_identity *identity) {
    cJSON *tree = cJSON_CreateObject();
    ls_json_add_text(tree, "format", format);
    ls_json_add_int(tree, "format_version", FORMAT_VERSION);
    ls_json_add_text(tree, "run", identity->id);
    if (identity->adopted_count) {
        cJSON *list = ls_json_add_array(tree, "adopted");
        for (int i = 0; i < identity->adopted_count; i++) {
            cJSON *item = ls_json_append(list, cJSON_CreateObject());
            ls_json_add_text(item, "run", identity->adopted[i].id);
            ls_json_add_int(item, "update", identity->adopted[i].update);
        }
    }
    ls_status status = ls_json_write_file(path, tree);
    cJSON_Delete(tree);
    return status;
}
