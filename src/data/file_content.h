// file_content.h - reads a whole file, and makes a hash of its bytes and a stamp. If the stamp of a file is the same at
// a later start, its bytes are the same, and it need not be read again.
#ifndef LS_DATA_FILE_CONTENT_H
#define LS_DATA_FILE_CONTENT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include "base/status.h"

typedef struct {
    const char *path; // borrowed
    uint8_t *bytes;   // ls_file_content_free frees them
    size_t count;
    uint64_t content; // XXH3 hash of the bytes; never 0
    // The file's stamp when it was read. 0: it may change and keep its stamp, so a later start must read it again.
    uint64_t stamp;
} ls_file_content;

// Returns a hash of `place` (a hash of the file's name), inode, size, mtime and ctime; never 0. The system sets ctime
// at each change, so the stamp also shows a file that was replaced by one with the same size and mtime (cp -p, tar,
// rsync -t). The device number is left out, because a network file system gets another one at each mount.
uint64_t ls_file_stamp(uint64_t place, const struct stat *info);
// Reads the file. The stamp is 0 if a change right after reading could leave ctime as it is. That is so if the file
// changed less than 2 seconds before it is read (time stamps may be that coarse) or while it is read, or if its file
// system may have no ctime of its own. LS_DATA: the file cannot be opened or read, is empty, or exceeds INT_MAX bytes.
LS_CHECKED ls_status ls_file_content_read(const char *path, uint64_t place, ls_file_content *out);
void ls_file_content_free(ls_file_content *content);

#endif
