// data_file.h - a data set's file, open for reading: a regular file of known size, and exact reads from it.
#ifndef LS_DATA_DATA_FILE_H
#define LS_DATA_DATA_FILE_H

#include <stddef.h>
#include "base/status.h"

typedef struct {
    const char *path; // borrowed
    int fd;           // -1: closed
    size_t bytes;
} ls_data_file;

// LS_DATA: missing, no permission, a folder or a device in its place, empty. Symbolic links are followed.
LS_CHECKED ls_status ls_data_file_open(const char *path, ls_data_file *file);
// `bytes` bytes from `offset`, all of them: LS_DATA when the file ends earlier or the system reports an error.
LS_CHECKED ls_status ls_data_file_read(const ls_data_file *file, size_t offset, void *dst, size_t bytes);
void ls_data_file_close(ls_data_file *file); // closing twice is allowed

#endif
