// picture_cache.h - the pictures of a set of files, decoded and resized, packed into one file: the next start decodes
// nothing, and no epoch does.
//
// After a header there is a table with a row for each picture: the stamp and the content of its file (file_content.h),
// and a hash of that content and the pixels. Then come the pixels. A picture counts as packed when its row has the
// content that its file has now; the hash is compared each time the pixels are read. So several processes may fill one
// file; filling may break off anywhere; and damaged pictures are decoded again. A file that still has its row's stamp
// has its row's content: it need not be read. What decides pixels beside the files, and the list of stamps, are hashed
// into the name of the packed file: when a picture is added, replaced or touched there is another packed file, which
// takes over the pictures of the former one that have the same content. So a run that has begun keeps the pictures that
// it began with.
//
// Nothing is mapped or kept in memory but 9 bytes a picture: a set larger than memory streams from the file.
#ifndef LS_DATA_PICTURE_CACHE_H
#define LS_DATA_PICTURE_CACHE_H

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

typedef struct ls_picture_cache ls_picture_cache;

typedef struct {
    const char *folder;     // where the file is or shall be
    uint64_t kind;          // a hash of what decides pixels beside their files
    const uint64_t *stamps; // of all files as they were listed; borrowed
    // Of all files, 0: not known; borrowed. Opening and settling fill in what follows from stamps; get and put use
    // them.
    uint64_t *contents;
    int64_t count;
    size_t picture_bytes;
    int creates; // the file where there is none, or where it is damaged
} ls_picture_cache_options;

// LS_STORAGE: there is none and there cannot be one, or (without creates) there is none. Less room than twice its size is no room.
LS_CHECKED ls_status ls_picture_cache_open(const ls_picture_cache_options *options, ls_picture_cache **out);
void ls_picture_cache_close(ls_picture_cache *cache); // NULL is allowed
const char *ls_picture_cache_path(const ls_picture_cache *cache);

// Safe from several threads. has: by what this process knows. get: 0 where no pixels of the file's content are packed,
// or not whole, and pixels are anything. put: pixels of the file's content; `stamp` is that of the file when it was
// read, 0: the next start shall read it again. Where the packed file cannot be written, a warning says so once, and no
// more is written.
int ls_picture_cache_has(const ls_picture_cache *cache, int64_t picture);
int ls_picture_cache_get(ls_picture_cache *cache, int64_t picture, uint8_t *pixels);
void ls_picture_cache_put(ls_picture_cache *cache, int64_t picture, uint64_t stamp, const uint8_t *pixels);
// When all processes have packed what they would: what others packed is known from now on, and files of former lists go.
void ls_picture_cache_settle(ls_picture_cache *cache);

#endif
