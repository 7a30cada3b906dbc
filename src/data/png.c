#include "data/png.h"

#include <string.h>
#include <zlib.h>
#include "base/atomic_file.h"
#include "base/memory.h"

enum { SIGNATURE = 8, HEADER = 13, AROUND = 12 }; // AROUND: bytes of a chunk without its data: length, name, CRC

static void put_number(uint8_t *to, uint32_t value) {
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(value >> (24 - 8 * i));
}

// Completes a chunk whose data are already at to + 8. Returns where the next chunk begins.
static uint8_t *close_chunk(uint8_t *to, const char *name, size_t bytes) {
    put_number(to, (uint32_t)bytes);
    memcpy(to + 4, name, 4);
    put_number(to + 8 + bytes, (uint32_t)crc32(0, to + 4, (uInt)(4 + bytes)));
    return to + AROUND + bytes;
}

// Converts planar pixels to PNG lines: the number of filter "Sub", then each byte minus the byte one pixel before it.
static void filter_lines(ls_chw s, const uint8_t *pixels, uint8_t *out) {
    const size_t plane = (size_t)s.h * (size_t)s.w;
    for (size_t row = 0; row < plane; row += (size_t)s.w) {
        *out++ = 1;
        for (size_t x = 0; x < (size_t)s.w; x++) {
            for (size_t c = 0; c < (size_t)s.c; c++) {
                const uint8_t *at = pixels + c * plane + row + x;
                *out++ = (uint8_t)(at[0] - (x > 0 ? at[-1] : 0));
            }
        }
    }
}

static size_t write_file(ls_chw s, const uint8_t *lines, size_t line_bytes, uint8_t *file, size_t room) {
    memcpy(file, "\x89PNG\r\n\x1a\n", SIGNATURE);
    uint8_t *header = file + SIGNATURE;
    put_number(header + 8, (uint32_t)s.w);
    put_number(header + 12, (uint32_t)s.h);
    memcpy(header + 16, (uint8_t[]){ 8, s.c == 1 ? 0 : 2, 0, 0, 0 }, 5); // bits per channel; gray or RGB; no interlace
    uint8_t *data = close_chunk(header, "IHDR", HEADER);
    uLongf packed = room;
    if (compress(data + 8, &packed, lines, line_bytes) != Z_OK) return 0;
    uint8_t *end = close_chunk(data, "IDAT", packed);
    return (size_t)(close_chunk(end, "IEND", 0) - file);
}

ls_status ls_png_encode(const char *what, ls_chw s, const uint8_t *pixels, uint8_t **png, size_t *bytes) {
    const size_t line_bytes = (size_t)s.h * (1 + (size_t)s.w * (size_t)s.c), room = compressBound(line_bytes);
    uint8_t *lines, *file = NULL;
    LS_TRY(ls_try_new(&lines, line_bytes, sizeof *lines, "%s", what));
    filter_lines(s, pixels, lines);
    ls_status status = ls_try_new(&file, SIGNATURE + 3 * AROUND + HEADER + room, sizeof *file, "%s", what);
    if (!status.code) *bytes = write_file(s, lines, line_bytes, file, room);
    if (!status.code && *bytes == 0) status = ls_no_memory(line_bytes, "%s", what); // zlib has no other reason to fail
    free(lines);
    if (status.code)
        free(file);
    else
        *png = file;
    return status;
}

ls_status ls_png_write(const char *path, ls_chw s, const uint8_t *pixels) {
    uint8_t *png;
    size_t bytes;
    LS_TRY(ls_png_encode(path, s, pixels, &png, &bytes));
    ls_status status = ls_write_file(path, png, bytes);
    free(png);
    return status;
}
