// installed.h - finds the program and the files that were installed with it. PREFIX/lib/lockstep/train uses
// PREFIX/share/lockstep (cmake/install.cmake). A program in its build folder was not installed; it finds the source's
// configs/ through a link.
#ifndef LS_SYSTEM_INSTALLED_H
#define LS_SYSTEM_INSTALLED_H

#include <stddef.h>
#include "base/status.h"

// Gets the folder of the program's own file, with links followed. LS_INTERNAL if /proc is missing.
LS_CHECKED ls_status ls_program_folder(char *path, size_t bytes);
// Gets the path of the installed file share/lockstep/NAME ("configs/mnist.ini"). Returns 0, with "" in path, if there
// is no such file.
int ls_installed_path(const char *name, char *path, size_t bytes);
// Gets the path of configs/NAME: the installed file, or for a program in its build folder (BUILD/bin) the source's
// file, to which BUILD/configs is a link (CMakeLists.txt). NAME may be "". Returns 0, with "" in path, if there is no
// such file.
int ls_shipped_path(const char *name, char *path, size_t bytes);
// Writes the path by which a user calls a script: its installed path, else "scripts/fetch-data.sh". Returns path.
const char *ls_script_path(const char *script, char *path, size_t bytes);

#endif
