// file_content.h - a file that is read whole, a hash of its bytes, and a stamp by which a later start knows, without
// reading it again, that the bytes are the same.
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
    uint64_t content; // XXH3 of the bytes; never 0
    uint64_t
        stamp; // of the file as it was read; 0: the file may change and keep its stamp, so a later start must read it
} ls_file_content;

// A hash of the place (a hash of the file's name), inode, size, mtime and ctime; never 0. The system sets ctime at each
// change, so it also shows a file that was replaced with size and mtime kept (cp -p, tar, rsync -t). The device is left
// out: network file systems get another number at each mount.
uint64_t ls_file_stamp(uint64_t place, const struct stat *info);
// Reads the file. The stamp is 0 where a change right after reading could leave ctime as it is: when the file changed
// less than 2 seconds before it is read (time stamps may be that coarse), while it is read, or on a file system that
// may have no ctime of its own. LS_DATA: as ls_data_file_open, or more than INT_MAX bytes.
LS_CHECKED ls_status ls_file_content_read(const char *path, uint64_t place, ls_file_content *out);
void ls_file_content_free(ls_file_content *content);

#endif
