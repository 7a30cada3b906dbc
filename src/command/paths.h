// paths.h - the paths of a command line, looked at before the command begins: is each one there, and of the right kind?
#ifndef LS_COMMAND_PATHS_H
#define LS_COMMAND_PATHS_H

#include "command/args.h"

// By what the words of the command's usage accept (commands.def). LS_USAGE: a path is not there, is something else, or
// two
// words are swapped. A configuration, whose name may be a shipped one, and pictures are left to the command where they
// are not
// there. Of rank 0 alone: other hosts need not have the files.
LS_CHECKED ls_status ls_paths_check(const ls_args *args);

#endif
