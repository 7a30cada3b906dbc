#include "data/image_check.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "data/exif.h"

enum { PNG_SIGNATURE = 8, PNG_CHUNK = 12 }; // PNG_CHUNK: bytes of a chunk without its content: length, type and CRC

// Most pixels that a byte of a file can give, for notes->pixels_max: refuses a small file whose header promises a
// larger picture before it takes memory. PNG: deflate packs at most 1032 to 1; a byte holds 8 pixels of one bit. JPEG:
// an MCU has at most 32 x 32 pixels. It then has at least 8 blocks (4 along one axis, 4 along the other) of at least
// one bit.
enum { PNG_PIXELS_PER_BYTE = 8 * 1032, JPEG_PIXELS_PER_BYTE = 32 * 32 };

static uint32_t big_endian(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

// Checks the CRC of each PNG chunk and that the file has its end chunk, because stb checks neither. Source: PNG
// specification, sections 5.3 and 11.2.
static ls_status check_png(const char *path, const uint8_t *bytes, size_t count, ls_image_notes *notes) {
    notes->pixels_max = (uint64_t)count * PNG_PIXELS_PER_BYTE;
    for (size_t at = PNG_SIGNATURE; at + PNG_CHUNK <= count;) {
        size_t length = big_endian(bytes + at), whole = length + PNG_CHUNK;
        if (whole > count - at) break;
        uint32_t found = (uint32_t)crc32(0, bytes + at + 4, (uInt)length + 4),
                 wanted = big_endian(bytes + at + 8 + length);
        if (found != wanted) {
            return ls_fail(LS_DATA,
                "%s: broken PNG: the chunk at byte %zu has CRC %08x, its content gives %08x; replace it or "
                "move it away",
                path, at, wanted, found);
        }
        if (memcmp(bytes + at + 4, "IEND", 4) == 0) return LS_SUCCESS;
        if (memcmp(bytes + at + 4, "eXIf", 4) == 0) notes->orientation = ls_exif_orientation(bytes + at + 8, length);
        at += whole;
    }
    return ls_fail(LS_DATA,
        "%s: broken PNG: the file is cut off at byte %zu, before its end chunk; replace it or move it away", path,
        count);
}

// Facts from the segments read so far. blocks[c]: number of 8 x 8 blocks of component c, in whole MCUs; all: their sum.
// huffman_tables: bit n for DC table n, bit 4 + n for AC table n. quantisation_tables: bit n for table n.
typedef struct {
    int components, id[4], quantisation[4];
    uint64_t blocks[4], all;
    int progressive, scans;
    int adobe;        // transform named by Adobe's marker; -1: there is no such marker
    uint64_t visited; // number of blocks that the scans so far go over; a block counts once for each scan
    unsigned huffman_tables, quantisation_tables;
} jpeg_frame;

// Notes the Huffman tables of a segment. Refuses a table that does not fit the segment, or has more than the 256
// possible codes: stb would write past the end of its own tables. Source: ITU-T T.81, B.2.4.2.
static ls_status check_huffman(const char *path, const uint8_t *bytes, size_t begin, size_t end, jpeg_frame *frame) {
    enum { LENGTHS = 16, CODES_MAX = 256 };
    for (size_t at = begin; at < end;) {
        int codes = 0;
        if (end - at >= 1 + LENGTHS)
            for (int i = 1; i <= LENGTHS; i++) codes += bytes[at + (size_t)i];
        if (end - at < 1 + LENGTHS || codes > CODES_MAX || (size_t)codes > end - at - 1 - LENGTHS) {
            return ls_fail(LS_DATA,
                "%s: broken JPEG: the Huffman table at byte %zu does not fit its segment or has more than %d codes; "
                "replace it or move it away",
                path, at, CODES_MAX);
        }
        frame->huffman_tables |= (bytes[at] >> 4 ? 16u : 1u) << (bytes[at] & 3);
        at += 1 + LENGTHS + (size_t)codes;
    }
    return LS_SUCCESS;
}

// Reads components and numbers of blocks from a JPEG's first frame header into *frame. `segment` begins after its
// length field. Ignores later headers, and one that is too short, which stb refuses. Source: T.81, B.2.2, A.2.4.
static void read_frame(const uint8_t *segment, size_t bytes, int progressive, jpeg_frame *frame) {
    enum { FIXED = 6, COMPONENT = 3 };
    if (frame->components > 0 || bytes < FIXED || bytes < FIXED + COMPONENT * (size_t)segment[5]) return;
    uint64_t height = (uint64_t)segment[1] << 8 | segment[2], width = (uint64_t)segment[3] << 8 | segment[4];
    uint64_t across = 1, down = 1; // blocks of an MCU in each direction
    int components = segment[5] <= 4 ? segment[5] : 0;
    for (int c = 0; c < components; c++) {
        const uint8_t factors = segment[FIXED + COMPONENT * c + 1];
        if (factors >> 4 > (int)across) across = factors >> 4;
        if ((factors & 15) > (int)down) down = factors & 15;
    }
    const uint64_t mcus = ((width + 8 * across - 1) / (8 * across)) * ((height + 8 * down - 1) / (8 * down));
    for (int c = 0; c < components; c++) {
        const uint8_t factors = segment[FIXED + COMPONENT * c + 1];
        frame->id[c] = segment[FIXED + COMPONENT * c];
        frame->quantisation[c] = segment[FIXED + COMPONENT * c + 2] & 3;
        frame->blocks[c] = mcus * (factors >> 4) * (factors & 15);
        frame->all += frame->blocks[c];
    }
    frame->components = components;
    frame->progressive = progressive;
}

// Notes which quantisation tables the segment defines. Source: ITU-T T.81, B.2.4.1.
static void note_quantisation(const uint8_t *segment, size_t bytes, jpeg_frame *frame) {
    for (size_t at = 0; at < bytes; at += segment[at] >> 4 ? 129 : 65)
        frame->quantisation_tables |= 1u << (segment[at] & 3);
}

// Returns 1 if the tables that one component of a scan needs are defined. stb would decode even with missing tables,
// from memory that was never written. scan: the component's byte in the scan's header, with its DC and AC table. first,
// refines: first coefficient and previous bit position, from the same header. Source: ITU-T T.81, B.2.3.
static int has_tables(const jpeg_frame *frame, int component, uint8_t scan, int first, int refines) {
    const unsigned dc = 1u << (scan >> 4 & 3), ac = 16u << (scan & 3);
    unsigned needed = frame->progressive ? (first > 0 ? ac : refines ? 0 : dc) : dc | ac;
    return (frame->huffman_tables & needed) == needed &&
           (frame->quantisation_tables >> frame->quantisation[component] & 1);
}

// Refuses a scan without its tables. Counts the blocks that it visits, and refuses a JPEG that visits blocks too often:
// a scan takes few bytes of the file, but stb goes over all blocks of its components. A sequential JPEG has each
// component in one scan. libjpeg's progressive files go over a block up to 6 times; no encoder comes near 24.
static ls_status count_scan(const char *path, const uint8_t *segment, size_t bytes, jpeg_frame *frame) {
    enum { PASSES_MAX = 24, ALWAYS = 1 << 20 };                                // ALWAYS: so few blocks take no time
    const size_t listed = bytes > 0 ? segment[0] : 0, header = 1 + 2 * listed; // after it: first, last coefficient
    for (size_t k = 0; k < listed && header + 2 < bytes; k++)
        for (int c = 0; c < frame->components; c++)
            if (frame->id[c] == segment[1 + 2 * k]) {
                frame->visited += frame->blocks[c];
                if (has_tables(frame, c, segment[2 + 2 * k], segment[header], segment[header + 2] >> 4)) break;
                return ls_fail(LS_DATA,
                    "%s: broken JPEG: its scan %d decodes by tables that the file does not have; replace it or move it "
                    "away",
                    path, frame->scans + 1);
            }
    frame->scans++;
    const int passes = frame->progressive ? PASSES_MAX : 1;
    if (frame->visited <= (uint64_t)passes * frame->all + ALWAYS) return LS_SUCCESS;
    return ls_fail(LS_DATA,
        "%s: a JPEG whose first %d scans go over its blocks more than %d time%s, so that decoding it may take minutes; "
        "save it anew with another program, or move it away",
        path, frame->scans, passes, passes == 1 ? "" : "s");
}

// At the first scan of a JPEG, notes whether its four colours are CMYK or YCCK, because only segments before the first
// scan decide the meaning of colours. Source: libjpeg's default_decompress_parms.
static void note_first_scan(size_t marker_at, const jpeg_frame *frame, ls_image_notes *notes) {
    if (notes->scan_at > 0) return;
    notes->scan_at = marker_at;
    notes->is_cmyk = frame->components == 4;
    notes->is_ycck = notes->is_cmyk && frame->adobe > 0;
}

// Reads one marker segment of a JPEG. Its content is bytes[begin..end), after its length field.
static ls_status read_segment(const char *path, int marker, const uint8_t *bytes, size_t begin, size_t end,
    jpeg_frame *frame, ls_image_notes *notes) {
    enum {
        SEQUENTIAL = 0xc0,
        EXTENDED = 0xc1,
        PROGRESSIVE = 0xc2,
        TABLES = 0xc4,
        SCAN = 0xda,
        APP1 = 0xe1,
        APP14 = 0xee
    };
    enum { QUANTISATION = 0xdb };
    enum { LOSSLESS = 0xc3, HIERARCHICAL = 0xc5, EXTENSION = 0xc8, CONDITIONING = 0xcc, LAST = 0xcf };
    const uint8_t *segment = bytes + begin;
    const size_t length = end - begin;
    switch (marker) {
    case SEQUENTIAL:
    case EXTENDED:
    case PROGRESSIVE:
        read_frame(segment, length, marker == PROGRESSIVE, frame);
        return LS_SUCCESS;
    case TABLES:
        return check_huffman(path, bytes, begin, end, frame);
    case QUANTISATION:
        note_quantisation(segment, length, frame);
        return LS_SUCCESS;
    case SCAN:
        note_first_scan(begin - 4, frame, notes);
        return count_scan(path, segment, length, frame);
    case APP1:
        if (length > LS_EXIF_MARK_BYTES && notes->orientation == 0 && frame->scans == 0 &&
            memcmp(segment, LS_EXIF_MARK, LS_EXIF_MARK_BYTES) == 0)
            notes->orientation = ls_exif_orientation(segment, length);
        return LS_SUCCESS;
    case APP14:
        if (length >= 12 && memcmp(segment, "Adobe", 5) == 0) frame->adobe = segment[11];
        return LS_SUCCESS;
    default:
        if (marker != LOSSLESS &&
            (marker < HIERARCHICAL || marker > LAST || marker == EXTENSION || marker == CONDITIONING))
            return LS_SUCCESS;
        return ls_fail(LS_DATA, "%s: a JPEG that is %s; save it anew with another program, or move it away", path,
            marker < EXTENSION ? "lossless or hierarchical" : "arithmetically coded");
    }
}

// Walks over the segments of a JPEG, and refuses a file without an end marker: stb would fill the missing part with
// gray. In the data of a scan, ff is followed by 0 or a restart marker; any other ff begins a marker. Source: T.81,
// annex B.
static ls_status check_jpeg(const char *path, const uint8_t *bytes, size_t count, ls_image_notes *notes) {
    enum { STUFFED = 0, RESTART = 0xd0, RESTART_LAST = 0xd7, END = 0xd9, FILL = 0xff };
    jpeg_frame frame = { .adobe = -1 };
    notes->pixels_max = (uint64_t)count * JPEG_PIXELS_PER_BYTE;
    notes->is_jpeg = 1;
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
        if (length > 2) LS_TRY(read_segment(path, marker, bytes, at + 2, at + length, &frame, notes));
        at += length;
    }
    return ls_fail(LS_DATA,
        "%s: broken JPEG: the file is cut off at byte %zu, before its end marker; replace it or move it away", path,
        count);
}

// --- table of kinds

#define BY_IMAGEMAGICK "make a PNG of it (ImageMagick: convert IN OUT.png)"
#define BY_RSVG "make a PNG of it (rsvg-convert IN -o OUT.png)"
#define MARK(text) text, sizeof text - 1
static const struct {
    const char *endings; // endings of file names, each between two points
    size_t mark_at;
    const char *mark; // bytes at mark_at; NULL: the kind has no mark
    size_t mark_bytes;
    ls_status (*check)(const char *path, const uint8_t *bytes, size_t count, ls_image_notes *notes);
    const char *what, *advice; // if check is NULL (the kind cannot be read): its name and a remedy
} kinds[] = {
    { ".jpg.jpeg.jpe.jfif.", 0, MARK("\xff\xd8"), check_jpeg, NULL, NULL },
    { ".png.", 0, MARK("\x89PNG\r\n\x1a\n"), check_png, NULL, NULL },
    { ".bmp.", 0, MARK("BM"), ls_image_check_bmp, NULL, NULL },
    { ".gif.", 0, MARK("GIF8"), ls_image_check_gif, NULL, NULL },
    { ".pnm.pgm.ppm.", 0, "P", 2, ls_image_check_pnm, NULL, NULL },
    { ".webp.", 8, MARK("WEBP"), NULL, "a WebP picture", "make a PNG of it (dwebp IN -o OUT.png)" },
    { ".avif.", 4, MARK("ftypavi"), NULL, "an AVIF picture", "make a PNG of it (avifdec IN OUT.png)" },
    { ".heic.heif.hif.", 4, MARK("ftyphe"), NULL, "an HEIC picture", "make a PNG of it (heif-convert IN OUT.png)" },
    { "", 4, MARK("ftypmif1"), NULL, "an HEIF picture", "make a PNG of it (heif-convert IN OUT.png)" },
    { "", 4, MARK("ftypmsf1"), NULL, "an HEIF picture", "make a PNG of it (heif-convert IN OUT.png)" },
    { ".jxl.", 0, MARK("\xff\x0a"), NULL, "a JPEG XL picture", "make a PNG of it (djxl IN OUT.png)" },
    { "", 4, MARK("JXL \r\n"), NULL, "a JPEG XL picture", "make a PNG of it (djxl IN OUT.png)" },
    { ".jp2.j2k.jpx.", 4, MARK("jP  \r\n"), NULL, "a JPEG 2000 picture", BY_IMAGEMAGICK },
    { "", 0, MARK("\xff\x4f\xff\x51"), NULL, "a JPEG 2000 picture", BY_IMAGEMAGICK },
    { ".tif.tiff.", 0, MARK("II*\0"), NULL, "a TIFF picture", BY_IMAGEMAGICK },
    { "", 0, MARK("MM\0*"), NULL, "a TIFF picture", BY_IMAGEMAGICK },
    { "", 0, MARK("II+\0"), NULL, "a TIFF picture", BY_IMAGEMAGICK },
    { "", 0, MARK("MM\0+"), NULL, "a TIFF picture", BY_IMAGEMAGICK },
    { ".ico.", 0, MARK("\0\0\1\0"), NULL, "an icon of Windows", BY_IMAGEMAGICK },
    { ".psd.", 0, MARK("8BPS"), NULL, "a PSD picture", BY_IMAGEMAGICK },
    { ".exr.", 0, MARK("v/1\1"), NULL, "an OpenEXR picture", BY_IMAGEMAGICK },
    { "", 0, MARK("%PDF"), NULL, "a PDF file", BY_IMAGEMAGICK },
    { ".svg.", 0, MARK("<svg"), NULL, "an SVG picture", BY_RSVG },
    { "", 0, MARK("<?xml"), NULL, "an XML file, as SVG pictures are", BY_RSVG },
    { "", 0, MARK("<!"), NULL, "a web page", "download the picture anew" },
    { "", 0, MARK("<html"), NULL, "a web page", "download the picture anew" },
    { "", 0, MARK("version https://git-lfs"), NULL, "a pointer of Git LFS", "fetch its content (git lfs pull)" },
    { ".tga.", 0, NULL, 0, ls_image_check_tga, NULL, NULL },
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static int has_ending(const char *name, int kind) {
    const char *dot = strrchr(name, '.');
    char ending[8];
    if (!dot || (size_t)snprintf(ending, sizeof ending, "%s.", dot) >= sizeof ending) return 0;
    for (char *at = ending; *at; at++) *at = (char)tolower((unsigned char)*at);
    return ending[1] != '.' && strstr(kinds[kind].endings, ending) != NULL;
}

int ls_image_is_named(const char *name) {
    for (int i = 0; i < KINDS; i++)
        if (has_ending(name, i)) return 1;
    return 0;
}

static int has_mark(const uint8_t *bytes, size_t count, int kind) {
    if (!kinds[kind].mark || count < kinds[kind].mark_at + kinds[kind].mark_bytes) return 0;
    if (kinds[kind].check == ls_image_check_pnm) return bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '7';
    return memcmp(bytes + kinds[kind].mark_at, kinds[kind].mark, kinds[kind].mark_bytes) == 0;
}

static int find_kind(const char *path, const uint8_t *bytes, size_t count) {
    for (int i = 0; i < KINDS; i++)
        if (has_mark(bytes, count, i)) return i;
    return has_ending(path, KINDS - 1) ? KINDS - 1 : -1;
}

ls_status ls_image_check(const char *path, const uint8_t *bytes, size_t count, ls_image_notes *notes) {
    *notes = (ls_image_notes){ 0 };
    const int kind = find_kind(path, bytes, count);
    if (kind < 0)
        return ls_fail(LS_DATA,
            "%s: no picture that is known: it begins with bytes %02x %02x, as no JPEG, PNG, BMP, GIF or PNM does; "
            "replace it or move it away",
            path, bytes[0], count > 1 ? bytes[1] : 0);
    if (!kinds[kind].check)
        return ls_fail(
            LS_DATA, "%s: %s, which is not read; %s, or move it away", path, kinds[kind].what, kinds[kind].advice);
    LS_TRY(kinds[kind].check(path, bytes, count, notes));
    if (notes->orientation == 0) notes->orientation = 1;
    return LS_SUCCESS;
}
