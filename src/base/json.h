// json.h - writing JSON: cJSON builds the tree, this puts it into files and lines.
#ifndef LS_BASE_JSON_H
#define LS_BASE_JSON_H

#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdio.h>
#include "base/status.h"

// Numbers that JSON's double cannot hold exactly (hashes, 64-bit counters) go in as text or raw digits.
void ls_json_add_int(cJSON *object, const char *name, int64_t value);   // exact digits
void ls_json_add_real(cJSON *object, const char *name, double value);   // shortest that reads back; null if not finite
void ls_json_add_hash(cJSON *object, const char *name, uint64_t value); // 16 hex digits as a string
LS_CHECKED ls_status ls_json_write_file(const char *path, const cJSON *tree);             // indented, atomically
LS_CHECKED ls_status ls_json_write_line(FILE *file, const char *path, const cJSON *tree); // one line, flushed
LS_CHECKED ls_status ls_json_read_file(const char *path, cJSON **tree); // LS_STORAGE with the offset of an error

#endif
