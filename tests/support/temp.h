// temp.h - a folder for a test's files, and files with a given text.
#ifndef TESTS_SUPPORT_TEMP_H
#define TESTS_SUPPORT_TEMP_H

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic_file.h"

typedef struct {
    char path[256];
} temp_folder;

static inline temp_folder temp_folder_new(void) {
    temp_folder folder;
    const char *base = getenv("TMPDIR");
    snprintf(folder.path, sizeof folder.path, "%s/lockstep-test-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(folder.path)) {
        perror(folder.path);
        abort();
    }
    return folder;
}

static inline int temp_remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind, (void)where;
    return remove(path);
}

static inline void temp_folder_remove(const temp_folder *folder) {
    nftw(folder->path, temp_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

// Writes folder/name with its folders; returns the path, valid until the fourth next call.
static inline const char *temp_file(const temp_folder *folder, const char *name, const char *text) {
    static char paths[4][1024];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder->path, name);
    char *slash = strrchr(path, '/');
    *slash = 0;
    ls_status status = ls_make_folders(path);
    *slash = '/';
    if (!ls_failed(status)) status = ls_write_file(path, text, strlen(text));
    if (ls_failed(status)) {
        fprintf(stderr, "%s\n", status.text);
        abort();
    }
    return path;
}

static inline int temp_count_files(const temp_folder *folder) {
    DIR *dir = opendir(folder->path);
    int count = -2; // "." and ".."
    while (dir && readdir(dir)) count++;
    if (dir) closedir(dir);
    return count;
}

#endif
