// picture_cache.h - packs the decoded and resized pictures of a set of files into one file, so that neither a later
// epoch nor the next start decodes them again.
//
// After a header comes a table with a row for each picture, then the pixels. A row has the stamp and the content hash
// of the picture's file (file_content.h), and a hash of that content and the pixels. A picture counts as packed if its
// row has the content that its file has now. The row's hash is compared each time the pixels are read. So several
// processes may fill one packed file, filling may stop at any time, and damaged pictures are decoded again. A file that
// still has the stamp in its row also has the content in its row, so it need not be read.
//
// The name of the packed file has a hash of everything besides the files that decides pixels, and a hash of the list of
// stamps. So if a picture is added, replaced or touched, a new packed file is made. It takes over pictures of the same
// content from the former packed file. A run thus keeps the pictures that it began with.
//
// No pixels are mapped or kept in memory, only some bytes per picture: a set larger than memory streams from the file.
#ifndef LS_DATA_PICTURE_CACHE_H
#define LS_DATA_PICTURE_CACHE_H

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

typedef struct ls_picture_cache ls_picture_cache;

typedef struct {
    const char *folder;     // folder of the packed file
    uint64_t kind;          // hash of everything besides the files that decides pixels
    const uint64_t *stamps; // stamp of each file when it was listed; borrowed
    // Content hash of each file; 0: not known; borrowed. ls_picture_cache_open and ls_picture_cache_settle fill in
    // contents that follow from stamps. ls_picture_cache_get and ls_picture_cache_put use them.
    uint64_t *contents;
    int64_t count; // number of pictures
    size_t picture_bytes;
    int creates; // create the packed file if it is missing or damaged
} ls_picture_cache_options;

// Opens the packed file, or creates it if options->creates is set. LS_STORAGE: the packed file is missing or damaged,
// and cannot or must not be created. To create it, twice its size must be free.
LS_CHECKED ls_status ls_picture_cache_open(const ls_picture_cache_options *options, ls_picture_cache **out);
void ls_picture_cache_close(ls_picture_cache *cache); // NULL is allowed
const char *ls_picture_cache_path(const ls_picture_cache *cache);

// Several threads may call these three functions at once.
// has: whether the picture is packed, as far as this process knows.
// get: reads the pixels, if need be from the former packed file, and then packs them. Returns 0 if pixels of the file's
// content are not packed or are damaged; `pixels` is then undefined.
// put: packs pixels of the file's content. stamp: the file's stamp when it was read; 0: the next start must read it
// again. If the packed file cannot be written, one warning says so, and nothing more is written.
int ls_picture_cache_has(const ls_picture_cache *cache, int64_t picture);
int ls_picture_cache_get(ls_picture_cache *cache, int64_t picture, uint8_t *pixels);
void ls_picture_cache_put(ls_picture_cache *cache, int64_t picture, uint64_t stamp, const uint8_t *pixels);
// Call it when all processes have packed their pictures: this process then knows the pictures that others packed, and
// removes the packed files that earlier starts made for other lists of pictures, unless its own cannot be written.
void ls_picture_cache_settle(ls_picture_cache *cache);

#endif
