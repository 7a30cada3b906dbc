// command_table.h - the commands and their options as tables (commands.def, command_options.def), for parsing, help, man page and
// completion.
#ifndef LS_COMMAND_COMMAND_TABLE_H
#define LS_COMMAND_COMMAND_TABLE_H

#include <stddef.h>
#include "command/args.h"

typedef enum { LS_RANKS_ALL, LS_RANKS_FIRST, LS_RANKS_ONE } ls_command_ranks;

typedef struct {
    const char *word, *usage, *purpose, *more, *example, *exits; // as in commands.def
    int keeps_on;
    ls_command_ranks ranks;
} ls_command_row;

const ls_command_row *ls_command_at(ls_command command);
// "train" and "train bench" into dst of LS_COMMAND_TEXT_BYTES; returns dst.
enum { LS_COMMAND_TEXT_BYTES = 64 };
char *ls_command_text(ls_command command, char *dst);
// The command of that word; LS_COMMAND_COUNT: none.
ls_command ls_command_find(const char *word);

// What one word of a usage is: "CONFIG.ini", "[WEIGHTS]", "IMAGE...", "verify|show|diff".
typedef struct {
    char name[64];           // without brackets and dots: "WEIGHTS", "verify|show|diff"
    int optional, many;      // may be missing; as many as there are
    const char *noun;        // "weights file"
    const char *suffixes;    // of the files that it may be: "safetensors /"
    unsigned accepts;        // 1u << LS_CONTENT_*, as in commands.def; 0: no path that is read
    size_t offset;           // of the field in ls_args
    int is_action, is_files; // the word is one of name's; the field is `files`
} ls_usage_word;

// The word at `index` behind the command, from 0; options in the usage are none. 0: there is none. A word that may be there many
// times is there at every index from its own on.
int ls_usage_word_at(ls_command command, int index, ls_usage_word *out);

typedef enum {
    LS_VALUE_FLAG,
    LS_VALUE_TEXT,
    LS_VALUE_LIST,
    LS_VALUE_WHOLE,
    LS_VALUE_REAL,
    LS_VALUE_CHOICE,
    LS_VALUE_RANGE,
    LS_VALUE_TOPIC
} ls_value_kind;

typedef struct {
    const char *name, *argument, *commands, *help; // as in command_options.def
    ls_value_kind kind;
    int alone;           // changes nothing in what ranks exchange
    size_t offset, size; // of the field in ls_args
    size_t second;       // LIST: of the count; RANGE: of the end
    double preset, least, most;
    const char *text; // LIST: advice; TOPIC: topic
} ls_command_option;

int ls_command_option_count(void);
const ls_command_option *ls_command_option_at(int index);
int ls_command_takes(ls_command command, const ls_command_option *option);
// Must it be given? Then it is in the command's usage.
int ls_command_needs(ls_command command, const ls_command_option *option);

// Is word one of those in list, which are cut by `cut`? Its index, or -1.
int ls_word_index(const char *list, char cut, const char *word);

#endif
