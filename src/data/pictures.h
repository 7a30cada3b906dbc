// pictures.h - picture files of anywhere as a data set without labels (all are 0), for prediction: decoded, resized and
// normalised as those of data.dataset = folder are.
//
// A network of one channel gets gray: a coloured picture is weighed as Pillow's convert("L") does, a gray one keeps its
// values. A picture that cannot be read is black, and the set says why: the others of its batch go on.
#ifndef LS_DATA_PICTURES_H
#define LS_DATA_PICTURES_H

#include "data/dataset.h"

typedef struct {
    const char *const *paths; // image_check.h has the kinds; one may be "-", the picture that comes by standard input
    int64_t count;
    ls_chw shape;            // of 1 or 3 channels; else LS_USAGE
    int resize, decoder;     // as data.resize and data.decoder have it
    const float *mean, *std; // a number a channel
} ls_pictures_options;

// Paths are borrowed until the set is freed.
LS_CHECKED ls_status ls_pictures_open(const ls_pictures_options *options, ls_dataset **out);
// Why picture `index`, which has been read, could not be (LS_DATA); LS_SUCCESS: it could.
ls_status ls_pictures_failure(const ls_dataset *pictures, int64_t index);

#endif
