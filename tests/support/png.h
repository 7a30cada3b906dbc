// png.h - writes a PNG of given pixels, for tests of what reads pictures.
#ifndef TESTS_SUPPORT_PNG_H
#define TESTS_SUPPORT_PNG_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static inline void png_put_number(FILE *file, uint32_t number) {
    for (int shift = 24; shift >= 0; shift -= 8) putc((int)(number >> shift & 255), file);
}

static inline void png_put_chunk(FILE *file, const char *type, const uint8_t *content, size_t count) {
    png_put_number(file, (uint32_t)count);
    fwrite(type, 1, 4, file);
    if (count) fwrite(content, 1, count, file);
    const uLong crc = crc32(crc32(0, (const Bytef *)type, 4), content, (uInt)count);
    png_put_number(file, (uint32_t)(count ? crc : crc32(0, (const Bytef *)type, 4)));
}

// pixels (channels, height, width), 8 bits: 1 gray, 2 gray and alpha, 3 colour,
// 4 colour and alpha. 0, or -1 on failure.
static inline int png_write(const char *path, const uint8_t *pixels, int channels, int height, int width) {
    static const uint8_t colour_type[] = { 0, 0, 4, 2, 6 };
    const size_t area = (size_t)height * (size_t)width, line = (size_t)width * (size_t)channels + 1;
    uLongf packed_bytes = compressBound((uLong)(line * (size_t)height));
    uint8_t *rows = calloc((size_t)height, line), *packed = malloc(packed_bytes);
    FILE *file = fopen(path, "wb");
    if (rows && packed && file) {
        for (size_t i = 0; i < area; i++) // every row begins with its filter, 0
            for (size_t c = 0; c < (size_t)channels; c++)
                rows[i / (size_t)width * line + 1 + i % (size_t)width * (size_t)channels + c] = pixels[c * area + i];
        compress(packed, &packed_bytes, rows, (uLong)(line * (size_t)height));
        const uint8_t header[13] = { (uint8_t)(width >> 24), (uint8_t)(width >> 16), (uint8_t)(width >> 8),
            (uint8_t)width, (uint8_t)(height >> 24), (uint8_t)(height >> 16), (uint8_t)(height >> 8), (uint8_t)height,
            8, colour_type[channels] };
        fwrite("\x89PNG\r\n\x1a\n", 1, 8, file);
        png_put_chunk(file, "IHDR", header, sizeof header);
        png_put_chunk(file, "IDAT", packed, packed_bytes);
        png_put_chunk(file, "IEND", NULL, 0);
    }
    const int good = rows && packed && file && !ferror(file);
    free(rows);
    free(packed);
    return file && fclose(file) == 0 && good ? 0 : -1;
}

#endif
