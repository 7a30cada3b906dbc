// exif.h - the orientation of a picture. Source: CIPA DC-008 (Exif 2.32), 4.6.4 "Orientation", 4.5 (TIFF structure).
#ifndef LS_DATA_EXIF_H
#define LS_DATA_EXIF_H

#include <stddef.h>
#include <stdint.h>

// The bytes before an Exif block in a JPEG, and with some writers in a PNG.
#define LS_EXIF_MARK "Exif\0"
enum { LS_EXIF_MARK_BYTES = 6 };

// Returns the Orientation of an Exif block, 1 to 8. The block is a TIFF file, with or without LS_EXIF_MARK before it.
// Returns 1 (no turn) if the block is damaged, has no Orientation, or has another value. The value's type may be one of
// whole numbers (not plain bytes) or fractions, as in Pillow's exif_transpose. Of several values the first one counts.
int ls_exif_orientation(const uint8_t *tiff, size_t bytes);

#endif
