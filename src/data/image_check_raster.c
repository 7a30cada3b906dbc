// image_check_raster.c - checks BMP, PNM and TGA, in which the pixels follow a header. For pixels that a cut-off file
// lacks, and for colours that a palette lacks, stb_image would use memory that it never wrote.
#include "data/image_check.h"

static const char unread[] = "save it anew as PNG, or move it away";

static uint32_t little_endian(const uint8_t *at, int bytes) {
    uint32_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | at[i];
    return value;
}

ls_status ls_image_cut_off(
    const char *path, const char *what, size_t count, uint64_t width, uint64_t height, uint64_t needed) {
    return ls_fail(LS_DATA,
        "%s: broken %s: the file is cut off at byte %zu, its %llu x %llu pixels need %llu bytes; replace it or move it "
        "away",
        path, what, count, (unsigned long long)width, (unsigned long long)height, (unsigned long long)needed);
}

// --- BMP. Source: Microsoft's BITMAPFILEHEADER, BITMAPCOREHEADER and BITMAPINFOHEADER to BITMAPV5HEADER.

typedef struct {
    uint64_t width, height; // the height's sign in the file is dropped
    uint32_t pixels_at, header_bytes, bits;
    uint64_t row_bytes;
} bmp_header;

// Checks that the palette of a BMP has each pixel's colour. Pixels have 1, 2, 4 or 8 bits, the leftmost in the highest
// bits.
static ls_status check_palette(const char *path, const uint8_t *bytes, const bmp_header *h) {
    const uint32_t entry = h->header_bytes == 12 ? 3 : 4, file_header = 14;
    // With the oldest header stb takes the palette to be four colours shorter than it is.
    const uint32_t before = file_header + (h->header_bytes == 12 ? 24 : h->header_bytes);
    const uint32_t colours = h->pixels_at < before ? 0 : (h->pixels_at - before) / entry;
    const uint32_t mask = (1u << h->bits) - 1;
    for (uint64_t y = 0; y < h->height; y++) {
        const uint8_t *row = bytes + h->pixels_at + y * h->row_bytes;
        for (uint64_t x = 0; x < h->width; x++) {
            const uint64_t bit = x * h->bits;
            const uint32_t colour = (uint32_t)row[bit / 8] >> (8 - h->bits - bit % 8) & mask;
            if (colour >= colours)
                return ls_fail(LS_DATA, "%s: broken BMP: a pixel has colour %u of a palette of %u; replace it or %s",
                    path, colour, colours, unread);
        }
    }
    return LS_SUCCESS;
}

ls_status ls_image_check_bmp(const char *path, const uint8_t *bytes, size_t count, ls_image_notes *notes) {
    enum { FILE_HEADER = 14, CORE = 12, INFO = 40, BIT_FIELDS = 3 };
    const uint32_t header_bytes = count < FILE_HEADER + 4 ? 0 : little_endian(bytes + FILE_HEADER, 4);
    const int core = header_bytes == CORE;
    if (count < FILE_HEADER + CORE || (!core && count < FILE_HEADER + INFO))
        return ls_fail(LS_DATA,
            "%s: broken BMP: the file is cut off at byte %zu, in its header; replace it or move it away", path, count);
    const uint8_t *header = bytes + FILE_HEADER;
    const int64_t height = core ? (int64_t)little_endian(header + 6, 2) : (int32_t)little_endian(header + 8, 4);
    bmp_header h = { .pixels_at = little_endian(bytes + 10, 4),
        .header_bytes = header_bytes,
        .width = core ? little_endian(header + 4, 2) : little_endian(header + 4, 4),
        .height = (uint64_t)(height < 0 ? -height : height),
        .bits = little_endian(header + (core ? 10 : 14), 2) };
    if (h.width == 0 || h.height == 0 || h.width > INT32_MAX || h.bits > 32)
        return ls_fail(LS_DATA, "%s: broken BMP: its header says %llu x %llu pixels of %u bits; replace it or %s", path,
            (unsigned long long)h.width, (unsigned long long)h.height, h.bits, unread);
    const uint32_t packing = core ? 0 : little_endian(header + 16, 4);
    if (packing != 0 && packing != BIT_FIELDS)
        return ls_fail(LS_DATA, "%s: a BMP whose pixels are packed (compression %u); %s", path, packing, unread);
    h.row_bytes = (h.width * h.bits + 31) / 32 * 4;
    // Some writers leave out the padding of the last row, so it is not required.
    const uint64_t needed = h.pixels_at + (h.height - 1) * h.row_bytes + (h.width * h.bits + 7) / 8;
    if (needed > count) return ls_image_cut_off(path, "BMP", count, h.width, h.height, needed);
    if (h.pixels_at < FILE_HEADER + header_bytes)
        return ls_fail(LS_DATA, "%s: broken BMP: its pixels begin at byte %u, in its header; replace it or %s", path,
            h.pixels_at, unread);
    notes->pixels_max = UINT64_MAX;
    return h.bits >= 1 && h.bits <= 8 ? check_palette(path, bytes, &h) : LS_SUCCESS;
}

// --- PNM. Source: Netpbm's pgm(5), ppm(5).

// Reads a number from a PNM header: skips white space and comments, returns the number, and moves *at past it. Returns
// -1 if there is no number, or it is too large.
static int64_t read_number(const uint8_t *bytes, size_t count, size_t *at) {
    enum { MOST = 1 << 24 };
    int64_t value = -1;
    while (*at < count && (bytes[*at] == '#' || bytes[*at] == ' ' || (bytes[*at] >= '\t' && bytes[*at] <= '\r'))) {
        if (bytes[(*at)++] != '#') continue;
        while (*at < count && bytes[*at] != '\n' && bytes[*at] != '\r') ++*at;
    }
    for (; *at < count && bytes[*at] >= '0' && bytes[*at] <= '9' && value < MOST; ++*at)
        value = (value < 0 ? 0 : 10 * value) + bytes[*at] - '0';
    return value < MOST ? value : -1;
}

ls_status ls_image_check_pnm(const char *path, const uint8_t *bytes, size_t count, ls_image_notes *notes) {
    if (bytes[1] != '5' && bytes[1] != '6')
        return ls_fail(
            LS_DATA, "%s: a PNM of kind P%c: P5 (gray) and P6 (colour) are read; %s", path, bytes[1], unread);
    size_t at = 2;
    const int64_t width = read_number(bytes, count, &at), height = read_number(bytes, count, &at),
                  maximum = read_number(bytes, count, &at);
    if (width < 1 || height < 1 || maximum < 1)
        return ls_fail(LS_DATA,
            "%s: broken PNM: expected width, height and maximum behind P%c, found something else up to byte %zu; "
            "replace it or move it away",
            path, bytes[1], at);
    if (maximum != 255)
        return ls_fail(
            LS_DATA, "%s: a PNM whose values reach %lld: expected 255; %s", path, (long long)maximum, unread);
    const uint64_t needed = at + 1 + (uint64_t)(width * height) * (bytes[1] == '5' ? 1 : 3);
    if (needed > count) return ls_image_cut_off(path, "PNM", count, (uint64_t)width, (uint64_t)height, needed);
    notes->pixels_max = UINT64_MAX;
    return LS_SUCCESS;
}

// --- TGA. Source: Truevision TGA File Format Specification, version 2.0.

// Returns the offset after the packets of `pixels` packed TGA pixels, or more than `count` if the file ends earlier. A
// packet stands for up to 128 pixels: a length byte, then one pixel (if its highest bit is set) or all of them.
static uint64_t end_of_packets(const uint8_t *bytes, size_t count, uint64_t at, uint64_t pixels, uint32_t pixel_bytes) {
    while (pixels > 0 && at < count) {
        const uint64_t packed = (bytes[at] & 127u) + 1;
        at += 1 + (bytes[at] & 128u ? 1 : packed) * pixel_bytes;
        pixels -= packed < pixels ? packed : pixels;
    }
    return pixels > 0 ? at + 1 : at;
}

ls_status ls_image_check_tga(const char *path, const uint8_t *bytes, size_t count, ls_image_notes *notes) {
    enum { HEADER = 18, PALETTE = 1, PACKED = 8, FROM_RIGHT = 0x10 };
    if (count < HEADER)
        return ls_fail(LS_DATA,
            "%s: broken TGA: the file is cut off at byte %zu, in its header; replace it or move it away", path, count);
    const int kind = bytes[2] & ~PACKED, has_palette = bytes[1];
    const uint32_t palette_first = little_endian(bytes + 3, 2), palette_bits = bytes[7];
    const uint64_t width = little_endian(bytes + 12, 2), height = little_endian(bytes + 14, 2);
    const uint32_t pixel_bytes = (bytes[16] + 7u) / 8;
    if (kind < 1 || kind > 3 || has_palette != (kind == PALETTE) || palette_first != 0 || width == 0 || height == 0 ||
        pixel_bytes < 1 || pixel_bytes > 4)
        return ls_fail(LS_DATA,
            "%s: no TGA that is read: its header says kind %d, palette %d from %u on, %llu x %llu pixels of %d bits; "
            "%s",
            path, bytes[2], has_palette, palette_first, (unsigned long long)width, (unsigned long long)height,
            bytes[16], unread);
    const uint64_t palette = has_palette ? little_endian(bytes + 5, 2) * ((palette_bits + 7u) / 8) : 0;
    const uint64_t begin = HEADER + bytes[0] + palette, pixels = width * height;
    const uint64_t needed =
        bytes[2] & PACKED ? end_of_packets(bytes, count, begin, pixels, pixel_bytes) : begin + pixels * pixel_bytes;
    if (needed > count) return ls_image_cut_off(path, "TGA", count, width, height, needed);
    notes->pixels_max = UINT64_MAX;
    notes->orientation = bytes[17] & FROM_RIGHT ? 2 : 1; // stb itself handles rows from below
    return LS_SUCCESS;
}
