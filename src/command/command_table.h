// command_table.h - the commands and their options as tables (commands.def, command_options.def). Parsing, help, man
// page and completion use them.
#ifndef LS_COMMAND_COMMAND_TABLE_H
#define LS_COMMAND_COMMAND_TABLE_H

#include <stddef.h>
#include "command/args.h"

typedef enum { LS_RANKS_ALL, LS_RANKS_FIRST } ls_command_ranks;

typedef struct {
    const char *word, *usage, *purpose, *more, *example, *exits; // as in commands.def
    int keeps_on;           // 1: the command continues when nobody reads its output any more
    ls_command_ranks ranks; // the ranks that work
} ls_command_row;

const ls_command_row *ls_command_at(ls_command command);
// Writes "train" or "train bench" into dst (LS_COMMAND_TEXT_BYTES). Returns dst.
enum { LS_COMMAND_TEXT_BYTES = 64 };
char *ls_command_text(ls_command command, char *dst);
// Returns the command that the word names, or LS_COMMAND_COUNT.
ls_command ls_command_find(const char *word);

// One word of a usage, such as "CONFIG.ini", "[WEIGHTS]", "IMAGE..." or "verify|show".
typedef struct {
    char name[64];           // without brackets and dots: "WEIGHTS", "verify|show"
    int optional, many;      // optional: the word may be missing; many: the word may be repeated
    const char *noun;        // for messages: "weights file"
    const char *suffixes;    // endings of file names that a shell offers: "safetensors /" (/: folders)
    unsigned accepts;        // accepted types of file, a set of 1u << LS_FILE_TYPE_*; 0: no path that is read
    size_t offset;           // offset in ls_args of the field that takes the word
    int is_action, is_files; // is_action: the user writes one of the words x|y; is_files: the field is ls_args.files
} ls_usage_word;

// Describes the word at `index`, counted from 0 after the command. Returns 0 if the usage has no such word; its words
// end at its first option. A word that may be repeated is also found at every later index.
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
    int alone;                  // 1: ranks may differ in this option (ALONE in command_options.def)
    size_t offset, size;        // offset and size of the field in ls_args
    size_t second;              // LIST: offset of the field with the count; RANGE: offset of the field with the end
    double preset, least, most; // preset: the default; LIST: `most` is the largest number of values
    const char *text;           // LIST: advice if the user gives too many values; TOPIC: the topic
} ls_command_option;

int ls_command_option_count(void);
const ls_command_option *ls_command_option_at(int index);
// Returns 1 if the option belongs to the command.
int ls_command_takes(ls_command command, const ls_command_option *option);
// Returns 1 if the command requires the option: the usage of the command names it.
int ls_command_needs(ls_command command, const ls_command_option *option);

// Returns the index of `word` in `list`, whose words are separated by the character `cut`, or -1.
int ls_word_index(const char *list, char cut, const char *word);

#endif
