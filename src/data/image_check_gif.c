// image_check_gif.c - checks a GIF: its first picture must be whole and must not have more codes than pixels. stb_image
// fills in missing pixels, and reads all codes of a file even if there are too many: 10 s for 1 MB.
// Source: CompuServe's GIF89a specification. The packing is LZW with codes of up to 12 bits.
#include "data/image_check.h"

enum { SCREEN = 13, CODES = 8192, PIXELS_PER_BYTE = 4096 * 2 / 3 }; // a code of 12 bits stands for at most 4096 pixels

static uint64_t number(const uint8_t *at) {
    return at[0] | (uint64_t)at[1] << 8;
}

// Returns the length of a colour table, as its flags announce it.
static size_t table_bytes(uint8_t flags) {
    return flags & 0x80 ? 3u << ((flags & 7) + 1) : 0;
}

// Reads GIF codes from blocks of up to 255 bytes. A byte with the length comes before each block; length 0 ends the
// data.
typedef struct {
    const uint8_t *bytes;
    size_t count, at;
    size_t block;  // bytes left in the current block
    uint32_t bits; // read but not returned yet; `have` is their number
    int have;
} code_reader;

static int next_code(code_reader *r, int width) {
    while (r->have < width) {
        if (r->block == 0) {
            if (r->at >= r->count || r->bytes[r->at] == 0) return -1;
            r->block = r->bytes[r->at++];
        }
        if (r->at >= r->count) return -1;
        r->bits |= (uint32_t)r->bytes[r->at++] << r->have;
        r->have += 8;
        r->block--;
    }
    const int code = (int)(r->bits & ((1u << width) - 1));
    r->bits >>= width;
    r->have -= width;
    return code;
}

// Returns the number of pixels that a GIF's codes give, counted as stb does. Stops above `most` or at an invalid code.
static uint64_t count_pixels(code_reader *r, int root_bits, uint64_t most) {
    uint16_t length[CODES];
    const int clear = 1 << root_bits;
    int width = root_bits + 1, next = clear + 2, last = -1;
    uint64_t pixels = 0;
    for (int i = 0; i < clear; i++) length[i] = 1;
    for (int code; (code = next_code(r, width)) >= 0 && code != clear + 1 && pixels <= most;) {
        if (code == clear) {
            width = root_bits + 1;
            next = clear + 2;
            last = -1;
            continue;
        }
        if (code > next || (last < 0 && code >= clear) || next >= CODES) break;
        if (last >= 0) length[next++] = (uint16_t)(length[last] + 1);
        pixels += length[code];
        if ((next & ((1 << width) - 1)) == 0 && next < 4096) width++;
        last = code;
    }
    return pixels;
}

// Returns the offset of a GIF's first picture descriptor; 0: none. *control: offset of its control extension, or 0.
static size_t find_picture(const uint8_t *bytes, size_t count, size_t *control) {
    enum { EXTENSION = 0x21, CONTROL = 0xf9, CONTROL_BYTES = 4, PICTURE = 0x2c };
    size_t at = SCREEN + table_bytes(bytes[10]);
    *control = 0;
    while (at + 2 < count && bytes[at] == EXTENSION) {
        if (bytes[at + 1] == CONTROL && bytes[at + 2] == CONTROL_BYTES && at + 3 + CONTROL_BYTES < count) *control = at;
        for (at += 2; at < count; at += 1 + (size_t)bytes[at])
            if (bytes[at] == 0) {
                at++;
                break;
            }
    }
    return at < count && bytes[at] == PICTURE ? at : 0;
}

static void note_layout(
    const uint8_t *bytes, size_t count, size_t picture, size_t control, size_t codes, ls_gif_notes *gif) {
    const uint8_t *descriptor = bytes + picture;
    gif->left = (int)number(descriptor + 1);
    gif->top = (int)number(descriptor + 3);
    gif->w = (int)number(descriptor + 5);
    gif->h = (int)number(descriptor + 7);
    const int transparent = control && (bytes[control + 3] & 1) ? bytes[control + 6] : -1;
    gif->transparency_at = transparent >= 0 ? control + 3 : 0;
    const size_t local = table_bytes(descriptor[9]), table = local ? local : table_bytes(bytes[10]);
    const size_t colour = (local ? codes - local : SCREEN) + 3 * (size_t)(transparent > 0 ? transparent : 0);
    if (3 * (size_t)(transparent > 0 ? transparent : 0) < table && colour + 3 <= count)
        for (int c = 0; c < 3; c++) gif->around[c] = bytes[colour + (size_t)c];
}

ls_status ls_image_check_gif(const char *path, const uint8_t *bytes, size_t count, ls_image_notes *notes) {
    enum { DESCRIPTOR = 10, ROOT_MAX = 11 };
    size_t control = 0;
    const size_t picture = count > SCREEN ? find_picture(bytes, count, &control) : 0;
    const size_t codes = picture && picture + DESCRIPTOR < count
                             ? picture + DESCRIPTOR + table_bytes(bytes[picture + DESCRIPTOR - 1])
                             : count;
    if (codes >= count)
        return ls_fail(LS_DATA,
            "%s: broken GIF: the file is cut off at byte %zu, before its first picture; replace it or move it away",
            path, count);
    const uint64_t width = number(bytes + picture + 5), height = number(bytes + picture + 7), pixels = width * height;
    const int root_bits = bytes[codes];
    code_reader reader = { .bytes = bytes, .count = count, .at = codes + 1 };
    const uint64_t found = root_bits > ROOT_MAX ? 0 : count_pixels(&reader, root_bits, pixels);
    if (pixels == 0 || found != pixels)
        return ls_fail(LS_DATA,
            "%s: broken GIF: its first picture has %llu x %llu pixels, and codes for %s%llu; replace it or move it "
            "away",
            path, (unsigned long long)width, (unsigned long long)height, found > pixels ? "more than " : "",
            (unsigned long long)(found > pixels ? pixels : found));
    notes->pixels_max = (uint64_t)count * PIXELS_PER_BYTE;
    notes->is_gif = 1;
    note_layout(bytes, count, picture, control, codes, &notes->gif);
    return LS_SUCCESS;
}
