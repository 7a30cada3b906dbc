#include "config/ini.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/atomic_file.h"
#include "base/memory.h"
#include "base/text.h"
#include "config/values.h"

// Cuts the comment off a line: it starts with ';' or '#' at the start of the line or after white space.
static void cut_comment(char *line) {
    for (char *at = line; *at; at++) {
        if ((*at == ';' || *at == '#') && (at == line || isspace((unsigned char)at[-1]))) {
            *at = 0;
            return;
        }
    }
}

static ls_status add_section(ls_ini *ini, char *line, int number) {
    size_t length = strlen(line);
    char *name = line + 1;
    if (line[length - 1] == ']')
        line[length - 1] = 0;
    else
        return ls_fail(LS_USAGE, "%s:%d: '%s': expected [section], the ']' is missing", ini->path, number, line);
    name = ls_text_trim(name);
    if (!*name || strpbrk(name, "[]"))
        return ls_fail(LS_USAGE, "%s:%d: '[%s]': expected a section's name", ini->path, number, name);
    for (int i = 0; i < ini->section_count; i++) {
        if (strcmp(ini->sections[i].name, name) != 0) continue;
        return ls_fail(LS_USAGE, "%s:%d: [%s]: this section is already at line %d; put its keys together", ini->path,
            number, name, ini->sections[i].line);
    }
    if (ini->section_count == LS_INI_SECTIONS_MAX)
        return ls_fail(LS_USAGE, "%s:%d: [%s]: more than %d sections", ini->path, number, name, LS_INI_SECTIONS_MAX);
    ini->sections = ls_grow(ini->sections, ini->section_count, sizeof *ini->sections, "%s", ini->path);
    ini->sections[ini->section_count++] =
        (ls_ini_section){ .name = name, .line = number, .first_entry = ini->entry_count };
    return LS_SUCCESS;
}

static ls_status add_entry(ls_ini *ini, char *line, int number) {
    char *equals = strchr(line, '=');
    if (!equals || equals == line)
        return ls_fail(LS_USAGE, "%s:%d: '%s': expected [section] or key = value", ini->path, number, line);
    if (ini->section_count == 0)
        return ls_fail(
            LS_USAGE, "%s:%d: '%s': outside any section; put a [section] line before it", ini->path, number, line);
    *equals = 0;
    ls_ini_section *section = &ini->sections[ini->section_count - 1];
    ls_ini_entry entry = { section->name, ls_text_trim(line), ls_text_trim(equals + 1), number };
    for (int i = section->first_entry; i < ini->entry_count; i++) {
        if (strcmp(ini->entries[i].key, entry.key) != 0) continue;
        return ls_fail(LS_USAGE, "%s:%d: %s.%s = %s: this key is already set at line %d; keep one of them", ini->path,
            number, entry.section, entry.key, entry.value, ini->entries[i].line);
    }
    if (section->entry_count == LS_INI_KEYS_MAX)
        return ls_fail(
            LS_USAGE, "%s:%d: [%s] has more than %d keys", ini->path, number, section->name, LS_INI_KEYS_MAX);
    ini->entries = ls_grow(ini->entries, ini->entry_count, sizeof *ini->entries, "%s", ini->path);
    ini->entries[ini->entry_count++] = entry;
    section->entry_count++;
    return LS_SUCCESS;
}

static ls_status parse(ls_ini *ini, size_t bytes) {
    if (bytes > LS_INI_BYTES_MAX)
        return ls_fail(LS_USAGE, "%s: more than %d bytes: no INI file", ini->path, LS_INI_BYTES_MAX);
    const char *zero = memchr(ini->text, 0, bytes);
    if (zero) return ls_fail(LS_USAGE, "%s: a zero byte at offset %td: not a text file", ini->path, zero - ini->text);
    char *rest = ini->text;
    if (strncmp(rest, "\xEF\xBB\xBF", 3) == 0) rest += 3; // the byte order mark of some editors
    int number = 0;
    for (char *line; (line = strsep(&rest, "\n"));) {
        number++;
        cut_comment(line);
        line = ls_text_trim(line);
        if (*line) LS_TRY(*line == '[' ? add_section(ini, line, number) : add_entry(ini, line, number));
    }
    return LS_SUCCESS;
}

ls_status ls_ini_parse(const char *path, const char *text, size_t bytes, ls_ini **out) {
    ls_ini *ini = ls_new(1, sizeof *ini, "%s", path);
    ini->path = ls_new_text(path);
    ini->text = ls_new(bytes + 1, 1, "%s", path); // small enough for ls_new: ls_ini_read_text limits a file
    memcpy(ini->text, text, bytes);
    ls_status status = parse(ini, bytes);
    return LS_GIVE_OR_FREE(status, ini, out, ls_ini_free);
}

ls_status ls_ini_read_text(const char *path, char **text, size_t *bytes) {
    ls_status status = ls_read_beginning(path, LS_INI_BYTES_MAX + 1, text, bytes);
    if (status.code == LS_STORAGE) status.code = LS_USAGE; // a file that the user named cannot be read
    return status;
}

ls_status ls_ini_read(const char *path, ls_ini **out) {
    char *text;
    size_t bytes;
    LS_TRY(ls_ini_read_text(path, &text, &bytes));
    ls_status status = ls_ini_parse(path, text, bytes, out);
    free(text);
    return status;
}

void ls_ini_free(ls_ini *ini) {
    if (!ini) return;
    free(ini->path);
    free(ini->text);
    free(ini->sections);
    free(ini->entries);
    free(ini);
}

char *ls_ini_where(const ls_ini *ini, const ls_ini_entry *entry, char *dst, size_t bytes) {
    snprintf(dst, bytes, "%s:%d: %s.%s = %s", ini->path, entry->line, entry->section, entry->key, entry->value);
    return dst;
}

ls_status ls_ini_int(const ls_ini *ini, const ls_ini_entry *entry, int64_t minimum, int64_t maximum, int64_t *out) {
    char where[LS_STATUS_TEXT_BYTES / 2];
    return ls_parse_int(ls_ini_where(ini, entry, where, sizeof where), entry->value, minimum, maximum, out);
}

ls_status ls_ini_real(const ls_ini *ini, const ls_ini_entry *entry, double minimum, double maximum, double *out) {
    char where[LS_STATUS_TEXT_BYTES / 2];
    return ls_parse_real(ls_ini_where(ini, entry, where, sizeof where), entry->value, minimum, maximum, out);
}

ls_status ls_ini_bool(const ls_ini *ini, const ls_ini_entry *entry, int *out) {
    char where[LS_STATUS_TEXT_BYTES / 2];
    return ls_parse_bool(ls_ini_where(ini, entry, where, sizeof where), entry->value, out);
}
