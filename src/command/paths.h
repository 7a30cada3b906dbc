// paths.h - checks the paths of a command line before the command begins: whether they exist and are of the right kind.
#ifndef LS_COMMAND_PATHS_H
#define LS_COMMAND_PATHS_H

#include "command/args.h"

// Checks that each path that the command reads exists and has contents that its word of the usage accepts
// (commands.def). LS_USAGE: a path does not exist, is of another known kind, or two words are in the wrong order. A
// missing configuration (it may be the name of a shipped one) or picture passes: the command itself reports it. Only
// rank 0 calls it, because other hosts need not have the files.
LS_CHECKED ls_status ls_paths_check(const ls_args *args);
// Returns 1 if the path has an ending of a file that `export` writes: .onnx or .c.
int ls_path_is_export(const char *path);

#endif
