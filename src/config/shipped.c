#include "config/shipped.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/files.h"
#include "system/installed.h"
#include "config/file_type.h"
#include "base/text.h"

static const struct {
    const char *folder; // added to a name without a folder, when the user's own files are searched
    const char *below;  // folder of the shipped files, below configs/
    const char *noun;   // noun for messages, with its article
    ls_file_type other; // type of a file of the other kind
} kinds[] = {
    [LS_SHIPPED_CONFIGURATION] = { "configs/", "", "a configuration", LS_FILE_TYPE_NETWORK },
    [LS_SHIPPED_NETWORK] = { "models/", "models/", "a network", LS_FILE_TYPE_CONFIGURATION },
};
static const char ending[] = ".ini";

static int is_regular(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

int ls_named_nearby(ls_shipped_kind kind, const char *folder, const char *name, char *path, size_t bytes) {
    char tried[PATH_MAX];
    for (int i = 0; i < 4; i++) {
        ls_text_cut(tried, sizeof tried, "%s%s%s", i & 2 ? kinds[kind].folder : "", name, i & 1 ? ending : "");
        if (i && name[0] == '/') break;
        if (ls_failed(ls_path_join(path, bytes, folder, tried)) || !is_regular(path)) continue;
        // Configurations and networks may share a name: tiny-resnet8.
        if (!i || ls_file_type_of(path) != kinds[kind].other) return 1;
    }
    *path = 0;
    return 0;
}

// Writes the name into stem, without "./", "configs/", "models/" (if it names a network) and ".ini".
static void find_stem(ls_shipped_kind kind, const char *name, char *stem, size_t bytes) {
    if (strncmp(name, "./", 2) == 0) name += 2;
    if (strncmp(name, "configs/", 8) == 0) name += 8;
    if (kind == LS_SHIPPED_NETWORK && strncmp(name, kinds[kind].below, strlen(kinds[kind].below)) == 0)
        name += strlen(kinds[kind].below);
    ls_text_cut(stem, bytes, "%s", name);
    const size_t length = strlen(stem), end = sizeof ending - 1;
    if (length > end && strcmp(stem + length - end, ending) == 0) stem[length - end] = 0;
}

int ls_named_shipped(ls_shipped_kind kind, const char *name, char *path, size_t bytes) {
    char stem[NAME_MAX + 1], below[NAME_MAX + 32];
    *path = 0;
    if (strlen(name) > NAME_MAX) return 0;
    find_stem(kind, name, stem, sizeof stem);
    if (!*stem || strchr(stem, '/')) return 0;
    snprintf(below, sizeof below, "%s%s%s", kinds[kind].below, stem, ending);
    if (ls_shipped_path(below, path, bytes) && is_regular(path)) return 1;
    *path = 0;
    return 0;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(a, b);
}

int ls_shipped_names(ls_shipped_kind kind, char names[LS_SHIPPED_MAX][LS_SHIPPED_NAME_BYTES]) {
    char folder[PATH_MAX];
    int count = 0;
    DIR *dir = ls_shipped_path(kinds[kind].below, folder, sizeof folder) ? opendir(folder) : NULL;
    for (struct dirent *entry; dir && count < LS_SHIPPED_MAX && (entry = readdir(dir));) {
        const size_t length = strlen(entry->d_name), end = sizeof ending - 1;
        if (length <= end || length - end >= LS_SHIPPED_NAME_BYTES || strcmp(entry->d_name + length - end, ending) != 0)
            continue;
        snprintf(names[count++], LS_SHIPPED_NAME_BYTES, "%.*s", (int)(length - end), entry->d_name);
    }
    if (dir) closedir(dir);
    qsort(names, (size_t)count, sizeof *names, compare_names);
    return count;
}

// Whether word is the start of name up to a '-', like "cifar10" of "cifar10-94".
static int begins(const char *name, const char *word) {
    const size_t length = strlen(word);
    return length && strncmp(name, word, length) == 0 && name[length] == '-';
}

int ls_shipped_nearest(ls_shipped_kind kind, const char *name, char *dst) {
    char names[LS_SHIPPED_MAX][LS_SHIPPED_NAME_BYTES], stem[NAME_MAX + 1];
    const char *words[LS_SHIPPED_MAX], *slash = strrchr(name, '/'), *meant = NULL;
    const int count = ls_shipped_names(kind, names);
    find_stem(kind, slash ? slash + 1 : name, stem, sizeof stem);
    for (int i = 0; i < count; i++) words[i] = names[i];
    for (int i = 0; i < count && !meant; i++)
        if (ls_text_same_letters(names[i], stem) || begins(names[i], stem)) meant = names[i];
    if (!meant) meant = ls_text_nearest(stem, words, count);
    ls_text_cut(dst, LS_SHIPPED_NAME_BYTES, "%s", meant ? meant : "");
    return meant != NULL;
}

char *ls_shipped_hint(ls_shipped_kind kind, const char *name, const char *path, char *dst) {
    char names[LS_SHIPPED_MAX][LS_SHIPPED_NAME_BYTES], near[PATH_MAX];
    ls_text_room room = { dst, LS_SHIPPED_HINT_BYTES };
    const int count = ls_shipped_names(kind, names);
    *dst = 0;
    if (ls_nearest_path(path, near, sizeof near) || ls_shipped_nearest(kind, name, near))
        ls_text_put(&room, "; did you mean %s? ", near);
    ls_text_put(&room, "%sexpected %s", *dst ? "" : "; ", kinds[kind].noun);
    for (int i = 0; i < count; i++) ls_text_put(&room, "%s%s", i ? ", " : " (shipped: ", names[i]);
    if (count) ls_text_put(&room, ")");
    return dst;
}
