// options.h - options.def as a table, for the files of this room.
#ifndef LS_CONFIG_OPTIONS_H
#define LS_CONFIG_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include "config/config.h"

typedef enum { TYPE_INT, TYPE_REAL, TYPE_BOOL, TYPE_TEXT, TYPE_CHOICE } ls_option_type;

typedef struct {
    const char *section, *key, *name; // name: "section.key"
    const char *what, *unit;          // unit: NULL for BOOL and CHOICE
    size_t offset;                    // of the value in ls_config
    ls_option_type type;
    double number;            // default of INT, REAL and BOOL
    const char *text;         // default of TEXT and CHOICE
    int64_t least, most;      // INT
    int allows_auto;          // INT: or the word auto, which is LS_AUTO
    double minimum, maximum;  // REAL
    const char *const *words; // CHOICE: its words and NULL
} ls_option;

const ls_option *ls_option_at(int index); // 0 to LS_OPTION_COUNT - 1

#endif
