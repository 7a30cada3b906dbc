// json.h - JSON: builds cJSON trees without a check at every step, writes them as files or lines, and reads them.
#ifndef LS_BASE_JSON_H
#define LS_BASE_JSON_H

#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdio.h>
#include "base/status.h"

// Call once at the start of the program. All memory of cJSON then comes from ls_new, which never returns NULL, so no
// call of cJSON fails for lack of memory.
void ls_json_setup(void);

// Build trees. Numbers that a double cannot hold exactly (hashes, 64-bit counters) are written as texts or as raw
// digits. Texts become valid UTF-8: see ls_text_as_utf8.
cJSON *ls_json_string(const char *text);
void ls_json_add_text(cJSON *object, const char *name, const char *text);
void ls_json_add_known(cJSON *object, const char *name, const char *text); // adds null if text is ""
void ls_json_add_bool(cJSON *object, const char *name, int value);
void ls_json_add_null(cJSON *object, const char *name);
void ls_json_add_int(cJSON *object, const char *name, int64_t value);   // exact digits
void ls_json_add_real(cJSON *object, const char *name, double value);   // exact digits; null if not finite
void ls_json_add_hash(cJSON *object, const char *name, uint64_t value); // 16 hex digits as a string
cJSON *ls_json_add_object(cJSON *object, const char *name);
cJSON *ls_json_add_array(cJSON *object, const char *name);
// Writes up to 15 digits, or up to 17 if fewer do not read back as the same double; returns dst. value must be finite.
enum { LS_JSON_REAL_BYTES = 32 };
char *ls_json_real_text(char dst[LS_JSON_REAL_BYTES], double value);
// Add `item` as a member to an object or at the end of an array. They take ownership of `item` and return it.
cJSON *ls_json_add_item(cJSON *object, const char *name, cJSON *item);
cJSON *ls_json_append(cJSON *array, cJSON *item);
// Returns a copy of a tree that was read from a file, in the form that this header's functions give to trees: texts
// become valid UTF-8, and numbers get as many digits as their doubles need.
cJSON *ls_json_copy(const cJSON *item);

#define LS_JSON_WHOLE_MAX ((int64_t)1 << 53) // a double holds every whole number up to this

// Returns a member of an object, or NULL if it does not exist or `object` is not an object.
cJSON *ls_json_get(const cJSON *object, const char *name);
const char *ls_json_get_text(const cJSON *object, const char *name); // NULL: missing or not a text
// Whether item is a whole number from 0 to `most` (`most` <= LS_JSON_WHOLE_MAX). *value: that number; undefined if not.
int ls_json_whole(const cJSON *item, int64_t most, int64_t *value);

#define ls_json_is_whole(tree) ((tree) != NULL) // always 1; for callers that still check for a lack of memory
// Returns the tree as a text; free it with cJSON_free.
char *ls_json_text(const cJSON *tree, int indented);
LS_CHECKED ls_status ls_json_write_file(const char *path, const cJSON *tree);             // indented, atomically
LS_CHECKED ls_status ls_json_write_line(FILE *file, const char *path, const cJSON *tree); // one line, flushed
// Whether the text has at most LS_JSON_VALUES_MAX values, counted by its brackets, braces and commas. Call it before
// parsing: a parsed value takes some 100 bytes.
enum { LS_JSON_VALUES_MAX = 2000000 };
int ls_json_is_moderate(const char *text, size_t bytes);
// Reads a file; free *tree with cJSON_Delete. LS_STORAGE: it cannot be read, is no valid JSON or has too many values.
LS_CHECKED ls_status ls_json_read_file(const char *path, cJSON **tree);

#endif
