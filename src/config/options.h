// options.h - options.def as a table, for the files of this room.
#ifndef LS_CONFIG_OPTIONS_H
#define LS_CONFIG_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include "config/config.h"

typedef enum { TYPE_INT, TYPE_REAL, TYPE_BOOL, TYPE_TEXT, TYPE_CHOICE } ls_option_type;

typedef struct {
    int option;
    double number; // value of auto for this choice; NAN: the option has no auto
} ls_option_read;

typedef struct {
    const char *word, *what;
    const ls_option_read *reads; // options that this choice, but not every choice, reads; the list ends with option -1
} ls_option_kind;

typedef struct {
    const char *section, *key, *name; // name: "section.key"
    const char *what, *unit;          // unit: NULL for BOOL and CHOICE
    size_t offset;                    // offset of the value in ls_config
    ls_option_type type;
    double number;               // default of INT, REAL and BOOL
    const char *text;            // default of TEXT and CHOICE
    int64_t least, most;         // INT
    int allows_auto;             // INT, REAL: the word auto is allowed too; it is stored as LS_AUTO or NAN
    double minimum, maximum;     // REAL
    const char *const *words;    // CHOICE: its words and NULL
    const ls_option_kind *kinds; // KIND: one entry per word; else NULL
} ls_option;

// Writes the option's explanation into dst, led by the kinds that read it and their value of auto. Returns dst.
char *ls_option_help(int index, char *dst, size_t bytes);
// Writes the kinds that read option `index` into dst, as "linear, cosine"; "" if all kinds do. Returns dst.
char *ls_option_readers(int index, char *dst, size_t bytes);
const ls_option *ls_option_at(int index); // 0 to LS_OPTION_COUNT - 1

#endif
