// picture_cache.h - the pictures of a set of files, decoded and resized, packed into one file: the next start decodes
// nothing, and no epoch does.
//
// Behind a header there is a table with a row a picture, its stamp (format.h) and a hash of stamp and pixels, and then
// the pixels. A picture counts as packed while its row has a hash, and that is compared each time that it is read. So
// several processes may fill one file, which write the same bytes; filling may break off anywhere; and what is damaged
// is decoded again. What decides pixels beside their files, and the list of stamps, are hashed into the file's name: when
// the list changes, there is another file, into which pictures are copied that the former one has.
//
// Nothing is mapped or kept in memory but 8 bytes a picture: a set larger than memory streams from the file.
#ifndef LS_DATA_PICTURE_CACHE_H
#define LS_DATA_PICTURE_CACHE_H

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

typedef struct ls_picture_cache ls_picture_cache;

typedef struct {
    const char *folder;     // where the file is or shall be
    uint64_t kind;          // a hash of what decides pixels beside their files
    const uint64_t *stamps; // of all pictures; borrowed
    int64_t count;
    size_t picture_bytes;
    int creates; // the file where there is none, or where it is damaged
} ls_picture_cache_options;

// LS_STORAGE: there is none and there cannot be one, or (without creates) there is none. Less room than twice its size is no room.
LS_CHECKED ls_status ls_picture_cache_open(const ls_picture_cache_options *options, ls_picture_cache **out);
void ls_picture_cache_close(ls_picture_cache *cache); // NULL is allowed
const char *ls_picture_cache_path(const ls_picture_cache *cache);

// Safe from several threads. has: by what this process knows. get: 0 where it is not packed or not whole, and pixels are
// anything. put: where it cannot be written, a warning says so once, and no more is written.
int ls_picture_cache_has(const ls_picture_cache *cache, int64_t picture);
int ls_picture_cache_get(ls_picture_cache *cache, int64_t picture, uint8_t *pixels);
void ls_picture_cache_put(ls_picture_cache *cache, int64_t picture, const uint8_t *pixels);
// When all processes have packed what they would: what others packed is known from now on, and files of former lists go.
void ls_picture_cache_settle(ls_picture_cache *cache);

#endif
