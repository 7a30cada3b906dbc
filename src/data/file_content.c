#include "data/file_content.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/statfs.h>
#include <time.h>

#include "base/hash.h"
#include "base/memory.h"
#include "data/data_file.h"

enum { COARSEST_S = 2 }; // resolution of FAT's time stamps, in seconds

static int64_t nanoseconds(const struct timespec *time) {
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

uint64_t ls_file_stamp(uint64_t place, const struct stat *info) {
    const int64_t facts[] = { (int64_t)info->st_ino, info->st_size, nanoseconds(&info->st_mtim),
        nanoseconds(&info->st_ctim) };
    const uint64_t stamp = ls_hash_more(place, facts, sizeof facts);
    return stamp ? stamp : 1;
}

// Returns 1 if the file system may report mtime instead of ctime (FAT, some FUSE systems). Numbers: linux/magic.h.
static int may_copy_ctime(int fd) {
    enum { FAT = 0x4d44, EXFAT = 0x2011bab0, FUSE = 0x65735546 };
    struct statfs info;
    return fstatfs(fd, &info) != 0 || info.f_type == FAT || info.f_type == EXFAT || info.f_type == FUSE;
}

// Returns 1 if every later change of the open file will change its stamp. now_s: the time before the file is read.
static int stamp_holds(int fd, const struct stat *info, int64_t now_s) {
    if (info->st_ctim.tv_sec > now_s - COARSEST_S) return 0;
    return nanoseconds(&info->st_ctim) != nanoseconds(&info->st_mtim) || !may_copy_ctime(fd);
}

static ls_status read_bytes(const ls_input *file, ls_file_content *out) {
    if (file->bytes > INT_MAX)
        return ls_fail(
            LS_DATA, "%s: has %zu bytes, at most %d for an image; scale it down", file->path, file->bytes, INT_MAX);
    LS_TRY(ls_try_new(&out->bytes, file->bytes, sizeof *out->bytes, "%s", file->path));
    LS_TRY(ls_data_file_read(file, 0, out->bytes, file->bytes));
    const uint64_t content = ls_hash(out->bytes, file->bytes);
    out->count = file->bytes;
    out->content = content ? content : 1;
    return LS_SUCCESS;
}

static uint64_t stamp_of_open(int fd, uint64_t place, int64_t now_s) {
    struct stat info;
    return fstat(fd, &info) == 0 && stamp_holds(fd, &info, now_s) ? ls_file_stamp(place, &info) : 0;
}

ls_status ls_file_content_read(const char *path, uint64_t place, ls_file_content *out) {
    ls_input file;
    struct timespec now = { 0 };
    *out = (ls_file_content){ .path = path };
    clock_gettime(CLOCK_REALTIME, &now); // the clock that ctime is taken from
    LS_TRY(ls_data_file_open(path, &file));
    const uint64_t before = stamp_of_open(file.fd, place, now.tv_sec);
    ls_status status = read_bytes(&file, out);
    out->stamp = stamp_of_open(file.fd, place, now.tv_sec) == before ? before : 0;
    ls_input_close(&file);
    if (ls_failed(status)) ls_file_content_free(out);
    return status;
}

void ls_file_content_free(ls_file_content *content) {
    free(content->bytes);
    content->bytes = NULL;
}
