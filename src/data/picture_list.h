// picture_list.h - which picture files a user means: files, folders, lists of their names, and folders of classes.
#ifndef LS_DATA_PICTURE_LIST_H
#define LS_DATA_PICTURE_LIST_H

#include <stdint.h>
#include "base/status.h"

typedef struct { // {0}: none; free by ls_picture_list_free, also after a failure
    char **paths;
    int32_t *labels; // classes; 0 where they are not known
    int64_t count;
} ls_picture_list;

// A file as it is named; of a folder the pictures in it, by name (bytes), hidden ones and those in folders below left
// out, which a warning says.
// LS_DATA: the folder has none, or cannot be listed.
LS_CHECKED ls_status ls_picture_list_add(ls_picture_list *list, const char *named);
// The same of each name in a file or pipe, or by "-" in standard input: one a line, or, where there is a 0 byte, each ended by one
// (find -print0). LS_DATA: it cannot be read, or has no name.
LS_CHECKED ls_status ls_picture_list_add_names(ls_picture_list *list, const char *path);
// The pictures of a folder that has one for each class, which may be empty, of that name, but for _ where the class has a /; in the
// order of the classes. LS_DATA: classes that are missing or unknown, by name; a picture beside them; none in them.
LS_CHECKED ls_status ls_picture_list_add_classes(
    ls_picture_list *list, const char *folder, const char *const *classes, int class_count);
void ls_picture_list_free(ls_picture_list *list);

#endif
