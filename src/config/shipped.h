// shipped.h - configurations and networks that come with the program (configs/, configs/models/), by their names.
//
// A name may omit the folder and the ending: "resnet20", "resnet20.ini" and "models/resnet20.ini" name the same
// network, "mnist" and "configs/mnist.ini" the same configuration. The user's own files are preferred to those of the
// program.
#ifndef LS_CONFIG_SHIPPED_H
#define LS_CONFIG_SHIPPED_H

#include <stddef.h>

typedef enum { LS_SHIPPED_CONFIGURATION, LS_SHIPPED_NETWORK } ls_shipped_kind;
enum { LS_SHIPPED_MAX = 64, LS_SHIPPED_NAME_BYTES = 64, LS_SHIPPED_HINT_BYTES = 1024 };

// Writes the path of the user's file of that name, relative to `folder` ("": the current folder), into path. Returns 0
// and writes "" if there is no such file.
int ls_named_nearby(ls_shipped_kind kind, const char *folder, const char *name, char *path, size_t bytes);
// Writes the path of the program's own file of that name into path. Returns 0 and writes "" if there is no such file.
int ls_named_shipped(ls_shipped_kind kind, const char *name, char *path, size_t bytes);
// Lists the names of the files that come with the program, sorted, without folder and ending. Returns their number.
int ls_shipped_names(ls_shipped_kind kind, char names[LS_SHIPPED_MAX][LS_SHIPPED_NAME_BYTES]);
// Writes the shipped name that was probably meant into dst (LS_SHIPPED_NAME_BYTES). Returns 0 and writes "" if no name
// is near.
int ls_shipped_nearest(ls_shipped_kind kind, const char *name, char *dst);
// Writes the end of a message about a missing name into dst (LS_SHIPPED_HINT_BYTES), such as "; did you mean resnet20?
// expected a network (shipped: airbench94, ...)". path: the name as a path; a near path that exists is suggested first.
// Returns dst.
char *ls_shipped_hint(ls_shipped_kind kind, const char *name, const char *path, char *dst);

#endif
