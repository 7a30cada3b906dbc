#include "data/image_decode.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define STBI_NO_STDIO
#include <stb/stb_image.h>

#include "data/data_file.h"
#include "data/image_resize.h"

enum { MAX_PIXELS = 1 << 28, PNG_SIGNATURE = 8, PNG_CHUNK = 12 }; // a chunk: length, type, content, CRC

static uint32_t big_endian(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

// stb checks neither the CRCs of chunks nor that the end is there. Source: PNG specification, sections 5.3 and 11.2.
static ls_status check_png(const char *path, const uint8_t *bytes, size_t count) {
    for (size_t at = PNG_SIGNATURE; at + PNG_CHUNK <= count;) {
        size_t length = big_endian(bytes + at), whole = length + PNG_CHUNK;
        if (whole > count - at) break;
        uint32_t found = (uint32_t)crc32(0, bytes + at + 4, (uInt)length + 4),
                 wanted = big_endian(bytes + at + 8 + length);
        if (found != wanted) {
            return ls_fail(LS_DATA,
                "%s: broken PNG: the chunk at byte %zu has CRC %08x, its content gives %08x; replace or remove "
                "the file",
                path, at, wanted, found);
        }
        if (memcmp(bytes + at + 4, "IEND", 4) == 0) return LS_SUCCESS;
        at += whole;
    }
    return ls_fail(LS_DATA,
        "%s: broken PNG: the file is cut off at byte %zu, before its end chunk; replace or remove the file", path,
        count);
}

// stb trusts the numbers of a segment of Huffman tables and writes behind its own tables where they add up to more than
// the 256 codes that there can be. Source: ITU-T T.81, B.2.4.2.
static ls_status check_huffman(const char *path, const uint8_t *bytes, size_t begin, size_t end) {
    enum { LENGTHS = 16, CODES_MAX = 256 };
    for (size_t at = begin; at < end;) {
        int codes = 0;
        if (end - at >= 1 + LENGTHS)
            for (int i = 1; i <= LENGTHS; i++) codes += bytes[at + (size_t)i];
        if (end - at < 1 + LENGTHS || codes > CODES_MAX || (size_t)codes > end - at - 1 - LENGTHS) {
            return ls_fail(LS_DATA,
                "%s: broken JPEG: the Huffman table at byte %zu does not fit its segment or has more than %d codes; "
                "replace or remove the file",
                path, at, CODES_MAX);
        }
        at += 1 + LENGTHS + (size_t)codes;
    }
    return LS_SUCCESS;
}

// Walks over the segments as stb does. stb fills up what a cut-off JPEG lacks with gray;
// a whole one has an end marker. In the data of a scan ff is followed by 0 or a restart marker,
// so that every other marker is one. Source: ITU-T T.81, annex B.
static ls_status check_jpeg(const char *path, const uint8_t *bytes, size_t count) {
    enum { STUFFED = 0, TABLES = 0xc4, RESTART = 0xd0, RESTART_LAST = 0xd7, END = 0xd9, FILL = 0xff };
    for (size_t at = 2; at + 2 <= count;) {
        int marker = bytes[at + 1];
        if (bytes[at] != 0xff || marker == FILL) {
            at++;
            continue;
        }
        if (marker == END) return LS_SUCCESS;
        at += 2;
        if (marker == STUFFED || (marker >= RESTART && marker <= RESTART_LAST)) continue;
        if (at + 2 > count) break;
        size_t length = (size_t)bytes[at] << 8 | bytes[at + 1];
        if (length > count - at) break;
        if (marker == TABLES && length > 2) LS_TRY(check_huffman(path, bytes, at + 2, at + length));
        at += length;
    }
    return ls_fail(LS_DATA,
        "%s: broken JPEG: the file is cut off at byte %zu, before its end marker; replace or remove the file", path,
        count);
}

// *pixels_max: what so many bytes can hold at most, so that a small file whose header promises a large picture takes
// neither memory nor time. PNG: deflate packs at most 1032 to 1, and a byte has 8 pixels of one bit. JPEG: an MCU has
// at most 32 x 32 pixels and then at least 8 blocks (4 along one axis, 4 along the other), of at least one bit each.
static ls_status check_container(const char *path, const uint8_t *bytes, size_t count, uint64_t *pixels_max) {
    enum { PNG_PIXELS_PER_BYTE = 8 * 1032, JPEG_PIXELS_PER_BYTE = 32 * 32 };
    static const uint8_t png[PNG_SIGNATURE] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' };
    if (count >= PNG_SIGNATURE && memcmp(bytes, png, PNG_SIGNATURE) == 0) {
        *pixels_max = (uint64_t)count * PNG_PIXELS_PER_BYTE;
        return check_png(path, bytes, count);
    }
    if (count >= 2 && bytes[0] == 0xff && bytes[1] == 0xd8) {
        *pixels_max = (uint64_t)count * JPEG_PIXELS_PER_BYTE;
        return check_jpeg(path, bytes, count);
    }
    return ls_fail(LS_DATA,
        "%s: neither JPEG nor PNG: it begins with bytes %02x %02x, expected ff d8 or 89 50; replace or remove "
        "the file",
        path, bytes[0], count > 1 ? bytes[1] : 0);
}

static ls_status cannot_decode(const char *path) {
    const char *reason = stbi_failure_reason();
    if (strcmp(reason, "outofmem") == 0) return ls_fail(LS_DEVICE, "%s: no memory to decode it", path);
    return ls_fail(LS_DATA, "%s: broken image: %s (stb_image); replace or remove the file", path, reason);
}

static ls_status decode_bytes(const char *path, const uint8_t *bytes, size_t count, ls_chw size, uint8_t *dst) {
    uint64_t pixels_max = 0;
    LS_TRY(check_container(path, bytes, count, &pixels_max));
    int width = 0, height = 0, channels = 0;
    if (!stbi_info_from_memory(bytes, (int)count, &width, &height, &channels)) {
        return cannot_decode(path);
    }
    if ((int64_t)width * height > MAX_PIXELS) {
        return ls_fail(LS_DATA, "%s: picture of %d x %d pixels, at most %d pixels in all; scale it down", path, width,
            height, MAX_PIXELS);
    }
    if ((uint64_t)width * (uint64_t)height > pixels_max) {
        return ls_fail(LS_DATA,
            "%s: broken image: its header promises %d x %d pixels, more than %zu bytes can hold; replace or remove the "
            "file",
            path, width, height, count);
    }
    stbi_uc *picture = stbi_load_from_memory(bytes, (int)count, &width, &height, &channels, 3);
    if (!picture) {
        return cannot_decode(path);
    }
    ls_status status = ls_image_resize(picture, height, width, size, dst);
    stbi_image_free(picture);
    return status;
}

ls_status ls_image_decode(const char *path, ls_chw size, uint8_t *dst) {
    ls_data_file file;
    LS_TRY(ls_data_file_open(path, &file));
    if (file.bytes > INT_MAX) {
        size_t bytes = file.bytes;
        ls_data_file_close(&file);
        return ls_fail(LS_DATA, "%s: has %zu bytes, at most %d for an image", path, bytes, INT_MAX);
    }
    uint8_t *bytes = malloc(file.bytes);
    ls_status status = bytes ? ls_data_file_read(&file, 0, bytes, file.bytes)
                             : ls_fail(LS_DEVICE, "%s: no memory for %zu bytes", path, file.bytes);
    ls_data_file_close(&file);
    if (!ls_failed(status)) status = decode_bytes(path, bytes, file.bytes, size, dst);
    free(bytes);
    return status;
}
