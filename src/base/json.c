#include "base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic_file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"

static void *new_bytes(size_t bytes) {
    return ls_new(bytes, 1, "JSON");
}

void ls_json_setup(void) {
    cJSON_InitHooks(&(cJSON_Hooks){ new_bytes, free });
}

cJSON *ls_json_add_item(cJSON *object, const char *name, cJSON *item) {
    cJSON_AddItemToObject(object, name, item);
    return item;
}

cJSON *ls_json_append(cJSON *array, cJSON *item) {
    cJSON_AddItemToArray(array, item);
    return item;
}

cJSON *ls_json_string(const char *text) {
    char *utf8 = ls_text_as_utf8(text);
    cJSON *item = cJSON_CreateString(utf8);
    free(utf8);
    return item;
}

void ls_json_add_text(cJSON *object, const char *name, const char *text) {
    ls_json_add_item(object, name, ls_json_string(text));
}

void ls_json_add_known(cJSON *object, const char *name, const char *text) {
    if (text[0])
        ls_json_add_text(object, name, text);
    else
        ls_json_add_null(object, name);
}

void ls_json_add_bool(cJSON *object, const char *name, int value) {
    ls_json_add_item(object, name, cJSON_CreateBool(value));
}

void ls_json_add_null(cJSON *object, const char *name) {
    ls_json_add_item(object, name, cJSON_CreateNull());
}

cJSON *ls_json_add_object(cJSON *object, const char *name) {
    return ls_json_add_item(object, name, cJSON_CreateObject());
}

cJSON *ls_json_add_array(cJSON *object, const char *name) {
    return ls_json_add_item(object, name, cJSON_CreateArray());
}

void ls_json_add_int(cJSON *object, const char *name, int64_t value) {
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, value);
    ls_json_add_item(object, name, cJSON_CreateRaw(digits));
}

// Tries 15, 16 and 17 digits. cJSON's own text is not exact: it stops at 15 digits if they are close enough.
char *ls_json_real_text(char dst[LS_JSON_REAL_BYTES], double value) {
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(dst, LS_JSON_REAL_BYTES, "%.*g", precision, value);
        if (strtod(dst, NULL) == value) break;
    }
    return dst;
}

void ls_json_add_real(cJSON *object, const char *name, double value) {
    char digits[LS_JSON_REAL_BYTES];
    if (isfinite(value))
        ls_json_add_item(object, name, cJSON_CreateRaw(ls_json_real_text(digits, value)));
    else
        ls_json_add_null(object, name);
}

void ls_json_add_hash(cJSON *object, const char *name, uint64_t value) {
    char text[17];
    ls_hash_text(value, text);
    ls_json_add_text(object, name, text);
}

static cJSON *copy_of_scalar(const cJSON *item) {
    if (cJSON_IsString(item)) return ls_json_string(item->valuestring);
    if (cJSON_IsBool(item)) return cJSON_CreateBool(cJSON_IsTrue(item));
    if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble)) return cJSON_CreateNull();
    char digits[LS_JSON_REAL_BYTES];
    return cJSON_CreateRaw(ls_json_real_text(digits, item->valuedouble));
}

cJSON *ls_json_copy(const cJSON *item) {
    if (!cJSON_IsObject(item) && !cJSON_IsArray(item)) return copy_of_scalar(item);
    cJSON *copy = cJSON_IsArray(item) ? cJSON_CreateArray() : cJSON_CreateObject();
    for (const cJSON *child = item->child; child; child = child->next) {
        cJSON *value = ls_json_copy(child);
        if (cJSON_IsArray(item)) {
            ls_json_append(copy, value);
            continue;
        }
        char *name = ls_text_as_utf8(child->string);
        ls_json_add_item(copy, name, value);
        free(name);
    }
    return copy;
}

cJSON *ls_json_get(const cJSON *object, const char *name) {
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

const char *ls_json_get_text(const cJSON *object, const char *name) {
    return cJSON_GetStringValue(ls_json_get(object, name));
}

int ls_json_whole(const cJSON *item, int64_t most, int64_t *value) {
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) || item->valuedouble > (double)most) return 0;
    *value = (int64_t)item->valuedouble;
    return (double)*value == item->valuedouble;
}

char *ls_json_text(const cJSON *tree, int indented) {
    return indented ? cJSON_Print(tree) : cJSON_PrintUnformatted(tree);
}

ls_status ls_json_write_file(const char *path, const cJSON *tree) {
    char *text = ls_json_text(tree, 1);
    ls_atomic_file *file = NULL;
    ls_status status = ls_atomic_file_open(path, &file);
    if (!ls_failed(status)) {
        ls_atomic_file_write(file, text, strlen(text));
        ls_atomic_file_write(file, "\n", 1);
        status = ls_atomic_file_commit(file);
    }
    cJSON_free(text);
    return status;
}

ls_status ls_json_write_line(FILE *file, const char *path, const cJSON *tree) {
    char *text = ls_json_text(tree, 0);
    errno = 0;
    int ok = fputs(text, file) >= 0 && fputc('\n', file) != EOF && fflush(file) == 0;
    cJSON_free(text);
    return ok ? LS_SUCCESS
              : ls_fail(ls_io_code(errno, LS_STORAGE), "%s: cannot write a line: %s", path, strerror(errno));
}

int ls_json_is_moderate(const char *text, size_t bytes) {
    size_t values = 1;
    int quoted = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (quoted && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
        else if (!quoted)
            values += text[i] == ',' || text[i] == '[' || text[i] == '{';
    }
    return values <= LS_JSON_VALUES_MAX;
}

ls_status ls_json_read_file(const char *path, cJSON **tree) {
    char *text = NULL;
    size_t bytes = 0;
    LS_TRY(ls_read_file(path, &text, &bytes));
    if (!ls_json_is_moderate(text, bytes)) {
        free(text);
        return ls_fail(LS_STORAGE, "%s: has more than %d JSON values", path, LS_JSON_VALUES_MAX);
    }
    const char *end = text;
    *tree = cJSON_ParseWithOpts(text, &end, 1);
    ls_status status = LS_SUCCESS;
    if (*tree && end != text + bytes) { // cJSON stopped at a 0 byte before the end of the file
        cJSON_Delete(*tree);
        *tree = NULL;
    }
    if (!*tree) status = ls_fail(LS_STORAGE, "%s: no valid JSON at byte %td of %zu", path, end - text, bytes);
    free(text);
    return status;
}
