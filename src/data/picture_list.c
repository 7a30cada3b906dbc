#include "data/picture_list.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/files.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/image_check.h"

enum { NAMES_BYTES = 1024 }; // length of a list of names in a message

// Adds a path, which the list then owns.
static void add_path(ls_picture_list *list, char *path, int label) {
    list->paths = ls_grow(list->paths, list->count, sizeof *list->paths, "list of pictures");
    list->labels = ls_grow(list->labels, list->count, sizeof *list->labels, "list of pictures");
    list->paths[list->count] = path;
    list->labels[list->count++] = label;
}

void ls_picture_list_free(ls_picture_list *list) {
    for (int64_t i = 0; i < list->count; i++) free(list->paths[i]);
    free(list->paths);
    free(list->labels);
    *list = (ls_picture_list){ 0 };
}

// --- folders ---------------------------------------------------------------------------------------

static int is_visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static int is_picture(const struct dirent *entry) {
    return is_visible(entry) && ls_image_is_named(entry->d_name);
}

static int is_other(const struct dirent *entry) {
    return is_visible(entry) && !ls_image_is_named(entry->d_name);
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

// Returns "folder/name"; the caller frees it.
static char *path_in(const char *folder, const char *name) {
    const size_t length = strlen(folder);
    return ls_new_textf("%s%s%s", folder, length && folder[length - 1] == '/' ? "" : "/", name);
}

typedef struct {
    struct dirent **at;
    int count;
} listing;

static ls_status list_folder(const char *folder, int (*wanted)(const struct dirent *entry), listing *out) {
    out->count = scandir(folder, &out->at, wanted, by_name);
    if (out->count >= 0) return LS_SUCCESS;
    return ls_fail(ls_io_code(errno, LS_DATA), "%s: cannot list the folder: %s", folder, strerror(errno));
}

static void free_listing(listing *l) {
    for (int i = 0; i < l->count; i++) free(l->at[i]);
    free(l->at);
}

// Prints a warning if the folder contains folders, because their pictures are left out.
static ls_status mention_folders(const char *folder) {
    listing found;
    const char *first = NULL;
    int count = 0;
    LS_TRY(list_folder(folder, is_other, &found));
    for (int i = 0; i < found.count; i++) {
        char *path = path_in(folder, found.at[i]->d_name);
        if (is_folder(path) && count++ == 0) first = found.at[i]->d_name;
        free(path);
    }
    if (first)
        ls_warn("%s: %d folder%s in it %s not looked into, as %s/", folder, count, count == 1 ? "" : "s",
            count == 1 ? "is" : "are", first);
    free_listing(&found);
    return LS_SUCCESS;
}

static ls_status add_folder(ls_picture_list *list, const char *folder, int label) {
    listing found;
    LS_TRY(list_folder(folder, is_picture, &found));
    for (int i = 0; i < found.count; i++) add_path(list, path_in(folder, found.at[i]->d_name), label);
    free_listing(&found);
    return found.count > 0 ? mention_folders(folder) : LS_SUCCESS;
}

ls_status ls_picture_list_add(ls_picture_list *list, const char *named) {
    const int64_t before = list->count;
    if (is_folder(named))
        LS_TRY(add_folder(list, named, 0));
    else
        add_path(list, ls_new_text(named), 0);
    if (list->count > before) return LS_SUCCESS;
    return ls_fail(
        LS_DATA, "%s: a folder without pictures (" LS_IMAGE_ENDINGS "; folders in it are not looked into)", named);
}

// --- lists of names --------------------------------------------------------------------------------

// Adds each name in `text`: one per line, or ended by 0 bytes if `text` has any. A 0 byte follows the last byte.
static ls_status add_names(ls_picture_list *list, char *text, size_t bytes) {
    const char separator = memchr(text, 0, bytes) ? 0 : '\n';
    for (char *at = text, *const end = text + bytes; at < end;) {
        char *behind = memchr(at, separator, (size_t)(end - at));
        if (!behind) behind = end;
        *behind = 0;
        if (*at) LS_TRY(ls_picture_list_add(list, at));
        at = behind + 1;
    }
    return LS_SUCCESS;
}

ls_status ls_picture_list_add_names(ls_picture_list *list, const char *path) {
    char *text = NULL;
    size_t bytes = 0;
    const int64_t before = list->count;
    ls_status status = ls_read_stream(path, &text, &bytes);
    if (status.code == LS_STORAGE) status.code = LS_DATA;
    LS_THEN(status, add_names(list, text, bytes));
    free(text);
    if (ls_failed(status) || list->count > before) return status;
    return ls_fail(LS_DATA, "%s: has no names of pictures, expected one a line, or each ended by a 0 byte",
        strcmp(path, "-") == 0 ? "standard input" : path);
}

// --- folders of classes ----------------------------------------------------------------------------

typedef struct {
    const char *const *classes;
    int count;
    char **folders; // by class; NULL: the class has no folder
    char unknown[NAMES_BYTES];
    ls_text_room room; // the rest of `unknown`
} class_folders;

// Returns the class of a folder's name, or classes + count if there is no such class. A class's name is valid UTF-8. A
// folder's name need not be, and has no '/'.
static const char *const *find_class(const class_folders *c, const char *folder_name) {
    const char *const *at = c->classes, *const *const end = at + c->count;
    char *name = ls_text_as_utf8(folder_name);
    for (int same = 0; at < end && !same; at += !same) {
        same = strlen(name) == strlen(*at);
        for (size_t i = 0; same && name[i]; i++) same = name[i] == ((*at)[i] == '/' ? '_' : (*at)[i]);
    }
    free(name);
    return at;
}

// Adds an unknown folder's name to the message, and its bytes if it looks like a class in another form of Unicode.
static void put_unknown(class_folders *c, const char *name) {
    char here[NAMES_BYTES], there[NAMES_BYTES];
    ls_text_put(&c->room, "%s'%s'", c->unknown[0] ? ", " : "", name);
    for (int k = 0; k < c->count; k++)
        if (ls_text_looks_alike(name, c->classes[k]))
            ls_text_put(&c->room, " (which looks like a class, but Unicode writes it as '%s' here and as '%s' there)",
                ls_text_escape(here, sizeof here, name), ls_text_escape(there, sizeof there, c->classes[k]));
}

static ls_status take_entry(class_folders *c, const char *folder, const char *name) {
    char *path = path_in(folder, name);
    const int64_t k = find_class(c, name) - c->classes;
    if (is_folder(path) && k < c->count && !c->folders[k]) {
        c->folders[k] = path;
        return LS_SUCCESS;
    }
    ls_status status = LS_SUCCESS;
    if (is_folder(path))
        put_unknown(c, name);
    else if (ls_image_is_named(name))
        status = ls_fail(LS_DATA, "%s: image outside a class folder; move it into the folder of its class", path);
    free(path);
    return status;
}

// Adds the name that the folder of this class must have to the error message.
static void put_class(ls_text_room *room, const char *separator, const char *class_name) {
    ls_text_put(room, "%s'", separator);
    for (; *class_name; class_name++) ls_text_put(room, "%c", *class_name == '/' ? '_' : *class_name);
    ls_text_put(room, "'");
}

static ls_status check_classes(const class_folders *c, const char *folder) {
    char missing[NAMES_BYTES] = "", text[3 * NAMES_BYTES] = "";
    ls_text_room names = { missing, sizeof missing }, room = { text, sizeof text };
    for (int k = 0; k < c->count; k++)
        if (!c->folders[k]) put_class(&names, missing[0] ? ", " : "", c->classes[k]);
    if (!missing[0] && !c->unknown[0]) return LS_SUCCESS;
    if (missing[0])
        ls_text_put(
            &room, "; missing: %s (put their pictures there; an empty folder says that there are none)", missing);
    if (c->unknown[0]) ls_text_put(&room, "; unknown: %s (rename them or move them away)", c->unknown);
    static const char *const splits[] = { "test", "val", "valid", "validation", "train" };
    for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++) {
        char *path = path_in(folder, splits[i]);
        const int there = is_folder(path);
        if (there) ls_text_put(&room, "; perhaps %s is meant", path);
        free(path);
        if (there) break;
    }
    return ls_fail(
        LS_DATA, "%s: expected a folder for each of the %d classes of the weights%s", folder, c->count, text);
}

static ls_status add_classes(ls_picture_list *list, const char *folder, class_folders *c) {
    listing found;
    LS_TRY(list_folder(folder, is_visible, &found));
    ls_status status = LS_SUCCESS;
    for (int i = 0; i < found.count; i++) LS_THEN(status, take_entry(c, folder, found.at[i]->d_name));
    free_listing(&found);
    LS_THEN(status, check_classes(c, folder));
    for (int k = 0; k < c->count; k++) LS_THEN(status, add_folder(list, c->folders[k], k));
    return status;
}

ls_status ls_picture_list_add_classes(
    ls_picture_list *list, const char *folder, const char *const *classes, int class_count) {
    const int64_t before = list->count;
    class_folders c = { .classes = classes, .count = class_count };
    c.room = (ls_text_room){ c.unknown, sizeof c.unknown };
    c.folders = ls_new(class_count, sizeof *c.folders, "folders of %d classes", class_count);
    ls_status status = add_classes(list, folder, &c);
    for (int k = 0; k < class_count; k++) free(c.folders[k]);
    free(c.folders);
    if (ls_failed(status) || list->count > before) return status;
    return ls_fail(LS_DATA, "%s: no picture in its class folders (" LS_IMAGE_ENDINGS ")", folder);
}
