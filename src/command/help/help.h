// help.h - the text of `train help`: an overview, or a page about a command or a topic. Most of the text is made from
// the tables of commands and their options (command/command_table.h), of the configuration's options, of layers and of
// exit codes; topics.c has the other topics as text. cmake/man_page.sh makes the man page from these pages.
#ifndef LS_COMMAND_HELP_HELP_H
#define LS_COMMAND_HELP_HELP_H

#include <stdio.h>
#include "base/status.h"
#include "command/command_table.h"

// Prints help about `words`, the words after `train help`. count 0: the overview; else the first word is a command or a
// topic. program: the program's name as the user calls it, "./train" or "lockstep-train". LS_USAGE: there is no such
// topic (the message suggests the nearest one), or there is a word too many.
LS_CHECKED ls_status ls_help_print(const char *program, const char *const *words, int count, FILE *file);

typedef struct {
    const char *left, *right;
} ls_help_row;

typedef struct {
    const char *word, *usage, *purpose;
    const char *text;        // paragraphs, separated by \n, or NULL
    const ls_help_row *rows; // printed after the text, ends with a row whose `left` is NULL; or NULL
    // Prints a topic that needs more than text and rows; otherwise NULL. words: the words after the topic's own word.
    ls_status (*print)(FILE *file, const char *const *words, int count);
} ls_help_topic;

enum { LS_HELP_TOPICS_MAX = 16 };
const ls_help_topic *ls_help_topics(int *count);

// Prints the offers of a shell for the last of `words`, the word at the cursor. words[0] is the word after the
// program's name. Each line is one of
//   word              an offer; or "word<TAB>its meaning"
//   :files ini /      the shell also offers files with these endings (/: folders, *: any file)
//   :nospace          the shell adds no space after the word, because more text follows
void ls_help_complete(FILE *file, const char *const *words, int count);

#endif
