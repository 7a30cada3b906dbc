// help.h - the screens of `train help`: an overview, a command, a topic. The texts come from the tables of commands and
// their options (command/command_table.h), of the configuration's options, of layers and of exit codes.
// cmake/man_page.sh makes the man page from these screens.
#ifndef LS_COMMAND_HELP_HELP_H
#define LS_COMMAND_HELP_HELP_H

#include <stdio.h>
#include "base/status.h"
#include "command/command_table.h"

// Prints help about `words`, the words after `train help`: none for a screen about all, else a command or a topic.
// program: the command as the user calls it, "./train" or "lockstep-train". LS_USAGE: there is no such topic (the
// message has the nearest), or there is a word too many.
LS_CHECKED ls_status ls_help_print(const char *program, const char *const *words, int count, FILE *file);

typedef struct {
    const char *left, *right;
} ls_help_row;

typedef struct {
    const char *word, *usage, *purpose;
    const char *text;        // paragraphs, separated by \n, or NULL
    const ls_help_row *rows; // after the text; the last row has no `left`; or NULL
    // A topic that is more than text and rows has a function; `words` follow the topic's own word. Otherwise NULL.
    ls_status (*print)(FILE *file, const char *const *words, int count);
} ls_help_topic;

enum { LS_HELP_TOPICS_MAX = 16 };
const ls_help_topic *ls_help_topics(int *count);

// Prints what a shell offers for the last of `words`, the word at the cursor. words[0] follows the program's name.
// Lines:
//   word              or "word<TAB>its meaning"
//   :files ini /      files with these suffixes, too (/: folders, *: any)
//   :nospace          the word goes on
void ls_help_complete(FILE *file, const char *const *words, int count);

#endif
