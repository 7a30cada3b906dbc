#include "system/installed.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"

ls_status ls_program_folder(char *path, size_t bytes) {
    const ssize_t length = readlink("/proc/self/exe", path, bytes - 1);
    if (length < 0) return ls_fail(LS_INTERNAL, "cannot find the folder of this program: /proc/self/exe is not there");
    path[length] = 0;
    char *slash = strrchr(path, '/');
    if (slash) *slash = 0;
    return LS_SUCCESS;
}

int ls_installed_path(const char *name, char *path, size_t bytes) {
    static const char libraries[] = "/lib/lockstep";
    char folder[PATH_MAX];
    *path = 0;
    if (ls_failed(ls_program_folder(folder, sizeof folder))) return 0;
    const size_t length = strlen(folder), end = sizeof libraries - 1;
    if (length < end || strcmp(folder + length - end, libraries) != 0) return 0;
    const int prefix = (int)(length - end);
    const int needed = snprintf(path, bytes, "%.*s/share/lockstep/%s", prefix, folder, name);
    if (needed > 0 && (size_t)needed < bytes && ls_path_exists(path)) return 1;
    *path = 0;
    return 0;
}

int ls_shipped_path(const char *name, char *path, size_t bytes) {
    char folder[PATH_MAX], below[PATH_MAX];
    snprintf(below, sizeof below, "configs/%s", name);
    if (ls_installed_path(below, path, bytes)) return 1;
    if (ls_failed(ls_program_folder(folder, sizeof folder))) return 0;
    const int needed = snprintf(path, bytes, "%s/../%s", folder, below);
    if (needed > 0 && (size_t)needed < bytes && ls_path_exists(path)) return 1;
    *path = 0;
    return 0;
}

const char *ls_script_path(const char *script, char *path, size_t bytes) {
    char name[64];
    snprintf(name, sizeof name, "scripts/%s", script);
    if (!ls_installed_path(name, path, bytes)) snprintf(path, bytes, "%s", name);
    return path;
}
