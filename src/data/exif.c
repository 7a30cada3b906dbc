#include "data/exif.h"

#include <string.h>

enum { HEADER = 8, ENTRY = 12, TAG = 0x0112, TYPE_SHORT = 3 };

static uint32_t number(const uint8_t *at, int bytes, int big_endian) {
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++) value = value << 8 | at[big_endian ? i : bytes - 1 - i];
    return value;
}

// The first directory is a count and entries of tag, type, number of values, values.
int ls_exif_orientation(const uint8_t *tiff, size_t bytes) {
    if (bytes < HEADER || (memcmp(tiff, "II*", 4) != 0 && memcmp(tiff, "MM\0*", 4) != 0)) return 1;
    const int big_endian = tiff[0] == 'M';
    const size_t directory = number(tiff + 4, 4, big_endian);
    if (directory < HEADER || directory + 2 > bytes) return 1;
    const uint32_t entries = number(tiff + directory, 2, big_endian);
    size_t at = directory + 2;
    for (uint32_t i = 0; i < entries && at + ENTRY <= bytes; i++, at += ENTRY) {
        if (number(tiff + at, 2, big_endian) != TAG) continue;
        const uint32_t value = number(tiff + at + 8, 2, big_endian);
        return number(tiff + at + 2, 2, big_endian) == TYPE_SHORT && value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}
