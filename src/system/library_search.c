#include "system/library_search.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "system/installed.h"
#include "base/memory.h"
#include "base/text.h"

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

// scripts/fetch-cuda.sh names its folders in this way.
static void name_toolkit(int cuda_major, char name[24]) {
    if (cuda_major == 13)
        strcpy(name, "cuda");
    else
        ls_text_cut(name, 24, "cuda%d", cuda_major);
}

char *ls_library_search_folders(int cuda_major, const char *more) {
    const char *first = getenv("LD_LIBRARY_PATH");
    char program[LS_LIBRARY_PATH_BYTES], toolkit[24];
    name_toolkit(cuda_major, toolkit);
    if (ls_failed(ls_program_folder(program, sizeof program))) program[0] = 0;
    return ls_new_textf("%s:%s/%s/lib:%s", first ? first : "", program, toolkit, more);
}

int ls_library_search_open(const char *folders, int loader, const char *soname, ls_library_file *out) {
    *out = (ls_library_file){ .handle = NULL };
    return open_in_folders(folders, soname, out) || (loader && open_file(soname, out));
}

const char *ls_library_search_advice(int cuda_major, char *text, size_t bytes) {
    static const char script[] = "fetch-cuda.sh";
    char path[LS_LIBRARY_PATH_BYTES];
    if (ls_installed_path("scripts", path, sizeof path)) // an installed script needs a FOLDER
        ls_text_cut(text, bytes,
            "%s/%s %d FOLDER gets it without root; put FOLDER/lib, or another folder that has it, first into "
            "LD_LIBRARY_PATH",
            path, script, cuda_major);
    else
        ls_text_cut(text, bytes, "scripts/%s %d gets it without root, or put its folder first into LD_LIBRARY_PATH",
            script, cuda_major);
    return text;
}

int ls_library_search_find(void *handle, const char *name, void *function) {
    void *address = dlsym(handle, name);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}
