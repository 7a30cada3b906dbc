// help.h - what `train help` prints: a screen, a command, a topic, the man page, a shell's completion; all from the tables of commands
// and options (cli/command_table.h), of the configuration's options, of layers and of exit codes.
#ifndef LS_CLI_HELP_HELP_H
#define LS_CLI_HELP_HELP_H

#include <stdio.h>
#include "base/status.h"
#include "cli/command_table.h"

// Of a program that is called by `program`, "./train" or "lockstep-train": about the words behind `train help`: none: a screen about all; a command, or a topic. LS_USAGE: there is no such topic (with the
// nearest), or a word too many.
LS_CHECKED ls_status ls_help_print(const char *program, const char *const *words, int count, FILE *file);
// A text of the tables, which has "./train" for the program, into dst of LS_HELP_NAMED_BYTES; returns dst.
enum { LS_HELP_NAMED_BYTES = 4096 };
const char *ls_help_named(const char *text, const char *program, char *dst);

typedef struct {
    const char *left, *right;
} ls_help_row;

typedef struct {
    const char *word, *usage, *purpose;
    const char *heading;     // of the man page's section; NULL: it has none
    const char *text;        // what there is to say, paragraphs cut by \n; NULL: nothing
    const ls_help_row *rows; // and of what; the last one has no left; NULL: none
    // Where it is more than text and rows: `word` is the one behind the topic's, or NULL.
    ls_status (*print)(FILE *file, const char *const *words, int count);
} ls_help_topic;

enum { LS_HELP_TOPICS_MAX = 16 };
const ls_help_topic *ls_help_topics(int *count);

// The man page of the program by the name that it is installed by: `man --warnings -l` has no objection.
void ls_help_man(FILE *file, const char *name);
// What a shell offers for the last of the words behind the program's name, the one at the cursor, a line each: "word", or
// "word<TAB>what it is"; ":files ini /": also files of these suffixes (/: folders, *: any); ":nospace": the word goes on.
void ls_help_complete(FILE *file, const char *const *words, int count);
// A completion script for the program of that name. LS_USAGE: another shell than bash and zsh.
LS_CHECKED ls_status ls_help_completion(FILE *file, const char *shell, const char *name);

// An option's help with its default, and an option with its argument, into dst; return dst.
const char *ls_help_option_text(const ls_command_option *option, char *dst, size_t bytes);
const char *ls_help_option_left(const ls_command_option *option, char *dst, size_t bytes);
// A command's purpose as a sentence, into dst; returns dst.
const char *ls_help_purpose(const ls_command_row *row, char *dst, size_t bytes);
// The next line of `exits` (commands.def), cut behind its code; *at moves behind it. 0: there is none.
enum { LS_HELP_TEXT_BYTES = 512 };
int ls_help_next_exit(const char **at, char code[16], char text[LS_HELP_TEXT_BYTES]);

#endif
