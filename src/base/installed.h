// installed.h - where the program is, and what was installed with it: PREFIX/share/lockstep beside PREFIX/lib/lockstep/train
// (cmake/install.cmake). A program in the folder of its build has nothing of that.
#ifndef LS_BASE_INSTALLED_H
#define LS_BASE_INSTALLED_H

#include <stddef.h>
#include "base/status.h"

// The folder of the program's own file, links followed. LS_INTERNAL: /proc is not there.
LS_CHECKED ls_status ls_program_folder(char *path, size_t bytes);
// Path of a file that is installed as share/lockstep/NAME ("configs/mnist.ini"). 0: there is none; path is "" then.
int ls_installed_path(const char *name, char *path, size_t bytes);
// How a person calls one of scripts/: "scripts/fetch-data.sh", or its path where it is installed. Returns path.
const char *ls_script_path(const char *script, char *path, size_t bytes);

#endif
