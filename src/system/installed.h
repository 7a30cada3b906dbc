// installed.h - where the program is, and what was installed with it: PREFIX/share/lockstep beside
// PREFIX/lib/lockstep/train
// (cmake/install.cmake). A program in the folder of its build was not installed; it finds the source's configs/ by a
// link.
#ifndef LS_SYSTEM_INSTALLED_H
#define LS_SYSTEM_INSTALLED_H

#include <stddef.h>
#include "base/status.h"

// The folder of the program's own file, links followed. LS_INTERNAL: /proc is not there.
LS_CHECKED ls_status ls_program_folder(char *path, size_t bytes);
// Path of a file that is installed as share/lockstep/NAME ("configs/mnist.ini"). 0: there is none; path is "" then.
int ls_installed_path(const char *name, char *path, size_t bytes);
// Path of configs/NAME: the installed file, or for a program in the folder of its build (BUILD/bin) the source's file,
// which
// BUILD/configs links to (CMakeLists.txt). NAME may be "". Returns 0, with "" in path, if there is no such file.
int ls_shipped_path(const char *name, char *path, size_t bytes);
// How a person calls one of scripts/: "scripts/fetch-data.sh", or its path where it is installed. Returns path.
const char *ls_script_path(const char *script, char *path, size_t bytes);

#endif
