// paths.h - checks the paths of a command line before the command begins: whether they exist and are of the right kind.
#ifndef LS_COMMAND_PATHS_H
#define LS_COMMAND_PATHS_H

#include "command/args.h"

// Checks that each path exists and has the contents that its word of the usage accepts (commands.def). LS_USAGE: a path
// does not exist, is of another kind, or two words are in the wrong order. A missing configuration or picture passes:
// the command itself reports it, and a configuration may be the name of a shipped one. Only rank 0 calls it, because
// other hosts need not have the files.
LS_CHECKED ls_status ls_paths_check(const ls_args *args);

#endif
