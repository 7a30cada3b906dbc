// help.h - what `train help` prints, from the tables of commands, options, layers and exit codes.
#ifndef LS_CLI_HELP_H
#define LS_CLI_HELP_H

#include <stdio.h>
#include "base/status.h"

enum { LS_HELP_COLUMNS = 80 }; // no line is wider

// About the words behind `train help`: none: a screen about all; a command, or another topic. LS_USAGE: there is no such topic (with
// the nearest), or a word too many.
LS_CHECKED ls_status ls_help_print(const char *const *words, int count, FILE *file);

#endif
