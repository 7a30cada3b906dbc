// exif.h - how a camera held a picture. Source: CIPA DC-008 (Exif 2.32), 4.6.4 "Orientation", 4.5 (TIFF structure).
#ifndef LS_DATA_EXIF_H
#define LS_DATA_EXIF_H

#include <stddef.h>
#include <stdint.h>

// The Orientation of an Exif block, which is a TIFF file: 1 to 8; 1, as the pixels lie, where it has none or is damaged.
int ls_exif_orientation(const uint8_t *tiff, size_t bytes);

#endif
