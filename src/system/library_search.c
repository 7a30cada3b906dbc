#include "system/library_search.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "system/installed.h"
#include "base/text.h"
#include "lockstep_cuda_build.h" // LS_CUDA_BUILD_FOLDERS, from cmake/cuda.cmake

// Opens `file`, a path or a name that the loader searches for. Returns 1 if it opened.
static int open_file(const char *file, ls_library_file *out) {
    out->handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!out->handle) {
        const char *words = dlerror();
        if (strchr(file, '/') && !out->error[0]) ls_text_cut(out->error, sizeof out->error, "%s", words ? words : file);
        return 0;
    }
    struct link_map *map = NULL;
    const char *path = dlinfo(out->handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] ? map->l_name : file;
    ls_text_cut(out->path, sizeof out->path, "%s", path);
    return 1;
}

static int open_in_folders(const char *folders, const char *soname, ls_library_file *out) {
    while (folders && *folders) {
        int length = (int)strcspn(folders, ":");
        char file[LS_LIBRARY_PATH_BYTES + 64];
        ls_text_cut(file, sizeof file, "%.*s/%s", length < LS_LIBRARY_PATH_BYTES ? length : 0, folders, soname);
        if (length > 0 && access(file, F_OK) == 0 && open_file(file, out)) return 1;
        folders += length + (folders[length] == ':');
    }
    return 0;
}

// Searches cuda/lib in the program's own folder. Folders above are not searched: a user who may write there could
// choose which library is loaded.
static int open_beside_program(const char *soname, ls_library_file *out) {
    char folder[LS_LIBRARY_PATH_BYTES];
    if (ls_failed(ls_program_folder(folder, sizeof folder - 16))) return 0;
    strcat(folder, "/cuda/lib");
    return open_in_folders(folder, soname, out);
}

int ls_library_search_open(const char *folders, const char *soname, int of_driver, ls_library_file *out) {
    *out = (ls_library_file){ .handle = NULL };
    if (folders) return open_in_folders(folders, soname, out);
    if (open_in_folders(getenv("LD_LIBRARY_PATH"), soname, out)) return 1;
    if (!of_driver && open_beside_program(soname, out)) return 1;
    if (!of_driver && open_in_folders(LS_CUDA_BUILD_FOLDERS, soname, out)) return 1;
    return open_file(soname, out);
}

const char *ls_library_search_advice(char *text, size_t bytes) {
    static const char script[] = "fetch-cuda.sh";
    char path[LS_LIBRARY_PATH_BYTES];
    if (ls_installed_path("scripts", path, sizeof path)) // folders next to an installed program are not searched
        ls_text_cut(text, bytes,
            "%s/%s FOLDER gets it without root; put FOLDER/lib, or another folder that has it, first into "
            "LD_LIBRARY_PATH",
            path, script);
    else
        ls_text_cut(
            text, bytes, "scripts/%s gets it without root, or put its folder first into LD_LIBRARY_PATH", script);
    return text;
}

int ls_library_search_find(void *handle, const char *name, void *function) {
    void *address = dlsym(handle, name);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}
