// picture_list.h - finds the picture files that a user names: files, folders, lists of names, and folders of classes.
#ifndef LS_DATA_PICTURE_LIST_H
#define LS_DATA_PICTURE_LIST_H

#include <stdint.h>
#include "base/status.h"

typedef struct { // {0}: empty; free it by ls_picture_list_free, also after a failure
    char **paths;
    int32_t *labels; // class of each picture; 0 if classes are not known
    int64_t count;
} ls_picture_list;

// Adds a file, or all pictures of a folder in the order of their names (bytes). Hidden pictures and folders in the
// folder are left out; a warning mentions such folders. LS_DATA: the folder has no pictures, or cannot be listed.
LS_CHECKED ls_status ls_picture_list_add(ls_picture_list *list, const char *named);
// Adds each name in a file or pipe, or in standard input (path "-"). Names are one per line. If the text has a 0 byte,
// each name ends with a 0 byte instead (find -print0). LS_DATA: the text cannot be read or has no name, or as above.
LS_CHECKED ls_status ls_picture_list_add_names(ls_picture_list *list, const char *path);
// Adds the pictures of a folder that has one folder for each class, which may be empty. A class's folder has the
// class's name, with _ for each /. Pictures come in the order of the classes. LS_DATA: class folders that are missing
// or unknown, by name; a picture outside a class folder; no picture in any of them.
LS_CHECKED ls_status ls_picture_list_add_classes(
    ls_picture_list *list, const char *folder, const char *const *classes, int class_count);
void ls_picture_list_free(ls_picture_list *list);

#endif
