#include "base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic_file.h"
#include "base/hash.h"

void ls_json_add_int(cJSON *object, const char *name, int64_t value) {
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, value);
    cJSON_AddRawToObject(object, name, digits);
}

void ls_json_add_real(cJSON *object, const char *name, double value) {
    if (!isfinite(value)) {
        cJSON_AddNullToObject(object, name);
        return;
    }
    char digits[32]; // not cJSON's own text, which stops at 15 digits when that is near enough
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value) break;
    }
    cJSON_AddRawToObject(object, name, digits);
}

void ls_json_add_hash(cJSON *object, const char *name, uint64_t value) {
    char text[17];
    ls_hash_text(value, text);
    cJSON_AddStringToObject(object, name, text);
}

ls_status ls_json_write_file(const char *path, const cJSON *tree) {
    char *text = cJSON_Print(tree);
    if (!text) return ls_fail(LS_STORAGE, "%s: no memory to write it", path);
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
    char *text = cJSON_PrintUnformatted(tree);
    if (!text) return ls_fail(LS_STORAGE, "%s: no memory to write a line", path);
    errno = 0;
    int ok = fputs(text, file) >= 0 && fputc('\n', file) != EOF && fflush(file) == 0;
    cJSON_free(text);
    return ok ? LS_SUCCESS : ls_fail(LS_STORAGE, "%s: cannot write a line: %s", path, strerror(errno));
}

ls_status ls_json_read_file(const char *path, cJSON **tree) {
    char *text = NULL;
    size_t bytes = 0;
    LS_TRY(ls_read_file(path, &text, &bytes));
    const char *end = text;
    *tree = cJSON_ParseWithOpts(text, &end, 1);
    ls_status status = LS_SUCCESS;
    if (!*tree) status = ls_fail(LS_STORAGE, "%s: no valid JSON at byte %td of %zu", path, end - text, bytes);
    free(text);
    return status;
}
