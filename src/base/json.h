// json.h - JSON: trees of cJSON, written without a check at every step, and read; their files and lines.
#ifndef LS_BASE_JSON_H
#define LS_BASE_JSON_H

#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdio.h>
#include "base/status.h"

// Once, at the start of the program: all of cJSON's memory comes from ls_new, so no call of cJSON or of this file
// fails for want of memory.
void ls_json_setup(void);

// Trees are built by these functions. Numbers that JSON's double cannot hold exactly (hashes, 64-bit counters) are
// written as texts or as raw digits. Texts become valid UTF-8: see ls_text_as_utf8.
cJSON *ls_json_string(const char *text);
void ls_json_add_text(cJSON *object, const char *name, const char *text);
void ls_json_add_known(cJSON *object, const char *name, const char *text); // null for ""
void ls_json_add_bool(cJSON *object, const char *name, int value);
void ls_json_add_null(cJSON *object, const char *name);
void ls_json_add_int(cJSON *object, const char *name, int64_t value);   // exact digits
void ls_json_add_real(cJSON *object, const char *name, double value);   // shortest that reads back; null if not finite
void ls_json_add_hash(cJSON *object, const char *name, uint64_t value); // 16 hex digits as a string
cJSON *ls_json_add_object(cJSON *object, const char *name);
cJSON *ls_json_add_array(cJSON *object, const char *name);
// The digits of a finite number, of which none is missing and none too many; returns dst.
enum { LS_JSON_REAL_BYTES = 32 };
char *ls_json_real_text(char dst[LS_JSON_REAL_BYTES], double value);
// They take item and return it.
cJSON *ls_json_add_item(cJSON *object, const char *name, cJSON *item);
cJSON *ls_json_append(cJSON *array, cJSON *item);
// A copy of a tree that was read from a file, as if it had been built by the calls above: valid texts, numbers that
// read back.
cJSON *ls_json_copy(const cJSON *item);

#define LS_JSON_WHOLE_MAX ((int64_t)1 << 53) // up to which a double holds every whole number

// A member of an object; NULL: there is none, or `object` is none.
cJSON *ls_json_get(const cJSON *object, const char *name);
const char *ls_json_get_text(const cJSON *object, const char *name); // its text; NULL also where it is no text
// Is it a whole number from 0 to `most`, which is LS_JSON_WHOLE_MAX at most?
int ls_json_whole(const cJSON *item, int64_t most, int64_t *value);

#define ls_json_is_whole(tree) ((tree) != NULL) // for train/, which still asks whether memory was short
// The tree as a text, for cJSON_free().
char *ls_json_text(const cJSON *tree, int indented);
LS_CHECKED ls_status ls_json_write_file(const char *path, const cJSON *tree);             // indented, atomically
LS_CHECKED ls_status ls_json_write_line(FILE *file, const char *path, const cJSON *tree); // one line, flushed
// Has the text at most LS_JSON_VALUES_MAX values, braces and commas taken for the beginning of one? A parsed value
// takes some 100 bytes, so that it is counted first.
enum { LS_JSON_VALUES_MAX = 2000000 };
int ls_json_is_moderate(const char *text, size_t bytes);
LS_CHECKED ls_status ls_json_read_file(const char *path, cJSON **tree); // LS_STORAGE with the offset of an error

#endif
