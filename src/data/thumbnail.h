// thumbnail.h - encodes a sample of a data set as a small PNG, for HTML pages.
#ifndef LS_DATA_THUMBNAIL_H
#define LS_DATA_THUMBNAIL_H

#include "data/dataset.h"

// Encodes the picture as training reads it (ls_dataset_read_whole), shrunk to `side` pixels on its longer side if it is
// larger. *png: the caller frees it; NULL if pictures have neither 1 nor 3 channels, or this one cannot be read.
LS_CHECKED ls_status ls_thumbnail(const ls_dataset *dataset, int64_t index, int side, uint8_t **png, size_t *bytes);

#endif
