// json.h - JSON: trees of cJSON, written without a check at every step, and read; their files and lines.
#ifndef LS_BASE_JSON_H
#define LS_BASE_JSON_H

#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdio.h>
#include "base/status.h"

// Trees are built by these. What cannot be added for want of memory marks the tree, and its text is then
// refused: so no call here needs a check, and no text lacks what should be in it. An object, array or item may be NULL: it
// could not be made. Numbers that JSON's double cannot hold exactly (hashes, 64-bit counters) go in as text or raw
// digits.
// Texts are valid UTF-8, whatever they were: see ls_text_as_utf8.
cJSON *ls_json_string(const char *text); // NULL: no memory, or no text
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
// They take item, and return it, or NULL when it could not be added and is freed.
cJSON *ls_json_add_item(cJSON *object, const char *name, cJSON *item);
cJSON *ls_json_append(cJSON *array, cJSON *item);
// A copy of what was read from a file, as if it had been built by the calls above: valid texts, numbers that read back. NULL: no
// memory.
cJSON *ls_json_copy(const cJSON *item);

#define LS_JSON_WHOLE_MAX ((int64_t)1 << 53) // up to which a double holds every whole number

// A member of an object; NULL: there is none, or `object` is none.
cJSON *ls_json_get(const cJSON *object, const char *name);
const char *ls_json_get_text(const cJSON *object, const char *name); // its text; NULL also where it is no text
// Is it a whole number from 0 to `most`, which is LS_JSON_WHOLE_MAX at most?
int ls_json_whole(const cJSON *item, int64_t most, int64_t *value);

// Nothing is missing in it for want of memory.
int ls_json_is_whole(const cJSON *tree);
// NULL: there was no memory, for the text or for something in the tree. cJSON_free() it.
char *ls_json_text(const cJSON *tree, int indented);
LS_CHECKED ls_status ls_json_write_file(const char *path, const cJSON *tree);             // indented, atomically
LS_CHECKED ls_status ls_json_write_line(FILE *file, const char *path, const cJSON *tree); // one line, flushed
// Has the text at most LS_JSON_VALUES_MAX values, braces and commas taken for the beginning of one? A parsed value
// takes some 100 bytes, so that it is counted first.
enum { LS_JSON_VALUES_MAX = 2000000 };
int ls_json_is_moderate(const char *text, size_t bytes);
LS_CHECKED ls_status ls_json_read_file(const char *path, cJSON **tree); // LS_STORAGE with the offset of an error

#endif
