// shipped.h - configurations and networks that come with the program (configs/, configs/models/), by their names.
//
// A name may lack its folder and its ending: "resnet20", "resnet20.ini" and "models/resnet20.ini" are one network,
// "mnist"
// and "configs/mnist.ini" one configuration. The user's own files come before those of the program.
#ifndef LS_CONFIG_SHIPPED_H
#define LS_CONFIG_SHIPPED_H

#include <stddef.h>

typedef enum { LS_SHIPPED_CONFIGURATION, LS_SHIPPED_NETWORK } ls_shipped_kind;
enum { LS_SHIPPED_MAX = 64, LS_SHIPPED_NAME_BYTES = 64, LS_SHIPPED_HINT_BYTES = 1024 };

// The user's file of that name, relative to `folder` ("": the current one), into path. Returns 0, with "" in path, if there
// is no such file.
int ls_named_nearby(ls_shipped_kind kind, const char *folder, const char *name, char *path, size_t bytes);
// The program's file of that name, into path. Returns 0, with "" in path, if there is no such file.
int ls_named_shipped(ls_shipped_kind kind, const char *name, char *path, size_t bytes);
// The names of those that come with the program, sorted, without folder and ending. Returns how many.
int ls_shipped_names(ls_shipped_kind kind, char names[LS_SHIPPED_MAX][LS_SHIPPED_NAME_BYTES]);
// The name of those that was probably meant, into dst (LS_SHIPPED_NAME_BYTES). Returns 0, with "" in dst, if none is
// near.
int ls_shipped_nearest(ls_shipped_kind kind, const char *name, char *dst);
// For a message about a name that is not there: "; did you mean resnet20? expected a network (shipped: airbench94,
// ...)" into
// dst (LS_SHIPPED_HINT_BYTES). path: the same name as a path; the nearest path that is there comes first. Returns dst.
char *ls_shipped_hint(ls_shipped_kind kind, const char *name, const char *path, char *dst);

#endif
