// ini.h - reads an INI file into a list of assignments with their lines, for options and networks.
//
// Syntax: [section], key = value; comments start with ';' or '#' at the start of a line or after white space. A
// repeated section or key, an assignment outside a section, and any other line that is not blank are errors: LS_USAGE
// with file:line and the line's text.
//
// The limits LS_INI_*_MAX are far above the needs of a configuration or a network. They refuse a wrong or hostile file
// at once, which could otherwise take minutes to read.
//
// inih is not used because, as distributions build it, it truncates names to 49 characters and lines to 199 without a
// message, has neither line numbers nor empty sections, and interprets "key: value" and indented lines differently.
#ifndef LS_CONFIG_INI_H
#define LS_CONFIG_INI_H

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

enum { LS_INI_BYTES_MAX = 1 << 20, LS_INI_SECTIONS_MAX = 4096, LS_INI_KEYS_MAX = 1024 }; // keys in a section

typedef struct {
    const char *section, *key, *value; // trimmed; owned by the ls_ini
    int line;
} ls_ini_entry;

typedef struct {
    const char *name;
    int line, first_entry, entry_count; // entries of a section are consecutive; a section may be empty
} ls_ini_section;

typedef struct {
    char *path;
    char *text; // the file's text, cut into the strings that the entries point to
    ls_ini_section *sections;
    int section_count;
    ls_ini_entry *entries;
    int entry_count;
} ls_ini;

LS_CHECKED ls_status ls_ini_read(const char *path, ls_ini **out); // LS_USAGE also if the file cannot be read
// Reads the text of a file without parsing it. Reads at most LS_INI_BYTES_MAX + 1 bytes; ls_ini_parse refuses a text of
// that length. LS_USAGE if the file cannot be read. The caller frees *text.
LS_CHECKED ls_status ls_ini_read_text(const char *path, char **text, size_t *bytes);
// Parses a text that was read already (it is copied). path: its origin, for messages.
LS_CHECKED ls_status ls_ini_parse(const char *path, const char *text, size_t bytes, ls_ini **out);
void ls_ini_free(ls_ini *ini);

// Writes the start of a message about an entry, "configs/x.ini:12: train.epochs = 5", into dst. Returns dst.
char *ls_ini_where(const ls_ini *ini, const ls_ini_entry *entry, char *dst, size_t bytes);

// Parse an entry's whole value as a number or bool. LS_USAGE names file:line, section.key, value and allowed values.
LS_CHECKED ls_status ls_ini_int(
    const ls_ini *ini, const ls_ini_entry *entry, int64_t minimum, int64_t maximum, int64_t *out);
LS_CHECKED ls_status ls_ini_real(
    const ls_ini *ini, const ls_ini_entry *entry, double minimum, double maximum, double *out);
LS_CHECKED ls_status ls_ini_bool(const ls_ini *ini, const ls_ini_entry *entry, int *out);

#endif
