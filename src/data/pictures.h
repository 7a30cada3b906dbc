// pictures.h - opens picture files from anywhere as a data set without labels (all are 0), for prediction. They are
// decoded, resized and normalised like the pictures of data.dataset = folder.
//
// For a network of one channel they become gray (image_decode.h). A picture that cannot be read becomes black;
// ls_pictures_failure says why.
#ifndef LS_DATA_PICTURES_H
#define LS_DATA_PICTURES_H

#include "data/dataset.h"

typedef struct {
    const char *const *paths; // kinds: image_check.h; one path may be "-", a picture from standard input
    int64_t count;
    ls_chw shape;            // 1 or 3 channels; else LS_USAGE
    int resize, decoder;     // values of data.resize and data.decoder
    const float *mean, *std; // one number per channel
} ls_pictures_options;

// Opens the set. The paths are borrowed until it is freed.
LS_CHECKED ls_status ls_pictures_open(const ls_pictures_options *options, ls_dataset **out);
// Returns why picture `index` could not be read (LS_DATA), or LS_SUCCESS. Call it after the picture was read.
ls_status ls_pictures_failure(const ls_dataset *pictures, int64_t index);

#endif
