#include "data/exif.h"

#include <string.h>

enum { HEADER = 8, ENTRY = 12, TAG = 0x0112 };

static uint32_t number(const uint8_t *at, int bytes, int big_endian) {
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++) value = value << 8 | at[big_endian ? i : bytes - 1 - i];
    return value;
}

// Returns the first value of a directory entry, or 0 if it is no whole number. An entry has a tag, a type, the number
// of values, and the values or their offset. Types of whole numbers and fractions are accepted, because writers are
// careless about the type; text and the two types of plain bytes are not, as in Pillow.
static uint32_t first_value(const uint8_t *tiff, size_t bytes, const uint8_t *entry, int big_endian) {
    static const int sizes[] = { [3] = 2, [4] = 4, [5] = 8, [6] = 1, [8] = 2, [9] = 4, [10] = 8, [13] = 4 };
    enum { RATIONAL = 8, TYPES = sizeof sizes / sizeof sizes[0] };
    const uint32_t type = number(entry + 2, 2, big_endian), count = number(entry + 4, 4, big_endian);
    const int size = type < TYPES ? sizes[type] : 0;
    if (size == 0 || count == 0) return 0;
    const uint8_t *value = entry + 8;
    if ((uint64_t)size * count > 4) {
        const uint32_t at = number(value, 4, big_endian);
        if (at > bytes || bytes - at < (size_t)size) return 0;
        value = tiff + at;
    }
    if (size < RATIONAL) return number(value, size, big_endian);
    const uint32_t over = number(value, 4, big_endian), under = number(value + 4, 4, big_endian);
    return under > 0 && over % under == 0 ? over / under : 0;
}

int ls_exif_orientation(const uint8_t *tiff, size_t bytes) {
    for (; bytes >= LS_EXIF_MARK_BYTES && memcmp(tiff, LS_EXIF_MARK, LS_EXIF_MARK_BYTES) == 0;
         bytes -= LS_EXIF_MARK_BYTES)
        tiff += LS_EXIF_MARK_BYTES;
    if (bytes < HEADER || (memcmp(tiff, "II", 2) != 0 && memcmp(tiff, "MM", 2) != 0)) return 1;
    if (memcmp(tiff + 2, "*", 2) != 0 && memcmp(tiff + 2, "\0*", 2) != 0) return 1;
    const int big_endian = tiff[0] == 'M';
    const size_t directory = number(tiff + 4, 4, big_endian);
    if (directory < HEADER || directory + 2 > bytes) return 1;
    const uint32_t entries = number(tiff + directory, 2, big_endian);
    size_t at = directory + 2;
    for (uint32_t i = 0; i < entries && at + ENTRY <= bytes; i++, at += ENTRY) {
        if (number(tiff + at, 2, big_endian) != TAG) continue;
        const uint32_t value = first_value(tiff, bytes, tiff + at, big_endian);
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}
